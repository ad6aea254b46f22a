# frozen_string_literal: true

require "json"
require "socket"
require_relative "../../fixtures/apps/shop/lib/shop/catalogue"

module Soak
  # One request that was not answered as it should be. `lost`: the connection ended before a whole answer had come; `silent`: before any.
  Failure = Struct.new(:began, :ended, :lost, :silent, :text)
  class Cut < EOFError; end

  # Steady traffic at a bounded rate: a few threads, each with a connection for every request, so that a request is in the hands of one worker
  # at most and what fails can be held against the moments of the kills. Every answer is checked.
  class Visitors
    THREADS = 6
    TIMEOUT_S = 30

    attr_reader :failures, :request_count

    def self.now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

    def initialize(port, per_second, seed)
      @port = port
      @pause = THREADS.to_f / per_second
      @seed = seed
      @catalogue = Shop::Catalogue.new
      @failures = []
      @request_count = 0
      @lock = Mutex.new
    end

    def start
      @threads = Array.new(THREADS) { |n| Thread.new { visit(n) } }
      self
    end

    def stop
      @stopping = true
      @threads.each(&:join)
      self
    end

    private

    def visit(number)
      random = Random.new((@seed * 1000) + number)
      due = Visitors.now + (@pause * random.rand)
      until @stopping
        early = due - Visitors.now
        sleep early if early.positive?
        # One that was held up does not make up for it by a burst.
        due = [due + @pause, Visitors.now].max
        request(random, "soak-#{number}-#{random.rand(1 << 60)}")
      end
    end

    def request(random, id)
      method, path, form, status, expected = choose(random)
      began = Visitors.now
      lost = silent = false
      begin
        code, headers, body = answer(method, path, form, id)
        problem = "answered #{code}, not #{status}" if code != status
        problem ||= "its id is missing" unless headers.match?(/^x-request-id: #{id}\r?$/i)
        problem ||= "'#{expected}' is missing" unless body.include?(expected)
      rescue EOFError, Errno::ECONNRESET, Errno::EPIPE => e
        lost = true
        silent = !e.is_a?(Cut)
        problem = e.class.name
      rescue SystemCallError, IOError => e
        problem = "#{e.message} (#{e.class})"
      end
      @lock.synchronize do
        @request_count += 1
        @failures << Failure.new(began, Visitors.now, lost, silent, "#{method} #{path}: #{problem}") if problem
      end
    end

    # Method, path, form, the status and a text that the answer must have.
    def choose(random)
      product = @catalogue.products[(random.rand**2 * @catalogue.products.size).floor]
      case random.rand(100)
      when 0...20
        number = 1 + random.rand(@catalogue.page_count)
        ["GET", "/?page=#{number}", nil, 200, "Page #{number} of #{@catalogue.page_count}"]
      when 20...65 then ["GET", "/products/#{product.sku}", nil, 200, "<h1>#{product.name}</h1>"]
      when 65...88
        query = Shop::Catalogue::THINGS.sample(random: random)[0, 3]
        limit = 1 + random.rand(12)
        ["GET", "/search.json?q=#{query}&limit=#{limit}", nil, 200, %({"count":#{@catalogue.search(query, limit).size},)]
      when 88...96
        quantity = 1 + random.rand(3)
        ["POST", "/cart", "sku=#{product.sku}&quantity=#{quantity}", 201, %("items":#{quantity})]
      else ["GET", "/products/sku-#{1000 + random.rand(9000)}-gone", nil, 404, "Not found"]
      end
    end

    # A whole answer: code, headers and body. EOFError: the connection ended before it began, Cut: amid it.
    def answer(method, path, form, id)
      Socket.tcp("127.0.0.1", @port, connect_timeout: TIMEOUT_S) do |socket|
        socket.write(head(method, path, form, id) + form.to_s)
        text = read_all(socket)
        raise EOFError if text.empty?

        headers, body = text.split("\r\n\r\n", 2)
        length = headers.to_s[/^content-length: (\d+)\r?$/i, 1]
        raise Cut if body.nil? || length.nil? || body.bytesize < length.to_i

        [headers[%r{\AHTTP/1\.1 (\d+)}, 1].to_i, headers, body.force_encoding(Encoding::UTF_8)]
      end
    end

    def read_all(socket)
      text = +""
      loop do
        raise Errno::ETIMEDOUT unless socket.wait_readable(TIMEOUT_S)

        text << socket.readpartial(65_536)
      end
    rescue EOFError
      text
    end

    def head(method, path, form, id)
      lines = ["#{method} #{path} HTTP/1.1", "Host: 127.0.0.1", "Connection: close", "X-Request-Id: #{id}", "User-Agent: soak"]
      lines << "Content-Type: application/x-www-form-urlencoded" << "Content-Length: #{form.bytesize}" if form
      lines.map { |line| "#{line}\r\n" }.join + "\r\n"
    end
  end
end
