# frozen_string_literal: true

# A real Rails application (programs/rails_app.rb), recorded by the Railtie and by mpprecord: it serves, and its log names its leak.
require "minitest/autorun"
require_relative "support/puma_runs"
require_relative "support/recorder_runs"

class RailsTest < Minitest::Test
  include RecorderRuns
  include PumaRuns

  APP = File.join(PROGRAMS, "rails_app.rb")
  LEAK = "rails_app.rb:#{File.readlines(APP).index { |line| line.include?("# the leak") } + 1}"
  MISSING = %w[railties actionpack activerecord sqlite3 puma].reject { |name| Gem::Specification.find_all_by_name(name).any? }
  UNDER_MPPRECORD = [RbConfig.ruby, MPPRECORD, "-o", "app.mpp", "--"].freeze

  def setup
    if MISSING.any?
      message = "not installed: #{MISSING.join(", ")} (Debian: ruby-railties ruby-activerecord ruby-sqlite3 puma)"
      ENV["CI"] == "true" ? flunk(message) : skip(message)
    end
    super
    File.write(path("config.ru"), "require #{APP.inspect}\nrun Rails.application\n")
  end

  def teardown
    super if @dir
  end

  def ruby = [RbConfig.ruby, "-I#{LIB}"]

  # 200 requests without a server.
  MOCK = <<~'RUBY'
    require ARGV.first
    require "rack/mock"
    app = Rack::MockRequest.new(Rails.application)
    200.times do |i|
      answer = app.get("/products/#{1 + i % 20}")
      raise "#{answer.status}\n#{answer.body}" unless [answer.status, answer.body] == [200, "Product #{1 + i % 20}"]
    end
    p app.get("/products").status, app.get("/nowhere").status, defined?(MppRecorder) && MppRecorder.path, Rails.application.middleware.map(&:name).first
  RUBY

  def mock(env, before: [], said: "")
    run = run_command(*before, *ruby, "-e", MOCK, APP, env: env)
    assert run.status.success?, run.err
    assert_equal said, run.err
    status, lost, log, first = run.out.lines(chomp: true)
    assert_equal %w[200 404], [status, lost]
    @log, @first = [log, first].map { |text| text.delete('"') }
    @pid = run.status.pid
  end

  def rows(log, command, *arguments)
    soundly_analyzed(log)
    analyze(command, "--by", "line", "--limit", "1", *arguments, log: log).fetch("rows")
  end

  def assert_leak(log, least:)
    row = rows(log, "top").first
    assert row["name"].end_with?(LEAK), "the first row is #{row["name"]}, the leak #{LEAK}"
    assert_operator row["live_objects"], :>=, least
  end

  def dumped(log)
    out, status = Open3.capture2(MPPANALYZE, "dump", log)
    assert status.success?
    out
  end

  def test_railtie
    mock({ "CONFIG_PATH" => "rails-%p.mpp", "LABEL" => "1", "MARKS" => "1" })
    assert_equal [path("rails-#{@pid}.mpp"), "MppRecorder::Rack"], [@log, @first]
    assert_leak(@log, least: 200)
    dump = dumped(@log)
    assert_equal %w[50 100 150 200], dump.scan(/ MARK name="request (\d+)"/).flatten
    assert_includes dump, 'text="GET /products/:id"'
    assert_operator dump.scan(/ LABEL /).size, :>=, 400
    assert_includes rows(@log, "diff", "--from", "mark:request 50", "--to", "end").first["name"], LEAK
  end

  def test_nothing_is_asked_for
    mock({})
    assert_equal %w[nil false], [@log, (@first == "MppRecorder::Rack").to_s]
    mock({ "LABEL" => "1" }) # a middleware, but nothing that records
    assert_equal %w[nil false], [@log, (@first == "MppRecorder::Rack").to_s]
    assert_empty logs
  end

  def test_the_environment_wins
    mock({ "MPP_RECORD" => "mine.mpp", "CONFIG_PATH" => "other.mpp", "EAGER" => "1" })
    assert_equal path("mine.mpp"), @log
    assert_equal ["mine.mpp"], logs
    mock({ "MPP_RECORD" => "mine.mpp" })
    assert_equal path("mine.#{@pid}.mpp"), @log
    mock({ "MPP_RECORD" => "", "CONFIG_PATH" => "other.mpp" })
    assert_equal path("other.mpp"), @log
  end

  def test_options
    mock({ "CONFIG_PATH" => "a.mpp", "MAX_DEPTH" => "3" })
    assert_equal path("a.mpp"), @log
    run = run_command(*ruby, "-r#{APP}", "-e", "1", env: { "CONFIG_PATH" => "b.mpp", "WRONG" => "1" })
    refute run.status.success?
    assert_match(/unknown keyword: :no_such_option/, run.err)
  end

  def test_a_log_that_cannot_be_written
    mock({ "CONFIG_PATH" => "no/such/a.mpp" }, said: "mpp_recorder: recording is off: cannot record to '#{path("no/such/a.mpp")}': No such file or directory: create the directory first\n")
    assert_equal "nil", @log
  end

  def test_mpprecord
    mock({ "WITHOUT_GEM" => "1" }, before: UNDER_MPPRECORD)
    assert_equal path("app.mpp"), @log
    assert_leak(@log, least: 200)
  end

  # The Railtie leaves the recording alone, and brings the labels.
  def test_mpprecord_and_railtie
    mock({ "CONFIG_PATH" => "other.mpp", "LABEL" => "1" }, before: UNDER_MPPRECORD)
    assert_equal [path("app.mpp"), "MppRecorder::Rack"], [@log, @first]
    assert_equal ["app.mpp"], logs
    assert_includes dumped(@log), 'text="GET /products/:id"'
    File.unlink(@log)
    mock({ "CONFIG_PATH" => "other.mpp", "LABEL" => "1" }, before: [*UNDER_MPPRECORD[0..-2], "--paused", "--"])
    assert_equal %w[nil MppRecorder::Rack], [@log, @first]
    assert_empty logs
  end

  PUMA = %w[-S puma -b tcp://127.0.0.1:0 -t 2:2 -e production].freeze

  def visit(server, count: 200)
    codes = Array.new(2) do |thread|
      Thread.new { Array.new(count / 2) { |i| server.get("/products/#{1 + ((thread + i) % 20)}").code } }
    end.flat_map(&:value)
    assert_equal [["200", count]], codes.tally.to_a
    assert_equal "404", server.get("/nowhere").code
  end

  def test_puma_with_railtie
    serve(*ruby, *PUMA, path: "/products", env: CLEAN.merge("CONFIG_PATH" => "a.mpp", "LABEL" => "1", "EAGER" => "1")) { |server| visit(server) }
    assert_equal ["a.mpp"], logs
    assert_leak(path("a.mpp"), least: 200)
  end

  def test_puma_under_mpprecord
    serve(*UNDER_MPPRECORD, *ruby, *PUMA, path: "/products", env: CLEAN) { |server| visit(server) }
    assert_equal ["app.mpp"], logs
    assert_leak(path("app.mpp"), least: 200)
  end

  # The application is recorded from its start in the master, and each worker goes on with a log of its own.
  def test_cluster_with_preload
    workers = nil
    serve(*ruby, *PUMA, "-w", "2", "--preload", path: "/products", env: CLEAN.merge("CONFIG_PATH" => "a.mpp", "LABEL" => "1", "EAGER" => "1")) do |server|
      workers = server.eventually("to boot its workers") { server.workers if server.workers.size == 2 }.values
      visit(server)
    end
    assert_equal ["a.mpp", *workers.map { |pid| "a.#{pid}.mpp" }].sort, logs
    soundly_analyzed(path("a.mpp"))
    workers.each { |pid| soundly_analyzed(path("a.#{pid}.mpp")) }
    leaked = workers.sum { |pid| analyze("top", "--by", "line", "--focus", "rails_app", "--limit", "0", log: path("a.#{pid}.mpp"))["rows"].find { |row| row["name"].end_with?(LEAK) }&.fetch("live_objects") || 0 }
    assert_operator leaked, :>=, 200
  end

  # Each worker boots the application itself.
  def test_cluster_without_preload
    mock({}) # makes the database, lest both do
    File.write(path("puma.rb"), "preload_app! false\n")
    serve(*ruby, *PUMA, "-w", "2", "-C", "puma.rb", path: "/products", env: CLEAN.merge("CONFIG_PATH" => "a.mpp")) do |server|
      server.eventually("to boot its workers") { server.workers.size == 2 }
      visit(server)
    end
    assert_equal 2, logs.size, logs.inspect
    assert_includes logs, "a.mpp"
    logs.each { |name| soundly_analyzed(path(name)) }
  end
end
