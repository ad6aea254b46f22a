# frozen_string_literal: true

# mpprecord --paused, --control, --signal and `mpprecord ctl`: what they do, what they leave alone, and who is refused.
require "minitest/autorun"
require "json"
require "socket"
require_relative "support/mpprecord_tree"

class MpprecordControlTest < Minitest::Test
  include MpprecordRuns

  MPPANALYZE = File.join(File.expand_path(ENV.fetch("MPP_BUILD", File.join(MpprecordTree::ROOT, "build"))), "mppanalyze")
  # Says its pid, then does a line of Ruby for each line of its input, and says what came out.
  SHELL = '$stdout.sync = true; puts $$; while (line = $stdin.gets); puts eval(line).inspect; end'

  # A process under mpprecord, for as long as the block runs.
  class Remote
    attr_reader :pid

    def initialize(stdin, stdout, errors)
      @stdin = stdin
      @stdout = stdout
      @pid = Integer(stdout.gets || raise("the program ended:\n#{File.read(errors)}"), 10)
    end

    def ask(code)
      @stdin.puts code
      @stdout.gets.chomp
    end
  end

  def environment(more = {})
    CLEAN.merge("TMPDIR" => @tmp, "PATH" => "#{RbConfig::CONFIG["bindir"]}:#{ENV.fetch("PATH")}", "XDG_RUNTIME_DIR" => @tmp).merge(more)
  end

  def remote(*options, env: {}, program: SHELL, ruby: ["-w"], quiet: true, **more)
    err = File.join(@base, "stderr")
    Open3.popen2(environment(env), *mpprecord, *options, "ruby", *ruby, "-e", program, chdir: @dir, err: err, **more) do |stdin, stdout, waiter|
      begin
        yield Remote.new(stdin, stdout, err)
      rescue Minitest::Assertion
        Process.kill(:KILL, waiter.pid)
        raise
      end
      stdin.close
      stdout.read
      @status = waiter.value
    end
    @err = File.read(err)
    assert_equal "", @err if quiet
  end

  def ctl(*arguments, env: {}, **more)
    out, err, status = Open3.capture3(environment(env), *mpprecord, "ctl", *arguments.map(&:to_s), chdir: @dir, **more)
    Run.new(out, err, status)
  end

  def ctl!(*arguments, **more)
    run = ctl(*arguments, **more)
    assert_equal [0, ""], [run.status.exitstatus, run.err]
    run.out
  end

  def assert_ctl_fails(message, *arguments, status: 1, **more)
    run = ctl(*arguments, **more)
    assert_equal [status, ""], [run.status.exitstatus, run.out], run.err
    assert_match(/\Ampprecord: .*\n\z/, run.err)
    assert_match message, run.err
    assert_equal 1, run.err.lines.size, run.err
  end

  def stats(pid) = JSON.parse(ctl!(pid, "stats"))

  def log(name) = "#{File.join(@dir, name)}\n"

  def assert_verified(name)
    out, status = Open3.capture2e(MPPANALYZE, "verify", File.join(@dir, name))
    assert status.success?, "#{name}: #{out}"
  end

  def marks(name)
    out, err, status = Open3.capture3(MPPANALYZE, "dump", File.join(@dir, name))
    assert status.success?, err
    out.scan(/ MARK name="([^"]*)"/).flatten
  end

  # Waits for what another process does in its own time.
  def eventually(what)
    100.times { (value = yield) ? (return value) : sleep(0.1) }
    flunk "#{what} did not happen within 10 s"
  end

  def test_paused_until_started
    remote("--paused") do |program|
      assert_empty logs
      assert_equal [false, nil], stats(program.pid).values_at("running", "path")
      assert_equal log("app.mpp"), ctl!(program.pid, "start")
      assert_equal "true", program.ask("MppRecorder.running?")
      program.ask("$kept = Array.new(500) { Object.new }.size")
      assert_equal "", ctl!(program.pid, "mark", "all kept")
      assert_equal log("app.mpp"), ctl!(program.pid, "stop")
      assert_equal "false", program.ask("MppRecorder.running?")
      assert_equal ["all kept"], marks("app.mpp")
      # a second time: the first log stays
      assert_equal log("app.#{program.pid}.mpp"), ctl!(program.pid, "start")
    end
    assert_logs "app.mpp", "app.#{@status.pid}.mpp"
    logs.each { |name| assert_verified(name) }
  end

  def test_paused_and_never_started
    remote("--paused") { |program| assert_equal "nil", program.ask("MppRecorder.path") }
    assert_logs
  end

  def test_the_options_wait_for_the_start
    @tree.stand_in(MpprecordOptionsNotes)
    remote("--paused", "-o", "x-%p.mpp", "--baseline", "--max-depth", "7") do |program|
      assert_equal "nil", program.ask("MppRecorder.notes")
      ctl!(program.pid, "start")
      expected = { path: log("x-#{program.pid}.mpp").chomp, on_exists: :next_free, max_depth: 7, baseline: true }
      assert_equal expected.inspect, program.ask("MppRecorder.notes")
    end
  end

  MpprecordOptionsNotes = <<~RUBY
    module MppRecorder
      class Error < StandardError; end
      class << self
        attr_reader :notes
        def start(**options) = @notes = options
        def running? = !@notes.nil?
        def path = @notes&.fetch(:path)
        def stop = @notes = nil
      end
    end
  RUBY

  def test_pause_resume_flush
    remote("--control") do |program|
      assert_equal [true, false], stats(program.pid).values_at("running", "paused")
      assert_equal "", ctl!(program.pid, "pause")
      assert_equal true, stats(program.pid)["paused"]
      ctl!(program.pid, "resume")
      assert_equal false, stats(program.pid)["paused"]
      ctl!(program.pid, "flush")
      figures = stats(program.pid)
      assert_operator figures["written_bytes"], :>, 0
      assert_operator figures["recorded_allocs"], :>, 0
      assert_equal [program.pid, log("app.mpp").chomp, 1.0], figures.values_at("pid", "path", "sample_rate")
    end
    assert_verified "app.mpp"
  end

  def test_refusals
    remote("--paused") do |program|
      %w[stop pause resume flush].each { |command| assert_ctl_fails(/nothing is being recorded/, program.pid, command) }
      assert_ctl_fails(/nothing is being recorded/, program.pid, "mark", "x")
      ctl!(program.pid, "start")
      assert_ctl_fails(/already recording to '.*app\.mpp'/, program.pid, "start")
      assert_ctl_fails(/none of start, stop/, program.pid, "explode", status: 2)
      assert_ctl_fails(/mark needs a name/, program.pid, "mark", status: 2)
      assert_ctl_fails(/one word too many/, program.pid, "stop", "now", status: 2)
      assert_ctl_fails(/ctl needs a process number/, program.pid, status: 2)
      assert_ctl_fails(/no process number/, "x", "stats", status: 2)
      assert_ctl_fails(/invalid argument/, "--timeout", "0", program.pid, "stats", status: 2)
    end
  end

  def test_a_start_that_fails
    remote("--paused") do |program|
      FileUtils.mv(@dir, "#{@dir}.gone")
      assert_ctl_fails(/create the directory first/, program.pid, "start", chdir: "/")
      FileUtils.mv("#{@dir}.gone", @dir)
      assert_equal log("app.mpp"), ctl!(program.pid, "start")
    end
  end

  def ctl_at(directory, *arguments) = Open3.capture3(environment, *mpprecord, "ctl", *arguments.map(&:to_s), chdir: directory)

  def test_processes_that_cannot_be_controlled
    assert_ctl_fails(/does not run under mpprecord/, Process.pid, "stats")
    gone = Process.wait(spawn("true"))
    assert_ctl_fails(/there is no process #{gone}/, gone, "stats")
    remote { |program| assert_ctl_fails(/does not run under mpprecord --control/, program.pid, "stats") }
  end

  def test_another_user
    skip "needs root, to be two users" unless Process.euid.zero?
    File.chmod(0o755, @base)
    remote("--control") do |program|
      # in a copy of the tree that nobody can read
      FileUtils.chmod_R("a+rX", @base)
      FileUtils.chmod(0o700, File.join(@tmp, "mpp-0"))
      script = "Process::Sys.setgid(65534); Process::Sys.setuid(65534); load ARGV.shift"
      out, err, status = Open3.capture3(environment, RbConfig.ruby, "-e", script, *mpprecord.drop(1), "ctl", program.pid.to_s, "stats")
      assert_equal [1, "", "mpprecord: process #{program.pid} belongs to another user\n"], [status.exitstatus, out, err]
    end
    # the other way round, root may
    program = "Process::Sys.setgid(65534); Process::Sys.setuid(65534); exec('ruby', '-e', ENV['SHELL_CODE'])"
    FileUtils.chmod(0o777, [@dir, @tmp])
    remote("--paused", "-o", "other.mpp", program: program, env: { "SHELL_CODE" => SHELL }) do |other|
      assert_equal "65534", other.ask("Process.euid")
      assert_equal log("other.mpp"), ctl!(other.pid, "start")
      assert_equal 65_534, File.stat(File.join(@dir, "other.mpp")).uid
    end
  end

  # The socket is the user's alone, wherever it stands.
  def test_permissions
    remote("--control") do |program|
      directory = File.join(@tmp, "mpp-#{Process.euid}")
      assert_equal [0o700, 0o600], [directory, File.join(directory, "#{program.pid}.sock")].map { |f| File.stat(f).mode & 0o777 }
    end
    remote("--control", "-o", "b.mpp", umask: 0) do |program|
      assert_equal 0o600, File.stat(File.join(@tmp, "mpp-#{Process.euid}/#{program.pid}.sock")).mode & 0o777
    end
  end

  def test_a_directory_that_others_can_write_to_is_not_used
    Dir.mkdir(File.join(@tmp, "mpp-#{Process.euid}"))
    File.chmod(0o777, File.join(@tmp, "mpp-#{Process.euid}"))
    remote("--control") do |program|
      assert_empty Dir.children(File.join(@tmp, "mpp-#{Process.euid}"))
      assert_equal true, stats(program.pid)["running"] # through /tmp
      assert File.socket?("/tmp/mpp-#{Process.euid}/#{program.pid}.sock")
    end
  end

  def test_a_runtime_directory_that_is_too_long_or_gone
    long = File.join(@tmp, "x" * 100)
    Dir.mkdir(long)
    [long, "/no/such/directory"].each_with_index do |directory, i|
      remote("--control", "-o", "#{i}.mpp", env: { "XDG_RUNTIME_DIR" => directory }) do |program|
        assert_equal true, JSON.parse(ctl!(program.pid, "stats", env: { "XDG_RUNTIME_DIR" => directory }))["running"]
      end
    end
  end

  # --- sockets come and go

  def sockets = Dir.children(File.join(@tmp, "mpp-#{Process.euid}")).sort

  def test_the_socket_goes_with_the_process
    remote("--control") { |program| assert_equal ["#{program.pid}.sock"], sockets }
    assert_empty sockets
    remote("--control", "-o", "b.mpp", program: "$stdout.syswrite(%(\#{$$}\n)); exit!") { |program| program }
    assert_equal 1, sockets.size, "exit! leaves it"
    assert_ctl_fails(/there is no process/, sockets.first[/\d+/], "stats")
    remote("--control", "-o", "c.mpp") { |program| assert_equal ["#{program.pid}.sock"], sockets }
  end

  # A process that turned into a program that is no Ruby has the number of a socket still.
  def test_a_socket_without_its_process
    remote("--control", program: "$stdout.sync = true; puts $$; exec 'cat'") do |program|
      eventually("exec") { File.read("/proc/#{program.pid}/comm") == "cat\n" }
      assert_ctl_fails(/does not run under mpprecord/, program.pid, "stats")
    end
  end

  def test_exec_of_another_ruby_takes_over_the_name
    remote("--control", program: "exec 'ruby', '-w', '-e', ENV['SHELL_CODE']", env: { "SHELL_CODE" => SHELL }) do |program|
      assert_equal log("app.#{program.pid}.mpp").chomp, stats(program.pid)["path"]
      assert_equal ["#{program.pid}.sock"], sockets
    end
    assert_empty sockets
  end

  FORK = <<~'RUBY'
    $stdout.sync = true
    puts $$
    def child
      pid = yield
      return pid if pid
      sleep
    end
    $children = []
    def pid_of_daemon
      reader, writer = IO.pipe
      Process.wait(fork { Process.daemon; writer.puts $$; writer.close; sleep })
      Integer(reader.gets)
    end
    while (line = $stdin.gets); puts eval(line).inspect; end
  RUBY

  def test_forked_children_have_sockets_of_their_own
    remote("--paused", program: FORK) do |program|
      children = ["fork { sleep }", "child { fork }", "pid_of_daemon"].map { |code| Integer(program.ask(code)) }
      children.each do |pid|
        eventually("the socket of #{pid}") { sockets.include?("#{pid}.sock") }
        assert_equal [pid, false], stats(pid).values_at("pid", "running")
      end
      assert_equal log("app.mpp"), ctl!(children.first, "start")
      assert_equal [false, true, false, false], [program.pid, *children].map { |pid| stats(pid)["running"] }
      assert_equal log("app.#{children[1]}.mpp"), ctl!(children[1], "start")
      children.first(2).each { |pid| ctl!(pid, "stop") }
    ensure
      children&.each { |pid| Process.kill(:KILL, pid) }
    end
    %W[app.mpp #{logs.find { |name| name != "app.mpp" }}].each { |name| assert_verified(name) }
  end

  # --- what the program sees

  def test_deadlocks_are_still_seen
    deadlock = "Queue.new.pop"
    bare = bare_run("ruby", "-e", deadlock)
    assert_match(/No live threads left\. Deadlock\?/, bare.err)
    %w[--control --paused].each do |option|
      run = record(option, "--force", "ruby", "-e", deadlock)
      assert_equal [1, bare.err.gsub(/0x\h+|int:\d+/, "")], [run.status.exitstatus, run.err.gsub(/0x\h+|int:\d+/, "")]
    end
  end

  def test_deadlocks_are_still_seen_after_a_request
    remote("--control", program: "#{SHELL}\nQueue.new.pop", quiet: false) { |program| 3.times { stats(program.pid) } }
    assert_match(/No live threads left\. Deadlock\?/, @err)
    assert_match(/\b1 threads, 1 sleeps/, @err)
    assert_equal 1, @status.exitstatus
  end

  # A program whose main thread waits in one of the usual ways is answered, and goes on waiting.
  def test_waits_of_the_main_thread
    waits = {
      "sleep" => "sleep",
      "queue" => "q = Queue.new; Thread.new { sleep }; q.pop",
      "join" => "Thread.new { sleep }.join",
      "select" => "IO.select([IO.pipe.first])",
      "read" => "IO.pipe.then { |reader, _writer| reader.read }",
      "wait" => "Process.wait(spawn('sleep', '1000', pgroup: true).tap { |pid| at_exit { Process.kill(:KILL, pid) } })",
      "mutex" => "m = Mutex.new; Thread.new { m.lock; sleep }; sleep 0.1; m.lock",
      "loop" => "loop { 1 }"
    }
    waits.each do |name, code|
      remote("--control", "-o", "#{name}.mpp", program: "$stdout.sync = true; trap(:TERM) { exit 3 }; puts $$; #{code}") do |program|
        2.times { assert_equal true, stats(program.pid)["running"], name }
        assert_equal "", ctl!(program.pid, "mark", name)
        assert_match(/^State:\t[SRD]/, File.read("/proc/#{program.pid}/status"), name)
        Process.kill(:TERM, program.pid)
      end
      assert_equal 3, @status.exitstatus, name
      assert_equal [name], marks("#{name}.mpp")
    end
  end

  def test_nothing_of_ours_stays
    remote("--control") do |program|
      assert_equal "[1, nil]", program.ask("[Thread.list.size, defined?(JSON)]")
      5.times { stats(program.pid) }
      assert_equal "[1, nil]", eventually("the end of the thread") { program.ask("[Thread.list.size, (true if defined?(Socket) && Socket.respond_to?(:tcp))]").then { |s| s if s.start_with?("[1") } }
      descriptors = program.ask("Dir.children('/proc/self/fd').size")
      10.times { stats(program.pid) }
      assert_equal descriptors, eventually("the end of the connections") { program.ask("Dir.children('/proc/self/fd').size").then { |n| n if n == descriptors } }
      # the whole of socket.rb comes when the program asks for it
      assert_equal "[true, true]", program.ask("require('socket').then { |r| [r, Socket.respond_to?(:tcp)] }")
    end
  end

  def test_gems_of_the_program_are_not_chosen_for_it
    before = 'Gem.loaded_specs.keys.sort'
    remote("--control") { |program| assert_equal bare_run("ruby", "-e", "p #{before}").out.chomp, program.ask(before) }
  end

  def test_without_gems
    remote("--control", ruby: ["-w", "--disable-gems"]) { |program| assert_equal true, stats(program.pid)["running"] }
  end

  def test_many_at_once
    remote("--control") do |program|
      runs = Array.new(8) { |i| Thread.new { ctl(program.pid, "mark", "m#{i}") } }.map(&:value)
      assert_equal [[0, ""]] * 8, runs.map { |run| [run.status.exitstatus, run.err] }
    end
    assert_equal %w[m0 m1 m2 m3 m4 m5 m6 m7], marks("app.mpp").sort
  end

  # A program that forks all the time is answered, each time by itself.
  def test_many_requests_while_the_program_forks
    program = "trap(:TERM) { exit 3 }; puts $$; $stdout.flush; loop { Process.wait(fork { [1] * 100 }); system('true') if rand < 0.2 }"
    remote("--paused", program: program) do |forking|
      require File.join(MpprecordTree::ROOT, "recorder/lib/mpp_recorder/ctl")
      ENV["XDG_RUNTIME_DIR"], before = @tmp, ENV.fetch("XDG_RUNTIME_DIR", nil)
      begin
        pids = Array.new(400) { MppRecorder::Ctl.ask(forking.pid, { "command" => "stats" }, 20)["pid"] }
      ensure
        ENV["XDG_RUNTIME_DIR"] = before
      end
      assert_equal [forking.pid], pids.uniq
      Process.kill(:TERM, forking.pid)
    end
  end

  # --- those who speak nonsense, or not at all

  def speak(pid, text)
    UNIXSocket.open(File.join(@tmp, "mpp-#{Process.euid}", "#{pid}.sock")) do |socket|
      socket.write(text)
      socket.close_write
      socket.read
    end
  rescue Errno::EPIPE, Errno::ECONNRESET
    nil
  end

  def test_nonsense
    remote("--control") do |program|
      ["", "\n", "{}\n", "[]\n", "3\n", "null\n", "{\"command\":\"close\"}\n", "{\"command\":[]}\n", "{\"command\":\"mark\",\"name\":5}\n", "\xFF\xFE\n".b,
       "{\"command\":\"mark\",\"name\":\"\\ud800\"}\n", "x" * 70_000, "#{"[" * 5000}\n"].each do |text|
        answer = speak(program.pid, text)
        assert_includes [nil, ""], answer unless answer&.start_with?("{")
      end
      assert_equal true, stats(program.pid)["running"]
    end
  end

  def test_one_who_connects_and_is_silent
    remote("--control") do |program|
      UNIXSocket.open(File.join(@tmp, "mpp-#{Process.euid}", "#{program.pid}.sock")) do
        assert_equal "2", program.ask("sleep 0.2; Thread.list.size")
        assert_equal true, stats(program.pid)["running"] # after its turn
      end
    end
  end

  def test_a_stopped_process
    remote("--control") do |program|
      Process.kill(:STOP, program.pid)
      assert_ctl_fails(/did not answer within 0\.5 s/, "--timeout", "0.5", program.pid, "stats")
      Process.kill(:CONT, program.pid)
      assert_equal true, stats(program.pid)["running"]
    end
  end

  # A question must not set off what the program does on SIGURG.
  def test_a_program_that_handles_the_signal_itself
    ["trap(:URG) { $hits += 1 }", "Signal.trap('SIGURG') { $hits += 1 }", "Kernel.trap(23) { $hits += 1 }", "trap(:URG, 'DEFAULT')"].each_with_index do |code, i|
      remote("--control", "-o", "#{i}.mpp", quiet: false) do |program|
        program.ask("$hits = 0; trap(:USR1) { }; trap(:NOSUCH) rescue 0")
        assert_equal true, stats(program.pid)["running"]
        program.ask("#{code}.class")
        assert_ctl_fails(/handles SIGURG itself/, program.pid, "stats")
        # nor has a child a socket
        child = Integer(program.ask("fork { sleep }"))
        assert_ctl_fails(/handles SIGURG itself/, child, "stats")
        Process.kill(:KILL, child)
        assert_equal ["0", "true"], [program.ask("$hits"), program.ask("MppRecorder.running?")]
      end
      assert_equal "mpprecord: SIGURG is now the program's: mpprecord ctl does not reach it\n", @err, code
      assert_empty sockets
    end
  end

  def test_trap_is_as_it_was
    remote("--control") do |program|
      errors = ["trap(:KILL) { }", "trap(:NOSUCH) { }", "trap(99) { }", "trap(nil) { }", "trap", "trap(:INT)", "Signal.trap('EXIT') { }", "trap(:HUP, 'DEFAULT')", "self.trap(:HUP) { }.to_s"]
      errors.each do |code|
        code = "begin; #{code}; rescue Exception; [$!.class, $!.message]; end"
        assert_equal bare_run("ruby", "-e", "p(eval(#{code.dump}))").out.chomp, program.ask(code)
      end
    end
  end

  # An exception in a handler would rise in the middle of the program.
  def test_no_thread_to_be_had
    remote("--control") do |program|
      program.ask("$VERBOSE = nil; class << Thread; alias old_new new; def new(*) = raise(ThreadError, 'no more'); end")
      assert_ctl_fails(/did not answer/, program.pid, "stats", "--timeout", "0.3")
      assert_equal "3", program.ask("1 + 2")
      program.ask("class << Thread; alias new old_new; end; Thread.abort_on_exception = true")
      assert_equal true, stats(program.pid)["running"]
      assert_nil speak(program.pid, "")&.slice(/running/)
      assert_equal "3", program.ask("1 + 2")
    end
  end

  # As programs did that wanted to be daemons.
  def test_a_program_that_closes_everything
    remote("--control") do |program|
      program.ask("ObjectSpace.each_object(IO) { |io| io.close unless [$stdin, $stdout, $stderr].include?(io) }.class")
      assert_ctl_fails(/does not run under/, program.pid, "stats")
      assert_equal "true", program.ask("MppRecorder.running?")
      assert_equal "true", program.ask("Process.wait(fork { exit! }) > 0")
    end
  end

  def test_paths_that_are_no_text
    remote("--control", "-o", "\xFF.mpp".b) do |program|
      assert stats(program.pid)["path"].end_with?("/\uFFFD.mpp")
      assert_ctl_fails(/already recording to/, program.pid, "start")
      assert ctl!(program.pid, "stop").end_with?("/\uFFFD.mpp\n")
    end
  end

  def test_no_place_for_a_socket
    File.write(@tree.path("recorder/lib/mpp_recorder/control_socket.rb"), "module MppRecorder; module ControlSocket; def self.directory = raise(ArgumentError, 'no place'); end; end")
    run = record("--control", "ruby", "-e", "puts MppRecorder.running?")
    assert_equal ["true\n", "mpprecord: no control socket: no place\n"], [run.out, run.err]
    assert_equal "", record("--control", "--quiet", "--force", "ruby", "-e", "1").err
  end

  # --- a signal

  def running?(program) = program.ask("sleep 0.01; MppRecorder.running?") == "true"

  def test_a_signal_starts_and_stops
    remote("--paused", "--signal", "sigusr2") do |program|
      2.times do
        Process.kill(:USR2, program.pid)
        eventually("the start") { running?(program) }
        Process.kill(:USR2, program.pid)
        eventually("the stop") { !running?(program) }
      end
    end
    assert_logs "app.mpp", "app.#{@status.pid}.mpp"
    logs.each { |name| assert_verified(name) }
  end

  def test_a_signal_without_a_socket
    remote("--signal", "USR1") do |program|
      assert running?(program)
      assert_ctl_fails(/does not run under/, program.pid, "stats")
      Process.kill(:USR1, program.pid)
      eventually("the stop") { !running?(program) }
    end
    refute File.exist?(File.join(@tmp, "mpp-#{Process.euid}"))
  end

  def test_the_programs_own_handler_wins
    remote("--paused", "--signal", "USR2") do |program|
      program.ask("$hits = 0; trap(:USR2) { $hits += 1 }.class")
      Process.kill(:USR2, program.pid)
      eventually("the program's handler") { program.ask("$hits") == "1" }
      refute running?(program)
    end
    assert_logs
  end

  def test_a_start_by_signal_that_fails
    remote("--paused", "--signal", "USR2", quiet: false) do |program|
      FileUtils.mv(@dir, "#{@dir}.gone")
      Process.kill(:USR2, program.pid)
      eventually("the warning") { File.size(File.join(@base, "stderr")).positive? }
      FileUtils.mv("#{@dir}.gone", @dir)
    end
    assert_match(/\Ampprecord: recording is off: .*create the directory first\n\z/, @err)
  end

  def test_help
    help = ctl!("--help")
    %w[start stop pause resume mark flush stats --timeout].each { |word| assert_includes help, word }
  end
end
