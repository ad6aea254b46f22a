# frozen_string_literal: true

# mpprecord and the stub that it puts into every Ruby: what a program sees of them (nothing), and what happens when they fail.
require "minitest/autorun"
require_relative "support/mpprecord_tree"

# Each test runs in a directory of its own. `@tree` is a copy of exe and lib with the built extension beside it.
class MpprecordTest < Minitest::Test
  include MpprecordRuns

  # --- the program is as it would be without

  def test_exit_status_is_passed_on
    assert_equal 0, record("ruby", "-e", "exit 0").status.exitstatus
    assert_equal 3, record("-o", "b.mpp", "ruby", "-e", "exit 3").status.exitstatus
    assert_equal 1, record("-o", "c.mpp", "ruby", "-e", "abort").status.exitstatus
    assert_logs "app.mpp", "b.mpp", "c.mpp"
  end

  def test_death_by_a_signal_is_passed_on
    %w[TERM KILL ABRT].each do |name|
      died = record("-o", "#{name}.mpp", "ruby", "-e", "Process.kill(:#{name}, $$); sleep")
      assert_equal Signal.list[name], died.status.termsig, name
      assert_log "#{name}.mpp"
    end
  end

  def test_output_and_input_are_untouched
    program = <<~'RUBY'
      $stdout.binmode << (0..255).map(&:chr).join << "no newline at the end"
      $stderr.binmode << "\xFF\n\0 err"
      $stdout << $stdin.read
    RUBY
    bare = bare_run("ruby", "-e", program, input: "a\0b\nc")
    recorded = record("ruby", "-e", program, input: "a\0b\nc")
    assert_equal bare.out, recorded.out
    assert_equal bare.err, recorded.err
    assert_log "app.mpp"
  end

  def test_pid_arguments_and_directory_are_the_same
    run = record("--", "ruby", "-e", "puts $$, Dir.pwd; p ARGV", "--", "-o", "x", "", "a b", "*")
    assert_equal ["#{run.status.pid}\n", "#{File.realpath(@dir)}\n", %(["-o", "x", "", "a b", "*"]\n)], run.out.lines
    assert_logs "app.mpp"
  end

  def test_signals_reach_the_program
    # syswrite: a signal that comes while the main program is still in its puts must not meet the lock of stdout, as Ruby 3.3 has it.
    program = "trap(:TERM) { $stdout.syswrite(\"term\\n\"); exit 7 }; $stdout.sync = true; puts :ready; sleep"
    run = record("ruby", "-e", program) { |pid| Process.kill(:TERM, pid) }
    assert_equal [7, "ready\nterm\n"], [run.status.exitstatus, run.out]
    assert_log "app.mpp"
  end

  def test_ignored_signals_stay_ignored
    run = shell("trap '' INT HUP PIPE; exec #{mpprecord.shelljoin} -- grep SigIgn /proc/self/status")
    plain = shell("trap '' INT HUP PIPE; exec grep SigIgn /proc/self/status")
    assert_equal plain.out, run.out
  end

  def test_warnings_of_the_program_are_its_own
    assert_equal ["", ""], record("ruby", "-w", "-e", "1.then { }").then { |run| [run.out, run.err] }
    assert_equal "", record("-o", "b.mpp", "ruby", "-w", "--enable=frozen-string-literal", "-e", "1.then { }").err
  end

  # The program sees one new constant and two new features, and no change of the load path.
  def test_nothing_else_is_left_behind
    program = "print Marshal.dump([Object.constants.sort, [*$LOADED_FEATURES], [*$LOAD_PATH], $!.inspect, global_variables.sort])"
    [[], ["--disable-gems"], ["--disable=gems,did_you_mean,error_highlight"]].each_with_index do |options, i|
      before = Marshal.load(bare_run("ruby", *options, "-e", program).out)
      run = record("-o", "#{i}.mpp", "ruby", *options, "-e", program)
      after = Marshal.load(run.out)
      assert_equal [:MppRecorder], after[0] - before[0], options.inspect
      assert_equal [extension, @tree.stub], after[1] - before[1], options.inspect
      # behind all else, so that `require "mpp_recorder"` finds what runs
      assert_equal before[2] + [File.expand_path("../..", @tree.stub)].map { |lib| File.join(lib) }, after[2], options.inspect
      assert_equal before[3..], after[3..], options.inspect
      assert_equal "", run.err
      assert_log "#{i}.mpp"
    end
  end

  def test_a_program_may_require_what_runs_already
    run = record("-o", "r.mpp", "ruby", "-e", 'require "mpp_recorder"; p MppRecorder.mark("here"), MppRecorder.record(path: "x") { 1 }.class rescue p $!.class')
    assert_equal "", run.err
    assert_match(/MppRecorder::Error/, run.out)
    assert_log "r.mpp"
  end

  def test_bundle_exec
    write "Gemfile", "source 'https://rubygems.org'\n"
    run = record("bundle", "exec", "ruby", "-e", "puts defined?(Bundler), MppRecorder.running?")
    assert_equal [0, "constant\ntrue\n", ""], [run.status.exitstatus, run.out, run.err]
    # bundle takes the name, and turns into the ruby, which comes second
    assert_logs "app.mpp", "app.#{run.status.pid}.mpp"
  end

  def test_commands_that_are_no_ruby
    run = record("sh", "-c", "echo out; echo err >&2; exit 9")
    assert_equal ["out\n", "err\n", 9], [run.out, run.err, run.status.exitstatus]
    assert_logs
  end

  def test_scripts_without_interpreter_line
    write "script", "echo from sh $1\n", mode: 0o755
    assert_equal "from sh x\n", record("./script", "x").out
  end

  def test_a_ruby_below_a_shell_is_recorded
    assert_equal "true\n", record("sh", "-c", "ruby -e 'puts MppRecorder.running?'; true").out
    assert_logs "app.mpp"
  end

  # --- names of logs

  def test_children_get_logs_of_their_own
    program = "puts spawn('ruby', '-e', 'exit!').tap { |pid| Process.wait(pid) }, spawn('ruby', '-e', '1').tap { |pid| Process.wait(pid) }"
    run = record("-o", "sub.x.mpp", "ruby", "-e", program)
    assert_equal "", run.err
    assert_logs "sub.x.mpp", *run.out.split.map { |pid| "sub.x.#{pid}.mpp" }
  end

  def test_exec_of_another_ruby_gets_a_log_of_its_own
    run = record("ruby", "-e", "exec 'ruby', '-e', 'exec %q(ruby), %q(-e), %q(puts $$)'")
    assert_equal "#{run.status.pid}\n", run.out
    assert_equal "", run.err
    assert_equal 3, logs.size, logs.inspect
    assert_includes logs, "app.mpp"
    assert_includes logs, "app.#{run.status.pid}.mpp"
    assert(logs.all? { |name| name.match?(/\Aapp(\.#{run.status.pid}(\.\d+)?)?\.mpp\z/) }, logs.inspect)
  end

  def test_the_log_stays_where_it_was_asked_for_after_chdir
    FileUtils.mkdir_p(File.join(@dir, "deeper"))
    record("-o", "deeper/../a.mpp", "sh", "-c", "cd / && exec ruby -e 1")
    assert_logs "a.mpp"
  end

  def test_spaces_and_other_letters_in_the_name_of_the_log
    run = record("-o", "a b ä'\".mpp", "ruby", "-e", "Process.wait(spawn('ruby', '-e', '1')); puts $$")
    assert_equal "", run.err
    assert_equal 2, logs.size, logs.inspect
    assert_log "a b ä'\".mpp"
  end

  # Names are bytes, whatever the locale.
  def test_names_that_are_no_text
    %w[C C.UTF-8].each_with_index do |locale, i|
      name = "#{i}\xFF\xC3 ".b
      run = record("-o", "#{name}.mpp".b, "printf", "%s", name, env: { "LC_ALL" => locale })
      assert_equal [name, ""], [run.out.b, run.err]
      run = record("-o", "#{name}.mpp".b, "ruby", "-e", "print MppRecorder.running?", env: { "LC_ALL" => locale })
      assert_equal ["true", ""], [run.out, run.err]
      assert_refused 2, /is not a rate/n, record("--rate", name, "true", env: { "LC_ALL" => locale }), logs: logs
      assert_refused 127, /no such command/n, record(name, env: { "LC_ALL" => locale }), logs: logs
      assert_refused 1, /there is no directory/n, record("-o", "#{name}/x.mpp".b, "true", env: { "LC_ALL" => locale }), logs: logs
    end
    assert_equal 2, logs.size
  end

  def test_spaces_in_the_path_of_the_installation
    @tree.move_to(File.join(@dir, "my own tools"))
    run = record("ruby", "-e", "puts MppRecorder.running?; system('ruby', '-e', 'puts MppRecorder.running?')")
    assert_equal ["true\ntrue\n", ""], [run.out, run.err]
    assert_equal 2, logs.size, logs.inspect
    # again: the link is used a second time, not made anew
    links = Dir.glob(File.join(@tmp, "**", "*"))
    assert_equal "true\n", record("-o", "b.mpp", "ruby", "-e", "puts MppRecorder.running?").out
    assert_equal links, Dir.glob(File.join(@tmp, "**", "*"))
  end

  def test_a_directory_of_links_that_others_can_write_to_is_refused
    @tree.move_to(File.join(@dir, "my tools"))
    Dir.mkdir(File.join(@tmp, "mpprecord-#{Process.euid}"))
    File.chmod(0o777, File.join(@tmp, "mpprecord-#{Process.euid}"))
    assert_refused 1, /only this user can write to/, record("ruby", "-e", "puts 1")
  end

  # --- what the user had in RUBYOPT

  def test_rubyopt_of_the_user_is_kept
    # (loaded by mpprecord's own Ruby too, where nothing runs)
    write "mine.rb", "$running = defined?(MppRecorder) && MppRecorder.running?\n"
    run = record("ruby", "-e", "p $running, $VERBOSE, ENV['RUBYOPT']", env: { "RUBYOPT" => "-W0 -I#{@dir} -rmine" })
    assert_equal "", run.err
    assert_match(/\Atrue\nnil\n"-r\S+autostart\.rb -W0 -I\S+ -rmine"\n\z/, run.out)
  end

  def test_nested_mpprecord_names_the_stub_once
    run = record("-o", "outer.mpp", "--rate", "0.5", "--", *mpprecord, "-o", "inner.mpp", "--", "ruby", "-e",
                 "p ENV['RUBYOPT'].split.size, ENV['MPP_SAMPLE_RATE']")
    assert_equal ["1\nnil\n", ""], [run.out, run.err]
    assert_logs "outer.mpp", "inner.mpp"
  end

  # Ruby loads what the command line names before what RUBYOPT names.
  def test_the_library_on_the_command_line
    run = record("ruby", "-w", "-I#{@tree.path("recorder/lib")}", "-rmpp_recorder", "-e",
                 "p MppRecorder.running?, MppRecorder::Locate.class; MppRecorder.stop; p MppRecorder.record(path: 'b.mpp') { 1 }")
    assert_equal ["true\nModule\n1\n", ""], [run.out, run.err]
    assert_logs "app.mpp", "b.mpp"
  end

  # --- refusals

  def test_no_command
    assert_refused 2, /\Ampprecord: no command given .*--help/, record
    assert_refused 2, /no command given/, record("-o", "x.mpp", "--")
  end

  def test_wrong_options
    [%w[--nonsense], %w[--rate 0], %w[--rate 1.5], %w[--rate nan], %w[--rate 1/0], %w[--rate x], %w[--rate 1/16777216], %w[--max-depth 0], %w[--max-depth 4097], %w[--max-depth -3],
     %w[--max-depth 1e3], %w[--journal-bytes 0], %w[--journal-bytes 1g], %w[--journal-bytes -5], %w[--journal-bytes 257m], ["-o", ""],
     %w[--max-stacks 0], %w[--max-stacks 134217728], %w[--max-tracked many], %w[--max-log-bytes 0], %w[--max-log-bytes 1x], %w[--max-log-bytes 2.5GB],
     %w[--mark-at-rss MB], %w[--mark-at-rss 9999999999g], %w[--signal NOSUCH], %w[--signal KILL], %w[--signal URG], %w[--signal 12],
     %w[--baseline --rate 1/2]].each do |options|
      assert_refused 2, /\Ampprecord: .*--help/, record(*options, "ruby", "-e", "puts 1")
    end
    assert_refused 2, /--help/, record("-o")
  end

  def test_unknown_command
    ["no-such-command", "./no/such", "", "ruby/x"].each { |name| assert_refused 127, /'#{name}': no such command/, record("--", name) }
  end

  def test_commands_that_are_not_executable
    write "plain", "text\n"
    assert_refused 126, /'\.\/plain': not executable/, record("./plain")
    assert_refused 126, /'#{@dir}': is a directory/, record(@dir)
  end

  def test_missing_interpreter
    write "script", "#!/no/such/interpreter\n", mode: 0o755
    assert_refused 127, /'\.\/script': its interpreter is missing/, record("./script")
  end

  def test_output_that_exists
    write "app.mpp", "precious"
    assert_refused 1, /'app\.mpp': exists; choose another -o or pass --force/, record("ruby", "-e", "puts 1"), logs: ["app.mpp"]
    assert_equal "precious", read("app.mpp")
    File.symlink("/no/such/target", File.join(@dir, "link.mpp"))
    assert_refused 1, /exists/, record("-o", "link.mpp", "ruby", "-e", "puts 1"), logs: %w[app.mpp link.mpp]
  end

  def test_force_replaces_the_output
    write "app.mpp", "precious"
    reader = File.open(File.join(@dir, "app.mpp"))
    assert_equal 0, record("--force", "ruby", "-e", "1").status.exitstatus
    assert_log "app.mpp"
    assert_equal "precious", reader.read, "the old file is not written into"
  end

  def test_force_keeps_the_old_log_when_there_is_no_such_command
    write "app.mpp", "precious"
    assert_refused 127, /no such command/, record("--force", "no-such-command"), logs: ["app.mpp"]
    assert_equal "precious", read("app.mpp")
  end

  def test_force_replaces_files_only
    FileUtils.mkdir_p(File.join(@dir, "app.mpp"))
    assert_refused 1, /not a regular file/, record("--force", "ruby", "-e", "puts 1"), logs: ["app.mpp"]
    assert_refused 1, /not a regular file/, record("--force", "-o", "/dev/null", "ruby", "-e", "puts 1"), logs: ["app.mpp"]
    assert File.chardev?("/dev/null")
  end

  def test_missing_directory
    write "file", ""
    assert_refused 1, %r{'no/such/app\.mpp': there is no directory '#{@dir}/no/such'}, record("-o", "no/such/app.mpp", "ruby", "-e", "puts 1")
    assert_refused 1, /is not a directory/, record("-o", "file/app.mpp", "ruby", "-e", "puts 1")
  end

  def test_current_directory_that_is_gone
    gone = "mkdir gone; cd gone; rmdir ../gone; exec #{mpprecord.shelljoin}"
    assert_refused 1, /'app\.mpp': the current directory is gone/, shell("#{gone} -- echo 1")
    assert_equal "1\n", shell("#{gone} -o #{@dir}/a.mpp -- echo 1").out
  end

  # --- help

  def test_help_names_every_option
    help = record("--help")
    assert_equal [0, ""], [help.status.exitstatus, help.err]
    %w[--output --rate --max-depth --baseline --max-log-bytes --max-tracked --max-stacks --mark-at-rss --journal-bytes --paused --control --signal
       --force --quiet --version --help].each { |name| assert_includes help.out, name }
    assert(help.out.lines.all? { |line| line.chomp.size <= 110 })
  end

  def test_version_is_that_of_the_product
    assert_equal "mpprecord #{File.read(File.join(MpprecordTree::ROOT, "VERSION")).strip}\n", record("--version").out
  end

  def test_man_page_names_every_option
    page = File.read(File.join(MpprecordTree::ROOT, "docs/man/mpprecord.1"))
    record("--help").out.scan(/--([a-z-]+)/).flatten.uniq.each { |name| assert_includes page.gsub("\\-", "-"), name }
  end
end

# When there is nothing to record with, the program runs as before, and one line says why.
class MpprecordFailureTest < Minitest::Test
  include MpprecordRuns

  PROGRAM = "puts defined?(MppRecorder).inspect; exit 4"

  def assert_off(why, run, out = "nil\n")
    assert_equal [4, out], [run.status.exitstatus, run.out]
    assert_match(/\Ampprecord: recording is off: #{why.source}.*\n\z/, run.err)
    assert_equal 1, run.err.lines.size
    assert_logs
  end

  def test_no_extension
    File.unlink(extension)
    assert_off(/the extension is not built for Ruby \d/, record("ruby", "-e", PROGRAM))
    assert_off(/the extension is not built for Ruby \d/, record("ruby", "--disable-gems", "-w", "-e", PROGRAM))
  end

  def test_broken_extension
    File.write(extension, "no library")
    assert_off(/.*mpp_recorder\.so/, record("ruby", "-e", PROGRAM))
    assert_off(/.*mpp_recorder\.so/, record("ruby", "--disable-gems", "-w", "-e", PROGRAM))
  end

  def test_an_extension_whose_start_fails_in_any_way
    ["StandardError, 'why'", "LoadError, 'why'", "NotImplementedError, 'why'", "NoMemoryError, 'why'", "Exception, \"why\nmore\""].each do |error|
      @tree.stand_in("module MppRecorder; def self.running? = false; def self.start(**) = raise(#{error}); end")
      assert_off(/why/, record("ruby", "-e", PROGRAM), "\"constant\"\n")
    end
  end

  def test_a_library_that_does_not_parse
    File.write(@tree.path("recorder/lib/mpp_recorder/locate.rb"), "def")
    run = bare_run("ruby", "-e", PROGRAM, env: stub_environment)
    assert_off(/.*syntax error/, run)
  end

  def test_quiet_says_nothing
    File.unlink(extension)
    run = record("--quiet", "ruby", "-e", PROGRAM)
    assert_equal [4, "nil\n", ""], [run.status.exitstatus, run.out, run.err]
  end

  def test_closed_stderr
    File.unlink(extension)
    run = shell("exec #{[*mpprecord, "ruby", "-e", PROGRAM].shelljoin} 2>&-")
    assert_equal [4, "nil\n"], [run.status.exitstatus, run.out]
  end

  def test_a_directory_that_went_away
    run = bare_run("ruby", "-e", PROGRAM, env: stub_environment.merge("MPP_PATH" => File.join(@dir, "gone/app.mpp")))
    assert_off(/.*gone/, run, "\"constant\"\n")
  end

  def test_no_path
    assert_off(/MPP_PATH is not set/, bare_run("ruby", "-e", PROGRAM, env: stub_environment.merge("MPP_PATH" => nil)), "\"constant\"\n")
  end

  def test_wrong_numbers
    %w[MPP_SAMPLE_RATE MPP_MAX_DEPTH MPP_JOURNAL_BYTES MPP_MAX_STACKS MPP_MAX_TRACKED].each do |name|
      assert_off(/invalid value/, bare_run("ruby", "-e", PROGRAM, env: stub_environment.merge(name => "many")), "\"constant\"\n")
    end
    %w[MPP_MAX_LOG_BYTES MPP_MARK_AT_RSS].each do |name|
      assert_off(/\w+ must be a number of bytes/, bare_run("ruby", "-e", PROGRAM, env: stub_environment.merge(name => "many")), "\"constant\"\n")
    end
  end

  # A gem's extension says nothing about the Ruby that it was built for, and must not be loaded into another one to find out.
  def test_gem_of_another_ruby
    @tree.as_gem
    @tree.stand_in("abort 'the extension of another Ruby was loaded'")
    run = bare_run("ruby", "-e", PROGRAM, env: stub_environment.merge("MPP_ABI" => "2.7.0-armv7l-linux"))
    assert_off(/the extension is built for Ruby 2\.7\.0 \(armv7l-linux\), this is Ruby #{Regexp.escape(RbConfig::CONFIG["ruby_version"])}/, run)
  end

  # Each further Ruby asks and warns for itself.
  def test_one_warning_a_process
    File.unlink(extension)
    run = record("ruby", "-e", "Process.wait(fork { exit }); Process.wait(spawn('ruby', '-e', '1')); exit 4")
    assert_equal 2, run.err.lines.size, run.err
  end
end

# What mpprecord hands to `MppRecorder.start`, and what the Ruby library adds to it: seen by an extension that only notes it.
class MpprecordOptionsTest < Minitest::Test
  include MpprecordRuns

  NOTES = <<~RUBY
    module MppRecorder
      class << self
        attr_reader :notes
        def start(**options) = @notes = options
        def running? = !@notes.nil?
        def stop = @notes = nil
      end
    end
  RUBY

  def setup
    super
    @tree.stand_in(NOTES)
  end

  def noted(*options, **more)
    run = record(*options, "ruby", "-e", "print Marshal.dump(MppRecorder.notes)", **more)
    assert_equal "", run.err
    Marshal.load(run.out)
  end

  def test_defaults_are_left_to_the_recorder
    assert_equal({ path: File.join(File.realpath(@dir), "app.mpp"), on_exists: :next_free }, noted)
  end

  def test_all_options
    expected = { path: File.join(File.realpath(@dir), "x y.mpp"), on_exists: :next_free, sample_rate: 0.01, max_depth: 30, journal_bytes: 131_072 }
    assert_equal expected, noted("-o", "x y.mpp", "--rate", "1/100", "--max-depth", "30", "--journal-bytes", "128k")
    assert_equal expected, noted("--output=x y.mpp", "--rate=0.01", "--max-depth=30", "--journal-bytes=131072")
  end

  def test_limits
    expected = { path: File.join(File.realpath(@dir), "app.mpp"), on_exists: :next_free, baseline: true, max_log_bytes: "500000000", max_tracked_objects: 1000,
                 max_stacks: 77, mark_at_rss: "2147483648" }
    assert_equal expected, noted("--baseline", "--max-log-bytes", "500MB", "--max-tracked", "1000", "--max-stacks", "77", "--mark-at-rss", "2G")
    assert_equal expected, noted("--baseline", "--max-log-bytes=500000000", "--max-tracked=1000", "--max-stacks=77", "--mark-at-rss=2048MiB")
  end

  def test_variables_of_an_outer_recording_do_not_leak_in
    outer = { "MPP_SAMPLE_RATE" => "0.5", "MPP_MAX_DEPTH" => "3", "MPP_JOURNAL_BYTES" => "4096", "MPP_PATH" => "/x", "MPP_BASELINE" => "1", "MPP_PAUSED" => "1",
              "MPP_CONTROL" => "1", "MPP_SIGNAL" => "USR2", "MPP_MAX_STACKS" => "5", "MPP_MAX_TRACKED" => "5", "MPP_MAX_LOG_BYTES" => "5", "MPP_MARK_AT_RSS" => "5" }
    assert_equal %i[path on_exists], noted(env: outer).keys
  end

  def test_requiring_the_library_under_mpprecord_loads_nothing_twice
    program = "before = $LOADED_FEATURES.grep(/\\.so/).size; require 'mpp_recorder'; " \
              "p $LOADED_FEATURES.grep(/\\.so/).size - before, MppRecorder.notes.size, MppRecorder::VERSION.class"
    run = record("ruby", "-w", "-I#{@tree.path("recorder/lib")}", "-e", program)
    assert_equal ["0\n2\nString\n", ""], [run.out, run.err]
  end

  def test_record_stops_whatever_happens
    program = <<~RUBY
      p MppRecorder.record(path: "a.mpp", max_depth: 3) { MppRecorder.notes }, MppRecorder.running?
      begin
        MppRecorder.record(path: "b.mpp") { raise "out of it" }
      rescue => e
        p e.message, MppRecorder.running?
      end
      p MppRecorder.record(path: "c.mpp") { MppRecorder.stop; 5 }
    RUBY
    run = bare_run("ruby", "-w", "-I#{@tree.path("recorder/lib")}", "-rmpp_recorder", "-e", program)
    assert_equal [{ path: "a.mpp", max_depth: 3 }.inspect, "false", %("out of it"), "false", "5"], run.out.lines(chomp: true)
    assert_equal "", run.err
  end
end
