# frozen_string_literal: true

require_relative "log_builder"

module MppOracle
  # A random log of the given seed, assembled from FORMAT.md without any writer of the project: all kinds of records, blocks and journal.
  # With hostile: true also what a sound writer never does, but a reader must bear.
  class RandomLog
    B = LogBuilder
    TEXTS = ["/app/a.rb", "/app/b.rb", "/gems/x-1.0/lib/x.rb", "Object#run", "block in Foo::Bar#each", "<main>", "String", "Foo::Bar", "[mpp_recorder]", "[truncated]", "worker 1",
             "M\xC3\xA4dchen", "bad \xFF\xE2\x82 utf8", "", "a\"b\\c\n\t", "\xF0\x9F\x90\x8E", "semi;colon", "cut \xE2\x82"].map(&:b).freeze
    MARKS = ["warm", "warm", "done", "a#2", "x#y", "m\xC3\xA4rk"].map(&:b).freeze
    COMMON = { alloc: 40, free: 24, size: 8, time: 10, weighted: 4, free_sized: 5, reclass: 3, gc: 2, mark: 1, stray: 1, live: 2, define: 3, rare: 2, seal: 1 }.freeze

    def initialize(seed, events, hostile: false)
      @random = Random.new(seed)
      @events = events
      @hostile = hostile
      @builder = LogBuilder.new
      @sequence = @time = 0
      @serial = 1
      @live = []
      @ids = Hash.new(0)
      @live_ids = []
      @gc_count = pick(0..5)
      @mixed = []
      @offsets = []
      set_fields
      @block_size = pick([5, 40, 300, 5000])
      open_block
      8.times { define }
    end

    def bytes
      weights = COMMON.flat_map { |kind, weight| [kind] * weight }
      killed = chance(2)
      @events.times do
        send(@last = pick(weights))
        seal if @records_in_block >= @block_size
      end
      killed ? leave_journal : finish
      @builder.bytes
    end

    private

    def pick(from) = from.is_a?(Array) ? from[@random.rand(from.size)] : @random.rand(from)
    def chance(of) = @random.rand(of).zero?

    def put(first, *values) = put_bytes(B.record(first, *values))

    def put_bytes(bytes)
      @payload << bytes
      @records_in_block += 1
    end

    def set_fields
      @fork_serial = chance(3) ? pick(1..20) : 0
      @serial = @fork_serial if @fork_serial.positive?
      fields = LogBuilder::FIELDS.reject { |tag, _| tag == 10 } + [[10, B.svarint(pick([0, 3600, -18_000, 20_700]))], [99, "unknown"], [7, B.varint(@fork_serial)]]
      fields = fields.reject { |tag, _| tag == 7 } if @fork_serial.zero?
      fields << [14, B.varint(pick(1..100))] if chance(3)
      @builder.fields = fields.map { |tag, bytes| B.field(tag, bytes) }.join
      @builder.blocks = [B.block(4, 0, @builder.fields)]
    end

    def open_block
      @payload = "".b
      @records_in_block = 0
      @serial += pick(1..30) if chance(12)
      @first_serial = @free_base = @size_base = @serial
      @first_time = chance(12) ? [@time - pick(0..5000), 0].max : @time
      @time = @first_time
    end

    def seal
      @sequence += chance(@hostile ? 10 : 100_000) ? 2 : 1
      if @hostile && chance(10)
        @payload << pick(["\0".b, "\x12".b, "\x02\x01\x00".b, "\x1A\x05\x05\x01\x01".b, "\xC1".b, "\x03\x01\xFF\xFF\xFF\xFF\xFF\xFF".b, "\x0F\x00".b, "\x18\x00\x01a".b, "\x21\x7F".b]) + B.alloc(1)
      end
      @halves_payload = [@sequence, @first_serial, @first_time, @payload]
      @last_payloads = ((@last_payloads || []) << @halves_payload).last(4)
      add(1, @sequence, @payload, first_serial: @first_serial, first_time_ns: @first_time, last_time_ns: @time)
      add(1, pick([@sequence, [@sequence - 1, 0].max]), @payload, first_serial: @first_serial, first_time_ns: @first_time) if @hostile && chance(15)
      add(pick(6..255), pick(0..9), "whatever") if chance(12)
      seal_proc if chance(3)
      open_block
    end

    def add(kind, sequence, payload, **rest)
      @builder.blocks << B.block(kind, sequence, payload, compress: chance(2), extra: chance(8) ? "later" : "", **rest)
    end

    def seal_proc
      from = [@time - pick(0..3000), 0].max
      payload = "".b
      pick(1..3).times { payload << B.record(1, pick(0..900)) << B.record(0x10, 2, 1, pick(1..1 << 33), pick([2, 77]), pick(0..1 << 40)) }
      add(3, @procs = (@procs || 0) + 1, payload, first_time_ns: from)
    end

    def leave_journal
      count = pick(2..4)
      half_bytes = [4096, @payload.bytesize + 64, *(@last_payloads || []).map { |half| half[3].bytesize + 64 }].max.fdiv(4096).ceil * 4096
      halves = [[@sequence + 1, @first_serial, @first_time, @payload]]
      if chance(2) && @payload.bytesize.positive?
        serial = @serial
        halves << [@sequence + 2, serial, @time, chance(3) ? "".b : B.alloc(1) + B.free(0)]
      end
      halves += (@last_payloads || []).reverse
      halves = halves.first(count)
      halves << nil while halves.size < count
      @builder.halves = halves.shuffle(random: @random).map { |half| half ? B.half(*half, half_bytes: half_bytes) : "\0".b * half_bytes }
    end

    def finish
      seal
      add(2, 1, @ids_again || "".b) if chance(2)
      index = B.block(5, 0, B.varint(0))
      offset = @builder.bytes.bytesize
      @builder.blocks << index
      @builder.tail = B.footer(offset, @time + pick([0, 1, 77_777]))
    end

    # --- records

    def alloc
      put_bytes(B.alloc(site))
      @live << @serial
      @serial += 1
    end

    def weighted
      put(2, site, pick(1..1000))
      @live << @serial
      @serial += 1
    end

    def site
      return pick(0..500) if chance(@hostile ? 20 : 400)

      pick(1..[@ids[:site], 1].max)
    end

    def victim
      return nil if @live.empty?

      index = chance(2) ? @live.size - 1 - [pick(0..5), @live.size - 1].min : pick(0...@live.size)
      @live[index], @live[-1] = @live[-1], @live[index]
      @live.last
    end

    def free
      serial = victim or return
      @live.pop
      put_bytes(B.free(serial - @free_base))
      @free_base = serial
    end

    def free_sized
      serial = victim or return
      @live.pop
      put(3, [serial - @free_base], pick(0..5000))
      @free_base = serial
    end

    def size
      serial = victim or return
      put(4, [serial - @size_base], pick(0..100_000))
      @size_base = serial
    end

    def reclass
      serial = victim or return
      put(5, [serial - @size_base], pick(0..@ids[:class] + 1))
      @size_base = serial
    end

    def stray
      serial = pick(1..@serial + 3)
      return if serial >= 1 << 47

      if chance(3)
        put(5, [serial - @size_base], pick(0..3))
        @size_base = serial
      elsif chance(2)
        put(4, [serial - @size_base], pick(0..99))
        @size_base = serial
      else
        @live.delete(serial)
        chance(2) ? put_bytes(B.free(serial - @free_base)) : put(3, [serial - @free_base], pick(0..99))
        @free_base = serial
      end
    end

    def live
      serial = pick(1..[@serial + (@hostile ? 1 : -1), 1].max)
      put(6, serial, site, pick(0..500), pick(1..3), [pick(-1000..@time)], pick(0..4))
      @live << serial if serial < @serial && !@live.include?(serial)
    end

    def time
      delta = pick([0, 1, 100, 5000, 1_000_000])
      put(1, delta)
      @time += delta
    end

    def gc
      case pick(0..5)
      when 0..1
        @gc_count += 1
        put(7, @gc_count, pick(0..1))
      when 2..4 then put(8, @gc_count, 2, 1, pick(0..9999), pick(1..40), pick(0..9))
      else put(8, pick(0..@gc_count), 0)
      end
    end

    def mark = put(9, pick(MARKS))

    def rare
      case pick(0..9)
      when 0 then put(0x0A, pick(1..3))
      when 1 then put(0x0B, pick(0..50), pick(1..3))
      when 2 then put(0x0C, pick(0..3), pick(1..3), pick(0..3))
      when 3 then put(0x0D, 1_764_597_785_250_000_000 + @time + pick([-3_000_000, 0, 2_000_000, 86_400_000_000_000]))
      when 4, 5 then put(0x0E, site, pick(0..100), pick(0..10_000))
      when 6 then put(0x0F, pick(1..100))
      when 7 then put(0x11, pick(0..99_999))
      when 8 then put(pick(0x20..0x3F), "x" * pick(0..3))
      when 9 then put(0x10, 1, 1, pick(1..1 << 33))
      end
    end

    def define
      bytes = definition
      (@ids_again ||= "".b) << bytes
      put_bytes(bytes)
    end

    def next_id(kind) = @ids[kind] += chance(20) ? 3 : 1
    def any_id(kind) = pick(0..@ids[kind] + (chance(9) ? 1 : 0))

    def definition
      return string if @ids[:string] < 4

      case pick(0..9)
      when 0..1 then string
      when 2 then B.record(0x19, chance(2) ? next_id(:function) : pick(1..[@ids[:function], 1].max), any_id(:string), any_id(:string), pick(0..99), pick([0, 0, 1, 2]))
      when 3..4
        parent = @ids[:stack].zero? ? 0 : pick(0..@ids[:stack])
        B.record(0x1A, next_id(:stack), parent, pick(1..@ids[:function] + 2), pick([0, 7, 7, 12, 99_999]))
      when 5..7 then B.record(0x1B, next_id(:site), any_id(:stack), any_id(:class), pick([0, 1, 5, 7, 8, 26, 99]), any_id(:thread), pick([0, 40, 80, 640]))
      when 8 then B.record(0x1C, next_id(:class), any_id(:string), 0)
      else B.record(0x1D, next_id(:thread), any_id(:string))
      end
    end

    def string = B.record(0x18, next_id(:string), pick(TEXTS))
  end
end
