# frozen_string_literal: true

require "net/http"

# Puma on a port of its own choice, on loopback, for tests that include RecorderRuns or MpprecordRuns (a directory `@dir`).
module PumaRuns
  SECONDS = 60

  # A server that runs while the block does, and is then ended by SIGTERM.
  class Server
    attr_reader :pid, :status

    def initialize(env, command, directory)
      @output = File.join(directory, "puma.out")
      # a group of its own, so that nothing of it can be left over
      @pid = Process.spawn(env, *command, chdir: directory, in: File::NULL, %i[out err] => @output, pgroup: true)
    end

    def output = File.read(@output)

    def port
      @port ||= eventually("to listen") { output[%r{Listening on http://127\.0\.0\.1:(\d+)}, 1] }
    end

    def get(path)
      Net::HTTP.start("127.0.0.1", port, read_timeout: SECONDS) { |http| http.get(path) }
    end

    def wait_until_up(path)
      eventually("to answer") { get(path).code == "200" rescue false }
    end

    # pids of the workers that have booted, by their index
    def workers
      output.scan(/Worker (\d+) \(PID: (\d+)\) booted/).each_with_object({}) { |(index, pid), all| all[index] = Integer(pid) }
    end

    def stop
      Process.kill(:TERM, @pid)
      @status = eventually("to end", 30) { Process.wait2(@pid, Process::WNOHANG)&.last }
    ensure
      kill
    end

    def kill
      Process.kill(:KILL, -@pid)
    rescue Errno::ESRCH
      nil
    end

    def eventually(what, seconds = SECONDS)
      deadline = now + seconds
      while now < deadline
        value = yield and return value
        sleep 0.05
      end
      raise "Puma took more than #{seconds} s #{what}:\n#{output}"
    end

    def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end

  def serve(*command, path:, env: {})
    server = Server.new(env, command, @dir)
    begin
      server.wait_until_up(path)
      yield server
      server.stop
      assert server.status.success? || server.status.termsig == Signal.list["TERM"], "#{server.status}\n#{server.output}"
      server
    ensure
      server.kill
    end
  end
end
