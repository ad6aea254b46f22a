# frozen_string_literal: true

# Logs that are cut, or have a bit wrong: a report still comes, and what was lost is told; or there is an error. Nothing is wrong silently.
require_relative "analyze_helper"

class DamageTest < Minitest::Test
  include AnalyzeHelper

  TOP = %w[top --by stack --format json --limit 0 --recorder].freeze

  def setup
    @dir = Dir.mktmpdir("mpp-damage")
    @small = SmallLog.new
    @bytes = @small.bytes
    @log = @small.write(path("log.mpp"))
    @whole = analyze!(*TOP, @log).json
    @random = Random.new(7)
  end

  def teardown
    FileUtils.rm_rf(@dir)
  end

  def path(name) = File.join(@dir, name)

  # The same path for all, so that reports may be compared; and nothing that was kept about the log before stays
  def put(bytes)
    FileUtils.rm_f(Dir.glob(path("*")))
    File.binwrite(@log, bytes)
    @log
  end

  # Runs `top`; an error must be one line and nothing else. Returns the report or nil.
  def report(what, exits: [0, 1])
    run = analyze(*TOP, @log)
    assert run.status.exited?, "#{what}: #{run.status} #{run.err}"
    assert_includes exits, run.exit_code, "#{what}: #{run.err}"
    if run.exit_code == 1
      assert_equal "", run.out, what
      assert_match(/\A[^\n]+\n\z/, run.err, what)
      return [nil, run.err]
    end
    run.err.each_line { |line| assert_match(/\Amppanalyze: \S.*\n\z/, line, what) }
    [run.json, run.err]
  end

  # What a reader needs to know, without what differs anyway
  def answer(report) = report && report.slice("at", "totals", "filtered", "rows")

  def test_truncated_at_many_bytes
    boundaries = @small.block_offsets
    cuts = boundaries.flat_map { |at| [at - 1, at, at + 1, at + 40, at + 79, at + 80, at + 81] } + Array.new(80) { @random.rand(@bytes.size) } +
           [@bytes.size - 1, @bytes.size - 16, @bytes.size - 31, @bytes.size - 32, @bytes.size - 33]
    cuts.select { |at| at.between?(1, @bytes.size - 1) }.uniq.sort.each do |at|
      put(@bytes[0, at])
      json, err = report("cut at #{at}", exits: at >= 4096 ? [0] : [1])
      next unless json

      refute json["log"]["clean_end"]
      whole_blocks = boundaries.include?(at) || at == @bytes.size - 32
      # a log that ends between two blocks is that of a process that was killed: no damage, but worth a word
      assert_equal !whole_blocks, json["log"]["damaged"], "cut at #{at}"
      assert_match(whole_blocks ? /no clean end/ : /damaged/, err, "cut at #{at}")
      assert_equal answer(prefix(at)), answer(json), "cut at #{at}"
    end
  end

  # A log whose process was killed, with the last blocks in its journal: a bit there is either told, or stood where nothing was committed.
  def test_flipped_bits_in_a_killed_log
    flunk "#{GENLOG} is not built (make tools)" unless File.executable?(GENLOG)
    run = AnalyzeHelper.run(GENLOG, "--seed", 8, "--events", 3000, "--blocks-of", 2000, "--killed", "--out", @log)
    assert run.status.success?, run.err
    bytes = File.binread(@log)
    whole = analyze(*TOP, @log).json
    refute whole["log"]["damaged"]
    journal = 4096...bytes.index("MPPB\x04".b)
    halves = journal.step(4).select { |at| bytes[at, 8] == "MPPHALF\n" }
    assert_operator halves.size, :>=, 2
    places = halves.flat_map { |at| (at...at + 64).to_a + Array.new(60) { at + 64 + @random.rand(2000) } } + Array.new(60) { @random.rand(bytes.size) }
    told = 0
    places.uniq.sort.each do |at|
      damaged = bytes.dup
      damaged.setbyte(at, damaged.getbyte(at) ^ (1 << @random.rand(8)))
      put(damaged)
      json, err = report("flip at #{at}")
      next if json.nil?

      told += 1 if json["log"]["damaged"]
      if json["log"]["damaged"]
        assert_match(/damaged/, err, "flip at #{at}")
      else
        assert answer(whole) == answer(json), "flip at #{at} changes the report and nobody says so"
      end
    end
    assert_operator told, :>, 100
  end

  def test_killed_log_cut_at_many_bytes
    flunk "#{GENLOG} is not built (make tools)" unless File.executable?(GENLOG)
    run = AnalyzeHelper.run(GENLOG, "--seed", 9, "--events", 3000, "--blocks-of", 2000, "--killed", "--out", @log)
    assert run.status.success?, run.err
    bytes = File.binread(@log)
    Array.new(80) { @random.rand(1...bytes.size) }.sort.each do |at|
      put(bytes[0, at])
      json, err = report("cut at #{at}", exits: at >= 4096 ? [0, 1] : [1])
      refute_empty err
      assert_operator json["totals"]["live_bytes"], :>=, 0 if json
    end
  end

  # Blocks of events that stand whole before `at` are what the log comes to.
  def prefix(at)
    @prefixes ||= {}
    count = (@small.block_offsets + [@bytes.size - 32]).each_cons(2).count { |_, after| after <= at }
    @prefixes[count] ||= begin
      spec = count < 2 ? "start" : "mark:block#{[count - 1, 6].min}"
      kept = File.binread(@log)
      put(@bytes)
      whole = analyze!(*TOP, "--at", spec, @log).json
      put(kept)
      # META alone names nothing; its position is 0
      whole["at"]["spec"] = "end"
      whole
    end
  end

  def test_flipped_bits
    # each block's header and payload, the log's header, the footer
    places = @small.block_offsets.each_cons(2).flat_map { |from, to| Array.new(25) { from + @random.rand(to - from) } } +
             @small.block_offsets.flat_map { |at| (0...80).step(7).map { |i| at + i } } +
             Array.new(40) { @random.rand(4096) } + (@bytes.size - 32...@bytes.size).to_a + (0...200).step(3).to_a
    places.uniq.sort.each do |at|
      damaged = @bytes.dup
      damaged.setbyte(at, damaged.getbyte(at) ^ (1 << @random.rand(8)))
      put(damaged)
      json, err = report("flip at #{at}")
      next if json.nil?

      assert json["log"]["damaged"], "flip at #{at}: not seen; #{err}"
      refute_empty err, "flip at #{at}: no warning"
      verify = analyze("verify", "--format", "json", @log)
      assert_equal 1, verify.exit_code, "flip at #{at}"
      assert_equal false, verify.json["ok"]
      refute_empty verify.json["damage"]
    end
  end

  def test_damaged_payload_costs_its_block_only
    2.upto(5) do |block|
      damaged = @bytes.dup
      at = @small.block_offsets[block] + 100
      damaged.setbyte(at, damaged.getbyte(at) ^ 1)
      put(damaged)
      json, err = report("block #{block}", exits: [0])
      # block 0 is META; block 1 the first of events. 300 objects a block
      assert_equal @whole["totals"]["allocated_objects"] - 300, json["totals"]["allocated_objects"], "block #{block}"
      assert_match(/lost|missing/, err)
      assert_match(/300/, err, "how many allocations were lost")
      info = analyze("info", "--format", "json", @log).json
      assert_equal 1, info["damage"].size
      assert_equal 300, info["damage"][0]["lost_allocs"]
      assert_operator info["damage"][0]["lost_frees"], :>, 100
      assert_equal block, info["damage"][0]["sequence"]
      assert_equal @small.block_offsets[block], info["damage"][0]["offset"]
    end
  end

  def test_damaged_block_header_is_skipped
    damaged = @bytes.dup
    damaged.setbyte(@small.block_offsets[3] + 20, damaged.getbyte(@small.block_offsets[3] + 20) ^ 0xFF)
    put(damaged)
    json, err = report("header of block 3", exits: [0])
    assert_equal @whole["totals"]["allocated_objects"] - 300, json["totals"]["allocated_objects"]
    refute_empty err
    damage = analyze("info", "--format", "json", @log).json["damage"]
    assert_equal [[@small.block_offsets[3], @small.block_offsets[4]]], damage.map { |d| d.values_at("offset", "end_offset") }
  end

  # The block of META says the same.
  def test_damaged_log_header
    damaged = @bytes.dup
    damaged.setbyte(3000, 1)
    put(damaged)
    json, err = report("header", exits: [0])
    refute_empty err
    assert_equal answer(@whole), answer(json)
    assert_equal @whole["log"].reject { |k, _| k == "damaged" }, json["log"].reject { |k, _| k == "damaged" }
  end

  def test_bytes_behind_the_end
    put(@bytes + "\0" * 100)
    json, err = report("tail", exits: [0])
    assert json["log"]["damaged"]
    refute_empty err
    assert_equal answer(@whole), answer(json)
  end

  def test_blocks_out_of_order_and_twice
    offsets = @small.block_offsets + [@bytes.size - 32]
    blocks = offsets.each_cons(2).map { |from, to| @bytes[from...to] }
    { "swapped" => [0, 1, 3, 2, 4, 5, 6, 7], "twice" => [0, 1, 2, 2, 3, 4, 5, 6, 7] }.each do |what, order|
      put(@bytes[0, 4096] + order.map { |i| blocks[i] }.join)
      json, err = report(what, exits: [0])
      assert json["log"]["damaged"], what
      refute_empty err, what
      assert_operator json["totals"]["allocated_objects"], :<=, 1800
    end
  end

  # Not the word of any block's header is trusted, though its checksum is right.
  def test_headers_that_lie
    head = ->(offset) { @bytes[offset, 80] }
    lies = { "stored_bytes" => [16, "L<", 0xFFFFFFFF], "raw_bytes" => [20, "L<", 0xFFFFFFFF], "raw_bytes of 64 MiB" => [20, "L<", 64 << 20], "raw_bytes too small" => [20, "L<", 10],
             "first_serial 0" => [24, "Q<", 0], "first_serial huge" => [24, "Q<", 2**64 - 1], "first_time" => [32, "Q<", 2**64 - 1], "last_time" => [40, "Q<", 2**64 - 1],
             "record_count" => [48, "L<", 0xFFFFFFFF], "alloc_count" => [52, "L<", 0xFFFFFFFF], "free_count" => [56, "L<", 0xFFFFFFFF], "compression" => [5, "C", 9],
             "sequence" => [8, "Q<", 2**64 - 1], "header bytes" => [6, "S<", 4096], "no header bytes" => [6, "S<", 0] }
    lies.each do |what, (at, template, value)|
      offset = @small.block_offsets[2]
      bytes = head.(offset)
      raw = [value].pack(template)
      bytes[at, raw.bytesize] = raw
      bytes[72, 8] = [MppOracle::Native.xxh3(bytes[0, 72])].pack("Q<")
      lying = @bytes.dup
      lying[offset, 80] = bytes
      put(lying)
      report(what)
    end
  end

  def test_random_bytes_over_everything
    60.times do |i|
      damaged = @bytes.dup
      @random.rand(1..8).times do
        at = 4096 + @random.rand(@bytes.size - 4096)
        junk = @random.bytes(@random.rand(1..300))
        damaged[at, junk.bytesize] = junk
      end
      put(damaged[0, @bytes.size])
      json, err = report("junk #{i}")
      refute_empty err, "junk #{i}" if json
    end
  end
end
