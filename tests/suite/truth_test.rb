# frozen_string_literal: true

# A log tells of a heap what Ruby itself tells, to the object and to the byte.
require "minitest/autorun"
require_relative "support/recorder_runs"

class TruthTest < Minitest::Test
  include RecorderRuns

  # Ruby leaves objects of its own out of ObjectSpace.each_object, and has classes counted with tables that live on elsewhere.
  BY_COUNT = %w[Class Module].freeze

  def record_truth(*modes, ruby: [])
    run = run_command(RbConfig.ruby, *ruby, File.join(PROGRAMS, "truth.rb"), path("app.mpp"), path("truth.json"), *modes)
    assert_equal [true, "", ""], [run.status.success?, run.out, run.err]
    @truth = JSON.parse(File.read(path("truth.json")))
    # From 3.4 on Ruby counts an object that compaction moves as one more free and one more allocation.
    @moves_count = RUBY_VERSION >= "3.4" && modes.join.include?("compact")
  end

  def assert_truth
    report = analyze("top", "--at", "mark:truth", "--by", "class", "--recorder", "--limit", "0")
    assert_equal [false, true], report["log"].values_at("damaged", "clean_end")
    rows = report["rows"].to_h { |row| [row["name"], row.values_at("live_objects", "live_bytes")] }.reject { |_, n| n == [0, 0] }
    singletons = rows.delete("(singleton class)")[0]
    rows.reject! { |name,| name.start_with?("(internal ") }
    expected = @truth["rows"]
    BY_COUNT.each { |name| [rows, expected].each { |side| side[name] = side[name]&.first } }
    differing = (rows.keys | expected.keys).reject { |name| rows[name] == expected[name] }
    assert_empty(differing.map { |name| "#{name}: the log says #{rows[name].inspect}, Ruby #{expected[name].inspect}" })
    assert_operator expected.size, :>, 35, "classes"
    # A class's own singleton class is hidden from each_object (gc.c internal_object_p), as long as it has none itself.
    assert_equal @truth["singletons"] + expected["Class"], singletons, "singleton classes"
    assert_counts
  end

  def assert_counts
    from, to = %w[begins ends].map { |word| analyze("top", "--at", "mark:work #{word}", "--limit", "1")["totals"] }
    stats = @truth["stats"]
    moves, *more = @truth["ruby_says"].zip(@truth["hooks_say"]).map { |ruby, hooks| ruby - hooks }
    assert_equal [moves], more, "frees that Ruby counts, and no hook"
    @moves_count ? assert_operator(moves, :>, 0) : assert_equal(0, moves, "allocations that Ruby counts, and no hook")
    assert_includes 0..moves, @truth["allocated"] - (to["allocated_objects"] - from["allocated_objects"]), "allocations between the marks"
    assert_equal [0, 0, 0, 0], stats.values_at("dropped_allocs", "implied_frees", "audited_frees", "pending_frees")
    assert_operator stats["recorded_frees"], :<=, stats["freeobj_calls"]
    assert_operator stats["recorded_frees"], :>, 10_000
    totals = analyze("top", "--at", "end")["totals"]
    assert_operator totals["freed_objects"], :>=, stats["recorded_frees"]
  end

  def test_truth
    record_truth
    assert_truth
    oracle = sound
    assert_agreement "--at", "mark:truth", "--by", "class", "--limit", "0", oracle
    assert_agreement "--at", "mark:work ends", "--by", "line", "--limit", "0", oracle
    assert_agreement "--at", "peak", "--by", "stack", "--limit", "50", oracle
  end

  def test_compacted
    record_truth "compact"
    assert_truth
  end

  def test_auto_compacted
    record_truth "auto_compact"
    assert_truth
  end

  def test_threads
    record_truth "threads"
    assert_truth
    assert_operator live(at: "mark:truth", by: "thread").size, :>=, 5
  end

  def test_threads_compacted
    record_truth "threads", "compact", "auto_compact"
    assert_truth
  end

  def test_compiled
    skip "this ruby has no YJIT" unless system(RbConfig.ruby, "--yjit", "-e", "exit RubyVM::YJIT.enabled? ? 0 : 1", err: File::NULL)
    record_truth ruby: ["--yjit", "--yjit-call-threshold=2"]
    assert_truth
  end

  # With a baseline it is the whole heap that Ruby and the log agree on. (Object's bytes hold those of the recorder's own object, whose memory grows.)
  def assert_baseline(*modes)
    run = run_command(RbConfig.ruby, File.join(PROGRAMS, "baseline.rb"), path("app.mpp"), path("truth.json"), *modes)
    assert_equal [true, "", ""], [run.status.success?, run.out, run.err]
    soundly_analyzed
    expected = JSON.parse(File.read(path("truth.json")))
    rows = live(at: "mark:truth").reject { |name,| name.start_with?("(internal ") || name == "(singleton class)" }
    [*BY_COUNT, "Object"].each { |name| [rows, expected].each { |side| side[name] = side[name]&.first } }
    differing = (rows.keys | expected.keys).reject { |name| rows[name] == expected[name] }
    assert_empty(differing.map { |name| "#{name}: the log says #{rows[name].inspect}, Ruby #{expected[name].inspect}" })
    assert_equal [5000, 5000], %w[Early Late].map { |name| rows[name][0] }
    # The recorder's own object, with the recorder's memory, is the recorder's.
    own = analyze("top", "--by", "method", "--recorder", "--limit", "0")["rows"].find { |row| row["name"] == "[mpp_recorder]" }
    assert_operator own["live_bytes"], :>, 1 << 20
    before = analyze("top", "--by", "method", "--class", "^Object$", "--limit", "0")["rows"].find { |row| row["name"] == "(before recording)" }
    assert_operator before["live_bytes"], :<, 1 << 20
  end

  def test_baseline = assert_baseline
  def test_baseline_compacted = assert_baseline("compact")

  # Types of which dump_all tells sizes that the recorder measures.
  MEASURED = %w[OBJECT FLOAT STRING REGEXP ARRAY HASH STRUCT BIGNUM DATA MATCH RATIONAL].freeze

  def retained(from, to)
    rows = analyze("diff", "--from", "mark:#{from}", "--to", "mark:#{to}", "--by", "type", "--recorder", "--limit", "0")["rows"]
    rows.to_h { |row| [row["name"], row["retained"].values_at("objects", "bytes")] }.reject { |_, n| n == [0, 0] }
  end

  def test_dump_of_the_heap
    run = run_command(RbConfig.ruby, File.join(PROGRAMS, "dump.rb"), path("app.mpp"), path("from"), path("to"))
    assert_equal [true, "", ""], [run.status.success?, run.out, run.err]
    from, to = %w[from to].map { |name| File.foreach(path(name)).to_h { |line| JSON.parse(line).then { |o| [o["address"], o] } } }
    born = to.reject { |address,| address.nil? || from.key?(address) }.values
    expected = born.group_by { |o| o["type"] }.to_h { |type, list| [type, [list.size, list.sum { |o| o["memsize"] }]] }
    # dump_all makes a string before it looks, which the log has after the mark.
    actual = retained("from", "to").merge(retained("to", "after")) { |_, work, dump| work.zip(dump).map(&:sum) }
    MEASURED.each { |type| assert_equal([type, expected[type]], [type, actual[type]]) }
    assert_equal expected.transform_values(&:first), actual.transform_values(&:first)
    assert_operator expected["STRING"][0], :>, 800
  end
end
