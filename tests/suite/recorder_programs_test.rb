# frozen_string_literal: true

# Real programs, recorded in full: they say, byte for byte, what they say without; and their logs are whole.
require "minitest/autorun"
require "zlib"
require_relative "support/recorder_runs"

class RecorderProgramsTest < Minitest::Test
  include RecorderRuns

  def gem!(name)
    skip "the gem '#{name}' is not installed: one program less" unless system(RbConfig.ruby, "-e", "require ARGV[0]", name, err: File::NULL)
  end

  # Runs the program without and with a recording; returns the latter's run. `ruby` are options of Ruby, `options` of mpprecord.
  def same(program, *arguments, ruby: [], options: [], env: {})
    command = [RbConfig.ruby, *ruby, File.expand_path(program, PROGRAMS), *arguments]
    without = run_command(*command, env: env)
    with = run_command(RbConfig.ruby, MPPRECORD, "-o", path("app.mpp"), *options, "--", *command, env: env)
    assert_equal without.out, with.out
    assert_equal without.err, with.err
    assert_equal without.status.to_s.sub(/\d+/, ""), with.status.to_s.sub(/\d+/, "")
    refute_empty with.out
    with
  end

  def document
    text = Zlib::GzipReader.open("/usr/share/doc/asciidoctor/README.adoc.gz", &:read)
    File.write(path("README.adoc"), text)
    path("README.adoc")
  rescue Errno::ENOENT
    skip "asciidoctor's own document is not installed"
  end

  # Retained at the end is what Ruby has to keep; all else that was allocated has been freed or is garbage that is not collected yet.
  def assert_busy(report, at_least)
    assert_operator report["totals"]["allocated_objects"], :>, at_least
    assert_equal 1, report["log"]["sample_period"]
  end

  def test_asciidoctor
    gem! "asciidoctor"
    run = same("asciidoc.rb", document)
    assert_equal 7, run.status.exitstatus
    assert_busy soundly_analyzed, 30_000 # later Rubies need fewer
    rows = analyze("top", "--by", "method", "--sort", "allocated_objects", "--limit", "0")["rows"].map { |row| row["name"] }
    assert(rows.any? { |name| name.start_with?("Asciidoctor::") })
    refute(rows.include?("[unresolved]"), "a function without a name")
  end

  def test_rouge
    gem! "rouge"
    same("rouge.rb", File.join(RbConfig::CONFIG["rubylibdir"], "optparse.rb"))
    assert_busy soundly_analyzed, 100_000
    lines = analyze("top", "--by", "file", "--sort", "allocated_objects", "--limit", "0")["rows"].map { |row| row["name"] }
    assert(lines.any? { |name| name.end_with?("rouge/regex_lexer.rb") })
  end

  def test_rouge_sampled
    gem! "rouge"
    same("rouge.rb", File.join(RbConfig::CONFIG["rubylibdir"], "optparse.rb"), "3", options: %w[--rate 1/50])
    report = soundly_analyzed
    assert_equal 50, report["log"]["sample_period"]
    # The same, recorded in full: the estimate lies within what chance allows (five deviations).
    File.unlink(path("app.mpp"))
    same("rouge.rb", File.join(RbConfig::CONFIG["rubylibdir"], "optparse.rb"), "3")
    truth = soundly_analyzed["totals"]["allocated_objects"]
    assert_in_delta truth, report["totals"]["allocated_objects"], 5 * Math.sqrt(50.0 * truth) + 0.01 * truth
  end

  def test_library
    run = same("library.rb")
    assert_equal 3, run.status.exitstatus
    assert_match(/at exit\n\z/, run.out)
    assert_equal %w[app.mpp], logs
    assert_busy soundly_analyzed, 20_000
    oracle = sound
    %w[class line type thread].each { |by| assert_agreement "--by", by, "--limit", "0", oracle }
    assert_agreement "--at", "peak", "--by", "stack", "--limit", "0", oracle
    assert_agreement "--at", "50%", "--by", "file", "--limit", "0", oracle
  end

  def test_library_many_rounds
    same("library.rb", "1500")
    assert_busy soundly_analyzed, 100_000
  end

  def test_library_with_warnings
    same("library.rb", ruby: ["-w"])
    soundly_analyzed
  end

  def test_library_compacted
    File.write(path("auto_compact.rb"), "GC.auto_compact = true")
    same("library.rb", "300", ruby: ["-r", path("auto_compact.rb")])
    soundly_analyzed
  end

  def test_library_compiled
    skip "this ruby has no YJIT" unless system(RbConfig.ruby, "--yjit", "-e", "exit RubyVM::YJIT.enabled? ? 0 : 1", err: File::NULL)
    same("library.rb", "300", ruby: ["--yjit", "--yjit-call-threshold=3"])
    soundly_analyzed
  end

  # A line that is compiled has the number that it has when it is interpreted.
  def test_lines_of_compiled_code
    skip "this ruby has no YJIT" unless system(RbConfig.ruby, "--yjit", "-e", "exit RubyVM::YJIT.enabled? ? 0 : 1", err: File::NULL)
    code = <<~RUBY
      Made = Class.new
      def make(list, n)
        list << Made.new if n.even?
        list << [n]
        list <<
          "text \#{n}"
      end
      def work(list) = 300.times { |n| make(list, n + 100) }
      MppRecorder.start(path: LOG)
      work($kept = [])
    RUBY
    seen = [[], ["--yjit", "--yjit-call-threshold=2"]].map do |ruby|
      program!(code, ruby: ruby)
      rows = analyze("top", "--by", "line", "--focus", "program.rb", "--class", "^(Made|Array|String)$", "--limit", "0")["rows"]
      File.unlink(path("app.mpp"))
      rows.to_h { |row| [row["line"], row["allocated_objects"]] }.select { |line,| line.between?(2, 7) }
    end
    assert_equal seen[0], seen[1]
    assert_equal 150, seen[0][3]
    assert_equal 300, seen[0][4]
    assert_equal 600, seen[0][5] + seen[0][6], "strings: the number's and the whole"
    refute(seen[1].key?(0))
  end

  # A collection at every allocation, for a while: whatever is half made when one begins.
  def test_library_under_stress
    File.write(path("stress.rb"), "require 'json'; require 'yaml'; require 'erb'; at_exit { GC.stress = false }; GC.stress = true; " \
                                  "puts JSON.generate([{ 'a' => [1, 2.5, nil] }]), YAML.load(\"- 1\\n- b: [x]\\n\").inspect, ERB.new('<%= 1 + 1 %>').result; " \
                                  "Thread.new { Fiber.new { puts eval('[1].map { |x| x.to_s }').inspect }.resume }.join")
    same(path("stress.rb"), ruby: ["--disable-gems"])
    soundly_analyzed
  end
end
