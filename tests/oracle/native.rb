# frozen_string_literal: true

require "fiddle"

module MppOracle
  # What the oracle takes from libraries: XXH3-64 and zstd. CRC-32C is spelled out, since no library of Ruby's has it.
  module Native
    def self.open(*names)
      names.each do |name|
        return Fiddle.dlopen(name)
      rescue Fiddle::DLError
        next
      end
      raise "none of these libraries is here: #{names.join(', ')}"
    end

    SIZE_T = Fiddle::TYPE_SIZE_T
    PTR = Fiddle::TYPE_VOIDP

    XXHASH = open("libxxhash.so.0", "libxxhash.so")
    ZSTD = open("libzstd.so.1", "libzstd.so")
    XXH3_64BITS = Fiddle::Function.new(XXHASH["XXH3_64bits"], [PTR, SIZE_T], Fiddle::TYPE_LONG_LONG)
    DECOMPRESS = Fiddle::Function.new(ZSTD["ZSTD_decompress"], [PTR, SIZE_T, PTR, SIZE_T], SIZE_T)
    COMPRESS = Fiddle::Function.new(ZSTD["ZSTD_compress"], [PTR, SIZE_T, PTR, SIZE_T, Fiddle::TYPE_INT], SIZE_T)
    COMPRESS_BOUND = Fiddle::Function.new(ZSTD["ZSTD_compressBound"], [SIZE_T], SIZE_T)
    IS_ERROR = Fiddle::Function.new(ZSTD["ZSTD_isError"], [SIZE_T], Fiddle::TYPE_INT)
    FRAME_BYTES = Fiddle::Function.new(ZSTD["ZSTD_findFrameCompressedSize"], [PTR, SIZE_T], SIZE_T)

    CRC32C_TABLE = Array.new(256) do |byte|
      8.times { byte = byte.odd? ? (byte >> 1) ^ 0x82F63B78 : byte >> 1 }
      byte
    end.freeze

    module_function

    def xxh3(bytes)
      XXH3_64BITS.call(bytes, bytes.bytesize) & 0xFFFF_FFFF_FFFF_FFFF
    end

    def crc32c(bytes)
      crc = 0xFFFF_FFFF
      table = CRC32C_TABLE
      bytes.each_byte { |byte| crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8) }
      crc ^ 0xFFFF_FFFF
    end

    # The content of one zstd frame of exactly raw_bytes, or nil.
    def unzstd(stored, raw_bytes)
      return nil unless FRAME_BYTES.call(stored, stored.bytesize) == stored.bytesize

      raw = "\0".b * [raw_bytes, 1].max
      got = DECOMPRESS.call(raw, raw_bytes, stored, stored.bytesize)
      return nil unless IS_ERROR.call(got).zero? && got == raw_bytes

      raw.byteslice(0, raw_bytes)
    end

    def zstd(raw)
      bound = COMPRESS_BOUND.call(raw.bytesize)
      out = "\0".b * bound
      out.byteslice(0, COMPRESS.call(out, bound, raw, raw.bytesize, 1))
    end
  end
end
