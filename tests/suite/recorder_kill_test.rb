# frozen_string_literal: true

# However a process ends, everything up to the last completed record is in its log.
# KILL_SEED is the seed of the moments (default 1), KILLS how many (default 50).
require "minitest/autorun"
require_relative "support/recorder_runs"

class RecorderKillTest < Minitest::Test
  include RecorderRuns

  SEED = Integer(ENV.fetch("KILL_SEED", "1"))
  COUNT = Integer(ENV.fetch("KILLS", "50"))

  # Ruby's report of a crash allocates: one that comes in the midst of malloc (seen on 3.3: brk, then backtrace → dlopen → calloc) waits for itself for ever,
  # with nothing of ours on the stack. Such a process is then killed as its owner would, and its log must be whole all the same.
  DEATH_LIMIT_S = 20

  # Between which marks how many objects of which class were born, in order.
  class Steps < MppOracle::Records::Handler
    attr_reader :marks, :births, :drops

    def initialize(definitions)
      super()
      @definitions = definitions
      @marks = []
      @births = Hash.new(0) # [step, class id]
      @drops = 0
    end

    def alloc(_time, _serial, site) = @births[[@marks.size + 1, @definitions.site_of(site).class_id]] += 1
    def mark(_time, name) = @marks << name.to_i
    def drop(_time, count, _reason) = @drops += count
  end

  def steps_of(log)
    steps = Steps.new(MppOracle::Definitions.new(log))
    log.history.each do |payload|
      records = MppOracle::Records.new(payload)
      records.each(steps)
      assert_nil records.malformed_at
    end
    steps
  end

  # Every step up to the last one that the program has told of, exactly; of the one that it was in, any part.
  def assert_complete(told, clean_end: false)
    log = MppOracle::Log.new(path("app.mpp"))
    assert_equal [[], clean_end], [log.damage, log.clean_end?]
    steps = steps_of(log)
    last = steps.marks.size
    assert_equal [*1..last], steps.marks
    assert_includes told..told + 1, last, "marks in the log; the program told of #{told}"
    counts = steps.births.keys.map { |_, id| id }.uniq.to_h { |id| [id, (1..last).map { |n| steps.births[[n, id]] }] }.values
    # A disk that was too slow for a moment: what was dropped is told, and is all that is missing.
    missing = [(1..last).map { |n| n % 7 + 1 }, [40] * last].map { |expected| counts.map { |count| expected.zip(count).map { |e, c| (e - c).abs }.sum }.min }
    assert_operator missing.sum, :<=, steps.drops, "objects of the steps that are neither there nor told of as dropped"
    soundly_analyzed(clean_end: clean_end)
    last
  end

  def steps(journal_bytes, *more, **options, &block)
    run_command(RbConfig.ruby, "--disable-gems", File.join(PROGRAMS, "steps.rb"), path("app.mpp"), journal_bytes.to_s, *more, **options, &block)
  end

  # Dies `after_s` seconds after the first step.
  def killed(journal_bytes, after_s, signal, **options)
    run = steps(journal_bytes, **options) do |pid, stdout|
      first = stdout.gets
      reader = Thread.new { stdout.read }
      sleep after_s
      Process.kill(signal, pid)
      Process.kill(:KILL, pid) unless reader.join(DEATH_LIMIT_S)
      first + reader.value
    end
    assert run.status.signaled?, run.err
    told = run.out[/(\d+)\n(?!.*\n)/m, 1].to_i
    assert_operator told, :>, 0
    assert_complete(told)
    run
  end

  # Small journals, so that many of the moments fall into the change from one half to the next, or into a block's write.
  COUNT.times do |n|
    random = Random.new(SEED * 1000 + n)
    size = n.even? ? 131_072 : 0
    after_s = random.rand * 0.08
    define_method("test_killed_#{n}_after_#{(after_s * 1000).round}_ms_journal_#{size}") { killed(size, after_s, :KILL) }
  end

  # Whoever sends it: Ruby reports a crash, and dies of it.
  8.times do |n|
    after_s = Random.new(SEED * 1000 + 500 + n).rand * 0.08
    define_method("test_crashed_#{n}_after_#{(after_s * 1000).round}_ms") do
      run = killed(n.even? ? 131_072 : 0, after_s, :SEGV, rlimit_core: 0)
      assert_match(/\[BUG\] Segmentation fault/, run.err) unless run.status.termsig == Signal.list["KILL"]
    end
  end

  # Out of memory, by a limit of the process. A large piece that is not there is an exception, with which the program ends in order; with a small one Ruby
  # gives up, or dies in its report of it. Whatever the recorder itself lacked memory for is told as dropped.
  { "strings" => 192, "objects" => 192, "arrays" => 224 }.each do |hoard, mib|
    define_method("test_no_memory_for_#{hoard}") do
      run = steps(131_072, "", env: { "HOARD" => hoard }, rlimit_as: mib << 20, rlimit_core: 0)
      refute run.status.success?
      assert_match(/failed to allocate memory/, run.err)
      told = run.out.lines.last.to_i
      assert_operator told, :>, 10
      assert_complete(told, clean_end: MppOracle::Log.new(path("app.mpp")).clean_end?)
    end
  end

  # A program that outlives it is recorded on.
  def test_no_memory_for_a_while
    run = steps(131_072, "", "200", env: { "HOARD_AT" => "100" }, rlimit_as: 256 << 20)
    assert_equal [0, "200"], [run.status.exitstatus, run.out.lines.last.to_s.chomp], run.err
    assert_equal 200, assert_complete(200, clean_end: true)
  end

  # The kernel's own killer, where a control group can be made that holds a process to a limit (version 2, with the memory controller given to us).
  def test_killed_for_want_of_memory
    group = memory_group or skip "no control group with a limit of memory can be made here"
    begin
      File.write(File.join(group, "memory.max"), (96 << 20).to_s)
      swap = File.join(group, "memory.swap.max")
      File.write(swap, "0") if File.exist?(swap)
      command = ["sh", "-c", 'echo $$ >"$0/cgroup.procs" && exec "$@"', group, RbConfig.ruby, "--disable-gems", File.join(PROGRAMS, "steps.rb"), path("app.mpp"), "131072"]
      run = run_command(*command, env: { "HOARD" => "strings" })
      assert_equal Signal.list["KILL"], run.status.termsig, run.err
      assert_complete(run.out.lines.last.to_i)
    ensure
      Dir.rmdir(group)
    end
  end

  # A new group beside or below our own, or nil.
  def memory_group
    mount = File.foreach("/proc/self/mounts").map(&:split).find { |_, _, type| type == "cgroup2" }&.at(1) or return
    own = File.join(mount, File.read("/proc/self/cgroup")[/^0::(.*)$/, 1].to_s)
    parent = [own, File.dirname(own)].find { |group| group.start_with?(mount) && File.read(File.join(group, "cgroup.subtree_control")).split.include?("memory") } or return
    File.join(parent, "mpp-test-#{$$}").tap { |group| Dir.mkdir(group) }
  rescue SystemCallError
    nil
  end

  # A log that is being written is read as far as it goes: each time without damage, never less than what the program had told of before.
  def test_read_while_written
    reads = 0
    run = steps(131_072) do |pid, stdout|
      told = stdout.gets.to_i
      reader = Thread.new { stdout.each_line { |line| told = line.to_i } }
      10.times do
        before = told
        report = analyze("info", clean_end: false)
        assert_equal false, report["log"]["damaged"]
        marks = report["marks"].map { |mark| mark["name"].to_i }
        assert_equal [*1..marks.size], marks
        assert_operator marks.size, :>=, before
        reads += 1
      end
    ensure
      Process.kill(:KILL, pid)
      reader&.join
    end
    assert_equal 10, reads
    assert_equal Signal.list["KILL"], run.status.termsig
  end

  def test_terminated
    run = steps(0) do |pid, stdout|
      first = stdout.gets
      Process.kill(:TERM, pid)
      first + stdout.read
    end
    assert_equal Signal.list["TERM"], run.status.termsig
    assert_complete(run.out.lines.last.to_i, clean_end: true)
  end

  def ended(ending, clean_end:, **options)
    run = steps(131_072, ending, "300", **options)
    assert_equal "300", run.out.lines.last.chomp
    assert_equal 300, assert_complete(300, clean_end: clean_end)
    assert_equal %w[app.mpp], logs
    run
  end

  def test_clean_end = assert_equal(0, ended("", clean_end: true).status.exitstatus)
  def test_exit_without_at_exit = assert_equal(4, ended("exit!", clean_end: false).status.exitstatus)
  def test_abort_method = assert_equal([1, "the end\n"], ended("abort", clean_end: true).then { |run| [run.status.exitstatus, run.err] })
  def test_exec = assert_equal(0, ended("exec", clean_end: false).status.exitstatus)
  def test_signal_kill = assert_equal(Signal.list["KILL"], ended("kill", clean_end: false).status.termsig)
  def test_signal_abrt = assert_equal(Signal.list["ABRT"], ended("abrt", clean_end: false).status.termsig)
  def test_signal_term = assert_equal(Signal.list["TERM"], ended("term", clean_end: true).status.termsig)
  def test_signal_int = assert_equal(Signal.list["INT"], ended("int", clean_end: true).status.termsig)

  def test_exception
    run = ended("raise", clean_end: true)
    assert_equal 1, run.status.exitstatus
    assert_match(/the end \(RuntimeError\)/, run.err)
  end

  def test_raise_in_at_exit
    run = ended("at_exit", clean_end: true)
    assert_equal 1, run.status.exitstatus
    assert_match(/in at_exit \(RuntimeError\)/, run.err)
  end

  # Ruby writes its report of the crash, and dies of it.
  def test_segmentation_faults
    %w[segv null].each do |ending|
      run = ended(ending, clean_end: false, rlimit_core: 0)
      assert run.status.signaled?, run.status.inspect
      assert_match(/\[BUG\] Segmentation fault/, run.err)
      File.unlink(path("app.mpp"))
    end
  end
end
