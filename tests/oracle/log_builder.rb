# frozen_string_literal: true

require_relative "native"

module MppOracle
  # Assembles logs byte by byte for the tests, whole or on purpose wrong.
  class LogBuilder
    class << self
      def varint(value)
        bytes = []
        while value > 0x7F
          bytes << (value & 0x7F | 0x80)
          value >>= 7
        end
        (bytes << value).pack("C*")
      end

      def svarint(value) = varint(value.negative? ? (-value << 1) - 1 : value << 1)
      def alloc(site) = site < 64 ? [0x80 | site].pack("C") : [0xC0 | site & 0x3F].pack("C") + varint(site >> 6)

      def free(delta)
        u = delta.negative? ? (-delta << 1) - 1 : delta << 1
        u < 32 ? [0x40 | u].pack("C") : [0x60 | u & 0x1F].pack("C") + varint(u >> 5)
      end

      # A record of a first byte and varints; strings stand with their length before them, arrays as svarints.
      def record(first, *values)
        values.reduce([first].pack("C")) do |bytes, value|
          bytes + case value
                  when String then varint(value.bytesize) + value.b
                  when Array then svarint(value[0])
                  else varint(value)
                  end
        end
      end

      def field(tag, bytes) = varint(tag) + varint(bytes.bytesize) + bytes.b

      def half(sequence, first_serial, first_time_ns, records, half_bytes: 4096)
        head = "MPPHALF\n".b + [sequence, first_serial, first_time_ns, 0].pack("Q<4")
        commit = [records.bytesize, records.empty? ? 0 : Native.crc32c(records)].pack("L<2")
        (head + [Native.xxh3(head), 0].pack("Q<2") + commit + records.b).ljust(half_bytes, "\0")
      end

      def block(kind, sequence, payload, first_serial: 0, first_time_ns: 0, last_time_ns: 0, compress: false, raw_bytes: payload.bytesize, compression: nil,
                extra: "")
        stored = compress ? Native.zstd(payload) : payload.b
        head = "MPPB".b + [kind, compression || (compress ? 1 : 0), 80 + extra.bytesize].pack("CCS<") + [sequence].pack("Q<") + [stored.bytesize, raw_bytes].pack("L<2") +
               [first_serial, first_time_ns, last_time_ns].pack("Q<3") + [0, 0, 0, 0].pack("L<4") + [Native.xxh3(stored)].pack("Q<") + extra.b
        head + [Native.xxh3(head)].pack("Q<") + stored
      end

      def footer(index_offset, end_ns)
        bytes = "MPPEND\n\0".b + [index_offset, end_ns].pack("Q<2")
        bytes + [Native.xxh3(bytes)].pack("Q<")
      end
    end

    FIELDS = [[1, "0123456789abcdef"], [2, "\x2A"], [8, varint(1_764_597_785_250_000_000)], [10, svarint(3600)], [11, "3.1.2"], [13, "ruby\0a.rb\0"]].freeze

    attr_accessor :fields, :halves, :blocks, :tail, :major

    def initialize
      @fields = FIELDS.map { |tag, bytes| LogBuilder.field(tag, bytes) }.join
      @halves = []
      @blocks = [LogBuilder.block(4, 0, @fields)]
      @tail = "".b
      @major = 1
    end

    def events(sequence, first_serial, first_time_ns, records, **rest)
      @blocks << LogBuilder.block(1, sequence, records, first_serial: first_serial, first_time_ns: first_time_ns, **rest)
      self
    end

    def header
      journal = @halves.empty? ? [0, 0, 0] : [4096, @halves[0].bytesize, @halves.size]
      head = "\x89MPPLOG\n".b + [@major, 0].pack("S<2") + [4096, *journal, @fields.bytesize].pack("L<5") + [4096 + @halves.sum(&:bytesize)].pack("Q<") + @fields
      head = head.ljust(4088, "\0")
      head + [Native.xxh3(head)].pack("Q<")
    end

    def bytes
      header + @halves.join + @blocks.join + @tail
    end
  end
end
