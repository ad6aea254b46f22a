# frozen_string_literal: true

# Estimates from sampled logs against the full log of the same work: unbiased, and within their intervals as often as they say. The sampling is seeded, so this
# does not fail by chance.
require_relative "analyze_helper"

class SamplingTest < Minitest::Test
  include AnalyzeHelper

  RATE = 0.1
  PERIOD = 10
  RUNS = 40
  PROGRAM = File.expand_path("programs/sampled.rb", __dir__)

  def setup
    @dir = Dir.mktmpdir("mpp-sampling")
    out, status = Open3.capture2e("ruby", PROGRAM, @dir, RATE.to_s, RUNS.to_s)
    assert status.success?, out
  end

  def teardown
    FileUtils.rm_rf(@dir)
  end

  # live and allocated, objects and bytes, in total, by class, by line and by stack, in one go: the logs are costly
  def test_estimates
    inside = misses = 0
    %w[line class stack].each do |by|
      full = rows("full", by)
      assert_operator full.size, :>=, 5
      sampled = (0...RUNS).map { |i| rows("sampled#{i}", by) }
      full.each do |name, row|
        next if row["live_objects"] < 200 && row["allocated_objects"] < 200 # too few for a normal interval

        %w[live allocated].each do |what|
          next if row["#{what}_objects"].zero?

          count = row["#{what}_objects"]
          size = row["#{what}_bytes"].fdiv(count)
          sigma = Math.sqrt((PERIOD - 1) * count)
          estimates = sampled.map { |rows| rows[name]&.fetch("#{what}_objects") || 0 }
          bytes = sampled.map { |rows| rows[name]&.fetch("#{what}_bytes") || 0 }
          unbiased(estimates, count, sigma, "#{what} objects of #{name}")
          estimates.each { |n| (n - count).abs <= 1.96 * sigma ? inside += 1 : misses += 1 }
          # Only where all objects have one size is the variance of bytes that of the count.
          next unless by == "line" && what == "live"

          unbiased(bytes, row["#{what}_bytes"], sigma * size, "#{what} bytes of #{name}")
        end
      end
    end
    share = inside.fdiv(inside + misses)
    assert_in_delta 0.95, share, 0.03, "95 % intervals hold in #{(share * 100).round(1)} % of #{inside + misses} cases"
  end

  def test_text_tells_the_uncertainty
    text = analyze!("top", "--at", "mark:end", "--by", "class", log("sampled0")).out
    assert_match(/sampled: one allocation in 10 was recorded/, text)
    assert_match(/live bytes +95 % +% +objects +95 %/, text)
    half = text[/^ *\S+ \S+ +\S+ \S+ +\S+ +[\d,]+ +\+-([\d,]+) .*Object$/, 1] or flunk text
    # 3000 objects: 1.96 x sqrt(10 x 9 x 300 sampled ones)
    assert_in_delta 322, half.delete(",").to_i, 60
    refute_match(/95 %/, analyze!("top", "--at", "mark:end", log("full")).out)
    assert_match(/1 in 10 sampled/, analyze!("info", log("sampled0")).out)
    assert_match(/retained +95 % +objects +95 %/, analyze!("diff", "--from", "start", "--to", "mark:end", log("sampled0")).out)
  end

  private

  def log(name) = File.join(@dir, "#{name}.mpp")

  def rows(name, by)
    (@rows ||= {})[[name, by]] ||= json!("top", "--at", "mark:end", "--by", by, "--limit", "0", log(name))["rows"].to_h { |row| [row["name"], row] }
  end

  def unbiased(estimates, truth, sigma, what)
    mean = estimates.sum.fdiv(estimates.size)
    assert_in_delta truth, mean, 3.5 * sigma / Math.sqrt(estimates.size), what
  end
end
