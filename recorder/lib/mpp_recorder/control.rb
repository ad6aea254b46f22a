# frozen_string_literal: true

load File.join(__dir__, "control_socket.rb")

module MppRecorder
  # Lets a second process, or a signal, start and stop the recording: `mpprecord --control`, `--paused`, `--signal`.
  #
  # The socket has no thread that waits at it: the kernel sends SIGURG when somebody connects (O_ASYNC), and only then a thread
  # comes, answers and ends. So as long as nobody asks, the program has the threads that it made, and Ruby still sees when all of
  # them wait for each other. SIGURG, because it does nothing by default: a program that takes the handler off, or turns into
  # another one at the wrong moment, does not die of it. A program that sets a handler of its own for it (Puma with fork_worker)
  # has the signal to itself: the socket is closed, lest a question set that off.
  unless const_defined?(:Control, false)
    module Control
      WAKE = "URG"
      F_SETSIG = 10 # Linux: which signal O_ASYNC sends
      # fcntl(2)'s numbers, lest Fcntl be loaded into the program
      F_GETFL = 3
      F_SETFL = 4
      F_SETOWN = 8
      O_ASYNC = 0o20000
      PATIENCE_SECONDS = 5
      COMMANDS = %w[start stop pause resume mark flush stats].freeze

      class Refused < StandardError; end

      @turn = Mutex.new
      @server = @path = @pid = nil
      @handlers = []
      @trapping = false

      class << self
        # Never raises for want of a socket: the recording is worth more than its remote control.
        def open(options, socket:, signal:)
          @options = options
          watch_signal(signal) if signal
          return unless socket

          require "socket.so" # not "socket", which would activate gems before Bundler has its say
          Process.singleton_class.prepend(Forks)
          [Signal.singleton_class, Kernel, Kernel.singleton_class].each { |owner| owner.prepend(Traps) }
          at_exit { MppRecorder::Control.close }
          listen
        end

        # In a forked child: a socket of its own.
        def after_fork
          return if @pid == Process.pid

          @turn = Mutex.new # its owner may be a thread that is not here
          served = @server
          @server&.close
          @server = @path = nil
          @pid = Process.pid
          listen if served # else the parent has said why there is none
        end

        # The program sets a handler for this signal.
        def give_way(signal)
          return unless @server && @pid == Process.pid && !@trapping && wake_signal?(signal)

          @server.close
          @server = nil
          close
          tell("SIG#{WAKE} is now the program's: mpprecord ctl does not reach it")
        end

        def close
          return unless @pid == Process.pid && @path

          File.unlink(@path)
          @path = nil
        rescue SystemCallError
          nil
        end

        # Does what a request asks for. Returns what to answer.
        def obey(request)
          command = request["command"]
          raise Refused, "unknown command '#{command}'" unless COMMANDS.include?(command)
          return stats if command == "stats"

          __send__("do_#{command}", request)
          { "ok" => true, "path" => @last_path }
        end

        private

        # --- the socket

        def listen
          @pid = Process.pid
          trap_free(WAKE) { attend }
          directory = ControlSocket.directory
          ControlSocket.sweep(directory)
          @path = ControlSocket.path_in(directory, @pid)
          @server = bind(@path)
        rescue StandardError => e
          @path = @server = nil
          tell("no control socket: #{e.message}")
        end

        def bind(path)
          server = Socket.new(:UNIX, :STREAM, 0)
          server.close_on_exec = true
          begin
            server.bind(Socket.pack_sockaddr_un(path))
          rescue Errno::EADDRINUSE
            File.unlink(path) # it has our pid in its name: left over by an earlier process, or by the program that became this one
            retry
          end
          File.chmod(0o600, path) # before listen: nobody can have connected yet
          server.fcntl(F_SETOWN, @pid)
          server.fcntl(F_SETSIG, Signal.list.fetch(WAKE))
          server.fcntl(F_SETFL, server.fcntl(F_GETFL, 0) | O_ASYNC)
          server.listen(16)
          server
        end

        # In the signal's handler: no lock may be taken here, and little be done.
        def attend
          aside { serve_waiting }
        end

        def aside
          Thread.new do
            Thread.current.name = "mpp_control"
            Thread.current.report_on_exception = false
            yield
          rescue Exception # rubocop:disable Lint/RescueException -- nothing of ours may reach the program
            nil
          end
        rescue ThreadError
          nil # no thread to be had: from a handler, this would rise in the middle of the program
        end

        # One signal may stand for several connections, and one connection may be served by the thread of an earlier signal.
        def serve_waiting
          server = @server
          # (in a child that was forked between signal and handler, the socket is still the parent's)
          return unless server && @pid == Process.pid

          @turn.synchronize do
            while IO.select([server], nil, nil, 0)
              connection, = server.accept
              begin
                serve(connection)
              rescue SystemCallError, IOError
                nil # the asker left
              ensure
                connection.close
              end
            end
          end
        end

        def serve(connection)
          _, uid = ControlSocket.peer(connection)
          return unless [0, Process.euid].include?(uid)

          require "json" # only now: the program's own version, if it has one
          answer =
            begin
              request = JSON.parse(read_line(connection))
              raise Refused, "a request is an object" unless request.is_a?(Hash)

              obey(request)
            rescue StandardError => e
              { "error" => e.message.to_s }
            end
          connection.write("#{JSON.generate(answer.transform_values { |value| as_text(value) })}\n")
        end

        # One line of text, whatever bytes a path has.
        def as_text(value)
          value.is_a?(String) ? value.b.lines.first.to_s.chomp.force_encoding(Encoding::UTF_8).scrub : value
        end

        def wake_signal?(signal)
          name = signal.is_a?(Integer) ? Signal.signame(signal) : signal.to_s
          name.delete_prefix("SIG") == WAKE
        rescue StandardError
          false # no signal at all: `trap` will say so
        end

        def read_line(connection)
          line = +""
          deadline = now + PATIENCE_SECONDS
          until line.end_with?("\n")
            left = deadline - now
            raise Refused, "no whole request within #{PATIENCE_SECONDS} s" unless left.positive? && IO.select([connection], nil, nil, left)
            raise Refused, "the request is too long" if line.bytesize > ControlSocket::LINE_BYTES

            line << connection.readpartial(4096)
          end
          line
        end

        def now
          Process.clock_gettime(Process::CLOCK_MONOTONIC)
        end

        # --- what can be asked for

        def do_start(_request)
          raise Refused, "already recording#{" to '#{MppRecorder.path}'" if MppRecorder.path}" if MppRecorder.running?

          MppRecorder.start(**@options)
          @last_path = MppRecorder.path
        end

        def do_stop(_request)
          recording
          @last_path = MppRecorder.stop
        end

        def do_pause(_request)
          recording
          MppRecorder.pause
        end

        def do_resume(_request)
          recording
          MppRecorder.resume
        end

        def do_mark(request)
          name = request["name"]
          raise Refused, "mark needs a name" unless name.is_a?(String) && !name.empty?

          recording
          MppRecorder.mark(name)
        end

        def do_flush(_request)
          recording
          MppRecorder.flush
        end

        def recording
          raise Refused, "nothing is being recorded" unless MppRecorder.running?

          @last_path = MppRecorder.path
        end

        def stats
          { "pid" => Process.pid, "running" => MppRecorder.running?, "paused" => MppRecorder.paused?, "path" => MppRecorder.path,
            "sample_rate" => MppRecorder.sample_rate }.merge(MppRecorder.stats.transform_keys(&:to_s))
        end

        # --- the signal that starts and stops

        def watch_signal(name)
          trap_free(name) do
            aside { @turn.synchronize { MppRecorder.running? ? MppRecorder.stop : start_by_signal } }
          end
        rescue ArgumentError => e
          tell("SIG#{name} does not start or stop the recording: #{e.message}")
        end

        def start_by_signal
          MppRecorder.start(**@options)
        rescue MppRecorder::Error, ArgumentError, TypeError => e
          tell("recording is off: #{e.message}")
        end

        # A handler that is there already is somebody's: it stays.
        def trap_free(name, &handler)
          return if @handlers.include?(name)

          @trapping = true
          old = Signal.trap(name, &handler)
          if old.is_a?(Proc)
            Signal.trap(name, old)
            raise ArgumentError, "SIG#{name} has a handler already"
          end
          @handlers << name
        ensure
          @trapping = false
        end

        def tell(text)
          return unless ENV["MPP_QUIET"].to_s.empty?

          $stderr.write("mpprecord: #{text}\n")
        rescue StandardError
          nil
        end
      end

      # Each process has its own socket, however it was forked. (Ruby's `daemon` forks without `_fork`.)
      module Forks
        def _fork
          pid = super
          MppRecorder::Control.after_fork if pid.zero?
          pid
        end

        def daemon(*)
          super.tap { MppRecorder::Control.after_fork }
        end
      end

      # In the three places where Ruby has `trap`.
      module Traps
        def trap(*arguments)
          MppRecorder::Control.give_way(arguments.first)
          super
        end
      end
    end
  end
end
