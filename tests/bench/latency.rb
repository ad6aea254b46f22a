# How long the shop on Puma lets its visitors wait, with and without recording: alternating runs, of which the median counts.
# Used by record.rb; alone: ruby tests/bench/latency.rb [ROUNDS]
require "json"
require "net/http"
require "rbconfig"
require "tmpdir"

module Latency
  ROOT = File.expand_path("../..", __dir__)
  SHOP = File.join(ROOT, "fixtures/apps/shop")
  MODES = { "none" => nil, "mpp" => "1", "mpp1pct" => "1/100" }.freeze
  REQUESTS = 1200

  module_function

  def with_shop(rate, dir)
    output = File.join(dir, "puma.out")
    puma = [RbConfig.ruby, "-S", "puma", "-C", File.join(SHOP, "config/puma.rb")]
    puma = [RbConfig.ruby, File.join(ROOT, "recorder/exe/mpprecord"), "--rate", rate, "-o", File.join(dir, "shop.mpp"), "--", *puma] if rate
    pid = Process.spawn({ "PORT" => "0" }, *puma, chdir: dir, in: File::NULL, %i[out err] => output, pgroup: true)
    port = nil
    600.times do
      break if (port = File.read(output)[%r{Listening on http://127\.0\.0\.1:(\d+)}, 1])
      return nil if Process.wait(pid, Process::WNOHANG)

      sleep 0.05
    end
    yield "http://127.0.0.1:#{port}" if port
  ensure
    begin
      Process.kill(:TERM, -pid)
      Process.wait(pid)
    rescue Errno::ESRCH, Errno::ECHILD
      nil
    end
  end

  def visit(url, requests, dir)
    file = File.join(dir, "latencies.json")
    system({ "LATENCIES" => file }, RbConfig.ruby, "-r", File.join(__dir__, "latency_probe.rb"), File.join(SHOP, "traffic.rb"), url,
           "--requests", requests.to_s, "--threads", "2", out: File::NULL) or return nil
    JSON.parse(File.read(file)).sort
  end

  # {mode: {"p50_s", "p99_s"}} of one round; empty where Puma does not run.
  def round
    MODES.each_with_object({}) do |(mode, rate), all|
      Dir.mktmpdir("mpp-latency") do |dir|
        with_shop(rate, dir) do |url|
          visit(url, 200, dir) # warm
          seconds = visit(url, REQUESTS, dir) or next
          all[mode] = { "p50_s" => seconds[seconds.size / 2], "p99_s" => seconds[(seconds.size * 0.99).floor] }
        end
      end
    end
  end

  def median(list) = list.sort[list.size / 2]

  # {mode: {"p50_s", "p99_s", "p50_ratio", "p99_ratio"}}: medians of the rounds; ratios of each round to the run without recording beside it.
  def measure(rounds)
    all = Array.new(rounds) { round }.select { |r| r.size == MODES.size }
    return {} if all.empty?

    MODES.keys.to_h do |mode|
      figures = %w[p50 p99].flat_map do |name|
        [["#{name}_s", median(all.map { |r| r[mode]["#{name}_s"] })], ["#{name}_ratio", median(all.map { |r| r[mode]["#{name}_s"] / r["none"]["#{name}_s"] })]]
      end
      [mode, figures.to_h]
    end
  end

  def print(figures)
    return puts("Puma's shop: not measured (puma and rack are needed)") if figures.empty?

    puts format("%-10s %-18s %9s %9s %9s %9s", "latency", "watched by", "p50 ms", "p99 ms", "p50 x", "p99 x")
    figures.each { |mode, f| puts format("%-10s %-18s %9.2f %9.2f %9.2f %9.2f", "shop", mode, f["p50_s"] * 1000, f["p99_s"] * 1000, f["p50_ratio"], f["p99_ratio"]) }
  end
end

Latency.print(Latency.measure(Integer(ARGV[0] || 5))) if $PROGRAM_NAME == __FILE__
