# frozen_string_literal: true

# What the recorder itself needs: as little as it says it does, and no more for a program that makes and forgets the same things for ever.
require "minitest/autorun"
require_relative "support/recorder_runs"

class RecorderMemoryTest < Minitest::Test
  include RecorderRuns

  # The aim: 24 bytes for a tracked object, 64 for a stack node, and 8 MiB.
  BYTES_A_TRACKED_OBJECT = 24
  BYTES_A_STACK_NODE = 64
  FIXED_BYTES = 8 << 20

  MEASURE = <<~RUBY
    require "json"
    require "objspace"
    MppRecorder.start(path: LOG, **(ARGV[0] == "sampled" ? { sample_rate: 0.01 } : {})) unless ARGV[0] == "unrecorded"
    def anonymous_bytes = File.read("/proc/self/smaps_rollup")[/^Anonymous:\\s+(\\d+)/, 1].to_i * 1024
    def tell(**more) = puts(JSON.generate({ stats: MppRecorder.stats, anonymous: anonymous_bytes }.merge(more)))
  RUBY

  # What the program tells, one Hash a line.
  def told(code, how = "recorded")
    program!(MEASURE + code, how).out.lines.map { |line| JSON.parse(line) }
  end

  def assert_small(stats, tracked: stats["tracked_objects"])
    allowed = (BYTES_A_TRACKED_OBJECT * tracked) + (BYTES_A_STACK_NODE * stats["stacks"]) + FIXED_BYTES
    assert_operator stats["memory_bytes"], :<=, allowed, "#{tracked} objects, #{stats["stacks"]} stack nodes"
  end

  # The program with and without: what it holds more is what the recorder says it does. The kernel gives memory in pages and the allocators keep some,
  # both processes theirs; the journal is no anonymous memory, and the writer's part is estimated.
  def assert_honest(code)
    with, without = %w[recorded unrecorded].map { |how| told(code, how).last }
    assert_small(with["stats"])
    assert_in_delta with["stats"]["memory_bytes"], with["anonymous"] - without["anonymous"], (0.25 * with["stats"]["memory_bytes"]) + (3 << 20)
    with["stats"]
  end

  def test_a_million_objects
    stats = assert_honest("$kept = Array.new(1_000_000) { Object.new }; tell")
    assert_operator stats["tracked_objects"], :>=, 1_000_000
  end

  def test_many_methods
    stats = assert_honest(<<~RUBY)
      $kept = []
      maker = Object.new
      20_000.times { |n| maker.instance_eval("def made_\#{n} = $kept << Object.new", "file\#{n % 100}.rb", n % 50 + 1); maker.send("made_\#{n}") }
      tell
    RUBY
    assert_operator stats["stacks"], :>=, 40_000
  end

  def test_many_lines
    stats = assert_honest(<<~RUBY)
      $kept = []
      50.times { |file| eval((["$kept << Object.new << String.new"] * 1000).join("\\n"), nil, "lines\#{file}.rb", 1) }
      tell
    RUBY
    assert_operator stats["stacks"], :>=, 50_000
  end

  def test_a_million_objects_sampled
    stats = told("$kept = Array.new(1_000_000) { Object.new }; tell", "sampled").last["stats"]
    assert_small(stats)
    # (the filter of a page costs little more than a bit a slot)
    assert_operator stats["memory_bytes"], :<, 4 << 20
  end

  # ObjectSpace.memsize_of_all has it, under the class of the object that stands for the recorder.
  def test_ruby_counts_it
    during, after = told(<<~RUBY)
      $kept = Array.new(200_000) { Object.new }
      GC.start
      GC.disable
      tell(counted: ObjectSpace.memsize_of_all(Object))
      MppRecorder.stop
      tell(counted: ObjectSpace.memsize_of_all(Object))
    RUBY
    assert_operator during["stats"]["memory_bytes"], :>, 4 << 20
    assert_in_delta during["stats"]["memory_bytes"], during["counted"] - after["counted"], 2 << 20
  end

  # What the log says at its end is that as well.
  def test_the_log_tells_it
    # (a sample a second)
    stats = told("$kept = Array.new(200_000) { Object.new }; 25.times { sleep 0.1; Object.new }; tell; MppRecorder.stop").last["stats"]
    assert_in_delta stats["memory_bytes"], analyze("info")["proc"]["recorder_memory_bytes"], 1 << 20
  end

  # Rounds that all make the same and forget it: what is needed after some of them is enough for all. Recording a leak of classes does not cause one
  # either: there are as many as without the recorder.
  def assert_flat(round, rounds: 20, warm: 5)
    code = <<~RUBY
      rounds = Array.new(#{rounds}) do
        #{round}
        3.times { GC.start }
        # deaths that are found at the end of a sweep, names that were still to be asked
        [MppRecorder.stats, ObjectSpace.count_objects, ObjectSpace.count_imemo_objects]
      end
      tell(rounds: rounds.map(&:first), classes: rounds.last[1].values_at(:T_CLASS, :T_ICLASS, :T_MODULE), internal: rounds.last[2].values_at(:imemo_iseq, :imemo_ment))
    RUBY
    with, without = %w[recorded unrecorded].map { |how| told(code, how).last }
    memory = with["rounds"].map { |stats| stats["memory_bytes"] }
    assert_operator memory.last - memory[warm], :<=, 65_536, memory.inspect
    stacks = with["rounds"].map { |stats| stats["stacks"] }
    assert_operator stacks.last - stacks[warm], :<=, 100, stacks.inspect
    sites = with["rounds"].map { |stats| stats["sites"] }
    assert_operator sites.last - sites[warm], :<=, 200, sites.inspect
    # The recorder has a few of its own; the collector is conservative.
    (with["classes"] + with["internal"]).zip(without["classes"] + without["internal"]).each { |a, b| assert_in_delta b, a, 150 }
  end

  def test_classes_made_and_forgotten
    assert_flat(<<~RUBY)
      1000.times do
        made = Class.new
        made.class_eval("def m(x) = x ? [m(nil)] : Object.new", "made.rb", 1)
        2.times { made.new.m(1) }
      end
    RUBY
    # It is told as before what they are.
    assert_includes live_or_dead("class"), "(anonymous Object)"
    assert_includes live_or_dead("method"), "#<Class>#m"
  end

  def test_methods_made_and_forgotten
    assert_flat(<<~RUBY)
      500.times do |n|
        maker = Object.new
        maker.instance_eval("def made_\#{n} = [Object.new]", "made.rb", n)
        maker.send("made_\#{n}")
      end
    RUBY
    rows = live_or_dead("line")
    500.times { |n| assert_includes rows, n.zero? ? "made.rb" : "made.rb:#{n}" }
  end

  def test_modules_that_extend_objects
    assert_flat(<<~RUBY)
      Extension ||= Module.new { def extended = [Object.new, more]; def more = "x" * 100 }
      1000.times { Object.new.extend(Extension).extended }
    RUBY
  end

  def test_blocks_and_templates
    assert_flat(<<~RUBY)
      require "erb"
      200.times { ERB.new("<% 3.times do |i| %><%= [i, i.to_s] %><% end %>").result }
    RUBY
  end

  def test_objects_made_and_forgotten
    assert_flat("$kept = Array.new(100_000) { |n| n.even? ? Object.new : n.to_s }; $kept = nil")
  end

  # More threads than have ids of their own: those that come later are told of under one name.
  def test_threads_made_and_forgotten
    assert_flat("200.times { Thread.new { [Object.new] }.join }", warm: 8)
    rows = analyze("top", "--by", "thread", "--limit", "0", "--sort", "allocated_objects")["rows"].to_h { |row| [row["name"], row["allocated_objects"]] }
    assert_operator rows.fetch("(other threads)"), :>=, 2 * (4000 - 1024)
    assert_includes rows, "main"
    assert_equal 1023, rows.keys.grep(/\Athread \d+\z/).size
  end

  # A class that gets a name keeps it to itself, whatever was there before.
  def test_names_are_not_shared
    program!(<<~RUBY)
      MppRecorder.start(path: LOG)
      100.times { Class.new.new }
      3.times { GC.start }
      Later = Class.new
      $kept = Array.new(50) { Later.new }
      $nameless = Array.new(20) { Class.new.new }
      100.times { Class.new.new }
      3.times { GC.start }
      $other = Class.new
      $more = Array.new(30) { $other.new }
      Named = $other
    RUBY
    assert_equal [[50], [20], [30]], live.values_at("Later", "(anonymous Object)", "Named").map { |objects, _| [objects] }
  end

  # Names of all that was ever recorded.
  def live_or_dead(by) = analyze("top", "--by", by, "--limit", "0")["rows"].map { |row| row["name"] }
end
