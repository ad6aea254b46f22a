# frozen_string_literal: true

require_relative "log"

module MppOracle
  # Decodes a payload (FORMAT.md §4) and tells a handler of each record: handler.alloc(time, serial, site) and so on.
  # A handler is told of a record only when all of it is sound. Decoding knows nothing of what the records mean.
  class Records
    MAX_SERIAL = 1 << 48
    MAX_ID = 1 << 28
    MAX_SIZE = 1 << 40
    MAX_WEIGHT = 1 << 24
    MAX_TIME = 1 << 63
    MAX_U32 = 1 << 32
    MAX_TEXT = 1 << 20
    MAX_PAIRS = 1024

    # Whoever wants to know of some records only starts from this.
    class Handler
      %i[alloc alloc_weighted free free_sized size reclass live gc_start gc_end mark gap drop label clock folded sample_period proc_statistics fork_record
         string function_name stack site class_name thread_name extension time_record].each do |name|
        define_method(name) { |*| nil }
      end
    end

    def self.next_serial_after(payload)
      decoder = new(payload)
      decoder.each(Handler.new)
      decoder.next_serial
    end

    attr_reader :next_serial, :malformed_at

    def initialize(payload)
      @bytes = payload.bytes
      @first_serial = payload.first_serial
      @first_time_ns = payload.first_time_ns
      @malformed_at = nil
    end

    # Decodes up to the end or the first malformed record, whose offset malformed_at then tells.
    def each(handler)
      bytes = @bytes
      size = bytes.bytesize
      @time = @first_time_ns
      @next_serial = @free_base = @size_base = @first_serial
      @position = record = 0
      while record < size
        first = bytes.getbyte(record)
        @position = record + 1
        if first >= 0x80
          site = first & 0x3F
          site |= varint << 6 if first >= 0xC0
          alloc(handler, id(site))
        elsif first >= 0x40
          u = first & 0x1F
          u |= varint << 5 if first >= 0x60
          serial = serial!(@free_base + ((u >> 1) ^ -(u & 1)))
          handler.free(time!, serial)
          @free_base = serial
        else
          rare(first, handler)
        end
        record = @position
      end
    rescue Malformed
      @malformed_at = record
    end

    private

    def varint
      bytes = @bytes
      byte = bytes.getbyte(@position) or raise Malformed
      @position += 1
      return byte if byte < 0x80

      value = byte & 0x7F
      shift = 7
      loop do
        byte = bytes.getbyte(@position) or raise Malformed
        @position += 1
        raise Malformed if shift == 63 && byte > 1

        value |= (byte & 0x7F) << shift
        return value if byte < 0x80

        shift += 7
      end
    end

    def svarint
      u = varint
      (u >> 1) ^ -(u & 1)
    end

    def below(limit, value = varint)
      raise Malformed if value >= limit

      value
    end

    def id(value = varint) = below(MAX_ID, value)
    def own_id = at_least_one(id)
    def size_bytes = below(MAX_SIZE)
    def weight = at_least_one(below(MAX_WEIGHT))

    def at_least_one(value)
      raise Malformed if value.zero?

      value
    end

    def serial!(serial)
      raise Malformed if serial < 1 || serial >= MAX_SERIAL

      serial
    end

    def time! = below(MAX_TIME, @time)

    def text
      length = varint
      raise Malformed if length > MAX_TEXT

      take(length)
    end

    def take(length)
      raise Malformed if length > @bytes.bytesize - @position

      @position += length
      @bytes.byteslice(@position - length, length)
    end

    def pairs
      count = varint
      raise Malformed if count > MAX_PAIRS

      Array.new(count) { [varint, varint] }
    end

    def alloc(handler, site)
      serial = serial!(@next_serial)
      handler.alloc(time!, serial, site)
      @next_serial = serial + 1
    end

    def alloc_weighted(handler)
      site = id
      weight = self.weight
      serial = serial!(@next_serial)
      handler.alloc_weighted(time!, serial, site, weight)
      @next_serial = serial + 1
    end

    def time_record(handler)
      time = below(MAX_TIME, @time + varint)
      handler.time_record(time)
      @time = time
    end

    def free_sized(handler)
      serial = serial!(@free_base + svarint)
      handler.free_sized(time!, serial, size_bytes)
      @free_base = serial
    end

    def size(handler)
      serial = serial!(@size_base + svarint)
      handler.size(time!, serial, size_bytes)
      @size_base = serial
    end

    def reclass(handler)
      serial = serial!(@size_base + svarint)
      handler.reclass(time!, serial, id)
      @size_base = serial
    end

    def stack(handler)
      id = own_id
      parent = self.id
      raise Malformed if parent >= id

      handler.stack(time!, id, parent, self.id, below(MAX_U32))
    end

    def rare(first, handler)
      case first
      when 0x01 then time_record(handler)
      when 0x02 then alloc_weighted(handler)
      when 0x03 then free_sized(handler)
      when 0x04 then size(handler)
      when 0x05 then reclass(handler)
      when 0x06 then handler.live(time!, serial!(varint), id, size_bytes, weight, svarint, varint, @next_serial)
      when 0x07 then handler.gc_start(time!, varint, varint)
      when 0x08 then handler.gc_end(time!, varint, pairs)
      when 0x09 then handler.mark(time!, text)
      when 0x0A then handler.gap(time!, varint)
      when 0x0B then handler.drop(time!, varint, varint)
      when 0x0C then handler.label(time!, id, id, id)
      when 0x0D then handler.clock(time!, varint)
      when 0x0E then handler.folded(time!, id, varint, varint)
      when 0x0F then handler.sample_period(time!, at_least_one(varint))
      when 0x10 then handler.proc_statistics(time!, pairs)
      when 0x11 then handler.fork_record(time!, varint)
      when 0x18 then handler.string(time!, own_id, text)
      when 0x19 then handler.function_name(time!, own_id, id, id, below(MAX_U32), varint)
      when 0x1A then stack(handler)
      when 0x1B then handler.site(time!, own_id, id, id, below(MAX_U32), id, size_bytes)
      when 0x1C then handler.class_name(time!, own_id, id, varint)
      when 0x1D then handler.thread_name(time!, own_id, id)
      when 0x20..0x3F then handler.extension(time!, first, take(varint))
      else raise Malformed
      end
    end
  end
end
