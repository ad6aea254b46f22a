# frozen_string_literal: true

# The oracle (tests/oracle) itself, on bytes assembled by hand, and mppanalyze held against it: on the fixtures and on random logs.
# ORACLE_SEEDS is the number of random logs of each generator (default 200), ORACLE_FIRST_SEED the first of their seeds (default 1).
require "minitest/autorun"
require_relative "../oracle/compare"

module OracleLogs
  B = MppOracle::LogBuilder

  # A payload read with a first serial of 10, as a list of [name of the handler's method, its arguments].
  def decode(bytes, first_serial: 10, first_time_ns: 0)
    told = []
    handler = Class.new(MppOracle::Records::Handler) do
      MppOracle::Records::Handler.instance_methods(false).each { |name| define_method(name) { |*arguments| told << [name, *arguments] } }
    end
    records = MppOracle::Records.new(MppOracle::Payload.new(:EVENTS, 1, first_serial, first_time_ns, bytes.b, 0))
    records.each(handler.new)
    [told, records]
  end

  def oracle(builder, damaged: false)
    bytes = builder.is_a?(String) ? builder : builder.bytes
    oracle = MppOracle::Oracle.new("x.mpp", bytes)
    assert_equal damaged, oracle.info["log"]["damaged"], "damaged: #{oracle.log.damage}"
    oracle
  end

  def hex(text) = [text.delete(" |")].pack("H*")

  # One site of 40 bytes (id 1), class Foo (id 1), at /a.rb:7 in foo.
  DEFINITIONS = [B.record(0x18, 1, "foo"), B.record(0x18, 2, "/a.rb"), B.record(0x18, 3, "Foo"), B.record(0x19, 1, 1, 2, 3, 0), B.record(0x1A, 1, 0, 1, 7),
                 B.record(0x1C, 1, 3, 0), B.record(0x1B, 1, 1, 1, 1, 0, 40)].join

  def log_of(*records, first_serial: 1)
    B.new.events(1, first_serial, 0, DEFINITIONS + records.join)
  end

  # Counters of the whole log at its end.
  def totals(builder, **options) = oracle(builder, **options).info["totals"].values_at("live_objects", "live_bytes", "unknown_objects", "unknown_bytes")
end

# Bytes to records.
class OracleRecordsTest < Minitest::Test
  include OracleLogs

  def test_checksums
    assert_equal 0xE3069283, MppOracle::Native.crc32c("123456789")
    assert_equal 0x2D06800538D394C2, MppOracle::Native.xxh3("")
    assert_equal "x" * 1000, MppOracle::Native.unzstd(MppOracle::Native.zstd("x" * 1000), 1000)
    assert_nil MppOracle::Native.unzstd(MppOracle::Native.zstd("x" * 1000), 999)
    assert_nil MppOracle::Native.unzstd("nonsense", 1000)
  end

  def test_the_example_of_the_page
    told, records = decode(hex("01 90 4E | 83 | C5 02 | 41 | 03 01 C8 01"))
    assert_equal [[:time_record, 10_000], [:alloc, 10_000, 10, 3], [:alloc, 10_000, 11, 133], [:free, 10_000, 9], [:free_sized, 10_000, 8, 200]], told
    assert_equal [12, nil], [records.next_serial, records.malformed_at]
  end

  def test_varints
    assert_equal [[:clock, 0, 2**64 - 1]], decode(hex("0D FFFFFFFFFFFFFFFFFF01"))[0]
    assert_equal [[:clock, 0, 1]], decode(hex("0D 81808080808080808000"))[0], "redundant groups are allowed"
    assert_equal 0, decode(hex("0B FFFFFFFFFFFFFFFFFF02 01"))[1].malformed_at, "beyond 64 bits"
    assert_equal 0, decode(hex("0D 8080808080808080808000"))[1].malformed_at, "more than 10 bytes"
  end

  ROW = [B.alloc(1), B.alloc(70), B.free(-2), B.free(100), B.record(2, 1, 5), B.record(3, [-1], 300), B.record(4, [2], 300), B.record(5, [0], 7), B.record(6, 1, 1, 2, 3, [-4], 5),
         B.record(7, 1, 1), B.record(8, 1, 2, 1, 500, 2, 600), B.record(9, "mark"), B.record(10, 1), B.record(11, 300, 1), B.record(12, 1, 1, 1), B.record(13, 1000), B.record(14, 1, 2, 3),
         B.record(15, 2), B.record(16, 1, 1, 500), B.record(17, 300), B.record(0x18, 1, "abc"), B.record(0x19, 1, 1, 1, 300, 0), B.record(0x1A, 2, 1, 1, 300),
         B.record(0x1B, 1, 1, 1, 1, 1, 300), B.record(0x1C, 1, 1, 0), B.record(0x1D, 1, 1), B.record(0x3F, "later")].freeze

  # A payload cut anywhere: the records before the cut count, and nothing else.
  def test_truncation
    whole = ROW.join
    all = decode(whole, first_serial: 1000)
    assert_nil all[1].malformed_at
    assert_equal ROW.size, all[0].size
    ends = ROW.reduce([0]) { |offsets, record| offsets + [offsets.last + record.bytesize] }
    whole.bytesize.times do |length|
      told, records = decode(whole.byteslice(0, length), first_serial: 1000)
      complete = ends.rindex { |offset| offset <= length }
      assert_equal all[0].first(complete), told
      ends.include?(length) ? assert_nil(records.malformed_at) : assert_equal(ends[complete], records.malformed_at)
    end
  end

  MALFORMED = { "a zero byte" => "\0", "an unknown first byte" => "\x12", "weight 0" => B.record(2, 1, 0), "weight 2^24" => B.record(2, 1, 1 << 24), "a size of 2^40" => B.record(4, [0], 1 << 40),
                "a site id of 2^28" => B.alloc(1 << 28), "a serial below 1" => B.free(-10), "a serial of 2^48" => B.free(1 << 48), "a time of 2^63" => B.record(1, 1 << 63),
                "a parent not below its stack" => B.record(0x1A, 3, 3, 1, 1), "too many pairs" => B.record(8, 1, 1025) + B.varint(1) * 2050,
                "a string above 1 MiB" => B.record(0x18, 1) + B.varint((1 << 20) + 1) + "x" * ((1 << 20) + 1) }.freeze

  def test_malformed_records_stop_the_block
    MALFORMED.each do |what, bytes|
      told, records = decode(B.alloc(1) + bytes.b + B.alloc(1))
      assert_equal 1, records.malformed_at, what
      assert_equal [[:alloc, 0, 10, 1]], told, what
    end
  end

  def test_limits_are_no_faults
    decode(B.record(2, 1, (1 << 24) - 1) + B.record(4, [0], (1 << 40) - 1) + B.alloc((1 << 28) - 1) + B.free((1 << 48) - 11) + B.record(1, (1 << 63) - 1))
      .then { |told, records| assert_equal [5, nil], [told.size, records.malformed_at] }
  end
end

# Bytes to the parts of a file.
class OracleLogTest < Minitest::Test
  include OracleLogs

  def two_blocks
    log_of(B.alloc(1)).events(2, 2, 10, B.alloc(1) + B.record(9, "second"))
  end

  def positions(builder, **options) = oracle(builder, **options).info["record_count"]

  def test_whole
    report = oracle(two_blocks).info
    assert_equal [10, 3, 2], report.values_at("record_count", "block_count", "event_count")
    assert_equal({ "uuid" => "30313233-3435-3637-3839-616263646566", "start" => "2025-12-01T14:03:05.250000000Z", "duration_ns" => 10, "clean_end" => false, "pid" => 42,
                   "command_line" => %w[ruby a.rb], "ruby_version" => "3.1.2", "sample_period" => 1, "damaged" => false, "path" => "x.mpp" }.sort, report["log"].sort)
  end

  def test_no_log
    assert_raises(MppOracle::Refused) { MppOracle::Oracle.new("x", "something else") }
    assert_raises(MppOracle::Refused) { MppOracle::Oracle.new("x", "") }
    later = two_blocks
    later.major = 2
    assert_raises(MppOracle::Refused) { MppOracle::Oracle.new("x", later.bytes) }
  end

  def test_damaged_header_is_repeated_by_the_meta_block
    bytes = two_blocks.bytes
    bytes.setbyte(60, bytes.getbyte(60) ^ 1)
    report = oracle(bytes, damaged: true).info
    assert_equal [42, 10], [report["log"]["pid"], report["record_count"]]
  end

  def test_a_damaged_block_costs_itself_only
    builder = two_blocks
    builder.blocks[1].setbyte(90, builder.blocks[1].getbyte(90) ^ 4) # its payload
    assert_equal 2, positions(builder, damaged: true)
    builder = two_blocks
    builder.blocks[1].setbyte(30, builder.blocks[1].getbyte(30) ^ 4) # its header
    assert_equal 2, positions(builder, damaged: true)
  end

  def test_resynchronisation_and_later_kinds
    builder = two_blocks
    builder.blocks.insert(1, "MPPB, but no block".b)
    assert_equal 10, positions(builder, damaged: true)
    builder = two_blocks
    builder.blocks.insert(1, B.block(77, 5, "from the future"))
    assert_equal 10, positions(builder)
  end

  def test_cut_block_and_missing_sequence
    bytes = two_blocks.bytes
    assert_equal 8, positions(bytes.byteslice(0, bytes.bytesize - 1), damaged: true)
    builder = two_blocks.events(4, 3, 10, B.alloc(1))
    assert_equal 11, positions(builder, damaged: true)
  end

  def test_blocks_out_of_order_are_damaged
    assert_equal 10, positions(two_blocks.events(2, 3, 10, B.alloc(1)), damaged: true)
    assert_equal 10, positions(two_blocks.events(3, 2, 10, B.alloc(1)), damaged: true)
  end

  def test_compressed
    assert_equal 8, positions(B.new.events(1, 1, 0, DEFINITIONS + B.alloc(1), compress: true, extra: "a longer header"))
    assert_equal 0, positions(B.new.events(1, 1, 0, DEFINITIONS, compress: true, raw_bytes: 7), damaged: true)
    assert_equal 0, positions(B.new.events(1, 1, 0, DEFINITIONS, compression: 2), damaged: true)
  end

  def test_footer
    builder = two_blocks
    builder.blocks << B.block(5, 0, "\0")
    index = builder.bytes.bytesize - builder.blocks.last.bytesize
    builder.tail = B.footer(index, 99)
    assert_equal [true, 99], oracle(builder).info["log"].values_at("clean_end", "duration_ns")
    builder.tail = B.footer(index + 1, 99)
    assert_equal [true, 99], oracle(builder, damaged: true).info["log"].values_at("clean_end", "duration_ns"), "no INDEX there"
    builder.tail = B.footer(index, 99).sub("\x63".b, "\x64".b)
    assert_equal [false, 10], oracle(builder, damaged: true).info["log"].values_at("clean_end", "duration_ns")
  end

  def with_halves(*halves)
    two_blocks.tap { |builder| builder.halves = halves.map { |half| half ? B.half(*half) : "\0".b * 4096 } }
  end

  def test_journal
    one = B.alloc(1)
    assert_equal 10, positions(with_halves(nil, nil))
    assert_equal 12, positions(with_halves([4, 4, 20, one], [3, 3, 20, one]))
    assert_equal 11, positions(with_halves([3, 3, 20, one], [2, 2, 10, one * 9])), "the stale half is ignored"
    assert_equal 10, positions(with_halves([3, 3, 20, ""], [1, 1, 0, one]))
    assert_equal 10, positions(with_halves([4, 4, 20, one], [1, 1, 0, one]), damaged: true), "a hole"
  end

  def test_damaged_journal
    builder = with_halves([3, 3, 20, B.alloc(1)], [4, 4, 30, B.alloc(1)])
    builder.halves[0].setbyte(64, 0x82) # a committed byte
    assert_equal 11, positions(builder, damaged: true)
    builder = with_halves([3, 3, 20, B.alloc(1)], nil)
    builder.halves[0].setbyte(17, 7) # its header
    assert_equal 10, positions(builder, damaged: true)
    builder = with_halves([3, 3, 20, B.alloc(1)], nil)
    builder.halves[0].setbyte(65, 0x82) # beyond what is committed
    assert_equal 11, positions(builder)
  end
end

# Records to meaning.
class OracleMeaningTest < Minitest::Test
  include OracleLogs

  def test_size_grows_and_shrinks
    records = [B.alloc(1), B.record(4, [0], 100), B.record(4, [0], 60), B.free(0)]
    assert_equal [1, 40, 0, 0], totals(log_of(*records.first(1)))
    assert_equal [1, 60, 0, 0], totals(log_of(*records.first(3)))
    assert_equal({ "allocated_bytes" => 100, "freed_bytes" => 100, "live_objects" => 0 },
                 oracle(log_of(*records)).info["totals"].slice("allocated_bytes", "freed_bytes", "live_objects"))
    assert_equal 100, oracle(log_of(*records)).info["peak"]["live_bytes"]
  end

  def test_weights
    assert_equal [5, 500, 0, 0], totals(log_of(B.record(2, 1, 5), B.record(4, [0], 100)))
  end

  def test_gap
    assert_equal [0, 0, 1, 40], totals(log_of(B.alloc(1), B.record(10, 1)))
    assert_equal [1, 40, 1, 50], totals(log_of(B.alloc(1), B.record(10, 1), B.alloc(1), B.record(4, [0], 50)))
    assert_equal [0, 0, 0, 0], totals(log_of(B.alloc(1), B.record(10, 1), B.record(3, [0], 70)))
  end

  def test_reclass_moves_between_groups
    rows = oracle(log_of(B.alloc(1), B.alloc(1), B.record(5, [0], 0))).top(by: "class")["rows"]
    assert_equal [["(internal OBJECT)", 1, 1], ["Foo", 1, 1]], rows.map { |row| row.values_at("name", "live_objects", "allocated_objects") }
  end

  def test_folded
    report = oracle(log_of(B.record(14, 1, 3, 300))).info["totals"]
    assert_equal [0, 3, 3, 300], report.values_at("live_objects", "allocated_objects", "freed_objects", "freed_bytes")
  end

  def test_live
    assert_equal [3, 112, 0, 0], totals(log_of(B.record(6, 3, 1, 6, 2, [-5], 1), B.record(6, 2, 1, 100, 1, [0], 0), first_serial: 5))
    report = oracle(log_of(B.alloc(1), B.record(6, 1, 1, 6, 1, [0], 0), B.record(6, 2, 1, 6, 1, [0], 0))).info
    assert_equal [2, 1], [report["orphans"], report["totals"]["live_objects"]], "live already, and not below the next serial"
  end

  def test_strays
    builder = log_of(B.free(8), B.record(4, [8], 1), B.record(5, [-4], 1), first_serial: 1)
    assert_equal [3, 0], oracle(builder).info.values_at("orphans", "inherited_frees")
    builder.fields << B.field(7, "\x06")
    assert_equal [2, 1], oracle(builder).info.values_at("orphans", "inherited_frees"), "serials 9, 9 and 5"
  end

  def test_age
    start = B.record(7, 1, 0)
    done = B.record(8, 1, 0)
    log = log_of(B.alloc(1), start, B.alloc(1), done, done, start, start, done, B.record(6, 1, 1, 9, 1, [0], 7), done, start, first_serial: 5)
    ages = lambda do |position|
      MppOracle::Oracle.new("x", log.bytes).then { |oracle| oracle.prepare([position])[position].things.map(&:age) }
    end
    assert_equal [0, 0], ages.call(10)
    assert_equal [1, 0], ages.call(11)
    assert_equal [1, 0], ages.call(13)
    assert_equal [2, 1], ages.call(15), "a GC without its end does not count"
    assert_equal [2, 1, 7], ages.call(18), "one GC counts once"
    assert_equal [2, 49], oracle(log).top(min_age: 2)["filtered"].values_at("live_objects", "live_bytes")
  end

  def test_retained_and_peak
    log = oracle(log_of(B.alloc(1), B.record(9, "a"), B.alloc(1), B.alloc(1), B.free(2), B.record(9, "b"), B.free(-2)))
    cells = log.diff(from: "mark:a", to: "mark:b")["filtered"]
    assert_equal [1, 2, 1, 1], %w[from to delta retained].map { |cell| cells[cell]["objects"] }
    assert_equal [0, -1], %w[retained delta].map { |cell| log.diff(from: "mark:b")["filtered"][cell]["objects"] }
    assert_equal [11, 120], log.info["peak"].values_at("position", "live_bytes")
    assert_raises(MppOracle::Refused) { log.diff(from: "end", to: "start") }
  end

  def test_time_never_runs_backwards
    log = oracle(log_of(B.record(1, 100)).events(2, 1, 50, B.alloc(1) + B.record(1, 20) + B.record(1, 31)))
    assert_equal [0, 7, 10, 11], [log.position("start"), log.position("0.000000099"), log.position("0.0000001"), log.position("0.000000101")]
    assert_equal 101, log.info["log"]["duration_ns"]
  end

  def test_first_definition_holds_but_the_last_name
    builder = log_of(B.alloc(1), B.record(0x1A, 1, 0, 1, 99), B.record(0x18, 1, "other"), B.record(0x18, 9, "new"), B.record(0x19, 1, 9, 2, 3, 0))
    row = oracle(builder).top(by: "stack")["rows"][0]
    assert_equal "/a.rb:7 in new", row["name"]
  end

  def test_definitions_blocks_replace_a_lost_one
    builder = log_of(B.alloc(1)).events(2, 2, 0, B.alloc(1))
    builder.blocks[1].setbyte(90, builder.blocks[1].getbyte(90) ^ 4)
    assert_equal ["(no stack)", 0], oracle(builder, damaged: true).top["rows"][0].values_at("name", "live_bytes")
    builder.blocks << B.block(2, 1, DEFINITIONS)
    assert_equal ["/a.rb:7", 40], oracle(builder, damaged: true).top["rows"][0].values_at("name", "live_bytes")
  end

  def test_sums_that_do_not_fit_are_refused
    oracle(log_of(B.record(14, 1, 2**64 - 1, 1)))
    assert_raises(MppOracle::Refused) { oracle(log_of(B.record(14, 1, 2**64 - 1, 1), B.alloc(1))) }
  end
end

# TIME.
class OracleMomentsTest < Minitest::Test
  include OracleLogs

  SECOND = 1_000_000_000

  # A record every 10 s for 100 s, from 2025-12-01T14:03:05.25Z; local time is an hour ahead.
  def log
    @log ||= oracle(B.new.events(1, 1, 0, (B.record(1, 10 * SECOND) + B.record(9, "m")) * 10))
  end

  def test_grammar
    { "start" => 0, "end" => 20, "0" => 0, "9.9" => 0, "10" => 2, "10.0s" => 2, "10500ms" => 2, "1m" => 12, "0m10s" => 2, "1m0.5s" => 12, "-10s" => 18, "-0s" => 20, "50%" => 10, "99.9%" => 18, "100%" => 20,
      "2025-12-01T14:03:15.25Z" => 2, "2025-12-01T15:03:15.3+01:00" => 2, "15:04" => 10, "15:03:15" => 0, "15:03:16" => 2, "@1764597795.25" => 2, "mark:m" => 2, "mark:m#3" => 6 }
      .each { |spec, position| assert_equal position, log.position(spec), spec }
  end

  def test_refused
    ["100.1", "-101s", "101%", "14:04", "15:03", "@1", "2024-12-01T14:03:15Z", "mark:n", "mark:m#11", "mark:m#0", "gc:1", "soon", "", "10x", "1:2", "25:00", "-"]
      .each { |spec| assert_raises(MppOracle::Refused, spec) { log.position(spec) } }
  end

  def test_a_clock_that_was_set
    unix = 1_764_597_785 * SECOND + SECOND / 4
    jumps = ->(by) { oracle(B.new.events(1, 1, 0, (B.record(1, 10 * SECOND) * 5) + B.record(0x0D, unix + (50 + by) * SECOND) + (B.record(1, 10 * SECOND) * 5))) }
    assert_raises(MppOracle::Refused) { jumps.call(-20).position("@#{unix / SECOND + 35}.25") }
    assert_equal 2, jumps.call(-20).position("@#{unix / SECOND + 25}.25")
    assert_equal 4, jumps.call(20).position("@#{unix / SECOND + 60}.25"), "left out by the jump"
    assert_equal 7, jumps.call(20).position("@#{unix / SECOND + 80}.25")
  end

  def test_several_days
    day = 86_400 * SECOND
    log = oracle(B.new.events(1, 1, 0, B.record(1, day) + B.record(1, day)))
    assert_raises(MppOracle::Refused) { log.position("17:00") }
    assert_equal 0, log.position("2025-12-01T16:00:00Z")
  end
end

# The comparison itself: it must find what differs.
class OracleDifferencesTest < Minitest::Test
  ORACLE = File.expand_path("../oracle/oracle.rb", __dir__)

  # What differs when this shell command stands for mppanalyze.
  def differences(shell)
    Dir.mktmpdir("mpp-oracle") do |directory|
      analyzer = File.join(directory, "analyzer")
      File.write(analyzer, "#!/bin/sh\n#{shell}\n", perm: 0o755)
      log = File.join(directory, "a.mpp")
      File.binwrite(log, MppOracle::RandomLog.new(5, 300).bytes)
      comparison = MppOracle::Comparison.new(analyzer, most: 1000)
      comparison.log(log, seed: 3, tops: 4, diffs: 4)
      return [comparison.differences, comparison.asked]
    end
  end

  def test_the_oracle_agrees_with_its_command
    assert_empty differences("exec ruby #{ORACLE} \"$@\"")[0]
  end

  def test_one_wrong_digit
    change = %q(sed 's/"allocated_bytes":[1-9]/&9/g')
    found, asked = differences("out=$(ruby #{ORACLE} \"$@\") || exit $?; printf '%s\\n' \"$out\" | #{change}")
    assert_includes 1...asked, found.size
    assert_match(/allocated_bytes: oracle (?<first>\d)(?<rest>\d*), mppanalyze \k<first>9\k<rest>$/, found.join("\n"))
  end

  def test_no_answer
    assert_equal(*differences("exit 0").then { |found, asked| [found.size, asked] })
  end
end

# mppanalyze, held against the oracle.
class OracleComparisonTest < Minitest::Test
  BUILD = ENV.fetch("MPP_BUILD") { File.expand_path("../../build", __dir__) }
  ANALYZER = File.join(BUILD, "mppanalyze")
  GENLOG = File.join(BUILD, "tests/tools/genlog")
  FIXTURES = Dir[File.expand_path("../../fixtures/**/*.mpp", __dir__)].sort
  SEEDS = Integer(ENV.fetch("ORACLE_SEEDS", "200"))
  FIRST_SEED = Integer(ENV.fetch("ORACLE_FIRST_SEED", "1"))
  PARTS = 8

  def compare
    comparison = MppOracle::Comparison.new(ANALYZER)
    yield comparison
    assert_operator comparison.asked + comparison.refused, :>, 0
    assert comparison.differences.empty?, "#{comparison.differences.size} differences:\n#{comparison.differences.first(5).join("\n")}"
  end

  def in_directory(&block) = Dir.mktmpdir("mpp-oracle", &block)

  # The log is kept when it differs, so that the printed command shows the difference.
  def ask(comparison, directory, name, bytes, seed)
    path = File.join(directory, "#{name}-#{seed}.mpp")
    File.binwrite(path, bytes) if bytes
    before = comparison.differences.size
    comparison.log(path, seed: seed, groups: 3, tops: 4, diffs: 4)
    if comparison.differences.size > before
      FileUtils.cp(path, Dir.tmpdir)
      comparison.differences.map! { |text| text.gsub(directory, Dir.tmpdir) }
    end
    File.delete(path)
  end

  def each_seed(part)
    (FIRST_SEED...FIRST_SEED + SEEDS).each { |seed| yield seed, Random.new(seed) if seed % PARTS == part }
  end

  FIXTURES.each { |path| define_method("test_fixture_#{File.basename(path, '.mpp')}") { compare { |comparison| comparison.log(path, tops: 40, diffs: 20) } } }

  PARTS.times do |part|
    # Every other one with what no sound writer writes; and each of them once more with flipped bits, a cut or a tail.
    define_method("test_random_logs_of_the_oracle_#{part}") do
      in_directory do |directory|
        compare do |comparison|
          each_seed(part) do |seed, random|
            bytes = MppOracle::RandomLog.new(seed, random.rand(100..1500), hostile: (seed / PARTS).odd?).bytes
            ask(comparison, directory, "random", bytes, seed)
            ask(comparison, directory, "spoiled", MppOracle::Spoiler.spoil(bytes, random), seed)
          end
        end
      end
    end

    define_method("test_random_logs_of_genlog_#{part}") do
      in_directory do |directory|
        compare do |comparison|
          each_seed(part) do |seed, random|
            path = File.join(directory, "genlog-#{seed}.mpp")
            flags = [[], %w[--killed], %w[--hostile], %w[--killed --hostile]][seed / PARTS % 4]
            system(GENLOG, "--seed", seed.to_s, "--events", random.rand(200..3000).to_s, "--out", path, *flags, exception: true)
            bytes = File.binread(path)
            ask(comparison, directory, "genlog", nil, seed)
            ask(comparison, directory, "spoiled-genlog", MppOracle::Spoiler.spoil(bytes, random), seed)
          end
        end
      end
    end
  end
end
