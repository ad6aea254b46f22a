# frozen_string_literal: true

require_relative "definitions"

module MppOracle
  # Counters of one group of objects; `live` is what is left of them (FORMAT.md §7).
  class Counters
    NAMES = %i[live_objects live_bytes allocated_objects allocated_bytes freed_objects freed_bytes unknown_objects unknown_bytes].freeze

    attr_accessor :allocated_objects, :allocated_bytes, :freed_objects, :freed_bytes, :unknown_objects, :unknown_bytes

    def initialize
      @allocated_objects = @allocated_bytes = @freed_objects = @freed_bytes = @unknown_objects = @unknown_bytes = 0
    end

    def live_objects = @allocated_objects - @freed_objects - @unknown_objects
    def live_bytes = @allocated_bytes - @freed_bytes - @unknown_bytes

    def add(other)
      @allocated_objects += other.allocated_objects
      @allocated_bytes += other.allocated_bytes
      @freed_objects += other.freed_objects
      @freed_bytes += other.freed_bytes
      @unknown_objects += other.unknown_objects
      @unknown_bytes += other.unknown_bytes
      self
    end

    def add_live(objects, bytes)
      @allocated_objects += objects
      @allocated_bytes += bytes
    end

    def add_freed(objects, bytes)
      @freed_objects += objects
      @freed_bytes += bytes
    end

    def to_h
      NAMES.to_h { |name| [name.to_s, public_send(name)] }
    end

    def zero?
      NAMES.all? { |name| public_send(name).zero? }
    end
  end

  # The smallest group: objects of one site and one class (RECLASS parts the class from the site's).
  class Cell < Counters
    attr_reader :site, :class_id

    def initialize(site, class_id)
      super()
      @site = site
      @class_id = class_id
    end
  end

  # A live object. `born` is the number of records before its ALLOC, nil for a LIVE. `cycle` is the number of GC_STARTs before it.
  Thing = Struct.new(:cell, :size, :weight, :born, :cycle, :older, :unknown)

  # What a question about one position needs.
  Snapshot = Struct.new(:position, :time_ns, :totals, :cells, :things)
  SnapshotThing = Struct.new(:site, :class_id, :objects, :bytes, :born, :age)

  # Goes through the history once, naively, and keeps snapshots of the positions that it is asked for.
  class Replay < Records::Handler
    # Sums are of 64 bits.
    SUM_LIMIT = 1 << 64

    attr_reader :position, :time, :steps, :marks, :gc_ends, :counts, :totals, :drops, :gaps, :orphans, :inherited, :peak, :snapshots, :statistics,
                :gc_starts, :clocks, :malformed

    def initialize(log, definitions, wanted = [])
      super()
      @definitions = definitions
      @fork_serial = log.fields[:fork_serial] || 0
      @wanted = wanted.uniq.sort
      @snapshots = {}
      @position = @time = 0
      @steps = [] # [records before the first record of that time, time]
      @marks = []
      @gc_ends = []
      @clocks = []
      @statistics = []
      @counts = Hash.new(0)
      @totals = Counters.new
      @things = {}
      @cells = {}
      @cell_of_site = {}
      @finished = [true] # of each GC_START: whether its GC_END stood; the first is none's
      @gc_starts = @drops = @gaps = @orphans = @inherited = 0
      @live_bytes = @live_objects = @peak_bytes = 0
      @peak = { position: 0, time_ns: 0, live_bytes: 0, live_objects: 0 }
      @malformed = []
      log.history.each { |payload| run(payload) }
      snapshot while @wanted.first == @position
      raise "asked for positions that do not exist: #{@wanted}" unless @wanted.empty?
    end

    def alloc(time, serial, site)
      advance(time, :ALLOC)
      born(serial, site, 1)
    end

    def alloc_weighted(time, serial, site, weight)
      advance(time, :ALLOC_WEIGHTED)
      born(serial, site, weight)
    end

    def free(time, serial)
      advance(time, :FREE)
      thing = @things.delete(serial)
      thing ? bury(thing) : stray(serial)
    end

    def free_sized(time, serial, bytes)
      advance(time, :FREE_SIZED)
      thing = @things.delete(serial) or return stray(serial)
      resize(thing, bytes)
      bury(thing)
    end

    def size(time, serial, bytes)
      advance(time, :SIZE)
      thing = @things[serial] or return stray(serial)
      resize(thing, bytes)
      look_for_peak
    end

    def reclass(time, serial, class_id)
      advance(time, :RECLASS)
      thing = @things[serial] or return stray(serial)
      move(thing, thing.cell, -1)
      thing.cell = cell(thing.cell.site, class_id)
      move(thing, thing.cell, 1)
    end

    def live(time, serial, site_id, bytes, weight, _birth_time_ns, age, next_serial)
      advance(time, :LIVE)
      if serial >= next_serial || @things.key?(serial)
        @orphans += 1
      else
        site = @definitions.site_of(site_id)
        keep(serial, Thing.new(cell(site, site.class_id), bytes, weight, nil, @gc_starts, age, false))
      end
    end

    def gc_start(time, _gc_count, _flags)
      advance(time, :GC_START)
      @gc_starts += 1
      @finished << false
    end

    def gc_end(time, gc_count, _pairs)
      advance(time, :GC_END)
      @finished[@gc_starts] = true
      @gc_ends << [@position, gc_count]
    end

    def mark(time, name)
      advance(time, :MARK)
      @marks << [Log.text(name), @position, @time]
    end

    def gap(time, _reason)
      advance(time, :GAP)
      @gaps += 1
      @things.each_value do |thing|
        next if thing.unknown

        thing.unknown = true
        unknown(thing, thing.weight, thing.weight * thing.size)
        @live_objects -= thing.weight
        @live_bytes -= thing.weight * thing.size
      end
    end

    def drop(time, count, _reason)
      advance(time, :DROP)
      @drops = sum(@drops + count)
    end

    def folded(time, site_id, objects, bytes)
      advance(time, :FOLDED)
      site = @definitions.site_of(site_id)
      cell = cell(site, site.class_id)
      allocated(cell, objects, bytes)
      freed(cell, objects, bytes)
    end

    def proc_statistics(time, pairs)
      advance(time, :PROC)
      @statistics << [@time, pairs]
    end

    def time_record(time) = advance(time, :TIME)
    def label(time, *) = advance(time, :LABEL)

    def clock(time, unix_ns)
      advance(time, :CLOCK)
      @clocks << [@time, unix_ns]
    end

    def sample_period(time, *) = advance(time, :SAMPLE_PERIOD)
    def fork_record(time, *) = advance(time, :FORK)
    def string(time, *) = advance(time, :STRING)
    def function_name(time, *) = advance(time, :FUNCTION_NAME)
    def stack(time, *) = advance(time, :STACK)
    def site(time, *) = advance(time, :SITE)
    def class_name(time, *) = advance(time, :CLASS_NAME)
    def thread_name(time, *) = advance(time, :THREAD_NAME)
    def extension(time, *) = advance(time, :EXTENSION)

    private

    def run(payload)
      decoder = Records.new(payload)
      decoder.each(self)
      @malformed << [payload.offset, decoder.malformed_at] if decoder.malformed_at
    end

    def advance(time, kind)
      snapshot while @wanted.first == @position
      if time > @time
        @time = time
        @steps << [@position, time]
      end
      @position += 1
      @counts[kind] += 1
    end

    def sum(value)
      raise Refused, "a sum would not fit 64 bits" if value >= SUM_LIMIT

      value
    end

    def cell(site, class_id)
      @cells[[site, class_id]] ||= Cell.new(site, class_id)
    end

    def born(serial, site_id, weight)
      cell = @cell_of_site[site_id] ||= begin
        site = @definitions.site_of(site_id)
        cell(site, site.class_id)
      end
      keep(serial, Thing.new(cell, cell.site.birth_bytes, weight, @position - 1, @gc_starts, 0, false))
    end

    def keep(serial, thing)
      @things[serial] = thing
      objects = thing.weight
      bytes = objects * thing.size
      allocated(thing.cell, objects, bytes)
      @live_objects += objects
      @live_bytes += bytes
      look_for_peak
    end

    def bury(thing)
      objects = thing.weight
      bytes = objects * thing.size
      freed(thing.cell, objects, bytes)
      if thing.unknown
        unknown(thing, -objects, -bytes)
      else
        @live_objects -= objects
        @live_bytes -= bytes
      end
    end

    def resize(thing, bytes)
      grown = thing.weight * (bytes - thing.size)
      thing.size = bytes
      grown.positive? ? allocated(thing.cell, 0, grown) : freed(thing.cell, 0, -grown)
      thing.unknown ? unknown(thing, 0, grown) : @live_bytes += grown
    end

    def move(thing, cell, sign)
      objects = sign * thing.weight
      bytes = objects * thing.size
      cell.allocated_objects += objects
      cell.allocated_bytes += bytes
      return unless thing.unknown

      cell.unknown_objects += objects
      cell.unknown_bytes += bytes
    end

    def allocated(cell, objects, bytes)
      cell.add_live(objects, bytes)
      @totals.add_live(objects, bytes)
      sum(@totals.allocated_objects)
      sum(@totals.allocated_bytes)
    end

    def freed(cell, objects, bytes)
      cell.add_freed(objects, bytes)
      @totals.add_freed(objects, bytes)
    end

    def unknown(thing, objects, bytes)
      [thing.cell, @totals].each do |counters|
        counters.unknown_objects += objects
        counters.unknown_bytes += bytes
      end
    end

    def stray(serial)
      serial < @fork_serial ? @inherited += 1 : @orphans += 1
    end

    def look_for_peak
      return if @live_bytes <= @peak_bytes

      @peak_bytes = @live_bytes
      @peak = { position: @position, time_ns: @time, live_bytes: @live_bytes, live_objects: @live_objects }
    end

    # Finished GCs among the first n GC_STARTs, for n = 0, 1, …
    def finished_before
      count = 0
      @finished.each_with_index.map { |finished, index| count += finished && index.positive? ? 1 : 0 }
    end

    def snapshot
      finished = finished_before
      things = @things.values.reject(&:unknown).map do |thing|
        SnapshotThing.new(thing.cell.site, thing.cell.class_id, thing.weight, thing.weight * thing.size, thing.born,
                          thing.older + finished.last - finished[thing.cycle])
      end
      check(things)
      @snapshots[@position] = Snapshot.new(@position, @time, @totals.dup, @cells.values.map(&:dup), things)
      @wanted.shift
    end

    # The counters and the objects are two accounts of the same heap.
    def check(things)
      objects = things.sum(&:objects)
      bytes = things.sum(&:bytes)
      return if [@totals.live_objects, @totals.live_bytes] == [objects, bytes] && [@live_objects, @live_bytes] == [objects, bytes]

      raise "the oracle contradicts itself at position #{@position}"
    end
  end
end
