# frozen_string_literal: true

# ruby tests/oracle/compare.rb --analyzer build/mppanalyze [--seed N] [--random N] [LOG...]
# asks mppanalyze and the oracle the same questions and tells of each difference with the command that shows it. Exit 1 on difference.
require_relative "mpp_oracle"
require_relative "random_log"
require "fileutils"
require "json"
require "open3"
require "optparse"
require "shellwords"
require "tmpdir"

module MppOracle
  # The questions asked of one log, drawn from a seed.
  class Questions
    SORTS = %w[live_bytes live_objects allocated_bytes allocated_objects freed_bytes freed_objects name].freeze
    DIFF_SORTS = %w[retained_bytes retained_objects delta_bytes delta_objects to_bytes name].freeze
    # Expressions that mean the same to POSIX and to Ruby.
    PATTERNS = ["/app/", "Foo|x[.]rb", "^Object", "b[.]rb", "each", "\\[unresolved", "^$", "String|Bar"].freeze

    def initialize(oracle, seed)
      @oracle = oracle
      @random = Random.new(seed)
    end

    # [command, options of the oracle]
    def list(groups: Oracle::GROUPS.size, tops: 14, diffs: 8)
      questions = [[:info, {}], [:timeline, [{}, { points: pick([1, 2, 3, 7, 61]) }].sample(random: @random)]]
      @sound, @refused = specs.partition { |spec| position(spec) }
      Oracle::GROUPS.sample(groups, random: @random).each { |by| questions << [:top, { at: moment, by: by, limit: 0 }] }
      tops.times { questions << [:top, { at: moment, by: pick(Oracle::GROUPS), sort: pick(SORTS), limit: pick([0, 0, 0, 3]), **filters }] }
      diffs.times do
        from, to = pair
        questions << [:diff, { from: from, to: to, by: pick(Oracle::GROUPS), sort: pick(DIFF_SORTS), limit: pick([0, 0, 2]), **filters }]
      end
      questions
    end

    private

    def pick(from) = from[@random.rand(from.size)]

    def filters
      chosen = {}
      chosen[:min_age] = pick([0, 1, 1, 2, 3]) if pick([true, false, false])
      chosen[:recorder] = true if pick([true, false, false])
      case @random.rand(8)
      when 0 then chosen[:focus] = pick(PATTERNS)
      when 1 then chosen[:ignore] = pick(PATTERNS)
      when 2 then chosen[:class] = pick(PATTERNS)
      end
      chosen
    end

    def position(spec)
      @oracle.position(spec)
    rescue Refused
      nil
    end

    # Now and then one that is refused.
    def moment = @random.rand(15).zero? ? pick(@refused) : pick(@sound)

    # Mostly in the order of time, since the other way is but an error.
    def pair
      pair = [moment, moment]
      positions = pair.map { |spec| position(spec) }
      positions.all? && positions[0] > positions[1] && @random.rand(10).positive? ? pair.reverse : pair
    end

    def specs
      end_ns = @oracle.moments.end_ns
      start = @oracle.log.fields[:start_unix_ns] || 0
      ns = -> { @random.rand(end_ns + 1) }
      fixed = %w[start end peak 0% 50% 100% 0s -0s]
      fixed += [seconds(ns.call), "#{seconds(ns.call)}s", "-#{seconds(ns.call)}s", "#{@random.rand(100)}.#{@random.rand(1000)}%", "#{ns.call / 1_000_000}ms",
                "0m#{seconds(ns.call)}s", "#{seconds(end_ns)}s", "@#{seconds(start + ns.call)}", seconds(end_ns + 1), "200%", "gc:999999", "mark:no such", "nonsense", ""]
      wall = Time.at(0, start + ns.call, :nsec)
      fixed << wall.utc.strftime("%Y-%m-%dT%H:%M:%S.%NZ") << wall.getlocal("+05:30").strftime("%Y-%m-%dT%H:%M:%S.%N+05:30") << wall.utc.strftime("%H:%M:%S") << wall.utc.strftime("%H:%M")
      fixed + marks + @oracle.facts.gc_ends.map { |_, count| "gc:#{count}" }.sample(4, random: @random)
    end

    def marks
      names = @oracle.facts.marks.map(&:first).reject { |name| name.include?("\0") || name.include?("\uFFFD") }
      names.flat_map { |name| ["mark:#{name}", "mark:#{name}##{names.count(name)}", "mark:#{name}#99"] }.uniq.sample(5, random: @random)
    end

    def seconds(ns)
      format("%d.%09d", ns / 1_000_000_000, ns % 1_000_000_000)
    end
  end

  # Holds mppanalyze against the oracle.
  class Comparison
    attr_reader :differences, :asked, :refused

    # most: differences of one log that are told; more of them say little.
    def initialize(analyzer, most: 3)
      @analyzer = analyzer
      @most = most
      @differences = []
      @asked = @refused = 0
    end

    # All questions of one log. A log that the oracle refuses, mppanalyze must refuse too.
    def log(path, seed: 1, **amount)
      begin
        oracle = Oracle.new(path)
      rescue Refused => e
        return both_refuse(path, e)
      end
      questions = Questions.new(oracle, seed).list(**amount)
      oracle.prepare(positions(oracle, questions))
      before = @differences.size
      questions.each do |command, options|
        ask(oracle, path, command, options)
        break if @differences.size >= before + @most
      end
    end

    private

    # Every position that the questions touch, so that the oracle replays once for all of them.
    def positions(oracle, questions)
      specs = questions.flat_map { |_, options| options.values_at(:at, :from, :to) }.compact.uniq
      found = specs.map do |spec|
        oracle.position(spec)
      rescue Refused
        nil
      end
      times = questions.select { |command, _| command == :timeline }.flat_map { |_, options| oracle.timeline_times(options[:points] || 60) }
      (found.compact + times.map { |time| oracle.moments.position_at(time) } + [oracle.facts.position]).uniq
    end

    def both_refuse(path, error)
      @refused += 1
      [%w[info], %w[top --limit 0]].each do |question|
        command = [@analyzer, *question, "--format", "json", path]
        status = run(command)[1]
        differ(command, "the oracle refuses (#{error.message}), mppanalyze exits with #{status}") unless status == 1
      end
    end

    def ask(oracle, path, command, options)
      line = [@analyzer, command.to_s, *join(options), "--format", "json", path]
      @asked += 1
      expected = begin
        oracle.public_send(command, **options)
      rescue Refused => e
        e
      end
      output, status = run(line)
      if expected.is_a?(Refused)
        differ(line, "the oracle refuses (#{expected.message}), mppanalyze exits with #{status}") unless [1, 2].include?(status)
      elsif status != 0
        differ(line, "mppanalyze exits with #{status}, the oracle answers; #{@last_error.lines.first}")
      else
        check(line, command, JSON.parse(JSON.generate(expected)), JSON.parse(output))
      end
    rescue JSON::ParserError => e
      differ(line, "no JSON: #{e.message[0, 200]}")
    end

    # An option's value may begin with a dash.
    def join(options)
      options.map { |name, value| value == true ? "--#{name}" : "--#{name.to_s.tr('_', '-')}=#{value}" }
    end

    def run(line)
      output, @last_error, status = Open3.capture3(*line)
      [output.force_encoding(Encoding::UTF_8), status.exitstatus || "signal #{status.termsig}"]
    end

    def check(line, command, expected, got)
      where = command == :info ? first_difference(expected, subset(expected, got), "") : first_difference(expected, got, "", order: true)
      differ(line, where) if where
    end

    # Of info only what the page fixes is compared: kinds of record that stand, fields of the header that the log has.
    def subset(expected, got)
      got = got.slice(*expected.keys)
      got["records"] = (got["records"] || {}).reject { |_, count| count == 0 }
      got["header"] = (got["header"] || {}).slice(*expected["header"].keys)
      got["bytes_per_event"] = expected["bytes_per_event"] if ((got["bytes_per_event"] || -1) - expected["bytes_per_event"]).abs < 0.01
      got
    end

    def first_difference(expected, got, path, order: false)
      case expected
      when Hash
        return "#{path}: oracle has keys #{expected.keys}, mppanalyze #{got.is_a?(Hash) ? got.keys : got.inspect}" unless got.is_a?(Hash) && same_keys?(expected, got, order)

        expected.each do |key, value|
          where = first_difference(value, got[key], "#{path}.#{key}", order: order)
          return where if where
        end
        nil
      when Array
        return "#{path}: oracle #{expected.inspect[0, 200]}, mppanalyze #{got.inspect[0, 200]}" unless got.is_a?(Array)

        expected.zip(got).each_with_index do |(left, right), index|
          where = first_difference(left, right, "#{path}[#{index}]", order: order)
          return where if where
        end
        "#{path}: oracle has #{expected.size}, mppanalyze #{got.size}, then #{got[expected.size].inspect[0, 200]}" if expected.size != got.size
      else
        # An integer beyond 63 bits is a string of digits.
        got = got.to_i if expected.is_a?(Integer) && expected >= 1 << 63 && got.is_a?(String)
        "#{path}: oracle #{expected.inspect}, mppanalyze #{got.inspect}" unless expected == got
      end
    end

    def same_keys?(expected, got, order)
      order ? expected.keys == got.keys : expected.keys.sort == got.keys.sort
    end

    def differ(line, what)
      @differences << "#{line.shelljoin}\n    #{what}"
    end
  end

  # Spoils a log: flips bits of a few bytes, or cuts it.
  module Spoiler
    module_function

    def spoil(bytes, random)
      bytes = bytes.dup
      case random.rand(4)
      when 0 then bytes.byteslice(0, random.rand(bytes.bytesize + 1))
      when 1 then bytes + random.bytes(random.rand(1..200))
      else
        # not in the space between things that nobody reads
        used = (0...bytes.bytesize).reject { |offset| bytes.getbyte(offset).zero? && random.rand(50).positive? }
        random.rand(1..4).times do
          offset = used[random.rand(used.size)]
          bytes.setbyte(offset, bytes.getbyte(offset) ^ (1 << random.rand(8)))
        end
        bytes
      end
    end
  end
end

if $PROGRAM_NAME == __FILE__
  options = { analyzer: "build/mppanalyze", seed: 1, random: 0, genlog: nil, events: 1500 }
  logs = OptionParser.new do |o|
    o.banner = "usage: compare.rb [OPTIONS] [LOG...]"
    o.on("--analyzer PATH") { |value| options[:analyzer] = value }
    o.on("--seed N", Integer, "first seed of questions and random logs") { |value| options[:seed] = value }
    o.on("--random N", Integer, "also N random logs, every other one hostile, and each of them spoiled too") { |value| options[:random] = value }
    o.on("--events N", Integer, "of a random log, at most") { |value| options[:events] = value }
    o.on("--genlog PATH", "also as many logs of this generator") { |value| options[:genlog] = value }
    o.on("--keep DIR", "keep the random logs that differ there") { |value| options[:keep] = value }
  end.parse(ARGV)
  comparison = MppOracle::Comparison.new(options[:analyzer])
  logs.each { |path| comparison.log(path, seed: options[:seed]) }
  Dir.mktmpdir("mpp-oracle") do |dir|
    ask = lambda do |path, seed|
      before = comparison.differences.size
      comparison.log(path, seed: seed)
      FileUtils.cp(path, options[:keep]) if options[:keep] && comparison.differences.size > before
      FileUtils.rm_f(path)
    end
    options[:seed].upto(options[:seed] + options[:random] - 1) do |seed|
      random = Random.new(seed)
      bytes = MppOracle::RandomLog.new(seed, random.rand(50..options[:events]), hostile: seed.odd?).bytes
      path = File.join(dir, "random-#{seed}.mpp")
      File.binwrite(path, bytes)
      ask.call(path, seed)
      path = File.join(dir, "spoiled-#{seed}.mpp")
      File.binwrite(path, MppOracle::Spoiler.spoil(bytes, random))
      ask.call(path, seed)
      next unless options[:genlog]

      path = File.join(dir, "genlog-#{seed}.mpp")
      flags = [[], %w[--killed], %w[--hostile], %w[--killed --hostile]][seed % 4]
      system(options[:genlog], "--seed", seed.to_s, "--events", random.rand(50..options[:events]).to_s, "--out", path, *flags, exception: true)
      ask.call(path, seed)
    end
  end
  puts comparison.differences
  warn "#{comparison.asked} questions, #{comparison.refused} logs refused, #{comparison.differences.size} differences"
  exit 1 unless comparison.differences.empty?
end
