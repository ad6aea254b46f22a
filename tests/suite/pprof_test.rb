# frozen_string_literal: true

# The profiles that mppanalyze writes, read by pprof's own tool: what it shows must be what `mppanalyze top` says.
require_relative "analyze_helper"
require "zlib"

class PprofTest < Minitest::Test
  include AnalyzeHelper

  TYPES = { "alloc_objects" => "allocated_objects", "alloc_space" => "allocated_bytes", "inuse_objects" => "live_objects",
            "inuse_space" => "live_bytes" }.freeze
  # pprof's name of the unit that makes it print whole numbers
  UNIT = Hash.new("B").merge("alloc_objects" => "count", "inuse_objects" => "count").freeze
  GO = ENV.fetch("PATH").split(":").any? { |dir| File.executable?(File.join(dir, "go")) }
  # The small log has blocks of events that end in marks block1 … block6.
  FROM = "mark:block2"
  TO = "mark:block5"

  def setup
    unless GO
      message = "`go tool pprof` is not installed (Debian: golang-go)"
      ENV["MPP_ALLOW_SKIP"] == "1" ? skip(message) : flunk("#{message}; MPP_ALLOW_SKIP=1 skips this test")
    end
    @dir = Dir.mktmpdir("mpp-pprof")
    @small = SmallLog.new.write(File.join(@dir, "small.mpp"))
  end

  def teardown
    FileUtils.rm_rf(@dir) if @dir
  end

  # ---- one moment

  def test_raw_holds_every_sample_of_top
    each_log do |log|
      ["start", "50%", "end"].each do |at|
        raw = raw(profile(log, "--at", at, "--recorder"))
        top = json!("top", "--at", at, "--by", "stack", "--limit", "0", "--recorder", log)
        assert_equal TYPES.keys, raw.types
        assert_equal "inuse_space", raw.default
        assert_equal counters(top["filtered"]), raw.sums, "#{log} at #{at}"
        assert_equal counters(top["totals"]), raw.sums, "#{log} at #{at}"
        expected = top["rows"].to_h { |row| [frames(row), counters(row)] }.reject { |_, values| values.all?(&:zero?) }
        assert_equal expected, raw.by_stack, "#{log} at #{at}"
      end
    end
  end

  def test_top_shows_the_totals_of_all_four_types
    each_log do |log|
      file = profile(log, "--recorder")
      totals = json!("top", "--limit", "0", "--recorder", log)["totals"]
      TYPES.each do |type, counter|
        shown = top(file, type)
        assert_equal type, shown[:type]
        assert_equal totals[counter], shown[:total], "#{log} #{type}"
        assert_equal totals[counter], shown[:flats].values.sum, "#{log} #{type}: every byte has a frame to stand under"
      end
    end
  end

  def test_top_agrees_method_by_method
    file = profile(@small, "--recorder")
    # pprof's nodes are functions by name, whoever wrote them: `top --by stack` summed by the leaf's function is the same.
    rows = json!("top", "--by", "stack", "--limit", "0", "--recorder", @small)["rows"]
    TYPES.each do |type, counter|
      expected = Hash.new(0)
      rows.each { |row| expected[row["frames"].empty? ? "(no stack)" : row["frames"][0]["function"]] += row[counter] }
      assert_equal expected.reject { |_, v| v.zero? }, top(file, type)[:flats].reject { |_, v| v.zero? }
    end
  end

  # `pprof` keeps the recorder's own, so that its totals are the log's; `top --format pprof` leaves it out as top does.
  def test_the_recorders_own
    hidden = json!("top", "--by", "stack", "--limit", "0", @small)
    refute_equal hidden["totals"], hidden["filtered"]
    assert_equal counters(hidden["totals"]), raw(profile(@small)).sums
    raw = raw(file_of("top", "--format", "pprof", @small, name: "top"))
    assert_equal counters(hidden["filtered"]), raw.sums
    refute(raw.by_stack.keys.flatten.any? { |frame| frame.include?("[mpp_recorder]") })
  end

  def test_filters_are_those_of_top
    [%w[--focus Leak], %w[--ignore Leak], %w[--class Array], %w[--focus main --class String]].each do |filter|
      expected = json!("top", "--by", "stack", "--limit", "0", "--recorder", *filter, @small)["filtered"]
      refute_equal 0, expected["live_bytes"]
      assert_equal counters(expected), raw(profile(@small, *filter)).sums, filter.join(" ")
    end
  end

  def test_traces
    text = pprof("-traces", "-sample_index=inuse_objects", profile(@small))
    grow = json!("top", "--by", "stack", "--limit", "0", "--focus", "Leak#grow", "--class", "Leak::Node", @small)["rows"]
    assert_equal 1, grow.size
    traces = text.split(/^-----------\+-+$/).select { |trace| trace.match?(/^\s+\d+\s+Leak#grow\n\s+<main>$/) }
    refute_empty traces
    assert_equal grow[0]["live_objects"], traces.sum { |trace| trace[/^\s+(\d+)\s+Leak#grow$/, 1].to_i }
    assert(traces.all? { |trace| trace.match?(/class:\s*Leak::Node/) }, traces.join)
  end

  def test_peek
    text = pprof("-peek", "Leak#grow", "-sample_index=inuse_objects", "-unit=count", profile(@small))
    # callers above, callees below
    assert_match(/\|\s+<main>\n.*\|\s+Leak#grow\n.*\|\s+Array#push\n/, text)
  end

  def test_tags
    text = pprof("-tags", "-sample_index=inuse_objects", "-unit=count", profile(@small))
    tags = text.scan(/^\s*(\S+): Total (\d+)/).to_h
    total = json!("top", "--limit", "0", "--recorder", @small)["filtered"]["live_objects"]
    assert_equal %w[class gc_age thread type], tags.keys.sort
    %w[type thread gc_age].each { |tag| assert_equal total, tags[tag].to_i, "every live object has its #{tag}" }
    json!("top", "--by", "class", "--limit", "0", "--recorder", @small)["rows"].each do |row|
      assert_match(/^\s+#{row["live_objects"]}[ .(].*: #{Regexp.escape(row["name"])}\s*$/, text) unless row["live_objects"].zero?
    end
    assert_match(/^\s+\d.*: worker\s*$/, text)
    assert_match(/^\s+\d.*: STRING\s*$/, text)
  end

  # Ages stand in steps 0, 1, 2, 4, 8 …. An object of age 0 has a label too, though pprof drops plain zeros.
  def test_age_labels_agree_with_min_age
    text = pprof("-raw", profile(@small, "--at", "mark:block5", "--recorder"))
    ages = Hash.new(0)
    value = nil
    text.each_line do |line|
      value = line.split[2].to_i if line.match?(/\A\s+-?\d+\s+-?\d+\s+-?\d+\s+-?\d+:/)
      ages[$1.to_i] += value if line =~ /gc_age:\[(\d+)/
    end
    refute_empty ages
    assert_empty ages.keys - [0, 1, 2, 4]
    [0, 1, 2, 4].each do |age|
      expected = json!("top", "--at", "mark:block5", "--min-age", age, "--limit", "0", "--recorder", @small)["filtered"]["live_objects"]
      assert_equal expected, ages.sum { |a, n| a >= age ? n : 0 }, "age #{age}"
    end
  end

  def test_invalid_utf8_becomes_the_replacement_character
    text = pprof("-top", "-nodefraction=0", profile(@small))
    assert_predicate text, :valid_encoding?
    assert_includes text, "bad\uFFFDname"
  end

  def test_head_of_the_profile
    text = pprof("-raw", profile(@small, "--at", TO))
    assert_match(/^PeriodType: alloc_objects count$/, text)
    assert_match(/^Period: 1$/, text)
    assert_match(/^Time: 2025-12-01 /, text)
    assert_match(/\[FN\]\[FL\]\[LN\]/, text)
    refute_match(/^\s+\d+: 0x0 M=0/, text)
    comments = pprof("-comments", profile(@small, "--at", TO))
    refute_empty comments.strip
  end

  # ---- two moments

  def test_diff_is_what_diff_base_makes
    from = profile(@small, "--at", FROM, name: "from")
    to = profile(@small, "--at", TO, name: "to")
    diff = file_of("diff", "--from", FROM, "--to", TO, "--recorder", "--format", "pprof", @small, name: "diff")
    TYPES.each_key do |type|
      theirs = pprof("-top", "-nodefraction=0", "-nodecount=0", "-unit=#{UNIT[type]}", "-sample_index=#{type}", "-diff_base", from, to)
      ours = pprof("-top", "-nodefraction=0", "-nodecount=0", "-unit=#{UNIT[type]}", "-sample_index=#{type}", diff)
      assert_equal table(theirs), table(ours), type
    end
  end

  def test_diff_totals
    diff = file_of("diff", "--from", FROM, "--to", TO, "--format", "pprof", @small, name: "diff")
    json = json!("diff", "--from", FROM, "--to", TO, "--by", "stack", "--limit", "0", @small)
    raw = raw(diff)
    assert_equal [json["filtered"]["delta"]["objects"], json["filtered"]["delta"]["bytes"]], raw.sums.drop(2)
    base, rest = raw.samples.partition { |sample| sample[:labels].include?("pprof::base:[true]") }
    refute_empty base
    %w[objects bytes].each_with_index do |unit, i|
      assert_equal(-json["filtered"]["from"][unit], base.sum { |s| s[:values][2 + i] })
      assert_equal json["filtered"]["to"][unit], rest.sum { |s| s[:values][2 + i] }
    end
    expected = json["rows"].to_h { |row| [frames(row), [row["delta"]["objects"], row["delta"]["bytes"]]] }
    assert_equal expected.reject { |_, v| v == [0, 0] }, raw.by_stack.transform_values { |v| v.drop(2) }.reject { |_, v| v == [0, 0] }
  end

  def test_diff_of_a_moment_with_itself_is_zero
    raw = raw(file_of("diff", "--from", TO, "--to", TO, "--format", "pprof", @small, name: "diff"))
    assert_equal [0, 0, 0, 0], raw.sums
  end

  # ---- the file

  def test_same_log_same_bytes
    first = File.binread(profile(@small, name: "one"))
    assert_equal first, File.binread(profile(@small, name: "two"))
    assert_equal first, analyze!("-o", "-", @small).out
    assert_equal first, analyze!("top", "--recorder", "--format", "pprof", "-o", "-", @small).out
    assert_equal "\x1F\x8B\x08\0\0\0\0\0".b, first[0, 8], "gzip without a time"
    refute_empty Zlib.gunzip(first)
  end

  def test_a_log_without_events_gives_a_valid_profile
    log = SmallLog.new(blocks: 0).write(File.join(@dir, "empty.mpp"))
    assert_equal [0, 0, 0, 0], raw(profile(log)).sums
    assert_match(/Showing nodes accounting for 0/, pprof("-top", profile(log)))
  end

  private

  def each_log
    yield @small
    unless File.executable?(GENLOG)
      flunk "#{GENLOG} is not built (make tools)"
    end
    genlogs.each { |log| yield log }
  end

  def genlogs
    (1..4).map do |seed|
      File.join(@dir, "gen#{seed}.mpp").tap do |path|
        run = AnalyzeHelper.run(GENLOG, "--seed", seed, "--events", 20_000, "--out", path)
        assert run.status.success?, run.err
      end
    end
  end

  def profile(log, *args, name: "profile") = file_of(*args, log, name: name)

  def file_of(*args, name:)
    path = File.join(@dir, "#{name}.pb.gz")
    assert_empty analyze!(*args, "-o", path).out
    path
  end

  def pprof(*args)
    env = { "HOME" => @dir, "PPROF_TMPDIR" => @dir, "PPROF_BINARY_PATH" => @dir, "TZ" => "UTC" }
    run = AnalyzeHelper.run("go", "tool", "pprof", *args, env: env)
    assert run.status.success?, "go tool pprof #{args.join(" ")}: #{run.err}"
    run.out.force_encoding(Encoding::UTF_8)
  end

  # {type, total, flats: {function => value}}
  def top(file, type)
    text = pprof("-top", "-nodefraction=0", "-nodecount=0", "-unit=#{UNIT[type]}", "-sample_index=#{type}", file)
    flats = Hash.new(0)
    table(text).each { |line| flats[line[/\A\s*(?:\S+\s+){5}(.*)\z/, 1]] += line[/\A\s*(-?\d+)/, 1].to_i }
    { type: text[/^Type: (\S+)/, 1], total: text[/ of (-?\d+)B? total/, 1].to_i, flats: flats }
  end

  # The lines of -top from "Showing" on, without those that tell the file and the time.
  def table(text) = text.lines.drop_while { |line| !line.match?(/^\s+flat\s+flat%/) }.drop(1).map(&:chomp)

  Raw = Struct.new(:types, :default, :samples, keyword_init: true) do
    def sums = samples.reduce([0, 0, 0, 0]) { |sum, sample| sum.zip(sample[:values]).map(&:sum) }

    # {frames: sums}, without what is zero in all
    def by_stack
      stacks = Hash.new([0, 0, 0, 0])
      samples.each { |sample| stacks[sample[:frames]] = stacks[sample[:frames]].zip(sample[:values]).map(&:sum) }
      stacks.reject { |_, values| values.all?(&:zero?) }
    end
  end

  # Parses -raw.
  def raw(file)
    text = pprof("-raw", file)
    head, rest = text.split(/^Samples:\n/, 2)
    assert rest, head
    samples_text, rest = rest.split(/^Locations\n/, 2)
    locations_text, = rest.split(/^Mappings\n/, 2)
    # a name may have line ends in it
    locations = locations_text.split(/^(?=\s+\d+: 0x)/).to_h do |line|
      m = line.match(/\A\s+(\d+): 0x0 M=1 (.*) (.*):(\d+)(?::\d+)? s=(\d+)/m) or flunk "location #{line.inspect}"
      [m[1], "#{m[2]} #{m[3]}:#{m[4]}"]
    end
    types = samples_text.lines.first.split
    samples = []
    samples_text.lines.drop(1).each do |line|
      if (m = line.match(/\A\s+((?:-?\d+\s+){3}-?\d+):((?: \d+)*)\s*\z/))
        samples << { values: m[1].split.map(&:to_i), frames: m[2].split.map { |id| locations.fetch(id) }, labels: +"" }
      else
        samples.last[:labels] << line
      end
    end
    Raw.new(types: types.map { |t| t[/\A\w+/] }, default: types.find { |t| t.end_with?("[dflt]") }.to_s[/\A\w+/], samples: samples)
  end

  def counters(object) = TYPES.values.map { |name| object[name] }

  # As raw writes a stack. An empty backtrace stands under a frame of its own, lest pprof's tables leave it out.
  def frames(row)
    return ["(no stack) :0"] if row["frames"].empty?

    row["frames"].map { |frame| "#{frame["function"]} #{frame["path"]}:#{frame["line"]}" }
  end
end
