# frozen_string_literal: true

require_relative "../mpp_recorder"
require_relative "routes"

module MppRecorder
  # Rack middleware: marks the log by requests, and labels what each request allocates by its route.
  #
  #   use MppRecorder::Rack, mark_every: 1000, label: true
  #   use(MppRecorder::Rack) { |env| env["myapp.route"] }
  #
  # `mark_every: N` writes the mark "request N" when the Nth request begins, "request 2N", and so on; requests that come while nothing
  # is recorded are not counted. `label: true`, a callable, or a block labels the request's span as `request` = its route:
  # env["mpp.route"] if something before set it, else what the callable answers (nil: no label), else the method and the path with
  # numbers, UUIDs and hexadecimal ids as :id. The label ends when the response's body is closed, or on whatever else ends the request.
  #
  # It belongs first, so that the middlewares behind it count too. While nothing is recorded it asks `running?` and nothing more.
  class Rack
    KEY = "request"

    def initialize(app, mark_every: nil, label: false, &route)
      unless mark_every.nil? || (mark_every.is_a?(Integer) && mark_every.positive?)
        raise ArgumentError, "mark_every must be a whole number above 0, not #{mark_every.inspect}"
      end

      @app = app
      @mark_every = mark_every
      @count = 0
      @lock = Mutex.new
      route = label if label.respond_to?(:call)
      @routes = Routes.new(route) if label || route
    end

    def call(env)
      return @app.call(env) unless MppRecorder.running?

      count if @mark_every
      route = @routes&.of(env)
      route ? labelled(env, route) : @app.call(env)
    end

    private

    def count
      number = @lock.synchronize { @count += 1 }
      MppRecorder.mark("request #{number}") if (number % @mark_every).zero?
    rescue MppRecorder::Error
      nil # a log that cannot be written must not cost a request
    end

    def labelled(env, route)
      MppRecorder.label(KEY, route)
      response = @app.call(env)
      body = response[2]
      # An Array makes nothing when it is read, and servers have a short way for it.
      return response if body.nil? || body.instance_of?(Array)

      open = true
      [response[0], response[1], Body.new(body)]
    ensure
      MppRecorder.label(KEY, nil) unless open
    end

    # The body as it was, with an end. It answers to just what the body answers to: `each`, `call`, `to_path`, `to_ary`.
    class Body
      def initialize(body)
        @body = body
        @thread = Thread.current
      end

      def close
        return if @closed

        @closed = true
        begin
          @body.close if @body.respond_to?(:close)
        ensure
          finish
        end
      end

      def closed?
        @closed ? true : false
      end

      def respond_to_missing?(name, include_all = false)
        name != :to_str && @body.respond_to?(name, include_all)
      end

      def method_missing(name, *arguments, &block)
        return super if name == :to_str

        answer = @body.__send__(name, *arguments, &block)
        # (who turns a body into an Array has had it closed: Rack's specification)
        finish if name == :to_ary
        answer
      end
      ruby2_keywords :method_missing

      private

      # A label is a thread's: one that a body leaves on another is replaced by that thread's next request.
      def finish
        return if @finished

        @finished = true
        MppRecorder.label(KEY, nil) if @thread.equal?(Thread.current)
      end
    end
  end
end
