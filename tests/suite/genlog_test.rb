# frozen_string_literal: true

# The generator of logs that the other tests stand on: it ends, and the same seed gives the same bytes.
require_relative "analyze_helper"
require "timeout"

class GenlogTest < Minitest::Test
  GENLOG_PATH = File.join(ENV.fetch("MPP_BUILD", File.expand_path("../../build", __dir__)), "tests/tools/genlog")

  def setup
    skip "genlog is not built: make tools" unless File.executable?(GENLOG_PATH)
  end

  # Blocks of a few records each, which a hostile log starts at ever higher serials.
  def test_hostile_logs_of_tiny_blocks_end
    [[1768, 2654, 384], [10_022, 460, 244]].each do |seed, events, block_bytes|
      bytes = Array.new(2) { generate("--seed", seed.to_s, "--events", events.to_s, "--blocks-of", block_bytes.to_s, "--hostile") }
      assert_equal bytes[0], bytes[1]
      assert_operator bytes[0].bytesize, :<, 1 << 20
    end
  end

  private

  def generate(*args)
    Dir.mktmpdir do |dir|
      path = File.join(dir, "log.mpp")
      pid = Process.spawn(GENLOG_PATH, *args, "--out", path)
      begin
        Timeout.timeout(60) { Process.wait(pid) }
      rescue Timeout::Error
        Process.kill(:KILL, pid)
        Process.wait(pid)
        flunk "genlog #{args.join(" ")} does not end"
      end
      assert_predicate $?, :success?
      File.binread(path)
    end
  end
end
