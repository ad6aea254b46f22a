# frozen_string_literal: true

require "json"
require "open3"
require_relative "../oracle/mpp_oracle"

module Soak
  # The PROC records of a log of any length: only their blocks are read (FORMAT.md §2).
  class Figures < MppOracle::Records::Handler
    BLOCK_HEADER_BYTES = 80
    PROC_KIND = 3

    attr_reader :samples # [[time_ns, {name of the key → value}]], in order

    def initialize(path)
      super()
      @samples = []
      File.open(path, "rb") { |file| read(file) }
    end

    def proc_statistics(time, pairs)
      @samples << [time, pairs.to_h { |key, value| [MppOracle::Oracle::PROC_KEYS.fetch(key, key), value] }]
    end

    private

    def read(file)
      offset = file.pread(8, 32).unpack1("Q<")
      while offset + BLOCK_HEADER_BYTES <= file.size
        head = file.pread(BLOCK_HEADER_BYTES, offset)
        break unless head.start_with?("MPPB")

        stored_bytes, raw_bytes, serial, time_ns = head.unpack("@16L<L<Q<Q<")
        payload_offset = offset + head.unpack1("@6S<")
        take(file.pread(stored_bytes, payload_offset), head.getbyte(5), raw_bytes, serial, time_ns) if head.getbyte(4) == PROC_KIND
        offset = payload_offset + stored_bytes
      end
    end

    def take(stored, compression, raw_bytes, serial, time_ns)
      raw = compression == 1 ? MppOracle::Native.unzstd(stored, raw_bytes) : stored
      MppOracle::Records.new(MppOracle::Payload.new(:PROC, 0, serial, time_ns, raw, 0)).each(self)
    end
  end

  # What lives where a log's position stands, and what is freed that was born before its fork.
  class Lives < MppOracle::Records::Handler
    attr_reader :live, :inherited, :next_serial, :malformed

    def initialize(fork_serial = 0)
      super()
      @fork_serial = fork_serial
      @next_serial = 1
      @live = {}
      @inherited = []
    end

    def copy
      dup.tap { |other| other.instance_variable_set(:@live, @live.dup) }
    end

    # All of a payload, or so many bytes of it.
    def read(payload, bytes = payload.bytes.bytesize)
      payload = payload.dup.tap { |part| part.bytes = payload.bytes.byteslice(0, bytes) }
      records = MppOracle::Records.new(payload)
      records.each(self)
      @next_serial = records.next_serial
      @malformed ||= records.malformed_at
    end

    def alloc(_time, serial, *) = born(serial)
    def alloc_weighted(_time, serial, *) = born(serial)
    def free(_time, serial) = gone(serial)
    def free_sized(_time, serial, *) = gone(serial)

    private

    def born(serial) = @live[serial] = true

    def gone(serial)
      @inherited << serial if @live.delete(serial).nil? && serial < @fork_serial
    end
  end

  # Everything that is asked of the logs once the cluster has ended. What is wrong is told to `violation`.
  class Logs
    BUILD = File.expand_path(ENV.fetch("MPP_BUILD", "build"))
    MPPANALYZE = File.join(BUILD, "mppanalyze")
    NO_CLEAN_END = /\Amppanalyze: "[^"]*" has no clean end \(the process was killed or still runs\): [^\n]*\n\z/
    ORACLE_LOG_EVENTS = 2_000_000 # longer logs are only verified
    CHILDREN = 12
    POINTS = 4

    Log = Struct.new(:path, :pid, :info, :clean_end, keyword_init: true) do
      def name = File.basename(path)
      def events = info["event_count"]
      def seconds = info["log"]["duration_ns"] / 1e9
      def uuid = info["log"]["uuid"]
    end

    attr_reader :all, :compared, :inherited_frees, :children_checked

    # Once logs of `oracle_events` have been compared, the others are only verified.
    def initialize(directory, seed, oracle_events, &violation)
      @directory = directory
      @random = Random.new(seed)
      @oracle_events = oracle_events
      @violation = violation
      @compared = @inherited_frees = @children_checked = 0
    end

    # `may_lack_end` are the pids of those that were killed.
    def check(may_lack_end)
      @all = Dir[File.join(@directory, "*.mpp")].filter_map { |path| read(path, may_lack_end) }
      compare_with_oracle
      check_children
    end

    def parent = @all.find { |log| log.name == "app.mpp" }

    private

    def violation(text) = @violation.call(text)

    def analyze(command, path, *arguments)
      out, err, status = Open3.capture3(MPPANALYZE, command, "--format", "json", *arguments, path)
      name = File.basename(path)
      unless status.exitstatus == 0 && (err.empty? || err.match?(NO_CLEAN_END))
        violation("#{name}: mppanalyze #{command}: #{status}: #{err}")
        return
      end
      JSON.parse(out)
    end

    def read(path, may_lack_end)
      name = File.basename(path)
      info = analyze("info", path) or return
      verified = analyze("verify", path) or return
      pid = info["log"]["pid"]
      clean_end = info["log"]["clean_end"]
      violation("#{name}: verify: #{verified["damage"]}") unless verified["ok"] && verified["damage"].empty?
      violation("#{name}: damaged") if info["log"]["damaged"]
      violation("#{name}: no clean end, though nobody killed it") unless clean_end || may_lack_end.include?(pid)
      violation("#{name}: is of process #{pid}") unless name.match?(/\Aapp(\.#{pid}(\.\d+)?)?\.mpp\z/) # a pid may come back
      %w[orphans gaps].each { |what| violation("#{name}: #{info[what]} #{what}") unless info[what].zero? }
      totals = info["totals"]
      unless totals["allocated_bytes"] - totals["freed_bytes"] == totals["live_bytes"] && totals["allocated_objects"] - totals["freed_objects"] == totals["live_objects"]
        violation("#{name}: allocated - freed is not live: #{totals}")
      end
      Log.new(path: path, pid: pid, info: info, clean_end: clean_end)
    end

    # Oracle and analyzer agree on all rows and totals at the end and at a few moments by chance.
    def compare_with_oracle
      left = @oracle_events
      ends, others = @all.select { |log| log.events < ORACLE_LOG_EVENTS }.shuffle(random: @random).partition(&:clean_end)
      # a killed one and one that ended in turn
      ends.zip(others).flatten.compact.concat(others.drop(ends.size)).each do |log|
        next if log.events > left

        left -= log.events
        compare(log)
      end
    end

    def compare(log)
      oracle = MppOracle::Oracle.new(log.path)
      points = ["end", *Array.new(POINTS - 1) { "#{@random.rand(1..99)}%" }]
      oracle.prepare(points.map { |at| oracle.position(at) })
      points.each do |at|
        expected = oracle.top(at: at, by: "class", limit: 0, recorder: true)
        expected["log"]["path"] = log.path
        got = analyze("top", log.path, "--at", at, "--by", "class", "--limit", "0", "--recorder") or next
        violation("#{log.name}: oracle and mppanalyze differ at #{at}: #{expected["totals"]} #{got["totals"]}") unless got == expected
      end
      @compared += 1
    end

    # A child's log goes on where its parent's stood when it was forked: what the child freed without having made it was live there. The
    # parent's log is read once, children in the order of their forks.
    def check_children
      return violation("no log of the first process") unless parent

      forked = @all.reject { |log| log == parent }
      forked.each { |log| violation("#{log.name}: is not of the first process's child") unless log.info["header"]["parent_uuid"] == parent.uuid }
      return if parent.events >= ORACLE_LOG_EVENTS

      left = @oracle_events
      children = forked.shuffle(random: @random).select { |log| log.events < ORACLE_LOG_EVENTS && (left -= log.events).positive? }.first(CHILDREN)
      history = MppOracle::Log.new(parent.path).history
      lives = Lives.new
      children.map { |log| MppOracle::Log.new(log.path) }.sort_by { |log| log.fields.values_at(:fork_sequence, :fork_bytes) }.each do |child|
        fork_sequence = child.fields[:fork_sequence]
        lives.read(history.shift) while history.first && history.first.sequence < fork_sequence
        at_fork = lives.copy
        at_fork.read(history.first, child.fields[:fork_bytes]) if history.first&.sequence == fork_sequence
        check_child(child, at_fork)
      end
    end

    def check_child(log, at_fork)
      name = File.basename(log.path)
      fork_serial = log.fields[:fork_serial]
      violation("#{name}: its fork does not stand between two records of its parent") if at_fork.malformed
      violation("#{name}: its first serial is #{fork_serial}, its parent's next one was #{at_fork.next_serial}") unless fork_serial == at_fork.next_serial
      child = Lives.new(fork_serial)
      log.history.each { |payload| child.read(payload) }
      strangers = child.inherited.reject { |serial| at_fork.live.delete(serial) }
      violation("#{name}: #{strangers.size} frees of objects that were not live in its parent at the fork, or twice: #{strangers.first(5)}") unless strangers.empty?
      @inherited_frees += child.inherited.size
      @children_checked += 1
    end
  end
end
