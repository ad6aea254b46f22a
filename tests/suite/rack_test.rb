# frozen_string_literal: true

# MppRecorder::Rack: what its marks and labels say, when a label ends, and what a request costs.
require "minitest/autorun"
require_relative "support/recorder_runs"

class RackTest < Minitest::Test
  include RecorderRuns

  # Rack's own library is not needed: the middleware is one by its methods alone.
  NOTES = <<~'RUBY'
    require "mpp_recorder/rack"
    # What is written to the log, in order, as the middleware hands it over.
    $notes = []
    MppRecorder.singleton_class.prepend(Module.new do
      def label(key, value) = super.tap { |written| $notes << [key, value, written] }
      def mark(name, **options) = super.tap { |written| $notes << [name, written] }
    end)
    def env(path = "/", method = "GET", **more) = { "REQUEST_METHOD" => method, "PATH_INFO" => path, **more.transform_keys(&:to_s) }
    def labels = $notes.select { |note| note.size == 3 }.map { |note| note[1] }
    def noted
      $notes.clear
      yield
    rescue Exception => e
      p e
    ensure
      p labels
    end
    OK = ->(_) { [200, {}, ["ok"]] }
    def rack(app = OK, **options, &block) = MppRecorder::Rack.new(app, **options, &block)
  RUBY

  def said(code, record: true)
    run = program!("#{NOTES}\n#{"MppRecorder.start(path: LOG)\n" if record}#{code}")
    run.out.lines(chomp: true)
  end

  def test_nothing_is_recorded
    code = <<~'RUBY'
      bare = OK.call(env)
      kept = Class.new { def each = yield("x") }.new
      p rack.call(env) == bare, rack(mark_every: 1, label: true).call(env) == bare, rack(->(_) { [200, {}, kept] }, label: true).call(env)[2].equal?(kept), $notes
    RUBY
    assert_equal %w[true true true []], said(code, record: false)
    assert_empty logs
  end

  def test_marks
    said("app = rack(mark_every: 3); 10.times { app.call(env) }; MppRecorder.stop")
    assert_equal ["request 3", "request 6", "request 9"], marks
    sound
  end

  def marks(log = path("app.mpp"))
    out, status = Open3.capture2(MPPANALYZE, "dump", log)
    assert status.success?
    out.scan(/ MARK name="([^"]*)"/).flatten
  end

  def test_marks_of_many_threads
    said("app = rack(mark_every: 7); Array.new(8) { Thread.new { 350.times { app.call(env) } } }.each(&:join); MppRecorder.stop")
    assert_equal (1..400).map { |i| "request #{i * 7}" }.sort, marks.sort
  end

  def test_wrong_options
    code = "[0, -1, 1.5, '3', true].each { |n| rack(mark_every: n) rescue p $!.class }; begin; rack(no: 1); rescue => e; p e.class; end"
    assert_equal ["ArgumentError"] * 6, said(code)
  end

  def test_routes
    code = <<~'RUBY'
      app = rack(label: true)
      %w[/ /products/42 /products/42.json /users/9/orders/77/ /files/3f2504e0-4f89-11d3-9a0c-0305e82c3301 /commits/0a1b2c3d4e5f /decade/facade /v2/x1 /deadbeef
         /1234 /12a /products/42x].each { |path| noted { app.call(env(path)) } }
      noted { app.call(env("/a", "DELETE")) }
      noted { app.call(env("/a", "GET", "mpp.route": "given")) }
      noted { app.call(env("/\xFF\xC3/5".b)) }
      noted { app.call(env("/" + "long/" * 1000)) }
      noted { app.call({}) }
    RUBY
    routes = ["/", "/products/:id", "/products/:id.json", "/users/:id/orders/:id/", "/files/:id", "/commits/:id", "/decade/facade", "/v2/x1", "/deadbeef", "/:id", "/12a",
              "/products/42x"].map { |route| "GET #{route}" }
    routes.push("DELETE /a", "given", "GET /\uFFFD\uFFFD/:id", "GET /#{"long/" * 1000}".byteslice(0, 200), " ")
    assert_equal(routes.map { |route| [route, nil].inspect }, said(code).map { |line| line.force_encoding("UTF-8") })
  end

  def test_a_route_of_ones_own
    code = <<~'RUBY'
      app = rack { |env| env["x"] }
      noted { app.call(env(x: "mine")) }
      noted { app.call(env) }
      noted { app.call(env(x: :symbol)) }
      noted { rack(label: ->(env) { env["PATH_INFO"].upcase }).call(env("/a")) }
      noted { rack { raise "wrong" }.call(env) }
    RUBY
    assert_equal ['["mine", nil]', "[]", '["symbol", nil]', '["/A", nil]', "#<RuntimeError: wrong>", "[]"], said(code)
  end

  def test_the_label_ends_with_the_body
    code = <<~'RUBY'
      parts = Class.new do
        def each = yield("part").then { p labels }
        def close = p(:closed)
      end
      app = rack(->(_) { [200, {}, parts.new] }, label: true)
      noted do
        status, headers, body = app.call(env)
        p [status, headers, body.respond_to?(:each), body.respond_to?(:to_ary), body.respond_to?(:to_path), body.respond_to?(:call), body.respond_to?(:close)]
        body.each { |part| p part }
        2.times { body.close }
      end
    RUBY
    assert_equal ["[200, {}, true, false, false, false, true]", '"part"', '["GET /"]', ":closed", '["GET /", nil]'], said(code)
  end

  def test_kinds_of_bodies
    code = <<~'RUBY'
      answer = ->(body) { rack(->(_) { [200, {}, body] }, label: true).call(env)[2] }
      file = Struct.new(:to_path).new("/x")
      noted { p answer.(file).to_path }
      noted { answer.(file).close }
      noted { answer.(->(stream) { stream << "s" }).then { |body| p body.respond_to?(:each), body.call(+"") } }
      noted { p answer.(Class.new { def to_ary = ["a"] }.new).to_ary }
      noted { answer.(Class.new { def close = raise("cannot close") }.new).close }
      noted { answer.(["a"]) }
      noted { answer.(nil) }
      noted { p((answer.(Object.new).each rescue $!.class)) }
    RUBY
    expected = ['"/x"', '["GET /"]', '["GET /", nil]', "false", '"s"', '["GET /"]', '["a"]', '["GET /", nil]', "#<RuntimeError: cannot close>", '["GET /", nil]',
                '["GET /", nil]', '["GET /", nil]', "NoMethodError", '["GET /"]']
    assert_equal expected, said(code)
  end

  def test_the_label_ends_when_the_request_fails
    code = <<~'RUBY'
      noted { rack(->(_) { raise "no" }, label: true).call(env) }
      noted { catch(:halt) { rack(->(_) { throw :halt }, label: true).call(env) } }
      noted { rack(->(_) { exit }, label: true).call(env) }
      noted { Thread.new { rack(->(_) { Thread.exit }, label: true).call(env) }.join }
    RUBY
    assert_equal ["#<RuntimeError: no>", '["GET /", nil]', '["GET /", nil]', "#<SystemExit: exit>", '["GET /", nil]', '["GET /", nil]'], said(code)
  end

  # Its label is not this thread's to end.
  def test_a_body_that_another_thread_closes
    code = <<~'RUBY'
      body = Class.new { def each = nil }.new
      noted { rack(->(_) { [200, {}, body] }, label: true).call(env)[2].then { |b| Thread.new { b.close }.join } }
    RUBY
    assert_equal ['["GET /"]'], said(code)
  end

  def test_a_response_may_be_frozen
    assert_equal ["200"], said("p rack(->(_) { [200, {}, Object.new].freeze }, label: true).call(env)[0]")
  end

  # What Rack's own checker says, on both sides of the middleware.
  def test_rack_lint
    skip "rack is not installed" if Gem::Specification.find_all_by_name("rack").empty?
    code = <<~'RUBY'
      require "rubygems"
      require "rack"
      parts = Class.new { def each = 3.times { |i| yield i.to_s } ; def close = nil }
      answers = { "/array" => ["012"], "/parts" => parts.new, "/proxy" => Rack::BodyProxy.new(["0", "12"]) { } }
      inner = Rack::Lint.new(->(env) { [200, { "Content-Type" => "text/plain" }, answers.fetch(env["PATH_INFO"])] })
      app = Rack::MockRequest.new(Rack::Lint.new(rack(inner, label: true, mark_every: 2)))
      answers.each_key { |path| noted { p app.get(path).body } }
      etag = Rack::MockRequest.new(Rack::ETag.new(rack(inner, label: true)))
      p etag.get("/proxy").headers.key?("ETag")
    RUBY
    run = run_command(RbConfig.ruby, "-I#{LIB}", "-e", "LOG = #{path("app.mpp").inspect}\n#{NOTES}\nMppRecorder.start(path: LOG)\n#{code}")
    assert_equal "", run.err
    assert_equal %w[/array /parts /proxy].flat_map { |p| ['"012"', ["GET #{p}", nil].inspect] } + ["true"], run.out.lines(chomp: true)
  end

  # Whoever sends requests chooses their paths: neither tables nor labels may grow with them.
  def test_tables_are_bounded
    code = <<~'RUBY'
      app = rack(label: true)
      30_000.times { |i| app.call(env("/#{"abcdefgh"[i % 8]}x#{i}y")) }
      30_000.times { |i| app.call(env("/#{i}")) }
      2000.times { |i| app.call(env("/x", "M#{i}")) }
      p labels.compact.uniq.size, labels.compact.last
      routes = app.instance_variable_get(:@routes)
      p routes.instance_variable_get(:@names).size <= 1000, routes.instance_variable_get(:@paths).sum { |_, paths| paths.size } <= 4000
    RUBY
    assert_equal ["1001", '"(other)"', "true", "true"], said(code)
  end

  # Whole programs: the labels stand in the log around what the requests allocated.
  def test_labels_in_the_log
    said("app = rack(->(e) { $kept = Object.new; [200, {}, ['ok']] }, label: true); 3.times { |i| app.call(env(\"/p/\#{i}\")) }; MppRecorder.stop")
    out, status = Open3.capture2(MPPANALYZE, "dump", path("app.mpp"))
    assert status.success?
    assert_equal 6, out.scan(/ LABEL /).size, out.lines.grep(/LABEL/).join
    sound
  end

  ALLOCATIONS = <<~'RUBY'
    def allocations
      yield # tables and caches
      GC.disable
      before = GC.stat(:total_allocated_objects)
      1000.times { yield }
      after = GC.stat(:total_allocated_objects)
      GC.enable
      (after - before) / 1000.0
    end
    response = [200, {}, ["ok"]].freeze
    body = Class.new { def each = nil; def close = nil }.new
    streamed = [200, {}, body].freeze
    request = env("/products/17")
    bare = ->(_) { response }
    cases = { bare: bare, neither: rack(bare), marks: rack(bare, mark_every: 100), labels: rack(bare, label: true), both: rack(bare, label: true, mark_every: 1_000_000),
              route: rack(bare) { "route".freeze } }
    counts = cases.transform_values { |app| allocations { app.call(request) } }
    app = rack(->(_) { streamed }, label: true)
    counts[:body] = allocations { app.call(request)[2].then { |b| b.each { }; b.close } }
    puts counts.inspect
  RUBY

  # Without notes, which allocate.
  def allocations(recording)
    code = NOTES.sub(/^MppRecorder\.singleton_class.*?^end\)\n/m, "") + (recording ? "MppRecorder.start(path: LOG)\n" : "") + ALLOCATIONS
    program!(code).out.scan(/(\w+)=>([\d.]+)/).to_h { |name, count| [name, count.to_f] }
  end

  def test_allocations_of_a_request
    counts = allocations(true)
    assert_in_delta 0, counts.fetch("bare"), 0.05
    assert_in_delta 0, counts.fetch("neither"), 0.05
    assert_operator counts.fetch("marks"), :<, 0.2, "one name every 100"
    %w[labels both route].each { |name| assert_in_delta 0, counts.fetch(name), 0.05, name }
    # the proxy and the response around it, the block, and the arguments of what it passes on
    assert_operator counts.fetch("body"), :<=, 8
    assert_operator counts.fetch("body"), :>=, 2
  end

  def test_allocations_when_nothing_is_recorded
    counts = allocations(false)
    counts.each { |name, count| name == "body" ? assert_operator(count, :<=, 1) : assert_in_delta(0, count, 0.05, name) }
  end
end
