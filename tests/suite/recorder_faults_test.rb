# frozen_string_literal: true

# What goes wrong around the recorder: wrong calls, full disks, slow disks, disks that cannot map. The program never pays for it, and the log tells.
require "minitest/autorun"
require_relative "support/recorder_runs"

# Wrong calls: an error that says what to do, and nothing left behind.
class RecorderCallsTest < Minitest::Test
  include RecorderRuns

  # What `call` raises, as [class, message].
  def raised(call, before: "", **options)
    run = program!(<<~RUBY, **options)
      begin
        #{before}
        #{call}
        puts "none"
      rescue Exception => error
        puts error.class, error.message
      end
    RUBY
    run.out.force_encoding(Encoding::UTF_8).split("\n", 2).map(&:chomp)
  end

  def test_start_where_no_log_can_be
    File.write(path("file"), "precious")
    FileUtils.mkdir(path("directory"))
    File.symlink("no-such-target", path("link"))
    [["no/such/app.mpp", /no\/such\/app\.mpp': No such file or directory: create the directory first/],
     ["file", /'[^']*file': File exists: choose another path, or pass force: true/],
     ["directory", /'[^']*directory': (File exists|Is a directory)/],
     ["link", /'[^']*link': File exists/],
     ["file/app.mpp", /Not a directory/],
     ["x" * 300, /File name too long/],
     ["y/" * 3000, /path is too long/]].each do |name, message|
      klass, text = raised("MppRecorder.start(path: #{path(name).inspect})")
      assert_equal "MppRecorder::Error", klass, name
      assert_match message, text
    end
    assert_equal "precious", File.read(path("file"))
    assert_equal %w[directory file link program.rb], Dir.children(@dir).sort
  end

  def test_force
    File.write(path("file"), "precious")
    File.symlink("file", path("link"))
    FileUtils.mkdir(path("directory"))
    %w[link directory].each do |name|
      klass, text = raised("MppRecorder.start(path: #{path(name).inspect}, force: true)")
      assert_equal ["MppRecorder::Error", true], [klass, text.include?("File exists")], name
    end
    assert_equal ["none", ""], raised("MppRecorder.start(path: #{path("file").inspect}, force: true)")
    sound(path("file"))
  end

  def test_start_where_one_may_not_write
    FileUtils.mkdir(path("closed"))
    File.chmod(0o555, path("closed"))
    File.chmod(0o755, @dir)
    before = Process.uid.zero? ? "Process::Sys.setresuid(65534, 65534, 65534)" : ""
    klass, text = raised("MppRecorder.start(path: #{path("closed/app.mpp").inspect})", before: before)
    assert_equal "MppRecorder::Error", klass
    assert_match(/cannot record to '[^']*': Permission denied/, text)
    assert_empty Dir.children(path("closed"))
  end

  def test_start_with_wrong_arguments
    { "" => /missing keyword: :path/, "path: LOG, nonsense: 1" => /unknown keyword: :nonsense/, "path: LOG, sample_rate: 0" => /sample_rate must be above 0/,
      "path: LOG, sample_rate: -1" => /sample_rate must/, "path: LOG, sample_rate: 1.5" => /sample_rate must/, "path: LOG, sample_rate: Float::NAN" => /sample_rate must/,
      "path: LOG, sample_rate: 1e-9" => /sample_rate 1e-09 is too small/, "path: LOG, max_depth: 0" => /max_depth must be from 1 to 4096, not 0/,
      "path: LOG, max_depth: 4097" => /max_depth/, "path: LOG, max_depth: -1" => /max_depth/, "path: LOG, max_stacks: 0" => /max_stacks/,
      "path: LOG, max_tracked_objects: 0" => /max_tracked_objects/, "path: LOG, journal_bytes: -4096" => /journal_bytes/, "path: LOG, journal_bytes: 1 << 40" => /journal_bytes/,
      "path: LOG, on_exists: :never" => /on_exists must be :error or :next_free/, 'path: "a\0b"' => /null byte/ }.each do |arguments, message|
      klass, text = raised("MppRecorder.start(#{arguments})")
      assert_equal ["ArgumentError", true], [klass, text.match?(message)], "start(#{arguments}): #{text}"
    end
    { "path: 5" => "TypeError", "path: nil" => "TypeError", 'path: LOG, sample_rate: "x"' => "TypeError", 'path: LOG, max_depth: "x"' => "TypeError",
      "path: LOG, max_depth: 1 << 80" => "RangeError", "LOG" => "ArgumentError" }.each do |arguments, error|
      assert_equal error, raised("MppRecorder.start(#{arguments})")[0], arguments
    end
    assert_empty logs
  end

  def test_start_twice
    klass, text = raised("MppRecorder.start(path: LOG); MppRecorder.start(path: LOG + '2')")
    assert_equal ["MppRecorder::Error", "already recording to '#{path("app.mpp")}': stop first"], [klass, text]
    sound
    assert_equal %w[app.mpp], logs
  end

  def test_nothing_is_recording
    run = program!("p MppRecorder.stop, MppRecorder.running?, MppRecorder.path, MppRecorder.mark('x'), MppRecorder.flush, MppRecorder.stats")
    assert_equal "nil\nfalse\nnil\nfalse\nfalse\n{}\n", run.out
    assert_empty logs
  end

  def test_stop_twice_and_restart
    run = program!(<<~RUBY)
      5.times do |n|
        log = LOG.sub("app", "app\#{n}")
        MppRecorder.start(path: log)
        $kept = Array.new(100 + n) { Struct.new(:a).new(n) }
        raise unless MppRecorder.stop == log && MppRecorder.stop.nil? && !MppRecorder.running?
        begin
          MppRecorder.start(path: log)
        rescue MppRecorder::Error
          next
        end
        raise "started over a log"
      end
    RUBY
    assert_equal "", run.out
    assert_equal 5, logs.size
    5.times { |n| assert_equal 100 + n, live(by: "type", log: path("app#{n}.mpp"))["STRUCT"][0] }
  end

  def test_marks
    run = program!(<<~RUBY)
      MppRecorder.start(path: LOG)
      p MppRecorder.mark("plain"), MppRecorder.mark(:symbol), MppRecorder.mark("measured", measure: true), MppRecorder.mark("")
      p MppRecorder.mark("bad \\xFF \\0 bytes"), MppRecorder.mark("x" * 3_000_000)
      [-> { MppRecorder.mark }, -> { MppRecorder.mark(nil) }, -> { MppRecorder.mark("a", nonsense: 1) }, -> { MppRecorder.mark("a", "b") }].each do |call|
        call.call
        puts "none"
      rescue ArgumentError, TypeError => error
        puts error.class
      end
    RUBY
    assert_equal "true\n" * 6 + "ArgumentError\nTypeError\nArgumentError\nArgumentError\n", run.out
    marks = sound.facts.marks.map(&:first)
    assert_equal ["plain", "symbol", "measured", "", "bad \uFFFD \0 bytes"], marks[0, 5]
    assert_match(/\Ax{30000,}\z/, marks[5])
  end
end

# The disk.
class RecorderDiskTest < Minitest::Test
  include RecorderRuns

  ONE_WARNING = /\Ampp_recorder: recording to '[^'\n]*' stopped: No space left on device; the program goes on\n\z/

  def on_small_disk(bytes)
    disk = path("disk")
    FileUtils.mkdir(disk)
    skip "a small file system needs root to mount" unless Process.uid.zero? && system("mount", "-t", "tmpfs", "-o", "size=#{bytes}", "tmpfs", disk, err: File::NULL)
    begin
      yield File.join(disk, "app.mpp")
    ensure
      system("umount", disk)
    end
  end

  # Records until the disk is full and goes on for a while; afterwards everything works as before. Deaths in random order compress badly.
  FILLS_THE_DISK = <<~RUBY
    Made, Other = Class.new, Class.new
    MppRecorder.start(path: ARGV[0])
    random = Random.new(1)
    kept = Array.new(50_000)
    stats = {}
    1.upto(400) do |n|
      5000.times { kept[random.rand(50_000)] = random.rand(2) == 0 ? Made.new : Other.new; kept[random.rand(50_000)] = nil }
      MppRecorder.stats.then { |now| stats = now unless now.empty? }
      break unless MppRecorder.running?
      MppRecorder.mark(n.to_s)
    rescue MppRecorder::Error => error
      raise unless error.message.include?("No space left on device")
    end
    100_000.times { Made.new }
    puts MppRecorder.running?, stats[:dropped_allocs]
    GC.start
    exit 0
  RUBY

  [512, 1024, 2048].each do |kib|
    define_method("test_full_disk_of_#{kib}_kib") do
      on_small_disk(kib << 10) do |log|
        run = program(FILLS_THE_DISK, log)
        assert_equal 0, run.status.exitstatus, run.err
        assert_match ONE_WARNING, run.err
        assert_match(/\Afalse\n/, run.out)
        # The blocks that stand, and the journal; no byte of it is damaged.
        report = soundly_analyzed(log, clean_end: false)
        assert_operator report["at"]["position"], :>, 10_000
        next if kib > 512

        marks = sound(log, clean_end: false).facts.marks.map(&:first)
        assert_equal (1..marks.size).map(&:to_s), marks
      end
    end
  end

  def test_no_room_to_start
    on_small_disk(64 << 10) do |log|
      run = program!("begin; MppRecorder.start(path: ARGV[0]); rescue MppRecorder::Error => e; puts e.message; end; p MppRecorder.running?", log)
      assert_match(/\Acannot record to '[^']*': No space left on device: free some space, or choose another path\nfalse\n\z/, run.out)
      assert_empty Dir.children(File.dirname(log))
    end
  end

  # Under mpprecord the program's own words are all that there is besides.
  def test_full_disk_under_mpprecord
    on_small_disk(512 << 10) do |log|
      File.write(path("p.rb"), "a = Array.new(50_000); 600_000.times { |n| a[rand(50_000)] = rand(2) == 0 ? n.to_s : [n]; a[rand(50_000)] = nil }; puts a.size; exit 3")
      run = run_command(RbConfig.ruby, MPPRECORD, "-o", log, "--", RbConfig.ruby, path("p.rb"))
      assert_equal [3, "50000\n"], [run.status.exitstatus, run.out]
      assert_match ONE_WARNING, run.err
      sound(log, clean_end: false)
    end
  end

  # `> app.mpp`, or a rotation that copies and truncates: a store into what was mapped is SIGBUS. The program goes on, here and in what it forks.
  def test_truncated_under_the_program
    ["", "Process.wait(fork { 100_000.times { Object.new } })"].each do |more|
      run = program(<<~RUBY)
        MppRecorder.start(path: LOG)
        kept = Array.new(1000) { Object.new }
        File.truncate(LOG, 0)
        kept.concat(Array.new(100_000) { Object.new })
        #{more}
        deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + 20
        kept.concat(Array.new(1000) { Object.new }) while MppRecorder.running? && Process.clock_gettime(Process::CLOCK_MONOTONIC) < deadline
        p MppRecorder.running?, MppRecorder.stop
        MppRecorder.start(path: LOG + ".2.mpp")
        puts "alive"
      RUBY
      assert_equal [0, "false\nnil\nalive\n"], [run.status.exitstatus, run.out], run.err
      assert_match(/\Ampp_recorder: recording to '[^'\n]*' stopped: somebody has truncated the file; the program goes on\n\z/, run.err)
      sound(path("app.mpp.2.mpp"))
      logs.each { |log| File.unlink(path(log)) }
    end
  end

  # What is not ours still ends as Ruby has it end.
  def test_other_bus_errors
    run = program("MppRecorder.start(path: LOG); Process.kill(:BUS, $$); sleep 5", rlimit_core: 0)
    assert run.status.signaled?
    assert_match(/\[BUG\] Bus Error/, run.err)
    sound(clean_end: false)
  end

  # A file system that cannot map: the journal is copied, said in the header, and a clean end is as clean.
  def test_disk_that_cannot_map
    env = { "LD_PRELOAD" => RecorderRuns.shim("no_map") }
    program!("Made = Class.new; MppRecorder.start(path: LOG); $kept = Array.new(5000) { Made.new }; 50_000.times { Object.new }", env: env)
    oracle = sound
    assert_equal 1, oracle.log.fields[:journal_mode]
    assert_equal 5000, live["Made"][0]
    assert_agreement "--by", "class", "--limit", "0", oracle
  end

  # What the program has told of a moment ago is in the file, without any flush.
  def test_disk_that_cannot_map_and_a_killed_program
    env = { "LD_PRELOAD" => RecorderRuns.shim("no_map") }
    run = program(<<~RUBY, env: env) { |pid, stdout| stdout.gets.tap { sleep 0.5; Process.kill(:KILL, pid) } }
      Made = Class.new
      MppRecorder.start(path: LOG, journal_bytes: 131_072)
      $kept = []
      20.times { |n| 500.times { $kept << Made.new }; 3000.times { Object.new }; MppRecorder.mark(n.to_s) }
      $stdout.puts "told"
      $stdout.flush
      loop { Object.new; sleep 0.001 }
    RUBY
    assert run.status.signaled?
    oracle = sound(clean_end: false)
    assert_equal 1, oracle.log.fields[:journal_mode]
    assert_equal (0..19).map(&:to_s), oracle.facts.marks.map(&:first)
    assert_equal 10_000, live(clean_end: false)["Made"][0]
  end
end

# A disk that is slower than the program: allocations are dropped and counted, no free is lost, and what was dropped is not tracked.
class RecorderPressureTest < Minitest::Test
  include RecorderRuns

  def test_slow_disk
    slow = path("slow")
    File.write(slow, "")
    env = { "LD_PRELOAD" => RecorderRuns.shim("slow_write"), "SLOW_WRITE_MS" => "50", "SLOW_WRITE_WHILE" => slow }
    run = program!(<<~RUBY, env: env)
      Before, Flood, Kept, After = Class.new, Class.new, Class.new, Class.new
      MppRecorder.start(path: LOG, journal_bytes: 131_072)
      before = Array.new(3000) { Before.new }
      kept = []
      MppRecorder.mark("flood")
      # All that live before, and all that are made now, die under pressure.
      before.clear
      250_000.times { |n| Flood.new; kept << Kept.new if n % 100 == 0 }
      during = MppRecorder.stats
      File.unlink(#{slow.inspect})
      3.times { GC.start; sleep 0.2 }
      after = Array.new(1000) { After.new }
      GC.start
      GC.start
      MppRecorder.flush
      stats = MppRecorder.stats
      MppRecorder.mark("end")
      p during[:dropped_allocs], stats[:dropped_allocs], stats[:pending_frees], stats[:recorded_allocs], stats[:newobj_calls], stats[:stalls] > 0, stats[:tracked_objects]
      p ObjectSpace.each_object(Before).count, ObjectSpace.each_object(Flood).count, kept.size
    RUBY
    dropped, all_dropped, pending, recorded, calls, stalls, tracked, *counts = run.out.lines.map { |line| eval(line) }
    assert_operator dropped, :>, 10_000, "the disk was not slow enough to test anything"
    assert_equal [0, true, calls], [pending, stalls, recorded + all_dropped]
    oracle = sound
    assert_operator oracle.facts.drops, :>=, all_dropped
    at_end = live(at: "mark:end")
    # The dead are dead in the log, but for those that the collector itself keeps.
    assert_operator at_end.fetch("Before", [0])[0], :<=, counts[0]
    assert_operator at_end.fetch("Flood", [0])[0], :<=, counts[1]
    assert_operator counts[0] + counts[1], :<, 10
    assert_equal 1000, at_end["After"][0]
    assert_operator at_end["Kept"][0], :<=, counts[2]
    assert_operator at_end["Kept"][0], :>, 0
    assert_in_delta tracked, at_end.sum { |_, n| n[0] }, 20
    assert_equal 3000, oracle.top(at: "end", by: "class", limit: 0)["rows"].find { |row| row["name"] == "Before" }["allocated_objects"]
  end

  # What a compaction moves onto the slots of those whose deaths are still to be written costs none of these.
  def test_slow_disk_and_compaction
    slow = path("slow")
    env = { "LD_PRELOAD" => RecorderRuns.shim("slow_write"), "SLOW_WRITE_MS" => "100", "SLOW_WRITE_WHILE" => slow }
    run = program!(<<~RUBY, env: env)
      Before = Class.new
      MppRecorder.start(path: LOG, journal_bytes: 131_072)
      before = Array.new(60_000) { Before.new }
      MppRecorder.flush
      File.write(#{slow.inspect}, "")
      until MppRecorder.stats[:dropped_allocs] > 1000 do 1000.times { Object.new } end
      before.select!.with_index { |_, i| i % 10 == 9 && i > 30_000 }
      GC.start
      pending = MppRecorder.stats[:pending_frees]
      GC.compact
      File.unlink(#{slow.inspect})
      5.times { MppRecorder.flush; GC.start }
      MppRecorder.mark("end")
      p [pending, MppRecorder.stats[:pending_frees], ObjectSpace.each_object(Before).count]
    RUBY
    pending, after, count = JSON.parse(run.out)
    assert_operator pending, :>, 10_000, "the disk was not slow enough to test anything"
    assert_equal [0, count], [after, live(at: "mark:end").fetch("Before", [0])[0]]
    sound
  end

  def test_max_tracked_objects
    run = program!(<<~RUBY)
      First, Later = Class.new, Class.new
      MppRecorder.start(path: LOG, max_tracked_objects: 5000)
      kept = Array.new(4000) { First.new }
      kept.concat(Array.new(10_000) { Later.new })
      p MppRecorder.stats.values_at(:tracked_objects, :dropped_allocs, :recorded_allocs, :newobj_calls)
      kept.clear
      GC.start
      $more = Array.new(100) { First.new }
      MppRecorder.mark("end")
    RUBY
    tracked, dropped, recorded, calls = eval(run.out)
    assert_equal [5000, calls], [tracked, recorded + dropped]
    oracle = sound
    assert_operator oracle.facts.drops, :>=, dropped
    assert_operator live(at: "mark:end")["First"][0], :>=, 100
    assert_operator live(at: "mark:end")["First"][0], :<, 120
    assert_operator oracle.facts.peak[:live_objects], :<=, 5000
  end

  def test_max_stacks
    program!(<<~RUBY)
      Deep = Class.new
      MppRecorder.start(path: LOG, max_stacks: 100)
      lines = (1..500).map { |n| "$kept << Deep.new" }.join("\\n")
      $kept = []
      eval(lines, nil, "many_lines.rb", 1)
      MppRecorder.stats[:stacks].then { |n| raise n.to_s if n > 102 }
    RUBY
    oracle = sound
    assert_equal 500, live["Deep"][0]
    rows = oracle.top(by: "stack", limit: 0)["rows"]
    overflown = rows.select { |row| row["frames"].any? { |frame| frame["function"] == "[too many stacks]" } }
    assert_operator overflown.sum { |row| row["live_objects"] }, :>, 300
    assert_operator rows.count { |row| row["name"].start_with?("many_lines.rb:") }, :>, 20
  end

  # Another tool's hooks beside ours swallow frees (rb_exec_event_hooks skips hooks while one runs): they are found at the next collection.
  def test_beside_trace_object_allocations
    run = program!(<<~RUBY, env: { "RUBY_GC_MALLOC_LIMIT" => "200000", "RUBY_GC_MALLOC_LIMIT_MAX" => "200000", "RUBY_GC_HEAP_INIT_SLOTS" => "600000" })
      require "objspace"
      Kept, Flood = Class.new, Class.new
      ObjectSpace.trace_object_allocations_start
      MppRecorder.start(path: LOG)
      kept = []
      # Slots are there in plenty, and little memory is allocated but by that tool's own hook, so that collections begin inside it.
      300_000.times { |n| Flood.new; kept << Kept.new if n % 500 == 0 }
      3.times { GC.start }
      sleep 0.01
      3.times { GC.start }
      MppRecorder.mark("end", measure: true)
      p ObjectSpace.each_object(Kept).count, ObjectSpace.each_object(Flood).count, MppRecorder.stats.values_at(:implied_frees, :audited_frees)
    RUBY
    kept, flood, (implied, audited) = run.out.lines.map { |line| eval(line) }
    soundly_analyzed
    at_end = live(at: "mark:end")
    assert_equal [kept, flood], %w[Kept Flood].map { |name| at_end.fetch(name, [0])[0] }, "implied #{implied}, audited #{audited}"
    # From 3.4 on Ruby keeps the collector off while hooks of births run, so that no free is swallowed there.
    assert_operator implied + audited, :>, 10_000, "no free was swallowed: nothing was tested" if RUBY_VERSION < "3.4"
  end
end
