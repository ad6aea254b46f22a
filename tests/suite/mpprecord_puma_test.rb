# frozen_string_literal: true

# The shop on Puma under mpprecord: one process and a cluster, phased and hot restart, control of single workers.
require "minitest/autorun"
require_relative "support/puma_runs"
require_relative "support/recorder_runs"

class MpprecordPumaTest < Minitest::Test
  include RecorderRuns
  include PumaRuns

  SHOP = File.join(ROOT, "fixtures/apps/shop")
  UNDER_MPPRECORD = [RbConfig.ruby, MPPRECORD, "-o", "shop.mpp"].freeze
  PUMA = %w[-- puma -C].freeze

  def setup
    missing = %w[puma rack].reject { |name| Gem::Specification.find_all_by_name(name).any? }
    if missing.any?
      message = "not installed: #{missing.join(", ")}"
      ENV["CI"] == "true" ? flunk(message) : skip(message)
    end
    super
  end

  def teardown
    super if @dir
  end

  # The fixture's own configuration but for preload_app!, without which Puma has phased restarts.
  def config_without_preload
    File.write(path("puma.rb"), File.read(File.join(SHOP, "config/puma.rb")).gsub("__dir__", File.join(SHOP, "config").inspect).gsub(/preload_app!/, "preload_app! false"))
    path("puma.rb")
  end

  def shop(*options, config: File.join(SHOP, "config/puma.rb"), workers: 2, env: {}, &block)
    environment = CLEAN.merge("WORKERS" => workers.to_s, "PORT" => "0", "XDG_RUNTIME_DIR" => @dir).merge(env)
    serve(*UNDER_MPPRECORD, *options, *PUMA, config, path: "/health", env: environment, &block)
  end

  def traffic(server, requests: 120)
    out, status = Open3.capture2e(CLEAN, RbConfig.ruby, File.join(SHOP, "traffic.rb"), "http://127.0.0.1:#{server.port}", "--requests", requests.to_s)
    assert status.success?, "#{out}\n#{server.output}"
    nil
  end

  def workers(server, count: 2)
    server.eventually("to boot #{count} workers") { server.workers if server.workers.size == count }.values
  end

  def log_of(pid) = "shop.#{pid}.mpp"

  # All of these and no others, and nothing is wrong with any. Those of a process that was killed, or called exec, have no clean end.
  def assert_logs(*names, without_end: [])
    assert_equal names.sort, logs
    names.each do |log|
      out, status = Open3.capture2e(MPPANALYZE, "verify", path(log))
      assert status.success?, "#{log}: #{out}"
      info = analyze("info", log: path(log), clean_end: !without_end.include?(log))["log"]
      assert_equal [false, !without_end.include?(log)], info.values_at("damaged", "clean_end"), log
    end
  end

  def test_one_process
    shop(workers: 0) { |server| traffic(server) }
    assert_logs "shop.mpp"
  end

  def test_cluster
    pids = nil
    server = shop do |running|
      pids = workers(running)
      traffic(running)
    end
    refute_match(/mpprecord|mpp_recorder/, server.output)
    assert_logs "shop.mpp", *pids.map { |pid| log_of(pid) }
    leak = analyze("top", "--by", "line", "--limit", "0", "--focus", "request_trace", log: path(log_of(pids.first)))["rows"]
    refute_empty leak, "the worker's log has the requests"
  end

  def test_names_by_process
    pids = nil
    server = shop("-o", "p-%p.mpp") { |running| pids = workers(running) }
    assert_logs "p-#{server.pid}.mpp", *pids.map { |pid| "p-#{server.pid}.#{pid}.mpp" }
  end

  def test_phased_restart
    before = after = nil
    server = shop(config: config_without_preload) do |running|
      before = workers(running)
      traffic(running)
      Process.kill(:USR1, running.pid)
      after = running.eventually("to restart its workers") { running.workers.values if (running.workers.values & before).empty? }
      traffic(running)
    end
    assert_match(/phase: 1/, server.output)
    refute_match(/mpprecord|mpp_recorder/, server.output)
    assert_logs "shop.mpp", *(before + after).map { |pid| log_of(pid) }
  end

  # Puma turns into a new one by exec: the same process, a log more.
  def test_hot_restart
    server = shop(workers: 0) do |running|
      traffic(running)
      Process.kill(:USR2, running.pid)
      running.eventually("to restart") { running.output.include?("* Inherited tcp") }
      running.wait_until_up("/health")
      traffic(running)
    end
    assert_logs "shop.mpp", log_of(server.pid), without_end: ["shop.mpp"]
  end

  def test_killed_workers_are_replaced
    first = second = nil
    shop do |running|
      first = workers(running)
      # (a forked child has its log a second after its fork, if it allocates then)
      running.eventually("to write the worker's log") { traffic(running, requests: 500) || File.exist?(path(log_of(first.first))) }
      Process.kill(:KILL, first.first)
      second = running.eventually("to replace a worker") { (running.workers.values - first).first }
      traffic(running)
    end
    assert_logs "shop.mpp", *[*first, second].map { |pid| log_of(pid) }, without_end: [log_of(first.first)]
  end

  def ctl(*words)
    out, err, status = Open3.capture3(CLEAN.merge("XDG_RUNTIME_DIR" => @dir), RbConfig.ruby, MPPRECORD, "ctl", *words.map(&:to_s))
    assert_equal [0, ""], [status.exitstatus, err]
    out.chomp
  end

  def test_one_worker_is_recorded_on_demand
    pids = nil
    shop("--paused") do |running|
      pids = workers(running)
      traffic(running)
      assert_empty logs
      assert_equal path("shop.mpp"), ctl(pids.last, "start")
      traffic(running)
      ctl(pids.last, "mark", "after traffic")
      assert_equal path("shop.mpp"), ctl(pids.last, "stop")
      assert_equal false, JSON.parse(ctl(running.pid, "stats"))["running"]
    end
    assert_logs "shop.mpp"
    assert_equal pids.last, analyze("info", log: path("shop.mpp"))["log"]["pid"]
  end
end
