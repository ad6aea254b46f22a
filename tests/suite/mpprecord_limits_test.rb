# frozen_string_literal: true

# mpprecord's limits and --baseline, to the end: what stands in the log, and that the program goes on.
require "minitest/autorun"
require_relative "support/recorder_runs"

class MpprecordLimitsTest < Minitest::Test
  include RecorderRuns

  def record(*options, code, ruby: [])
    run = run_command(RbConfig.ruby, MPPRECORD, *options, "--", RbConfig.ruby, "--disable-gems", *ruby, "-e", code)
    assert run.status.success?, run.err
    run
  end

  def dump
    out, status = Open3.capture2(MPPANALYZE, "dump", path("app.mpp"))
    assert status.success?
    out
  end

  def test_the_log_ends_at_its_greatest_length
    run = record("--max-log-bytes", "200KB", "500_000.times { |i| Object.new; i.to_s }; sleep 0.1; 100.times { Object.new }; puts MppRecorder.running?, :end")
    assert_equal "false\nend\n", run.out
    assert_match(/\Ampp_recorder: recording to '.*app\.mpp' ended: the log has its greatest length; the program goes on\n\z/, run.err)
    assert_equal [false, true], soundly_analyzed["log"].values_at("damaged", "clean_end")
    assert_operator File.size(path("app.mpp")), :>=, 200_000
    assert_operator File.size(path("app.mpp")), :<, 50_000_000
  end

  def test_no_limit_is_reached
    run = record("--max-log-bytes", "1G", "--max-tracked", "1000000", "--max-stacks", "1000000", "$a = Array.new(1000) { Object.new }")
    assert_equal ["", ""], [run.out, run.err]
    assert_operator live.fetch("Object").first, :>=, 1000
  end

  def test_objects_that_are_followed_at_a_time
    run = record("--max-tracked", "500", "$a = Array.new(5000) { Object.new }; puts MppRecorder.stats.values_at(:tracked_objects, :dropped_allocs)")
    tracked, dropped = run.out.split.map(&:to_i)
    assert_equal "", run.err
    assert_operator tracked, :<=, 500
    assert_operator dropped, :>=, 4500
    assert_operator live.values.sum(&:first), :<=, 500
  end

  def test_backtraces_that_are_told_apart
    code = "def f(n) = n.zero? ? Object.new : f(n - 1)\n$a = Array.new(300) { |n| f(n) }"
    run = record("--max-stacks", "100", code)
    assert_equal ["", ""], [run.out, run.err]
    assert_equal 300, live.fetch("Object").first
    assert_includes dump, "[too many stacks]"
  end

  def test_a_mark_when_the_process_has_grown
    run = record("--mark-at-rss", "150MB", "$a = ['x' * 200_000_000]; 30.times { sleep 0.1; Object.new }")
    assert_equal ["", ""], [run.out, run.err]
    assert_equal ["rss >= 150000000 bytes"], dump.scan(/ MARK name="([^"]*)"/).flatten
  end

  # (what the command line requires is loaded before what RUBYOPT does)
  def test_baseline
    File.write(path("early.rb"), "$early = Array.new(777) { |i| Range.new(i, i + 1) }")
    [[], ["--baseline"]].each do |options|
      run = record("--force", *options, "$late = Array.new(100) { |i| Range.new(i, i + 1) }", ruby: ["-r", path("early.rb")])
      assert_equal ["", ""], [run.out, run.err]
      count = live.fetch("Range").first
      assert_operator count, :>=, options.empty? ? 100 : 877
      assert_operator count, :<, 777 if options.empty?
    end
  end
end
