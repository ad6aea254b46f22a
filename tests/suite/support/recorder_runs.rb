# frozen_string_literal: true

# Recorded programs, and what their logs say: for the tests of the recorder.
require "fileutils"
require "json"
require "open3"
require "rbconfig"
require "tmpdir"
require_relative "../../oracle/mpp_oracle"

module RecorderRuns
  ROOT = File.expand_path("../../..", __dir__)
  BUILD = File.expand_path(ENV.fetch("MPP_BUILD", File.join(ROOT, "build")))
  MPPANALYZE = File.join(BUILD, "mppanalyze")
  MPPRECORD = File.join(ROOT, "recorder/exe/mpprecord")
  LIB = File.join(ROOT, "recorder/lib")
  PROGRAMS = File.join(ROOT, "tests/suite/programs")
  # Nothing of the environment of whoever runs the tests may decide them.
  CLEAN = %w[RUBYOPT RUBYLIB MPP_PATH MPP_ABI MPP_SAMPLE_RATE MPP_MAX_DEPTH MPP_JOURNAL_BYTES MPP_QUIET BUNDLE_GEMFILE LD_PRELOAD]
          .to_h { |name| [name, nil] }.merge("MPP_BUILD" => BUILD).freeze

  Run = Struct.new(:out, :err, :status)

  def setup
    @dir = File.realpath(Dir.mktmpdir("mpp-recorder"))
  end

  def teardown
    FileUtils.remove_entry(@dir)
  end

  def path(name) = File.join(@dir, name)

  # With a block: it gets the pid, stdout and stdin while the program runs, and must read what it wants of stdout.
  def run_command(*command, env: {}, input: "", **options)
    Open3.popen3(CLEAN.merge(env), *command, chdir: @dir, **options) do |stdin, stdout, stderr, waiter|
      [stdin, stdout, stderr].each(&:binmode)
      errors = Thread.new { stderr.read }
      unless block_given?
        stdin.write(input)
        stdin.close
      end
      out = +""
      out << yield(waiter.pid, stdout, stdin).to_s if block_given?
      stdin.close unless stdin.closed?
      out << stdout.read
      Run.new(out, errors.value, waiter.value)
    rescue Exception # a test that took too long, above all: popen3 would wait for the program for ever
      Process.kill(:KILL, waiter.pid) if waiter.alive?
      raise
    end
  end

  # Runs Ruby code that has MppRecorder and LOG, the path of the log `app.mpp`, and records whatever it wants.
  def program(code, *arguments, ruby: [], **options, &block)
    file = path("program.rb")
    File.write(file, code)
    run_command(*ruby_command(ruby), file, *arguments, **options, &block)
  end

  def ruby_command(ruby = [])
    # Not -r: the program's file is the first to be loaded otherwise, and its path the first string of the log.
    [RbConfig.ruby, "--disable-gems", "-I#{LIB}", "-rmpp_recorder", *ruby, "-e", "LOG = #{path("app.mpp").inspect}; $0 = ARGV[0]; load ARGV.shift"]
  end

  # The same, and it must succeed without a word on stderr.
  def program!(code, *arguments, **options, &block)
    run = program(code, *arguments, **options, &block)
    assert run.status.success?, "#{run.status}\n#{run.err}"
    assert_equal "", run.err
    run
  end

  def logs = Dir.children(@dir).select { |name| name.end_with?(".mpp") }.sort

  NO_CLEAN_END = /\Amppanalyze: "[^"]*" has no clean end \(the process was killed or still runs\): [^\n]*\n\z/

  # mppanalyze, which must succeed without a word on stderr, but for the remark that there is no clean end. Returns the parsed report.
  def analyze(command, *arguments, log: path("app.mpp"), clean_end: true)
    out, err, status = Open3.capture3(MPPANALYZE, command, "--format", "json", *arguments, log)
    assert_equal 0, status.exitstatus, "mppanalyze #{command} #{arguments.join(" ")} #{log}: #{err}"
    assert_match clean_end ? /\A\z/ : NO_CLEAN_END, err
    JSON.parse(out)
  end

  # {name: [live objects, live bytes]} of the groups, the recorder's own included; those that have none left out.
  def live(at: "end", by: "class", **options)
    rows = analyze("top", "--at", at, "--by", by, "--recorder", "--limit", "0", **options)["rows"]
    rows.to_h { |row| [row["name"], row.values_at("live_objects", "live_bytes")] }.reject { |_, n| n == [0, 0] }
  end

  # Reads all of a log: nothing of it may be damaged. Returns the oracle, which knows the rest.
  def sound(log = path("app.mpp"), clean_end: true)
    oracle = MppOracle::Oracle.new(log)
    assert_equal [[], []], [oracle.log.damage, oracle.facts.malformed], "damage of #{log}"
    assert_equal clean_end, oracle.log.clean_end?, "clean end of #{log}"
    assert_equal 0, oracle.facts.orphans, "orphans in #{log}"
    oracle
  end

  # For logs that are too large for the oracle. Returns the report of `top`.
  def soundly_analyzed(log = path("app.mpp"), clean_end: true)
    verified = analyze("verify", log: log, clean_end: clean_end)
    assert_equal [true, []], verified.values_at("ok", "damage"), log
    report = analyze("top", "--by", "class", "--recorder", "--limit", "0", log: log, clean_end: clean_end)
    assert_equal [false, clean_end], report["log"].values_at("damaged", "clean_end"), log
    report
  end

  # Analyzer and oracle agree to the byte.
  def assert_agreement(*arguments, oracle, log: path("app.mpp"), clean_end: true)
    options = arguments.each_slice(2).to_h { |name, value| [name.delete_prefix("--").to_sym, name == "--limit" ? value.to_i : value] }
    expected = oracle.top(**options, recorder: true)
    expected["log"]["path"] = log
    assert_equal expected, analyze("top", "--recorder", *arguments, log: log, clean_end: clean_end)
  end

  # Compiles C into a library that LD_PRELOAD puts before libc. One for each source, kept until the tests end.
  def self.shim(name)
    @shims ||= {}
    @shims[name] ||= begin
      directory = Dir.mktmpdir("mpp-shim")
      Minitest.after_run { FileUtils.remove_entry(directory) }
      library = File.join(directory, "#{name}.so")
      out, status = Open3.capture2e(ENV.fetch("CC", "cc"), "-O1", "-shared", "-fPIC", "-Wall", "-o", library, File.join(PROGRAMS, "#{name}.c"), "-ldl")
      raise "#{name}.c does not compile:\n#{out}" unless status.success?

      library
    end
  end
end
