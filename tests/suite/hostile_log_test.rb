# frozen_string_literal: true

# Logs that nobody's recorder has written: small files that claim, imply or unfold to much. Under a limit of memory and of processor time a report
# comes that is right, or one line says why not.
require_relative "analyze_helper"

class HostileLogTest < Minitest::Test
  include AnalyzeHelper

  B = MppOracle::LogBuilder
  MEMORY = 512 << 20 # bytes of address space
  SECONDS = 20 # of processor time; all of these take one or two

  def setup
    @dir = Dir.mktmpdir("mpp-hostile")
    @log = File.join(@dir, "hostile.mpp")
    @builder = MppOracle::LogBuilder.new
  end

  def teardown
    FileUtils.rm_rf(@dir)
  end

  def write = File.binwrite(@log, @builder.bytes)

  # Within the limits; the process may not be killed, whatever happens.
  def bounded(*args, memory: MEMORY)
    run = analyze(*args, @log, rlimit_as: memory, rlimit_cpu: SECONDS)
    assert run.status.exited?, "#{args.join(" ")}: #{run.status} #{run.err[0, 300]}"
    run
  end

  # The report of a sound log.
  def report(*args, memory: MEMORY)
    run = bounded(*args, "--format", "json", memory: memory)
    assert_equal [0, ""], [run.exit_code, run.err.lines.grep_v(/has no clean end/).join], args.join(" ")
    run.json
  end

  # Refused, with one line that matches.
  def refuse(expected, *args, memory: MEMORY)
    run = bounded(*args, memory: memory)
    assert_equal [1, ""], [run.exit_code, run.out[0, 300]], run.err
    err = run.err.lines.grep_v(/has no clean end/).join
    assert_match(/\Amppanalyze: [^\n]+\n\z/, err)
    assert_match expected, err
  end

  ALL = [%w[top], %w[diff --from 10%], %w[timeline --points 5], %w[info], %w[pprof]].freeze

  # 40 blocks of 64 MiB of allocations each, in a file of some hundred KiB
  def test_decompression_bomb
    payload = B.alloc(1) * (64 << 20)
    stored = MppOracle::Native.zstd(payload)
    assert_operator stored.bytesize, :<, 20_000
    @builder.events(1, 1, 0, B.record(0x1B, 1, 0, 0, 5, 0, 40))
    40.times do |i|
      @builder.blocks << B.block(1, i + 2, stored, first_serial: 1 + i * payload.bytesize, compression: 1, raw_bytes: payload.bytesize)
    end
    write
    assert_operator File.size(@log), :<, 1 << 20
    ALL.each { |args| refuse(/out of memory/, *args) }
  end

  # the same of zeroes, which are no records
  def test_decompression_bomb_of_nothing
    payload = "\0" * (64 << 20)
    stored = MppOracle::Native.zstd(payload)
    40.times { |i| @builder.blocks << B.block(1, i + 1, stored, first_serial: 1, compression: 1, raw_bytes: payload.bytesize) }
    write
    run = bounded("top", "--format", "json")
    assert_equal [0, 0], [run.exit_code, run.json["totals"]["allocated_objects"]]
    assert_match(/damaged in 40 places/, run.err)
  end

  # raw_bytes says less, or more, than what comes out
  def test_lengths_that_lie
    payload = B.alloc(1) * (8 << 20)
    [1, payload.bytesize - 1, payload.bytesize + 1, 64 << 20].each_with_index do |raw_bytes, i|
      @builder.blocks << B.block(1, i + 1, MppOracle::Native.zstd(payload), first_serial: 1, compression: 1, raw_bytes: raw_bytes)
    end
    write
    run = bounded("top", "--format", "json")
    assert_equal [0, 0], [run.exit_code, run.json["totals"]["allocated_objects"]]
    assert_match(/damaged in 4 places/, run.err)
  end

  def test_sums_beyond_64_bits_are_refused
    site = B.record(0x1B, 1, 0, 0, 5, 0, (1 << 40) - 1)
    heaviest = (1 << 24) - 1
    @builder.events(1, 1, 0, site + B.record(2, 1, heaviest))
    write
    assert_equal heaviest * ((1 << 40) - 1), Integer(report("top")["totals"]["live_bytes"])
    refuse(/63 bits/, "pprof")
    text = bounded("top")
    assert_equal 0, text.exit_code, text.err
    @builder.events(2, 2, 0, B.record(2, 1, heaviest))
    write
    ALL.each { |args| refuse(/sums beyond 64 bits/, *args) }
    # growth, what is folded, what was dropped
    [B.record(6, 1, 1, 1, 1, [0], 0), B.record(0x0E, 1, 1, (1 << 64) - 1) * 2, B.record(0x0E, 1, (1 << 64) - 1, 0) * 2,
     B.record(0x0B, (1 << 64) - 1, 1) * 2].each_with_index do |records, i|
      records = B.record(2, 1, heaviest) + B.record(4, [0], 1) + B.record(2, 1, heaviest) + B.record(4, [0], (1 << 40) - 1) if i.zero?
      @builder = MppOracle::LogBuilder.new.events(1, 1, 0, site + records)
      write
      refuse(/sums beyond 64 bits/, "top")
    end
  end

  def test_serials_from_the_future
    top = (1 << 48) - 1
    @builder.events(1, 1, 0, B.alloc(1) + B.free(top - 1) + B.record(4, [top - 1], 5) + B.record(6, top, 1, 40, 1, [0], 0) + B.record(5, [0], 9))
            .events(2, top, 0, B.alloc(1) + B.alloc(1) + B.alloc(1))
    write
    run = bounded("info", "--format", "json")
    assert_equal [0, 2, 4], [run.exit_code, run.json["totals"]["live_objects"], run.json["orphans"]]
    assert_match(/damaged/, run.err) # the third serial is none
  end

  # Each block begins far behind the one before: a chunk of objects for each, with one object in it
  def test_jumping_serials
    count = 20_000
    step = ((1 << 48) - 2) / count
    count.times { |i| @builder.events(i + 1, 1 + i * step, i, B.alloc(1)) }
    write
    assert_equal count, report("top")["totals"]["live_objects"]
    assert_equal count, report("diff", "--from", "start")["filtered"]["retained"]["objects"]
    assert_equal count / 2, report("top", "--at", "50%")["totals"]["live_objects"] if count.even?
  end

  def test_a_million_marks
    @builder.events(1, 1, 0, B.record(9, "m") * 1_000_000)
    write
    assert_equal 1_000_000, report("timeline", "--points", "2", memory: 1 << 30)["points"].sum { |p| p["marks"].size }
    assert_equal 1_000_000, report("top", "--at", "mark:m#1000000")["at"]["position"]
    refuse(/no mark "x"/, "top", "--at", "mark:x")
    refuse(/there are 1000000 of that name/, "top", "--at", "mark:m#1000001")
    run = bounded("info", memory: 1 << 30)
    assert_equal 0, run.exit_code, run.err
  end

  # Threads and classes without an end, one object each
  def test_a_million_classes_and_threads
    records = "".b
    1_000_000.times { |i| records << "\x1B".b << B.varint(i + 1) << "\0".b << B.varint(i + 1) << "\5".b << B.varint(i + 1) << "\x28".b << B.alloc(i + 1) }
    names = "".b
    1_000_000.times { |i| n = B.varint(i + 1); names << "\x18".b << n << B.varint(i.to_s.bytesize) << i.to_s << "\x1C".b << n << n << "\0".b << "\x1D".b << n << n }
    @builder.events(1, 1, 0, records, compress: true).events(2, 1_000_001, 0, names, compress: true)
    write
    top = report("top", "--by", "class", memory: 1 << 30)
    assert_equal [1_000_000, 30, 1_000_000], [top["row_count"], top["rows"].size, top["totals"]["live_objects"]]
    run = bounded("pprof", memory: 2 << 30) # a sample for each class and thread
    assert_equal 0, run.exit_code, run.err
  end

  # A backtrace of a million frames: no recursion, no square
  def test_a_million_frames
    depth = 1_000_000
    stacks = "".b
    depth.times { |i| stacks << "\x1A".b << B.varint(i + 1) << B.varint(i) << "\1\1".b }
    @builder.events(1, 1, 0, stacks + B.record(0x1B, 1, depth, 0, 5, 0, 40) + B.record(0x1B, 2, depth - 1, 0, 5, 0, 40) + B.alloc(1) * 2 + B.alloc(2),
                    compress: true)
    write
    %w[line method file].each { |by| assert_equal [3], report("top", "--by", by)["rows"].map { |r| r["live_objects"] } }
    # as JSON that is an object for each frame
    refuse(/not enough memory/, "top", "--by", "stack", "--format", "json")
    folded = bounded("top", "--format", "folded")
    assert_equal [0, 2], [folded.exit_code, folded.out.lines.size], folded.err
    run = bounded("pprof", memory: 1 << 30)
    assert_equal 0, run.exit_code, run.err
    run = bounded("top", "--by", "stack")
    assert_equal 0, run.exit_code, run.err
  end

  # Ids that lie as far from each other as they may
  def test_sparse_ids
    last = (1 << 28) - 1
    records = "".b
    2000.times do |i|
      id = last - i * 130_000
      n = B.varint(id)
      records << B.record(0x18, id, "s#{i}") << B.record(0x19, id, id, id, 1, 0) << "\x1A".b << n << "\0".b << n << "\1".b << B.record(0x1C, id, id, 0) <<
        "\x1B".b << n << n << n << "\5".b << n << "\x28".b << B.alloc(id)
    end
    @builder.events(1, 1, 0, records)
    write
    assert_equal 2000, report("top", "--by", "class", memory: 256 << 20)["row_count"]
    assert_equal 2000, report("info", memory: 256 << 20)["site_count"]
  end

  def test_a_journal_of_64_halves
    @builder.events(1, 1, 0, B.record(0x1B, 1, 0, 0, 5, 0, 40) + B.alloc(1))
    @builder.halves = Array.new(64) { |i| B.half(2 + (i * 37) % 64, 2 + (i * 37) % 64, 5, B.alloc(1)) }
    write
    assert_equal 65, report("top")["totals"]["live_objects"]
    # all of the same sequence: one is taken, the others are damage
    @builder.halves = Array.new(64) { B.half(2, 2, 5, B.alloc(1)) }
    write
    run = bounded("top", "--format", "json")
    assert_equal [0, 2], [run.exit_code, run.json["totals"]["live_objects"]]
    assert_match(/damaged in 63 places/, run.err)
  end

  def test_an_index_that_lies
    @builder.events(1, 1, 0, B.alloc(1) * 10)
    sound = @builder.bytes
    lies = [B.varint((1 << 64) - 1), B.varint(2) + B.varint(1 << 60) * 14, B.varint(3) + "\x80".b * 40, "".b, B.varint(0)]
    lies.each do |lie|
      @builder.blocks[2] = B.block(5, 0, lie)
      @builder.tail = B.footer(sound.bytesize, 5)
      write
      assert_equal 10, report("top")["totals"]["live_objects"]
      run = bounded("verify", "--format", "json")
      assert_equal 1, run.exit_code
      assert_includes run.json["damage"].map { |d| d["kind"] }, "index"
    end
    @builder.tail = B.footer((1 << 64) - 1, (1 << 63) - 1)
    write
    run = bounded("timeline", "--points", "3", "--format", "json")
    assert_equal [0, true, (1 << 63) - 1], [run.exit_code, run.json["log"]["damaged"], run.json["log"]["duration_ns"]]
  end

  def test_very_many_tiny_blocks
    100_000.times { |i| @builder.events(i + 1, i + 1, i, B.alloc(1)) }
    write
    assert_equal 100_000, report("top")["totals"]["live_objects"]
    [%w[timeline --points 5], %w[info]].each do |args|
      run = bounded(*args)
      assert_equal 0, run.exit_code, run.err
    end
  end

  # Between all blocks a byte that is none: each is a search of its own
  def test_very_many_damaged_places
    100_000.times { |i| @builder.events(i + 1, i + 1, i, B.alloc(1) + B.record(1, 1)) }
    @builder.blocks.map! { |block| "#{block}M" }
    write
    run = bounded("info", "--format", "json")
    assert_equal [0, 100_000], [run.exit_code, run.json["totals"]["live_objects"]], run.err
    assert_operator run.json["damage"].size, :>=, 100_000
    # and each of the blocks reaches past the end
    @builder.blocks = Array.new(50_000) { |i| B.block(1, i + 1, "".b).tap { |b| b[16, 8] = [64 << 20, 64 << 20].pack("L<2") }[0, 72] }
    @builder.blocks.map! { |head| head + [MppOracle::Native.xxh3(head)].pack("Q<") }
    write
    run = bounded("verify")
    assert_equal 1, run.exit_code, run.err
  end

  # Numbers of the process, two bytes each in the log and unfolded from less
  def test_very_many_statistics
    pairs = B.record(0x10, 1024) + "\1\1".b * 1024
    stored = MppOracle::Native.zstd(pairs * 10_000)
    @builder.blocks << B.block(3, 1, stored, compression: 1, raw_bytes: pairs.bytesize * 10_000)
    @builder.events(1, 1, 0, B.alloc(1))
    write
    refuse(/out of memory/, "top")
    assert_equal 1, report("top", memory: 2 << 30)["totals"]["live_objects"]
  end

  # A clock that is set all the time, and to all times
  def test_a_clock_that_jumps
    clocks = [0, (1 << 64) - 1, 1_764_597_785_000_000_000, 1 << 63].map { |ns| B.record(1, 1 << 41) + B.record(0x0D, ns) }.join
    @builder.events(1, 1, 0, clocks * 50_000, compress: true)
    write
    %w[14:03 2025-12-01T14:03:05Z @0 @9223372036].each do |time|
      run = bounded("top", "--at", time)
      assert_includes [0, 1], run.exit_code
      assert_operator run.err.lines.size, :<=, 2
    end
  end
end
