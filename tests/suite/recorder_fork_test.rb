# frozen_string_literal: true

# A process that forks, daemonizes, spawns and execs: every log is whole, and is of one process.
require "minitest/autorun"
require_relative "support/recorder_runs"

class RecorderForkTest < Minitest::Test
  include RecorderRuns

  PREPARE = <<~RUBY
    Mother = Class.new
    Child = Class.new
    $mothers = []
    MppRecorder.start(path: LOG)
    1000.times { $mothers << Mother.new }
    MppRecorder.mark("before")
  RUBY

  # The log of the process `pid`, and that it is the child of `parent`.
  def child_log(pid, parent, index: nil)
    log = path("app.#{[pid, index].compact.join(".")}.mpp")
    oracle = sound(log)
    assert_equal pid, oracle.log.fields[:pid]
    assert_equal parent.log.fields[:uuid], oracle.log.fields[:parent_uuid]
    refute_equal parent.log.fields[:uuid], oracle.log.fields[:uuid]
    assert_operator oracle.log.fields[:fork_serial], :>, 1000
    soundly_analyzed(log)
    oracle
  end

  def objects(oracle, klass, at: "end")
    oracle.top(at: at, by: "class", limit: 0, recorder: true)["rows"].find { |row| row["name"] == klass }&.fetch("live_objects") || 0
  end

  def test_fork_with_a_block
    run = program!(PREPARE + <<~RUBY)
      pid = fork do
        p MppRecorder.path, MppRecorder.running?
        $children = Array.new(500) { Child.new }
        $mothers.slice!(0, 300)
        GC.start
        MppRecorder.mark("child")
        $stdout.flush
      end
      Process.wait(pid)
      puts $?.exitstatus, pid
      MppRecorder.mark("after")
      p MppRecorder.path == LOG
    RUBY
    path, running, status, pid, same = run.out.lines(chomp: true)
    assert_equal %w[nil true 0 true], [path, running, status, same]
    parent = sound
    child = child_log(pid.to_i, parent)
    assert_equal [1000, 0], [objects(parent, "Mother"), objects(parent, "Child")]
    assert_equal [0, 500], [objects(child, "Mother"), objects(child, "Child")]
    # Those that were swept lie before the fork's serial; a conservative collector may keep a few.
    assert_operator child.facts.inherited, :>=, 290
    assert_equal %w[before after], parent.facts.marks.map(&:first)
    assert_equal %w[child], child.facts.marks.map(&:first)
    assert_equal [0, 0], [parent.facts.inherited, child.facts.orphans]
    assert_agreement "--by", "class", "--limit", "0", child, log: child.log.path
  end

  def test_fork_without_a_block
    run = program!(PREPARE + <<~RUBY)
      if (pid = fork)
        Process.wait(pid)
        puts pid
      else
        $children = Array.new(500) { Child.new }
      end
    RUBY
    parent = sound
    child = child_log(run.out.to_i, parent)
    assert_equal [1000, 500], [objects(parent, "Mother"), objects(child, "Child")]
    # Functions and classes that were named before the fork have their names in the child's log too.
    rows = child.top(by: "line", limit: 0)["rows"].map { |row| row["name"] }
    refute(rows.any? { |name| name.include?("unresolved") }, rows.inspect)
    assert(rows.any? { |name| name.start_with?(path("program.rb")) })
  end

  # The child's serials go on where the parent's stood, and the header says after which of the parent's bytes.
  def test_where_the_fork_stands
    run = program!(PREPARE + "pid = fork { $children = Array.new(500) { Child.new } }; Process.wait(pid); puts pid")
    parent = sound
    child = child_log(run.out.to_i, parent)
    fields = child.log.fields
    payload = parent.log.history.find { |candidate| candidate.sequence == fields[:fork_sequence] }
    cut = MppOracle::Payload.new(payload.kind, payload.sequence, payload.first_serial, payload.first_time_ns, payload.bytes.byteslice(0, fields[:fork_bytes]), 0)
    records = MppOracle::Records.new(cut)
    records.each(MppOracle::Records::Handler.new)
    assert_nil records.malformed_at
    assert_equal fields[:fork_serial], records.next_serial
    assert_equal fields[:fork_serial], child.log.history.first.first_serial
  end

  # A child that records more than its memory holds makes its log under way; its death then loses nothing.
  def test_a_long_child_that_is_killed
    run = program!(PREPARE + <<~RUBY)
      pid = fork do
        $children = []
        30.times { |n| 8_000.times { Child.new }; $children.concat(Array.new(10) { Child.new }); MppRecorder.mark(n.to_s) }
        Process.kill(:KILL, $$)
      end
      Process.wait(pid)
      puts pid
    RUBY
    parent = sound
    log = path("app.#{run.out.to_i}.mpp")
    child = sound(log, clean_end: false)
    assert_equal (0..29).map(&:to_s), child.facts.marks.map(&:first)
    assert_equal parent.log.fields[:uuid], child.log.fields[:parent_uuid]
    assert_equal 240_300, child.top(by: "class", limit: 0)["rows"].find { |row| row["name"] == "Child" }["allocated_objects"]
  end

  # One that records little has its log once it has lived for a while, and its death then loses nothing.
  def test_a_quiet_child_that_is_killed
    run = program!(PREPARE + <<~RUBY)
      pid = fork do
        $children = Array.new(500) { Child.new }
        deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + 30
        # its log, and in it the writer's first sample of the process
        until (MppRecorder.path && MppRecorder.stats[:sealed_blocks].positive?) || Process.clock_gettime(Process::CLOCK_MONOTONIC) > deadline
          sleep 0.01
          Object.new
        end
        $children.concat(Array.new(20) { Child.new })
        $mothers.clear
        GC.start
        MppRecorder.mark("late")
        Process.kill(:KILL, $$)
      end
      Process.wait(pid)
      puts pid
    RUBY
    parent = sound
    child = sound(path("app.#{run.out.to_i}.mpp"), clean_end: false)
    assert_equal [520, %w[late]], [objects(child, "Child"), child.facts.marks.map(&:first)]
    assert_equal parent.log.fields[:uuid], child.log.fields[:parent_uuid]
    assert_operator child.facts.inherited, :>=, 990
    # It is about what the process holds, from the first sample on.
    assert_operator analyze("info", log: child.log.path, clean_end: false)["proc"]["recorder_memory_bytes"], :>, 1 << 20
  end

  def test_exit_without_at_exit_leaves_no_log_of_a_short_child
    program!(PREPARE + "Process.wait(fork { Child.new; exit! }); $mothers.clear")
    assert_equal %w[app.mpp], logs
    sound
  end

  # fork + exec is how programs run programs.
  def test_children_that_exec_leave_no_log
    run = program!(PREPARE + <<~RUBY)
      Process.wait(fork { exec "true" })
      Process.wait(spawn("true"))
      system("true")
      puts `echo hello`
      IO.popen(["cat"], "r+") { |io| io.puts "cat"; io.close_write; puts io.read }
      require "open3"
      puts Open3.capture2("tr a-z A-Z", stdin_data: "shout")[0]
    RUBY
    assert_equal "hello\ncat\nSHOUT\n", run.out
    assert_equal %w[app.mpp], logs
    assert_equal 1000, objects(sound, "Mother")
  end

  def test_exec_of_the_process_itself
    run = run_command(RbConfig.ruby, MPPRECORD, "-o", path("app.mpp"), "--", RbConfig.ruby, "--disable-gems", "-e",
                      "First = Class.new; $kept = Array.new(700) { First.new }; puts $$; $stdout.flush; " \
                      "exec('#{RbConfig.ruby}', '--disable-gems', '-e', 'Second = Class.new; $kept = Array.new(800) { Second.new }; puts $$')")
    assert_equal [true, ""], [run.status.success?, run.err]
    pid, same = run.out.lines.map(&:to_i)
    assert_equal pid, same
    assert_equal ["app.#{pid}.mpp", "app.mpp"], logs
    first = sound(clean_end: false)
    second = sound(path("app.#{pid}.mpp"))
    assert_equal [700, 800], [objects(first, "First"), objects(second, "Second")]
    assert_equal [pid, pid], [first, second].map { |oracle| oracle.log.fields[:pid] }
    assert_nil second.log.fields[:parent_uuid]
  end

  def test_daemon
    run = program(PREPARE + <<~RUBY)
      reader, writer = IO.pipe
      Process.daemon(true, true)
      $children = Array.new(500) { Child.new }
      puts $$
      $stdout.flush
      MppRecorder.mark("daemon")
      MppRecorder.stop
      File.write(LOG + ".done", "")
    RUBY
    assert run.status.success?
    deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + 20
    sleep 0.01 until File.exist?(path("app.mpp.done")) || Process.clock_gettime(Process::CLOCK_MONOTONIC) > deadline
    parent = sound(clean_end: false)
    child = child_log(run.out.to_i, parent)
    assert_equal [1000, 500], [objects(parent, "Mother"), objects(child, "Child")]
    assert_equal %w[daemon], child.facts.marks.map(&:first)
  end

  def test_nested_forks
    run = program!(PREPARE + <<~RUBY)
      pid = fork do
        $children = Array.new(500) { Child.new }
        grandchild = fork do
          $grandchildren = Array.new(50) { Child.new }
          $mothers.clear
          GC.start
        end
        Process.wait(grandchild)
        puts grandchild
        $stdout.flush
      end
      Process.wait(pid)
      puts pid
    RUBY
    grandchild_pid, pid = run.out.lines.map(&:to_i)
    assert_equal ["app.#{grandchild_pid}.mpp", "app.#{pid}.mpp", "app.mpp"].sort, logs
    parent = sound
    child = child_log(pid, parent)
    # The child had no log yet when it forked: what it had in memory is the grandchild's past too.
    grandchild = child_log(grandchild_pid, parent)
    assert_equal child.log.fields[:fork_serial], grandchild.log.fields[:fork_serial]
    assert_equal [500, 550], [objects(child, "Child"), objects(grandchild, "Child")]
    assert_operator grandchild.facts.inherited, :>=, 990
  end

  # A child that has a log of its own is the parent of what it forks.
  def test_nested_forks_with_a_log_between
    run = program!(PREPARE + <<~RUBY)
      pid = fork do
        $children = Array.new(500) { Child.new }
        MppRecorder.flush
        grandchild = fork do
          $grandchildren = Array.new(50) { Child.new }
          $children.clear
          GC.start
        end
        Process.wait(grandchild)
        puts grandchild
        $stdout.flush
      end
      Process.wait(pid)
      puts pid
    RUBY
    grandchild_pid, pid = run.out.lines.map(&:to_i)
    parent = sound
    child = child_log(pid, parent)
    grandchild = child_log(grandchild_pid, child)
    assert_operator grandchild.log.fields[:fork_serial], :>, child.log.fields[:fork_serial]
    assert_equal [500, 50], [objects(child, "Child"), objects(grandchild, "Child")]
    assert_operator grandchild.facts.inherited, :>=, 490
  end

  def test_many_children_at_once
    run = program!(PREPARE + <<~RUBY)
      pids = Array.new(8) { |n| fork { $children = Array.new(100 + n) { Child.new }; 8_000.times { Object.new } } }
      5000.times { $mothers << Mother.new }
      pids.each { |pid| Process.wait(pid) }
      puts pids
    RUBY
    parent = sound
    pids = run.out.lines.map(&:to_i)
    assert_equal 9, logs.size
    pids.each_with_index { |pid, n| assert_equal 100 + n, objects(child_log(pid, parent), "Child") }
    assert_equal 6000, objects(parent, "Mother")
  end

  # Only the thread that forks lives on in the child.
  def test_fork_amid_threads
    run = program!(PREPARE + <<~RUBY)
      stop = false
      threads = Array.new(4) { Thread.new { Object.new until stop } }
      pids = Array.new(5) { fork { $children = Array.new(100) { Child.new }; GC.start } }
      pids.each { |pid| Process.wait(pid); abort "a child failed" unless $?.success? }
      stop = true
      threads.each(&:join)
      puts pids
    RUBY
    parent = soundly_analyzed
    run.out.lines.map(&:to_i).each do |pid|
      oracle = sound(path("app.#{pid}.mpp"))
      assert_equal parent["log"]["uuid"], oracle.log.fields[:parent_uuid]
      assert_equal 100, objects(oracle, "Child")
    end
  end

  def test_at_exit_handlers_of_both
    run = program!(PREPARE + <<~RUBY)
      at_exit { $late = Array.new(10) { Child.new }; MppRecorder.mark("at exit") }
      at_exit { $late = Array.new(10) { Child.new } }
      pid = fork { }
      Process.wait(pid)
      puts pid
    RUBY
    parent = sound
    child = child_log(run.out.to_i, parent)
    [parent, child].each do |oracle|
      assert_equal "at exit", oracle.facts.marks.last.first
      assert_equal 20, oracle.top(by: "class", limit: 0)["rows"].find { |row| row["name"] == "Child" }["allocated_objects"]
    end
  end

  def test_a_child_that_stops_and_one_that_starts_anew
    run = program!(PREPARE + <<~RUBY)
      pid = fork do
        MppRecorder.stop
        p MppRecorder.running?
        MppRecorder.start(path: LOG + ".new.mpp")
        $children = Array.new(500) { Child.new }
        $stdout.flush
      end
      Process.wait(pid)
      puts pid
    RUBY
    running, pid = run.out.lines(chomp: true)
    assert_equal "false", running
    parent = sound
    child_log(pid.to_i, parent)
    fresh = sound(path("app.mpp.new.mpp"))
    assert_nil fresh.log.fields[:parent_uuid]
    assert_equal 500, objects(fresh, "Child")
  end

  # Where the child cannot make its log, it goes on without, and one line says so.
  def test_no_log_for_the_child
    FileUtils.mkdir(path("logs"))
    run = program(<<~RUBY)
      directory = File.join(File.dirname(LOG), "logs")
      MppRecorder.start(path: File.join(directory, "app.mpp"))
      File.rename(directory, directory + ".old")
      pid = fork { $children = Array.new(500) { Object.new }; GC.start; exit 3 }
      Process.wait(pid)
      p $?.exitstatus
    RUBY
    assert_equal [0, "3\n"], [run.status.exitstatus, run.out]
    assert_match(/\Ampp_recorder: no log for the forked process \d+ beside '[^']*': No such file or directory; the program goes on\n\z/, run.err)
    sound(path("logs.old/app.mpp"))
  end

  # The same when the child finds it out in the midst of its work, and lives on for long.
  def test_no_log_for_a_child_that_fills_its_journal
    FileUtils.mkdir(path("logs"))
    run = program(<<~RUBY)
      directory = File.join(File.dirname(LOG), "logs")
      MppRecorder.start(path: File.join(directory, "app.mpp"))
      File.rename(directory, directory + ".old")
      pid = fork do
        500_000.times { Object.new }
        GC.start
        p MppRecorder.running?
        exit 3
      end
      Process.wait(pid)
      p $?.exitstatus
    RUBY
    assert_equal [0, "false\n3\n"], [run.status.exitstatus, run.out], run.err
    assert_match(/\Ampp_recorder: no log for the forked process \d+ beside [^\n]*\n\z/, run.err)
    sound(path("logs.old/app.mpp"))
  end

  # A child that gets no memory for its journal is not recorded; it lives, and the parent's log is the parent's.
  def test_no_memory_for_the_child
    run = program!(PREPARE + <<~RUBY, env: { "LD_PRELOAD" => RecorderRuns.shim("no_map_in_child") })
      pid = fork { $children = Array.new(50_000) { Child.new }; GC.start; p MppRecorder.running?; exit 3 }
      Process.wait(pid)
      p $?.exitstatus
    RUBY
    assert_equal "false\n3\n", run.out
    assert_equal ["app.mpp"], logs
    assert_equal 0, objects(sound, "Child")
  end

  def test_flush_in_the_child
    run = program!(PREPARE + <<~RUBY)
      pid = fork { $children = Array.new(500) { Child.new }; p MppRecorder.flush; puts MppRecorder.path; $stdout.flush; exit! }
      Process.wait(pid)
      puts pid
    RUBY
    flushed, log, pid = run.out.lines(chomp: true)
    assert_equal ["true", path("app.#{pid}.mpp")], [flushed, log]
    assert_equal 500, objects(sound(log, clean_end: false), "Child")
  end
end
