# frozen_string_literal: true

# The recorder in service: the shop under a Puma cluster under mpprecord, with steady traffic, while workers are killed, stopped and restarted at
# moments by chance. Prints a summary; exit status 1 when anything was not as it must be:
#
#  - a request fails only when its connection ends without an answer while a worker is killed, or (Puma closes connections of which it has read nothing
#    yet) without a byte of one while a worker ends in turn;
#  - the cluster ends at SIGTERM; every worker that was up for a while has a log, and only those that were killed lack a clean end;
#  - every log is whole, and mppanalyze agrees with the oracle (logs.rb);
#  - what a child freed of its parent's objects was live in the parent at the fork;
#  - the recorder's memory is flat: from the middle to the end of a process that ran for long it grows by no more than 24 bytes for each object by
#    which the greatest number of tracked objects grew, 64 for each stack node that it has at the end if the number of nodes may have grown (tables
#    double), and 1 MiB.
#
#   ruby tests/soak/soak.rb [--seconds 600] [--rate 1] [--seed 1] [--workers 4] [--per-second 50] [--every 4] [--oracle-events N] [--keep DIRECTORY]
require "fileutils"
require "optparse"
require "tmpdir"
require_relative "visitors"
require_relative "cluster"
require_relative "logs"

module Soak
  class Run
    KILL_SLACK_S = 1.0      # a worker may still take a request so long after it was sent SIGKILL
    LOG_AFTER_S = 3         # a forked child has its log a second after its fork, or when its first half journal is full, or at its end
    FLAT_FROM_S = 20        # shorter lives are not asked whether their memory is flat
    NODE_BYTES = 64
    OBJECT_BYTES = 24
    MEMORY_SLACK_BYTES = 1 << 20

    def initialize(options)
      @options = options
      @random = Random.new(options[:seed])
      @violations = []
      @events = Hash.new(0)
    end

    def main
      Dir.mktmpdir("mpp-soak") do |directory|
        @directory = File.realpath(@options[:keep] ? FileUtils.mkdir_p(@options[:keep])[0] : directory)
        serve
        check
        summarize
      end
      @violations.empty?
    end

    private

    def violation(text)
      @violations << text
      puts "soak: VIOLATION: #{text}"
    end

    def serve
      preload = @options[:preload].nil? ? @options[:seed].odd? : @options[:preload]
      @cluster = Cluster.new(@directory, rate: @options[:rate], workers: @options[:workers], preload: preload)
      puts "soak: #{@options[:seconds]} s, rate #{@options[:rate]}, #{@options[:workers]} workers, preload #{preload}, seed #{@options[:seed]}"
      @cluster.wait_until_up
      @visitors = Visitors.new(@cluster.port, @options[:per_second], @options[:seed]).start
      disturb(preload)
      @visitors.stop
      @cluster.stop
      @ended = Visitors.now
      @cluster.workers # also those that booted after the last look
    ensure
      @cluster&.kill_all
    end

    def disturb(preload)
      began = Visitors.now
      last = began + @options[:seconds]
      until (left = last - Visitors.now) <= 0
        pause([@options[:every] * (0.5 + @random.rand), left].min)
        return violation("Puma ended on its own:\n#{@cluster.output}") unless @cluster.alive?
        next if (up = @cluster.workers).size < 2

        disturb_one(up, !preload && Visitors.now - began < @options[:seconds] / 3.0)
      end
    end

    def pause(seconds)
      until_then = Visitors.now + seconds
      while (left = until_then - Visitors.now).positive?
        sleep [left, 0.05].min
        @cluster.look
      end
    end

    # One worker, that of index 0, is spared but for phased restarts: it grows old.
    def disturb_one(up, may_restart)
      victim = up.reject { |worker| worker.index.zero? }.sample(random: @random)
      case @random.rand(100)
      when 0...75
        @cluster.kill(victim) if victim
      when 75...90
        @cluster.ask_to_stop(victim) if victim
      else
        # one at a time
        return if !may_restart || (@cluster.restarts.last && Visitors.now - @cluster.restarts.last < 60)

        @cluster.restart_by_phases
      end
    end

    # --- afterwards

    def check
      check_requests
      status = @cluster.status
      violation("Puma ended with #{status}") unless status&.success? || status&.termsig == Signal.list["TERM"]
      said = @cluster.output.lines.grep(/mpprecord|mpp_recorder|\[BUG\]|Traceback|Error/)
      violation("on the server's stderr:\n#{said.join}") unless said.empty?
      @logs = Logs.new(@directory, @options[:seed], @options[:oracle_events]) { |text| violation(text) }
      @logs.check(@cluster.killed.map(&:pid))
      check_every_worker_has_a_log
      check_memory
    end

    def check_requests
      @lost, wrong = @visitors.failures.partition { |failure| failure.lost && by_a_kill?(failure) }
      @closed, wrong = wrong.partition { |failure| failure.silent && by_an_end?(failure) }
      wrong.each { |failure| violation(format("%s after %.2f s", failure.text, failure.ended - failure.began)) }
      violation("#{@lost.size} requests were lost to #{@cluster.killed.size} kills") if @lost.size > @cluster.killed.size * Visitors::THREADS
      violation("#{@closed.size} requests were lost to #{@cluster.asked.size} stops") if @closed.size > @cluster.asked.size
      violation("no request was made") if @visitors.request_count.zero?
    end

    def by_a_kill?(failure)
      @cluster.killed.any? { |worker| worker.killed_at.between?(failure.began - KILL_SLACK_S, failure.ended) }
    end

    def by_an_end?(failure)
      @cluster.asked.any? { |worker| worker.asked_at <= failure.ended && failure.began <= (worker.gone_at || @ended) }
    end

    def check_every_worker_has_a_log
      with = @logs.all.map(&:pid).tally
      with[@cluster.pid] -= 1 if with[@cluster.pid]
      @killed_without = 0
      @cluster.seen.group_by(&:pid).each do |pid, workers|
        missing = workers.size - with.fetch(pid, 0)
        early = workers.count { |worker| worker.killed_at && worker.killed_at - worker.booted_at < LOG_AFTER_S }
        @killed_without += [missing, 0].max
        violation("worker #{pid} has no log") if missing > early
      end
      booted = @cluster.output.scan(/\(PID: (\d+)\) booted/).flatten.map(&:to_i).tally
      with.each { |pid, count| violation("#{count} logs of #{pid}, which was #{booted.fetch(pid, 0)} workers") if count > booted.fetch(pid, 0) }
    end

    def check_memory
      @memory = @logs.all.filter_map { |log| flatness(log) }
    end

    # What is told of a process that ran for long: [log, samples, memory in the middle, at the end, allowed growth]
    def flatness(log)
      return if log.seconds < [FLAT_FROM_S, @options[:seconds] / 2.0].min

      samples = Figures.new(log.path).samples.select { |_, values| values["recorder_memory_bytes"].positive? }
      return violation("#{log.name}: #{samples.size} samples in #{log.seconds.round} s") if samples.size < 3

      middle = samples.rindex { |time_ns, _| time_ns <= log.info["log"]["duration_ns"] / 2 } || 0
      greatest = ->(part) { part.map { |_, values| values["tracked_objects"] }.max }
      before, after = [samples[0..middle], samples].map(&greatest)
      allowed = (OBJECT_BYTES * (after - before)) + (NODE_BYTES * log.info["stack_count"]) + MEMORY_SLACK_BYTES
      from, to = [samples[middle], samples.last].map { |_, values| values["recorder_memory_bytes"] }
      violation("#{log.name}: the recorder's memory grew from #{from} to #{to} bytes, more than by #{allowed}") if to - from > allowed
      [log, samples, from, to, allowed]
    end

    def summarize
      logs = @logs.all
      cluster = @cluster
      puts format("soak: %d requests, %d lost to %d kills, %d closed by %d stops; %d phased restarts, %d workers in all", @visitors.request_count, @lost.size,
                  cluster.killed.size, @closed.size, cluster.asked.size, cluster.restarts.size, cluster.seen.size)
      puts format("soak: %d logs (%d without a clean end, %d killed workers without a log), %.1f MB, %.1f M events, %d dropped", logs.size,
                  logs.count { |log| !log.clean_end }, @killed_without, logs.sum { |log| log.info["file_bytes"] } / 1e6, logs.sum(&:events) / 1e6,
                  logs.sum { |log| log.info["drops"] })
      puts "soak: #{@logs.compared} logs compared with the oracle; #{@logs.inherited_frees} inherited frees of #{@logs.children_checked} children found in their parent"
      @memory.max_by(5) { |log, *| log.seconds }.each { |row| print_memory(*row) }
      puts "soak: #{@violations.empty? ? "all as it must be" : "#{@violations.size} VIOLATIONS"}"
    end

    def print_memory(log, samples, from, to, allowed)
      first, last = samples.values_at(0, -1).map(&:last)
      puts format("soak: %s, %.0f s: recorder's memory %.2f MiB in the middle, %.2f at the end (may grow by %.2f); tracked %d to %d; %d stack nodes; RSS %.0f to %.0f MiB; %d stalls, %.0f ms",
                  log.name, log.seconds, mib(from), mib(to), mib(allowed), first["tracked_objects"], last["tracked_objects"], log.info["stack_count"],
                  mib(first["rss_bytes"]), mib(last["rss_bytes"]), last["stalls"], last["stall_ns"] / 1e6)
    end

    def mib(bytes) = bytes / 1048576.0
  end
end

options = { seconds: 600.0, rate: 1.0, seed: 1, workers: Integer(ENV.fetch("WORKERS", "4")), per_second: 50.0, every: 4.0, keep: nil, preload: nil,
            oracle_events: 6_000_000 }
parser = OptionParser.new("Usage: ruby soak.rb [OPTIONS]") do |o|
  o.on("--seconds S", Float, "how long (default: #{options[:seconds]})") { |v| options[:seconds] = v }
  o.on("--rate R", Float, "share of the allocations that is recorded (default: #{options[:rate]})") { |v| options[:rate] = v }
  o.on("--seed N", Integer, "of everything that is left to chance; odd: the application is preloaded (default: #{options[:seed]})") { |v| options[:seed] = v }
  o.on("--[no-]preload", "whatever the seed") { |v| options[:preload] = v }
  o.on("--workers N", Integer, "of the cluster (default: WORKERS or 4)") { |v| options[:workers] = v }
  o.on("--per-second N", Float, "requests, at most 60 (default: #{options[:per_second]})") { |v| options[:per_second] = [v, 60.0].min }
  o.on("--every S", Float, "seconds between two disturbances, on average (default: #{options[:every]})") { |v| options[:every] = v }
  o.on("--oracle-events N", Integer, "how many events of logs the oracle reads (default: #{options[:oracle_events]})") { |v| options[:oracle_events] = v }
  o.on("--keep DIRECTORY", "where the logs stay (default: nowhere)") { |v| options[:keep] = v }
end
parser.parse!
abort parser.help unless ARGV.empty?
$stdout.sync = true
exit Soak::Run.new(options).main
