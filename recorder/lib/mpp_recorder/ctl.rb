# frozen_string_literal: true

require "json"
require "optparse"
require "socket"
require_relative "control_socket"

module MppRecorder
  # `mpprecord ctl PID COMMAND`: asks a process that runs under `mpprecord --control` or `--paused`.
  module Ctl
    class Failure < StandardError; end
    class WrongUsage < StandardError; end

    FAILED = 1
    WRONG_USAGE = 2
    ARGUMENTS = { "start" => 0, "stop" => 0, "pause" => 0, "resume" => 0, "mark" => 1, "flush" => 0, "stats" => 0 }.freeze
    TIMEOUT_SECONDS = 30.0
    FIRST_NUDGE_SECONDS = 0.1

    module_function

    # Returns the exit status.
    def main(argv)
      settings = { timeout: TIMEOUT_SECONDS }
      words = option_parser(settings).permute(argv)
      return 0 if settings[:done]

      pid, request = parse(words)
      print_answer(request, ask(pid, request, settings[:timeout]))
      0
    rescue WrongUsage, OptionParser::ParseError => e
      complain(e, " (try 'mpprecord ctl --help')")
      WRONG_USAGE
    rescue Failure => e
      complain(e)
      FAILED
    end

    def complain(error, more = nil)
      warn "mpprecord: #{error.message}#{more}"
    end

    def option_parser(settings)
      OptionParser.new do |o|
        o.program_name = "mpprecord ctl"
        o.banner = <<~TEXT
          Usage: mpprecord ctl PID COMMAND
          Controls the recording of a process that runs under `mpprecord --control` or `mpprecord --paused`.

          Commands:
              start                            begin to record (a log that exists is kept: app.PID.mpp then)
              stop                             end the log
              pause, resume                    leave allocations out, and record them again; frees are always recorded
              mark NAME                        a mark in the log: mppanalyze --at mark:NAME
              flush                            bring all that was recorded into sealed blocks
              stats                            figures of the recording, as JSON

          Options:
        TEXT
        o.on("--timeout SECONDS", "how long to wait for an answer (default: #{TIMEOUT_SECONDS.to_i})") do |v|
          settings[:timeout] = Float(v, exception: false)
          raise OptionParser::InvalidArgument, v unless settings[:timeout]&.positive?
        end
        o.on("--help", "print this help and exit") do
          puts o.help
          settings[:done] = true
        end
      end
    end

    def parse(words)
      pid, command, *rest = words
      raise WrongUsage, "ctl needs a process number and a command" unless command
      raise WrongUsage, "'#{pid}' is no process number" unless pid.match?(/\A[1-9]\d{0,9}\z/)

      wanted = ARGUMENTS.fetch(command) { raise WrongUsage, "'#{command}' is none of #{ARGUMENTS.keys.join(", ")}" }
      raise WrongUsage, "#{command} needs a name" if rest.size < wanted || (wanted == 1 && rest.first.empty?)
      raise WrongUsage, "'#{rest[wanted]}' is one word too many" if rest.size > wanted

      request = { "command" => command }
      request["name"] = rest.first.dup.force_encoding(Encoding::UTF_8).scrub if command == "mark"
      [Integer(pid, 10), request]
    end

    def print_answer(request, answer)
      raise Failure, answer["error"].to_s if answer["error"]

      case request["command"]
      when "stats" then puts JSON.pretty_generate(answer)
      when "start", "stop" then puts answer["path"] if answer["path"]
      end
    end

    # --- the other process

    def ask(pid, request, timeout)
      uid = owner(pid)
      socket = connect(pid, uid)
      begin
        check_peer(socket, pid)
        socket.write("#{JSON.generate(request)}\n")
        JSON.parse(read_line(socket, pid, timeout))
      ensure
        socket.close
      end
    rescue SystemCallError, IOError
      raise Failure, "process #{pid} went away"
    rescue JSON::ParserError
      raise Failure, "process #{pid} answers nonsense"
    end

    def owner(pid)
      uid = File.stat("/proc/#{pid}").uid
      raise Failure, "process #{pid} belongs to another user" unless uid == Process.euid || Process.euid.zero?

      uid
    rescue SystemCallError
      raise Failure, "there is no process #{pid}"
    end

    def connect(pid, uid)
      ControlSocket.candidates(pid, uid).each do |path|
        return UNIXSocket.new(path)
      rescue Errno::ENOENT, Errno::ECONNREFUSED
        next # none, or left over by a process that had this number before
      rescue SystemCallError => e
        raise Failure, "'#{path}': #{e.message}"
      end
      raise Failure, "process #{pid} does not run under mpprecord --control or --paused, or handles SIGURG itself"
    end

    # (the number may have been given to another process meanwhile)
    def check_peer(socket, pid)
      peer_pid, peer_uid = ControlSocket.peer(socket)
      # (Ruby takes a full queue for a connection that is made)
      raise Failure, "process #{pid} has not answered those who asked before: is it stopped, or busy in C code?" if peer_pid.zero?
      return if peer_pid == pid && (peer_uid == Process.euid || Process.euid.zero?)

      raise Failure, "the control socket of process #{pid} is another's"
    end

    # A wake-up gets lost now and then: once in some thousands of requests, in a program that calls `system` all the time. So one who gets
    # no answer asks for attention again, more and more seldom: an empty connection makes the kernel send another signal.
    def read_line(socket, pid, timeout)
      line = +""
      deadline = now + timeout
      pause = FIRST_NUDGE_SECONDS
      until line.end_with?("\n")
        left = deadline - now
        raise Failure, "process #{pid} did not answer within #{format("%g", timeout)} s: is it stopped, or busy in C code?" unless left.positive?

        if socket.wait_readable([left, pause].min)
          line << socket.readpartial(4096)
        elsif left > pause
          nudge(socket)
          pause *= 2
        end
      end
      line
    end

    def nudge(socket)
      UNIXSocket.new(socket.remote_address.unix_path).close
    rescue SystemCallError
      nil # the answer, or its want, will tell
    end

    def now
      Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end
  end
end
