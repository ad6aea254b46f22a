# frozen_string_literal: true

# Old logs stay readable for ever: for each fixtures/golden-*.mpp the answers that stand beside it in JSON are the answers of today. The answers were written when
# analyzer and oracle agreed on them; oracle_test.rb compares both on these logs again.
#   ruby tests/suite/golden_test.rb --write    writes the answers of golden logs that have none (never of those that have)
require_relative "analyze_helper"

class GoldenTest < Minitest::Test
  include AnalyzeHelper

  LOGS = Dir[File.expand_path("../../fixtures/golden-*.mpp", __dir__)].sort
  POINTS = ["start", "peak", "end", "50%", "mark:warm", "mark:warm#2", "mark:end é"].freeze
  QUESTIONS = [
    *POINTS.map { |at| ["top", "--at", at, "--by", "line", "--recorder", "--limit", "0"] },
    *%w[stack method file class type thread].map { |by| ["top", "--at", "mark:warm#2", "--by", by, "--limit", "0"] },
    ["top", "--at", "end", "--by", "class", "--min-age", "2", "--limit", "0"],
    ["diff", "--from", "mark:begin", "--to", "mark:warm", "--by", "class", "--limit", "0"],
    ["diff", "--from", "mark:warm", "--to", "mark:warm#2", "--by", "stack", "--limit", "0"],
    ["timeline", "--points", "9"],
    ["info"]
  ].freeze

  def self.ask(log, args)
    run = AnalyzeHelper.run(MPPANALYZE, *args, "--quiet", "--format", "json", log)
    raise run.err unless run.exit_code.zero?

    run.json.tap { |answer| answer["log"].delete("path") }
  end

  def test_there_are_logs_of_version_1
    assert_operator LOGS.grep(/golden-v1/).size, :>=, 2
  end

  LOGS.each do |log|
    define_method("test_#{File.basename(log, ".mpp").tr("-", "_")}") do
      kept = JSON.parse(File.read(log.sub(/mpp\z/, "json")))
      refute_empty kept
      kept.each { |question| assert_equal question["answer"], self.class.ask(log, question["args"]), question["args"].join(" ") }
    end
  end

  if ARGV.delete("--write")
    (LOGS.reject { |log| File.exist?(log.sub(/mpp\z/, "json")) }).each do |log|
      File.write(log.sub(/mpp\z/, "json"), JSON.generate(QUESTIONS.map { |args| { args: args, answer: ask(log, args) } }) << "\n")
    end
  end
end
