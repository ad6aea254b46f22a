# frozen_string_literal: true

require_relative "native"

module MppOracle
  # The log, or the question asked of it, cannot be answered.
  class Refused < StandardError; end
  class Malformed < StandardError; end

  # Varints of a string, read in order (FORMAT.md, introduction). For small things; the records have a reader of their own.
  class Cursor
    attr_reader :offset

    def initialize(bytes)
      @bytes = bytes
      @offset = 0
    end

    def end?
      @offset >= @bytes.bytesize
    end

    def varint
      value = 0
      shift = 0
      loop do
        byte = @bytes.getbyte(@offset) or raise Malformed, "a varint reaches past the end"
        @offset += 1
        raise Malformed, "a varint beyond 64 bits" if shift == 63 && byte > 1

        value |= (byte & 0x7F) << shift
        return value if byte < 0x80

        shift += 7
      end
    end

    def svarint
      u = varint
      (u >> 1) ^ -(u & 1)
    end

    def take(length)
      raise Malformed, "a field reaches past the end" if length > @bytes.bytesize - @offset

      @offset += length
      @bytes.byteslice(@offset - length, length)
    end
  end

  # One payload of records together with the state that its decoding starts from.
  Payload = Struct.new(:kind, :sequence, :first_serial, :first_time_ns, :bytes, :offset)
  Damage = Struct.new(:kind, :offset, :end_offset, :sequence)

  # The file: header, blocks, journal, footer (FORMAT.md §1, §2, §3, §6). It reads whole files into memory.
  class Log
    MAGIC = "\x89MPPLOG\n".b
    BLOCK_MAGIC = "MPPB".b
    HALF_MAGIC = "MPPHALF\n".b
    FOOTER_MAGIC = "MPPEND\n\0".b
    KINDS = { 1 => :EVENTS, 2 => :DEFINITIONS, 3 => :PROC, 4 => :META, 5 => :INDEX }.freeze
    MAX_PAYLOAD = 64 << 20

    NUMBERS = { 2 => :pid, 3 => :ppid, 5 => :fork_sequence, 6 => :fork_bytes, 7 => :fork_serial, 8 => :start_unix_ns,
                9 => :start_monotonic_ns, 14 => :sample_period, 16 => :journal_mode, 17 => :max_depth }.freeze
    TEXTS = { 11 => :ruby_version, 12 => :ruby_description, 15 => :recorder_version }.freeze
    UUIDS = { 1 => :uuid, 4 => :parent_uuid }.freeze

    attr_reader :path, :file_bytes, :fields, :history, :definitions, :proc_payloads, :damage, :footer_end_ns, :block_count, :raw_bytes

    def initialize(path, bytes = File.binread(path))
      @path = path
      @bytes = bytes
      @file_bytes = bytes.bytesize
      @damage = []
      @history = []
      @definitions = []
      @proc_payloads = []
      @block_count = 0
      @raw_bytes = 0
      read_header
      read_footer
      read_blocks
      read_journal
      find_missing_sequences
    end

    def clean_end?
      !@footer_end_ns.nil?
    end

    def damaged?
      !@damage.empty?
    end

    def self.text(bytes)
      bytes.dup.force_encoding(Encoding::UTF_8).scrub("\uFFFD")
    end

    def self.parse_fields(bytes)
      fields = {}
      cursor = Cursor.new(bytes)
      until cursor.end?
        tag = cursor.varint
        value = cursor.take(cursor.varint)
        name, parsed = parse_field(tag, value)
        fields[name] = parsed if name
      end
      fields
    end

    def self.parse_field(tag, value)
      if NUMBERS[tag] then [NUMBERS[tag], whole_number(value, :varint)]
      elsif TEXTS[tag] then [TEXTS[tag], text(value)]
      elsif UUIDS[tag]
        raise Malformed, "a uuid of #{value.bytesize} bytes" unless value.bytesize == 16

        [UUIDS[tag], value.unpack1("H*").sub(/(.{8})(.{4})(.{4})(.{4})/, '\1-\2-\3-\4-')]
      elsif tag == 10 then [:utc_offset_s, whole_number(value, :svarint)]
      elsif tag == 13 then [:command_line, value.split("\0", -1)[0..-2].map { |argument| text(argument) }]
      end
    end

    def self.whole_number(value, type)
      cursor = Cursor.new(value)
      number = cursor.public_send(type)
      raise Malformed, "a number that does not fill its field" unless cursor.end?

      number
    end

    private

    def u16(offset) = @bytes.byteslice(offset, 2).unpack1("S<")
    def u32(offset) = @bytes.byteslice(offset, 4).unpack1("L<")
    def u64(offset) = @bytes.byteslice(offset, 8).unpack1("Q<")

    def damaged(kind, offset, end_offset, sequence = nil)
      @damage << Damage.new(kind, offset, end_offset, sequence)
    end

    # --- header

    def read_header
      raise Refused, "no mpp log: wrong magic" unless @bytes.byteslice(0, 8) == MAGIC
      raise Refused, "cut off within its header" if @file_bytes < 4096
      raise Refused, "a log of a later version" if u16(8) > 1

      @header_sound = header_sound?
      if @header_sound
        @first_block_offset = u64(32)
      else
        damaged("header", 0, 4096)
        @fields = {}
        @first_block_offset = 4096
      end
    end

    def header_sound?
      header_bytes = u32(12)
      return false unless u16(8) == 1 && (header_bytes % 4096).zero? && header_bytes.between?(4096, 1 << 20) && header_bytes <= @file_bytes
      return false unless Native.xxh3(@bytes.byteslice(0, header_bytes - 8)) == u64(header_bytes - 8)

      fields_bytes = u32(28)
      return false if fields_bytes > header_bytes - 48

      @journal_offset = u32(16)
      @half_bytes = u32(20)
      @half_count = u32(24)
      return false unless journal_layout_sound?(header_bytes) && u64(32) >= header_bytes

      @fields = Log.parse_fields(@bytes.byteslice(40, fields_bytes))
      true
    rescue Malformed
      false
    end

    def journal_layout_sound?(header_bytes)
      return @half_bytes.zero? && @half_count.zero? if @journal_offset.zero?

      (@journal_offset % 4096).zero? && @journal_offset >= header_bytes && (@half_bytes % 4096).zero? &&
        @half_bytes.between?(4096, MAX_PAYLOAD) && @half_count.between?(1, 64)
    end

    # --- footer

    def read_footer
      @end_offset = @file_bytes
      offset = @file_bytes - 32
      return if offset < 4096 || @bytes.byteslice(offset, 8) != FOOTER_MAGIC
      return unless Native.xxh3(@bytes.byteslice(offset, 24)) == u64(offset + 24)

      return if u64(offset + 16) >= 1 << 63

      @footer_end_ns = u64(offset + 16)
      @end_offset = offset
    end

    # --- blocks

    # The header's length where a valid block header stands, else nil.
    def block_header_at(offset)
      return nil unless offset + 80 <= @end_offset && @bytes.byteslice(offset, 4) == BLOCK_MAGIC

      length = u16(offset + 6)
      return nil unless length.between?(80, 4096) && offset + length <= @end_offset
      return nil unless Native.xxh3(@bytes.byteslice(offset, length - 8)) == u64(offset + length - 8)

      length
    end

    def resynchronise(offset)
      while (offset = @bytes.index(BLOCK_MAGIC, offset))
        return offset if block_header_at(offset)

        offset += 1
      end
      @end_offset
    end

    def read_blocks
      @sealed_sequence = @serial_reached = 0
      offset = @first_block_offset
      damaged("truncated", @end_offset, offset) if offset > @end_offset
      @index_found = false
      while offset < @end_offset
        if block_header_at(offset)
          offset = read_block(offset)
        else
          found = resynchronise(offset + 1)
          damaged("no block", offset, found)
          offset = found
        end
      end
      damaged("footer", @end_offset, @file_bytes) if clean_end? && !@index_found
    end

    # Reads the block whose valid header stands at offset; returns where to go on.
    def read_block(offset)
      header_bytes = u16(offset + 6)
      kind = KINDS[@bytes.getbyte(offset + 4)]
      sequence = u64(offset + 8)
      stored_bytes = u32(offset + 16)
      payload_offset = offset + header_bytes
      past = payload_offset + stored_bytes
      @index_found = true if kind == :INDEX && clean_end? && offset == u64(@end_offset + 8)
      if stored_bytes > MAX_PAYLOAD || past > @end_offset
        found = resynchronise(payload_offset)
        damaged("no block", offset, found, kind == :EVENTS ? sequence : nil)
        return found
      end


      if kind == :EVENTS && out_of_order?(sequence, u64(offset + 24))
        damaged("order", offset, past, sequence)
      elsif (raw = unpack(offset, payload_offset, stored_bytes))
        @block_count += 1
        @raw_bytes += raw.bytesize
        keep(kind, Payload.new(kind, sequence, u64(offset + 24), u64(offset + 32), raw, offset))
      else
        @block_count += 1
        damaged("block", offset, past, sequence)
      end
      @sealed_sequence = [@sealed_sequence, sequence].max if kind == :EVENTS
      past
    end

    def unpack(offset, payload_offset, stored_bytes)
      stored = @bytes.byteslice(payload_offset, stored_bytes)
      raw_bytes = u32(offset + 20)
      return nil if raw_bytes > MAX_PAYLOAD || Native.xxh3(stored) != u64(offset + 64)

      case @bytes.getbyte(offset + 5)
      when 0 then stored if stored_bytes == raw_bytes
      when 1 then Native.unzstd(stored, raw_bytes)
      end
    end

    def out_of_order?(sequence, first_serial)
      sequence <= @sealed_sequence || first_serial < @serial_reached || first_serial > Records::MAX_SERIAL
    end

    def keep(kind, payload)
      case kind
      when :EVENTS
        @serial_reached = Records.next_serial_after(payload)
        @history << payload
      when :DEFINITIONS then @definitions << payload
      when :PROC then @proc_payloads << payload
      when :META then keep_meta(payload)
      end
    end

    def keep_meta(payload)
      return if @header_sound || !@fields.empty?

      @fields = Log.parse_fields(payload.bytes)
    rescue Malformed
      damaged("fields", payload.offset, payload.offset + 80)
    end

    # --- journal

    def read_journal
      return unless @header_sound && @journal_offset.positive?

      expected = @sealed_sequence + 1
      halves = Array.new(@half_count) { |index| half_at(@journal_offset + index * @half_bytes) }.compact
      halves.sort_by.with_index { |half, index| [half.sequence, index] }.each do |half|
        next if half.sequence <= @sealed_sequence

        if half.sequence == expected
          expected += 1
          keep_half(half)
        elsif half.bytes != "" # an empty one loses nothing
          damaged("journal order", half.offset, half.offset + @half_bytes, half.sequence)
        end
      end
      forgive_tail(halves)
    end

    # A half whose header is sound. Its bytes are nil when the committed ones fail their check.
    def half_at(offset)
      return if offset + 64 > @file_bytes

      commit = u64(offset + 56)
      unless @bytes.byteslice(offset, 8) == HALF_MAGIC && Native.xxh3(@bytes.byteslice(offset, 40)) == u64(offset + 40)
        damaged("journal", offset, offset + @half_bytes) unless commit.zero?
        return
      end
      Payload.new(:EVENTS, u64(offset + 8), u64(offset + 16), u64(offset + 24), committed(offset, commit), offset)
    end

    def committed(offset, commit)
      length = commit & 0xFFFF_FFFF
      return nil if length > @half_bytes - 64 || offset + 64 + length > @file_bytes

      bytes = @bytes.byteslice(offset + 64, length)
      return bytes if commit.zero?

      bytes if Native.crc32c(bytes) == commit >> 32
    end

    def keep_half(half)
      if half.bytes.nil? || half.first_serial < @serial_reached
        damaged("journal", half.offset, half.offset + @half_bytes, half.sequence)
      else
        @serial_reached = Records.next_serial_after(half)
        @history << half
      end
    end

    # Where the journal goes on after the last sealed block, what stands behind the blocks is a write that was not finished; unless it is
    # of a block that the journal does not hold.
    def forgive_tail(halves)
      return if clean_end? || (@history & halves).all? { |half| half.bytes.empty? }

      read = @history.map(&:sequence)
      @damage.reject! { |damage| damage.kind == "no block" && damage.end_offset == @end_offset && (damage.sequence.nil? || read.include?(damage.sequence)) }
    end

    def find_missing_sequences
      expected = 1
      @history.each do |payload|
        damaged("missing", payload.offset, payload.offset, expected) if payload.sequence != expected
        expected = payload.sequence + 1
      end
    end
  end
end

