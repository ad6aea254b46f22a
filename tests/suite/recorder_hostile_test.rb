# frozen_string_literal: true

# Programs that do what recorders trip over: odd names, deep recursion, exceptions and signals at any moment, hundreds of threads, the collector
# used in every way. The program behaves as without, and its log is whole.
require "minitest/autorun"
require_relative "support/recorder_runs"

# Names.
class RecorderNamesTest < Minitest::Test
  include RecorderRuns

  def functions(oracle) = oracle.top(by: "stack", limit: 0, recorder: true)["rows"].flat_map { |row| row["frames"].map { |frame| frame["function"] } }.uniq

  def test_odd_classes
    program!(<<~RUBY)
      class Tricked; def self.name = :a_symbol; def self.to_s = raise; def self.inspect = exit!; end
      class Liar; def class = Integer; def self.class = Integer; end
      class Bare < BasicObject; end
      module Outer; class Inner; end; end
      Late = nil
      MppRecorder.start(path: LOG)
      $kept = Array.new(100) { Tricked.new } + Array.new(101) { Liar.new } + Array.new(102) { Bare.new } + Array.new(103) { Outer::Inner.new }
      anonymous = Class.new
      $kept.concat(Array.new(104) { anonymous.new })
      derived = Class.new(Outer::Inner)
      $kept.concat(Array.new(105) { derived.new })
      named_later = Class.new
      $kept.concat(Array.new(106) { named_later.new })
      GC.start
      Object.const_set(:NamedLater, named_later)
      $kept.concat(Array.new(107) { Class.new.new })
      $kept.concat(Array.new(108) { Outer::Inner.new.tap { |o| def o.single = 1 } })
      $kept.concat(Array.new(109) { Module.new })
      Object.send(:remove_const, :Late)
      Object.class_eval("class \\u00C4\\u00D6\\u00DC; end")
      umlauts = Object.const_get("\\u00C4\\u00D6\\u00DC")
      $kept.concat(Array.new(110) { umlauts.new })
    RUBY
    oracle = sound
    by_class = live
    expected = { "Tricked" => 100, "Liar" => 101, "Bare" => 102, "Outer::Inner" => 103 + 108, "(anonymous Outer::Inner)" => 105, "NamedLater" => 106, "Module" => 109,
                 "\u00C4\u00D6\u00DC" => 110 }
    expected.each { |name, count| assert_equal [name, count], [name, by_class[name]&.first] }
    # The anonymous ones are one row.
    assert_equal 104 + 107, by_class["(anonymous Object)"][0]
    assert_agreement "--by", "class", "--limit", "0", oracle
  end

  def test_odd_methods_and_paths
    program!(<<~RUBY)
      Made = Class.new
      MppRecorder.start(path: LOG)
      $kept = []
      maker = Object.new
      names = ["plain", "with space", "\\u00E4", "bad \\xFF\\xFE".b, "new\\nline", "null\\0byte", "", "[]=", "x" * 65_536, "y" * 200_000]
      names.each { |name| maker.define_singleton_method(name.to_sym) { |*| $kept << Made.new } rescue $stdout.puts(name.size) }
      names.each { |name| maker.send(name.to_sym) if maker.respond_to?(name.to_sym) }
      eval("$kept << Made.new", nil, "odd \\xFF path.rb".b, 7)
      eval("$kept << Made.new", nil, "", 1)
      eval("$kept << Made.new", nil, "p" * 5000, -3)
      eval("def far_down = $kept << Made.new", nil, "far.rb", 2_000_000_000)
      far_down
      eval("def self_defined = $kept << Made.new")
      self_defined
      ["def bad_\\xFF\\xFE = $kept << Made.new".b, "def l\#{"o" * 65_536}ng = $kept << Made.new", "def m\#{"o" * 300_000}ng = $kept << Made.new"].each { |code| send(eval(code, nil, "named.rb")) }
    RUBY
    oracle = sound
    all = functions(oracle)
    # Blocks of methods are what define_method makes: their label is that of the block.
    assert(all.any? { |name| name.start_with?("block") }, all.inspect)
    assert(all.include?("Object#far_down"), all.inspect)
    rows = oracle.top(by: "line", limit: 0)["rows"].map { |row| row["name"] }
    assert(rows.include?("odd \uFFFD path.rb:7"), rows.inspect)
    assert(rows.include?("far.rb:2000000000"), rows.inspect)
    assert(all.include?("Object#bad_\uFFFD\uFFFD"), all.inspect)
    # A record holds 64 KiB of a name.
    assert_equal [65_536, 65_536], all.select { |name| name.match?(/\AObject#[lm]oo/) }.map(&:bytesize)
    assert_equal 18, live["Made"][0]
    assert_agreement "--by", "line", "--limit", "0", oracle
    assert_agreement "--by", "stack", "--limit", "0", oracle
  end

  # Methods that die and come back at the same VALUE, with other names, in other files.
  def test_short_lived_methods
    program!(<<~RUBY)
      Made = Class.new
      MppRecorder.start(path: LOG)
      $kept = []
      2000.times do |n|
        maker = Object.new
        maker.instance_eval("def made_\#{n} = $kept << Made.new", "file\#{n % 7}.rb", n % 5 + 1)
        maker.send("made_\#{n}")
        GC.start(full_mark: n % 400 == 0) if n % 100 == 0
        GC.compact if n % 500 == 0
      end
    RUBY
    rows = analyze("top", "--by", "stack", "--class", "^Made$", "--limit", "0")["rows"]
    seen = rows.map { |row| row["frames"][0]["function"] == "new" || row["frames"][0]["function"].end_with?("#new") ? row["frames"][1] : row["frames"][0] }
    2000.times.each_with_object(seen.group_by { |frame| frame["function"][/made_\d+/] }) do |n, by_name|
      frames = by_name["made_#{n}"] or flunk "made_#{n} is in no backtrace: #{by_name.keys.first(5)}"
      assert_equal [["file#{n % 7}.rb", n % 5 + 1]], frames.map { |frame| frame.values_at("path", "line") }
    end
    soundly_analyzed
  end

  # Methods that move when the heap is compacted, and others that are made where they were.
  def test_methods_that_moved
    program!(<<~RUBY)
      Made = Class.new
      $kept = []
      filler = Array.new(60_000) { Object.new }
      makers = Array.new(4000) { Object.new }
      MppRecorder.start(path: LOG)
      make = lambda do |name, numbers, file|
        numbers.each { |n| makers[n].instance_eval("def \#{name}_\#{n} = $kept << Made.new", file, 1) }
        numbers.each { |n| makers[n].send("\#{name}_\#{n}") }
      end
      make.call("early", 0...1000, "early.rb")
      filler.clear
      GC.start
      moved = GC.respond_to?(:compact) ? GC.compact : nil
      make.call("late", 1000...4000, "late.rb")
      makers.first(1000).each_with_index { |maker, n| maker.send("early_\#{n}") }
    RUBY
    rows = analyze("top", "--by", "stack", "--class", "^Made$", "--limit", "0")["rows"]
    counts = Hash.new(0)
    rows.each do |row|
      frame = row["frames"].find { |candidate| candidate["path"].match?(/\A(early|late)\.rb\z/) } or flunk row["name"]
      counts[[frame["function"][/(early|late)_\d+/], frame["path"]]] += row["live_objects"]
    end
    expected = (0...1000).to_h { |n| [["early_#{n}", "early.rb"], 2] }.merge((1000...4000).to_h { |n| [["late_#{n}", "late.rb"], 1] })
    assert_equal expected.size, counts.size
    assert_equal expected, counts
    soundly_analyzed
  end

  def test_threads_and_their_names
    program!(<<~RUBY)
      Made = Class.new
      MppRecorder.start(path: LOG)
      $kept = []
      threads = [["first", 100], ["\\u00E4 second", 200], [nil, 300]].map do |name, count|
        Thread.new { Thread.current.name = name if name; $kept.concat(Array.new(count) { Made.new }) }
      end
      threads.each(&:join)
      $kept.concat(Array.new(400) { Made.new })
      MppRecorder.stop
    RUBY
    sound
    rows = analyze("top", "--by", "thread", "--class", "^Made$", "--limit", "0")["rows"].to_h { |row| [row["name"], row["live_objects"]] }
    assert_equal [100, 200, 400], rows.values_at("first", "\u00E4 second", "main")
    assert_equal 300, rows.reject { |name,| ["first", "\u00E4 second", "main"].include?(name) }.values.sum
  end
end

# Depth.
class RecorderDepthTest < Minitest::Test
  include RecorderRuns

  def test_recursion_to_the_end_of_the_stack
    run = program!(<<~RUBY)
      MppRecorder.start(path: LOG, max_depth: 50)
      def down(n) = [n, down(n + 1)]
      depths = 3.times.map { begin; down(0); rescue SystemStackError => error; error.message; end }
      p depths
      Made = Class.new
      def at(n) = n == 0 ? ($kept = Made.new) : at(n - 1)
      at(1000)
      MppRecorder.mark("end")
    RUBY
    assert_equal %(["stack level too deep", "stack level too deep", "stack level too deep"]\n), run.out
    oracle = sound
    row = oracle.top(by: "stack", limit: 0, class: "^Made$")["rows"][0]
    assert_equal 51, row["frames"].size
    assert_equal "[truncated]", row["frames"].last["function"]
    assert(oracle.top(by: "stack", limit: 0)["rows"].all? { |candidate| candidate["frames"].size <= 51 })
    assert_agreement "--by", "stack", "--limit", "0", oracle
  end

  # At the limit nothing is missing, one frame beyond it something is.
  def test_the_limit_itself
    program!(<<~RUBY)
      Made = Class.new { def initialize = @text = "x" * 100 }
      MppRecorder.start(path: LOG, max_depth: 12)
      def at(n) = n == 0 ? ($kept << [n]) : at(n - 1)
      $kept = []
      20.times { |n| at(n) }
    RUBY
    rows = sound.top(by: "stack", limit: 0)["rows"].select { |row| row["frames"].any? { |frame| frame["function"] == "Object#at" } }
    whole, cut = rows.partition { |row| row["frames"].none? { |frame| frame["function"] == "[truncated]" } }
    assert_operator whole.map { |row| row["frames"].size }.max, :==, 12
    assert_equal [13], cut.map { |row| row["frames"].size }.uniq
    refute_empty whole
  end

  def test_depth_of_one
    program!("MppRecorder.start(path: LOG, max_depth: 1); def a = b; def b = $kept = Array.new(50) { Object.new }; a")
    oracle = sound
    assert(oracle.top(by: "stack", limit: 0)["rows"].all? { |row| row["frames"].size <= 2 })
    assert_operator live["Object"][0], :>=, 50
  end

  def test_greatest_depth
    program!("MppRecorder.start(path: LOG, max_depth: 4096); def at(n) = n == 0 ? ($kept = Array.new(50) { Object.new }) : at(n - 1); at(6000)")
    rows = sound.top(by: "stack", limit: 0)["rows"]
    assert_equal 4097, rows.map { |row| row["frames"].size }.max
  end
end

# Exceptions, signals, threads: whatever the recorder does at safe points is not seen.
class RecorderInterruptionsTest < Minitest::Test
  include RecorderRuns

  # $! and what is being raised are the program's own.
  def test_exceptions_in_flight
    run = program!(<<~RUBY)
      MppRecorder.start(path: LOG)
      wrong = 0
      3000.times do |n|
        begin
          raise ArgumentError, "e\#{n}"
        rescue => error
          eval("def m\#{n} = Object.new", nil, "f\#{n}.rb")   # something new to be named
          send("m\#{n}")
          GC.start if n % 100 == 0
          wrong += 1 unless $!.equal?(error) && $!.message == "e\#{n}"
          begin
            Integer("x")
          rescue ArgumentError
            wrong += 1 if $!.equal?(error)
          end
          wrong += 1 unless $!.equal?(error)
        ensure
          wrong += 1 unless $!.nil?
        end
      end
      p wrong, $!
    RUBY
    assert_equal "0\nnil\n", run.out
    sound
  end

  # An exception that another thread raises into this one arrives, whatever the recorder does meanwhile.
  def test_exceptions_from_other_threads
    run = program!(<<~RUBY)
      Tap = Class.new(StandardError)
      MppRecorder.start(path: LOG)
      caught = 0
      ready = Queue.new
      worker = Thread.new do
        n = 0
        loop do
          begin
            ready << true
            loop do
              n += 1
              eval("def w\#{n} = Class.new.new", nil, "w\#{n}.rb")
              send("w\#{n}")
            end
          rescue Tap
            caught += 1
            break if caught == 40
          end
        end
      end
      40.times { ready.pop; Thread.pass; worker.raise(Tap) }
      p worker.join(60) ? caught : "lost: \#{caught}"
    RUBY
    assert_equal "40\n", run.out
    soundly_analyzed
  end

  def test_timeouts
    run = program!(<<~RUBY)
      require "timeout"
      MppRecorder.start(path: LOG)
      fired = 0
      n = 0
      15.times do
        Timeout.timeout(0.002) { loop { n += 1; eval("def t\#{n} = Object.new", nil, "t\#{n}.rb"); send("t\#{n}") } }
      rescue Timeout::Error
        fired += 1
      end
      p fired
    RUBY
    assert_equal "15\n", run.out
    soundly_analyzed
  end

  def test_a_storm_of_signals
    run = program(<<~RUBY) { |pid, stdout| stdout.gets.tap { 2000.times { |n| Process.kill(n.odd? ? :USR1 : :USR2, pid); sleep 0.0001 if n % 10 == 0 }; Process.kill(:TERM, pid) } }
      MppRecorder.start(path: LOG)
      got = 0
      trap(:USR1) { got += 1; Object.new }
      trap(:USR2) { got += 1; "x" * 1000 }
      trap(:TERM) { $stdout.puts(got > 0); exit 5 }
      $stdout.puts "ready"
      $stdout.flush
      n = 0
      loop { n += 1; eval("def s\#{n} = Object.new") if n < 2000; GC.start if n % 1000 == 0; "garbage \#{n}" }
    RUBY
    assert_equal [5, "ready\ntrue\n", ""], [run.status.exitstatus, run.out, run.err]
    soundly_analyzed
  end

  # The writer's thread takes no signals, and none of its system calls are interrupted for the program's.
  def test_signals_go_to_the_program
    run = program!(<<~RUBY)
      MppRecorder.start(path: LOG)
      r, w = IO.pipe
      trap(:USR1) { w.write("x") }
      100.times { Process.kill(:USR1, $$); r.read(1) }
      # The thread gives itself its name when it first runs.
      masks = {}
      until masks["mpp_writer"]
        Thread.pass
        masks = Dir["/proc/self/task/*"].to_h { |task| [File.read("\#{task}/comm").chomp, File.read("\#{task}/status")[/SigBlk:\\s*(\\h+)/, 1].to_i(16)] }
      end
      p masks["mpp_writer"][9] == 1 && masks["mpp_writer"][14] == 1
    RUBY
    assert_equal "true\n", run.out
  end

  def test_200_threads
    program!(<<~RUBY)
      Made = Class.new
      MppRecorder.start(path: LOG)
      queue = Queue.new
      threads = Array.new(200) do |n|
        Thread.new { kept = Array.new(20 + n % 3) { Made.new }; Thread.pass; "garbage" * 10; queue << kept; Thread.pass; kept.size }
      end
      threads.each(&:join)
      $kept = Array.new(200) { queue.pop }
      threads.clear
      GC.start
      MppRecorder.mark("end")
    RUBY
    oracle = sound
    assert_equal 200.times.sum { |n| 20 + n % 3 }, live(at: "mark:end")["Made"][0]
    rows = analyze("top", "--by", "thread", "--class", "^Made$", "--limit", "0")["rows"]
    assert_equal 200, rows.size
    assert_agreement "--by", "thread", "--limit", "0", oracle
  end

  def test_fibers
    program!(<<~RUBY)
      Made = Class.new
      MppRecorder.start(path: LOG)
      $kept = []
      fibers = Array.new(200) { |n| Fiber.new { 3.times { $kept << Made.new; Fiber.yield } } }
      3.times { fibers.each(&:resume) }
      lazy = Enumerator.new { |y| 100.times { |i| y << (Made.new) } }
      50.times { $kept << lazy.next }
      fibers = lazy = nil
      GC.start
    RUBY
    sound
    assert_operator live["Made"][0], :>=, 650
  end
end

# The collector, used in every way.
class RecorderCollectorTest < Minitest::Test
  include RecorderRuns

  # What Ruby itself counts at the end stands in the log.
  def assert_counted(code, classes, **options)
    run = program!(<<~RUBY, **options)
      #{classes.map { |name| "#{name} = Class.new" }.join("\n")}
      MppRecorder.start(path: LOG)
      #{code}
      GC.enable
      3.times { GC.start }
      GC.disable
      MppRecorder.mark("end", measure: true)
      p #{classes.map { |name| "ObjectSpace.each_object(#{name}).count" }.join(", ")}
    RUBY
    at_end = live(at: "mark:end")
    assert_equal run.out.lines.last(classes.size).map(&:to_i), classes.map { |name| at_end.fetch(name, [0])[0] }
    run
  end

  def test_finalizers
    assert_counted(<<~RUBY, %w[Held Dropped])
      $log = []
      finalizer = proc { |id| $log << id; Object.new; "text \#{id}" }
      $held = Array.new(300) { Held.new.tap { |o| ObjectSpace.define_finalizer(o, finalizer) } }
      3000.times { ObjectSpace.define_finalizer(Dropped.new, finalizer) }
      3.times { GC.start }
      raise "no finalizer ran" if $log.empty?
    RUBY
    sound
  end

  def test_weak_references
    assert_counted(<<~RUBY, %w[Key Value])
      require "weakref"
      map = ObjectSpace::WeakMap.new
      $keys = Array.new(500) { |n| Key.new.tap { |key| map[key] = Value.new } }
      refs = Array.new(500) { WeakRef.new(Value.new) }
      GC.start
      $values = $keys.map { |key| map[key] }.compact.first(100)
      $alive = refs.count(&:weakref_alive?)
    RUBY
    sound
  end

  def test_collector_off_and_on
    assert_counted(<<~RUBY, %w[Made])
      $kept = []
      5.times { |n| GC.disable; 20_000.times { |i| o = Made.new; $kept << o if i % 100 == 0 }; GC.enable; GC.start(full_mark: n.even?, immediate_sweep: n == 1) }
    RUBY
    soundly_analyzed
  end

  def test_walks_of_the_heap
    assert_counted(<<~RUBY, %w[Made])
      require "objspace"
      $kept = Array.new(2000) { Made.new }
      5.times { ObjectSpace.each_object(Module) { |m| m.instance_methods(false) }; ObjectSpace.count_objects; ObjectSpace.memsize_of_all; ObjectSpace.garbage_collect }
      ObjectSpace.reachable_objects_from($kept)
      ids = $kept.map(&:object_id)
      $kept.select!.with_index { |o, i| i.even? && ObjectSpace._id2ref(ids[i]).equal?(o) }
    RUBY
    sound
  end

  def test_compaction_at_all_times
    assert_counted(<<~RUBY, %w[Made Other])
      $kept = []
      GC.auto_compact = true
      30.times do |n|
        2000.times { |i| o = i.even? ? Made.new : Other.new; $kept << o if i % 17 == n % 17 }
        $kept.delete_if.with_index { |_, i| i % 5 == n % 5 }
        GC.compact if n % 3 == 0
        GC.verify_compaction_references(toward: :empty, (RUBY_VERSION < "3.2" ? :double_heap : :expand_heap) => true) if n == 10 && GC.respond_to?(:verify_compaction_references)
      end
      GC.auto_compact = false
    RUBY
    soundly_analyzed
  end

  # Everything of which types are made, with a collection at each allocation.
  def test_stress
    assert_counted(<<~RUBY, %w[Made])
      require "stringio"
      $kept = []
      GC.stress = true
      12.times do |n|
        $kept << Made.new << Class.new.new << Struct.new(:a, :b).new(n, "b") << StringIO.new("io") << proc { n } << (raise "x" rescue $!) << { n => [n] }
        $kept << "long \#{n} " * 20 << /a(.)/.match("ab\#{n}") << 2**(70 + n) << Object.new.tap { |o| def o.single = 1 } << Fiber.new { n } << method(:puts)
        $kept << [1, 2].product([n]) << Thread.new { n }.value << Enumerator.new { |y| y << n }.next << :"symbol \#{n}" << Rational(n, 3) << Comparable.dup
        eval("def stressed\#{n} = Made.new", nil, "stress\#{n}.rb")
        $kept << send("stressed\#{n}")
        File.open("/dev/null") { |f| $kept << f }
        $kept.shift(7)
      end
      GC.stress = false
    RUBY
    soundly_analyzed
  end

  # One in ten: weights add up to the truth within what chance allows, and of what died nothing is left.
  def test_sampled
    run = program!(<<~RUBY)
      Kept, Flood, Dead = Class.new, Class.new, Class.new
      GC.auto_compact = true
      MppRecorder.start(path: LOG, sample_rate: 0.1)
      dead = Array.new(20_000) { Dead.new }
      $kept = []
      100_000.times { |n| Flood.new; $kept << Kept.new if n.even? }
      dead.clear
      GC.compact
      3.times { GC.start }
      MppRecorder.mark("end", measure: true)
      p ObjectSpace.each_object(Kept).count, ObjectSpace.each_object(Flood).count, ObjectSpace.each_object(Dead).count, MppRecorder.stats[:recorded_allocs]
    RUBY
    kept, flood, dead, recorded = run.out.lines.map(&:to_i)
    oracle = sound
    at_end = live(at: "mark:end")
    assert_in_delta kept, at_end["Kept"][0], 5 * Math.sqrt(kept * 10)
    assert_operator at_end.fetch("Flood", [0])[0], :<=, flood * 10
    assert_operator at_end.fetch("Dead", [0])[0], :<=, dead * 10
    rows = analyze("top", "--by", "class", "--limit", "0")["rows"].to_h { |row| [row["name"], row["allocated_objects"]] }
    assert_in_delta 100_000, rows["Flood"], 5 * Math.sqrt(1e6)
    assert_in_delta 20_000, rows["Dead"], 5 * Math.sqrt(2e5)
    assert_in_delta 17_000, recorded, 5 * Math.sqrt(17_000)
    assert_agreement "--at", "mark:end", "--by", "class", "--limit", "0", oracle
  end

  def test_stop_and_start_amid_everything
    run = program!(<<~RUBY)
      stop = false
      threads = Array.new(3) { |t| Thread.new { n = 0; until stop; n += 1; eval("def z\#{t}_\#{n} = [Object.new]") if n % 50 == 0; "x" * n % 300; end } }
      12.times do |n|
        MppRecorder.start(path: LOG.sub("app", "app\#{n}"), sample_rate: n.even? ? 1.0 : 0.1)
        GC.start if n % 5 == 0
        GC.compact if n % 7 == 0
        sleep 0.003
        MppRecorder.mark("m", measure: n % 3 == 0)
        MppRecorder.stop
      end
      stop = true
      threads.each(&:join)
      puts "done"
    RUBY
    assert_equal "done\n", run.out
    assert_equal 12, logs.size
    logs.each { |log| soundly_analyzed(path(log)) }
  end

  def test_a_ractor_ends_the_recording
    run = program(<<~RUBY)
      Made = Class.new
      MppRecorder.start(path: LOG)
      $kept = Array.new(500) { Made.new }
      p Ractor.new(20) { |n| Array.new(n) { Object.new }.size }.take
      p MppRecorder.running?
      GC.start
    RUBY
    assert_equal 0, run.status.exitstatus, run.err
    skip "this Ruby can record with Ractors" if run.out.end_with?("true\n")
    assert_equal "20\nfalse\n", run.out
    assert_match(/mpp_recorder: recording ends here: a Ractor starts/, run.err)
    sound
    assert_equal 500, live["Made"][0]
  end
end
