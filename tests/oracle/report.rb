# frozen_string_literal: true

require_relative "moment"

module MppOracle
  # Answers the questions of docs/REPORTS.md about one log, as Ruby values that become the same JSON.
  class Oracle
    GROUPS = %w[stack line method file class type thread].freeze
    NO_STACK = "(no stack)"
    RECORDER = "[mpp_recorder]"
    PROC_KEYS = { 1 => "rss_bytes", 2 => "cpu_ns", 3 => "writer_cpu_ns", 4 => "recorder_memory_bytes", 5 => "tracked_objects", 6 => "recorded_allocs", 7 => "dropped_allocs",
                  8 => "written_bytes", 9 => "sealed_blocks", 10 => "stalls", 11 => "stall_ns" }.freeze
    EVENT_KINDS = %i[ALLOC ALLOC_WEIGHTED FREE FREE_SIZED SIZE].freeze

    attr_reader :log, :facts, :moments

    def initialize(path, bytes = File.binread(path))
      @log = Log.new(path, bytes)
      @definitions = Definitions.new(@log)
      @facts = Replay.new(@log, @definitions)
      @statistics = read_statistics
      @moments = Moments.new(@log, @facts, end_ns)
      @snapshots = {}
    end

    # Replays once for all of these positions; questions about others replay again.
    def prepare(positions)
      missing = positions.reject { |position| @snapshots.key?(position) }
      @snapshots.merge!(Replay.new(@log, @definitions, missing).snapshots) unless missing.empty?
      @snapshots
    end

    def position(spec) = @moments.position(spec)

    def top(at: "end", by: "line", sort: "live_bytes", limit: 30, **filters)
      filters.delete(:min_age) if filters[:min_age] == 0
      snapshot = snapshot(position(at))
      rows = {}
      if filters[:min_age]
        # By age only what is live is known.
        things = snapshot.things.select { |thing| thing.age >= filters[:min_age] }
        each_group(things, by, filters) { |key, thing| (rows[key] ||= Counters.new).add_live(thing.objects, thing.bytes) }
      else
        each_group(snapshot.cells, by, filters) { |key, cell| (rows[key] ||= Counters.new).add(cell) }
      end
      rows.reject! { |_, counters| counters.zero? }
      filtered = rows.values.reduce(Counters.new) { |sum, counters| sum.add(counters) }
      rows = rows.map { |key, counters| key.merge(only_live(counters.to_h, filters)) }
      { "schema" => "mpp.top/1", "log" => log_object, "at" => point(at, snapshot), "by" => by, "sort" => sort,
        "totals" => snapshot.totals.to_h, "filtered" => only_live(filtered.to_h, filters) }.merge(finish(rows, limit) { |row| order(row, row[sort], sort) })
    end

    def diff(from:, to: "end", by: "line", sort: "retained_bytes", limit: 30, **filters)
      first = snapshot(position(from))
      last = snapshot(position(to))
      raise Refused, "from stands after to" if first.position > last.position

      retained = last.things.select { |thing| thing.born && thing.born >= first.position }
      rows = Hash.new { |hash, key| hash[key] = { "from" => [0, 0], "to" => [0, 0], "delta" => [0, 0], "retained" => [0, 0] } }
      { "from" => first.things, "to" => last.things, "retained" => retained }.each do |cell, things|
        things = things.select { |thing| thing.age >= filters[:min_age] } if filters[:min_age]
        each_group(things, by, filters) do |key, thing|
          rows[key][cell] = [rows[key][cell][0] + thing.objects, rows[key][cell][1] + thing.bytes]
        end
      end
      rows.each_value { |row| row["delta"] = row["to"].zip(row["from"]).map { |to_value, from_value| to_value - from_value } }
      rows.reject! { |_, row| row.values.flatten.all?(&:zero?) }
      filtered = %w[from to delta retained].to_h { |cell| [cell, cell_object(rows.values.map { |row| row[cell] }.transpose.map(&:sum))] }
      rows = rows.map { |key, row| key.merge(row.transform_values { |cell| cell_object(cell) }) }
      { "schema" => "mpp.diff/1", "log" => log_object, "from" => point(from, first), "to" => point(to, last), "by" => by, "sort" => sort,
        "totals" => { "from" => first.totals.to_h, "to" => last.totals.to_h }, "filtered" => filtered }
        .merge(finish(rows, limit) { |row| order(row, sort == "name" ? nil : row.dig(*sort.split("_")), sort) })
    end

    def timeline(points: 60)
      times = timeline_times(points)
      prepare(times.map { |time| @moments.position_at(time) })
      before = 0
      points = times.map do |time|
        position = @moments.position_at(time)
        since = before
        before = position
        { "time_ns" => time, "position" => position, **@snapshots[position].totals.to_h, "rss_bytes" => statistic_at(1, time),
          "gc_count" => @facts.gc_ends.reverse.find { |gc_position, _| gc_position <= position }&.last,
          "marks" => @facts.marks.select { |_, mark_position, _| mark_position > since && mark_position <= position }.map(&:first) }
      end
      { "schema" => "mpp.timeline/1", "log" => log_object, "points" => points }
    end

    def timeline_times(points)
      return [end_ns] if points == 1

      Array.new(points) { |index| end_ns * index / (points - 1) }
    end

    def info
      last = snapshot(@facts.position)
      event_count = EVENT_KINDS.sum { |kind| @facts.counts[kind] }
      { "schema" => "mpp.info/1", "log" => log_object, "end" => point("end", last), "totals" => last.totals.to_h,
        "peak" => { "spec" => "peak" }.merge(@facts.peak.transform_keys(&:to_s)), "file_bytes" => @log.file_bytes,
        "block_count" => @log.block_count, "raw_bytes" => @log.raw_bytes,
        "record_count" => @facts.position, "records" => @facts.counts.transform_keys(&:to_s),
        "event_count" => event_count, "bytes_per_event" => event_count.zero? ? 0 : @log.file_bytes.fdiv(event_count),
        "stack_count" => @definitions.stacks.size, "site_count" => @definitions.sites.size, "function_count" => @definitions.functions.size,
        "class_count" => @definitions.classes.size, "gc_count" => @facts.gc_ends.size,
        "marks" => @facts.marks.map { |name, position, time| { "name" => name, "time_ns" => time, "position" => position } },
        "drops" => @facts.drops, "gaps" => @facts.gaps, "orphans" => @facts.orphans, "inherited_frees" => @facts.inherited,
        "proc" => @statistics.flat_map(&:last).to_h { |key, value| [PROC_KEYS[key] || key.to_s, value] },
        "header" => @log.fields.transform_keys(&:to_s) }
    end

    private

    def snapshot(position)
      prepare([position])
      @snapshots[position]
    end

    # PROC records, each with its time: those of PROC blocks, and those that stand in the history.
    def read_statistics
      reader = StatisticsReader.new
      @log.proc_payloads.each do |payload|
        decoder = Records.new(payload)
        decoder.each(reader)
        @facts.malformed << [payload.offset, decoder.malformed_at] if decoder.malformed_at
      end
      @proc_end_ns = reader.end_ns
      (@facts.statistics + reader.found).sort_by.with_index { |(time, _), index| [time, index] }
    end

    # The times of PROC blocks are their own, apart from the history's.
    class StatisticsReader < Records::Handler
      attr_reader :found, :end_ns

      def initialize
        super
        @found = []
        @end_ns = 0
      end

      def time_record(time) = @end_ns = [@end_ns, time].max

      def proc_statistics(time, pairs)
        time_record(time)
        @found << [time, pairs]
      end
    end

    def statistic_at(key, time)
      @statistics.reverse_each do |at, pairs|
        next if at > time

        pair = pairs.reverse.find { |pair_key, _| pair_key == key }
        return pair[1] if pair
      end
      nil
    end

    def end_ns
      @end_ns ||= [@facts.time, @proc_end_ns, @log.footer_end_ns || 0].max
    end

    def log_object
      fields = @log.fields
      start = fields[:start_unix_ns] || 0
      { "path" => @log.path, "uuid" => fields[:uuid],
        "start" => Time.at(start / 1_000_000_000, start % 1_000_000_000, :nsec).utc.strftime("%Y-%m-%dT%H:%M:%S.%NZ"),
        "duration_ns" => end_ns, "clean_end" => @log.clean_end?, "sample_period" => fields[:sample_period] || 1, "pid" => fields[:pid] || 0,
        "command_line" => fields[:command_line] || [], "ruby_version" => fields[:ruby_version], "damaged" => damaged? }
    end

    def damaged?
      @log.damaged? || !@facts.malformed.empty? || !@definitions.malformed.empty?
    end

    def point(spec, snapshot)
      { "spec" => spec, "position" => snapshot.position, "time_ns" => snapshot.position.zero? ? 0 : snapshot.time_ns }
    end

    def cell_object(pair)
      { "objects" => pair[0] || 0, "bytes" => pair[1] || 0 }
    end

    def only_live(counters, filters)
      return counters unless filters[:min_age]

      counters.to_h { |name, value| [name, name.start_with?("live") ? value : 0] }
    end

    def each_group(items, by, filters)
      focus, ignore, klass = filters.values_at(:focus, :ignore, :class).map { |text| text && Regexp.new(text) }
      items.each do |item|
        frames = @definitions.frames_of(item.site.stack)
        next if !filters[:recorder] && frames.any? { |frame| frame.function == RECORDER }
        next if focus && frames.none? { |frame| matches?(focus, frame) }
        next if ignore && frames.any? { |frame| matches?(ignore, frame) }
        next if klass && !klass.match?(@definitions.class_name_of(item.class_id, item.site.type))

        yield group_of(item, frames, by), item
      end
    end

    def matches?(expression, frame)
      expression.match?(frame.function) || expression.match?(frame.path)
    end

    # What of a row tells it apart from others.
    def group_of(item, frames, by)
      site = item.site
      case by
      when "stack" then stack_group(frames)
      when "class" then { "name" => @definitions.class_name_of(item.class_id, site.type) }
      when "type" then { "name" => @definitions.type_name_of(site.type) }
      when "thread" then { "name" => @definitions.thread_name_of(site.thread_id) }
      else frame_group(frames, by)
      end
    end

    def stack_group(frames)
      leaf = frames.first
      { "name" => leaf ? "#{place(leaf)} in #{leaf.function}" : NO_STACK,
        "frames" => frames.map { |frame| { "function" => frame.function, "path" => frame.path, "line" => frame.line } } }
    end

    def frame_group(frames, by)
      frame = frames.find { |candidate| !candidate.native } || frames.first
      case by
      when "line" then { "name" => frame ? place(frame) : NO_STACK, "path" => frame ? frame.path : "", "line" => frame ? frame.line : 0 }
      when "method" then { "name" => frame ? frame.function : NO_STACK }
      when "file" then { "name" => file_of(frame) }
      else raise Refused, "no such group: #{by}"
      end
    end

    def place(frame)
      path = frame.path.empty? ? frame.function : frame.path
      frame.line.zero? ? path : "#{path}:#{frame.line}"
    end

    def file_of(frame)
      return NO_STACK unless frame

      frame.path.empty? ? "(no file)" : frame.path
    end

    def order(row, value, sort)
      frames = (row["frames"] || []).map { |frame| [frame["function"].b, frame["path"].b, frame["line"]] }
      [sort == "name" ? 0 : -value, row["name"].b, row["path"].to_s.b, row["line"].to_i, frames]
    end

    def finish(rows, limit, &order)
      sorted = rows.sort_by(&order)
      { "row_count" => rows.size, "rows" => limit.zero? ? sorted : sorted.first(limit) }
    end
  end
end
