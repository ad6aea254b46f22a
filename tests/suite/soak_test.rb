# frozen_string_literal: true

# The soak in short: the cluster under steady traffic while its workers are killed, at full rate with the application preloaded, and sampled without.
# `make soak` runs it for as long as one likes.
require "minitest/autorun"
require "open3"
require "rbconfig"

class SoakTest < Minitest::Test
  SOAK = File.expand_path("../soak/soak.rb", __dir__)

  def setup
    missing = %w[puma rack].reject { |name| Gem::Specification.find_all_by_name(name).any? }
    return if missing.empty?

    message = "not installed: #{missing.join(", ")}"
    ENV["CI"] == "true" ? flunk(message) : skip(message)
  end

  def soak(seconds, *arguments)
    out, status = Open3.capture2e(RbConfig.ruby, SOAK, "--seconds", seconds.to_s, "--every", "1", "--workers", "3", "--per-second", "40", "--oracle-events", "250000", *arguments)
    assert status.success?, out
    assert_match(/ [1-9]\d* requests, \d+ lost to [1-9]\d* kills/, out)
    # Processes that ran for long enough were asked whether the recorder's memory is flat, some logs whether the oracle agrees.
    assert_match(/recorder's memory/, out)
    assert_match(/ [1-9]\d* logs compared with the oracle; [1-9]\d* inherited frees of [1-9]\d* children found/, out)
  end

  def test_everything_recorded = soak(7, "--seed", "11")
  def test_one_in_a_hundred = soak(7, "--seed", "12", "--rate", "0.01")
end
