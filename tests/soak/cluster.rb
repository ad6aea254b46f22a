# frozen_string_literal: true

require "rbconfig"

module Soak
  # The shop under Puma under mpprecord, and the ends that its workers are given.
  class Cluster
    ROOT = File.expand_path("../..", __dir__)
    SHOP = File.join(ROOT, "fixtures/apps/shop")
    MPPRECORD = File.join(ROOT, "recorder/exe/mpprecord")
    PATIENCE_S = 120
    # `killed_at` and `asked_at` (to end in turn) by the monotonic clock, like all times here; `gone_at` of those that were asked.
    Worker = Struct.new(:pid, :index, :booted_at, :killed_at, :asked_at, :gone_at)

    attr_reader :restarts, :pid, :status, :seen

    def initialize(directory, rate:, workers:, preload:)
      @directory = directory
      @output = File.join(directory, "puma.out")
      @restarts = []
      @seen = [] # every worker that was ever up, in the order of Puma's telling (pids come back)
      File.write(File.join(directory, "puma.rb"), <<~RUBY)
        directory #{SHOP.inspect}
        rackup #{File.join(SHOP, "config.ru").inspect}
        environment "production"
        bind "tcp://127.0.0.1:0"
        threads 4, 4
        workers #{workers}
        preload_app! #{preload}
      RUBY
      command = [RbConfig.ruby, MPPRECORD, "-o", File.join(directory, "app.mpp"), "--rate", rate.to_s, "--", "puma", "-C", File.join(directory, "puma.rb")]
      # a group of its own, so that nothing of it can be left over
      @pid = Process.spawn(environment, *command, chdir: directory, in: File::NULL, %i[out err] => @output, pgroup: true)
      @worker_count = workers
    end

    def output = File.read(@output)

    def port
      @port ||= eventually("listens") { output[%r{Listening on http://127\.0\.0\.1:(\d+)}, 1] }.to_i
    end

    def wait_until_up
      eventually("has its workers") { workers.size == @worker_count }
      port
    end

    # Those that are up, that have booted, and that nobody has told to end.
    def workers
      output.scan(/Worker (\d+) \(PID: (\d+)\) booted/).drop(@seen.size).each { |index, pid| @seen << Worker.new(pid.to_i, index.to_i, Visitors.now) }
      @seen.select { |worker| worker.killed_at.nil? && worker.asked_at.nil? && child?(worker.pid) }
    end

    def killed = @seen.select(&:killed_at)
    def asked = @seen.select(&:asked_at)

    def kill(worker)
      worker.killed_at = Visitors.now
      Process.kill(:KILL, worker.pid)
    rescue Errno::ESRCH
      worker.killed_at = nil
    end

    # A worker finishes what it has begun and ends; Puma replaces it.
    def ask_to_stop(worker)
      worker.asked_at = Visitors.now
      Process.kill(:TERM, worker.pid)
    rescue Errno::ESRCH
      nil
    end

    # Puma replaces all workers one by one: what is up now will end of itself.
    def restart_by_phases
      workers.each { |worker| worker.asked_at = Visitors.now }
      @restarts << Visitors.now
      Process.kill(:USR1, @pid)
    end

    # To be called often: when those that were asked have ended.
    def look
      asked.each { |worker| worker.gone_at ||= Visitors.now unless child?(worker.pid) }
    end

    def alive? = (@status ||= Process.wait2(@pid, Process::WNOHANG)&.last).nil?

    def stop
      Process.kill(:TERM, @pid) if alive?
      eventually("ends") { !alive? }
    end

    def kill_all
      Process.kill(:KILL, -@pid)
    rescue Errno::ESRCH
      nil
    end

    private

    # Nothing of the environment of whoever runs this may decide it.
    def environment
      [*%w[RUBYOPT RUBYLIB BUNDLE_GEMFILE XDG_RUNTIME_DIR WEB_CONCURRENCY], *ENV.keys.grep(/\AMPP_(?!BUILD)/)].to_h { |name| [name, nil] }
    end

    # A pid may have become another process's.
    def child?(pid)
      File.read("/proc/#{pid}/stat")[/\) (\S) (\d+)/] && $1 != "Z" && $2.to_i == @pid
    rescue SystemCallError
      false
    end

    def eventually(what)
      deadline = Visitors.now + PATIENCE_S
      while Visitors.now < deadline
        value = yield and return value
        sleep 0.05
      end
      raise "Puma took more than #{PATIENCE_S} s until it #{what}:\n#{output}"
    end
  end
end
