# frozen_string_literal: true

# Writes the seeds of fixtures/corpus: small inputs that show the fuzzers each form once. What fuzzers have found stands beside them, by names that
# do not begin with "seed".
#
#   ruby tests/fuzz/seeds.rb
require "fileutils"
require_relative "../oracle/log_builder"

B = MppOracle::LogBuilder
CORPUS = File.expand_path("../../fixtures/corpus", __dir__)

def put(directory, name, bytes)
  FileUtils.mkdir_p(File.join(CORPUS, directory))
  File.binwrite(File.join(CORPUS, directory, "seed-#{name}"), bytes)
end

# A part of a description of a log: see fuzz.h.
def part(kind, payload, tweak = 0, value = nil) = [kind, tweak, payload.bytesize].pack("CCS<") + (tweak.zero? ? "".b : [value].pack("Q<")) + payload.b
def log(flags, *parts, fork_serial: 0) = [flags, fork_serial].pack("CC") + parts.join

definitions = [B.record(0x18, 1, "Leak#grow"), B.record(0x18, 2, "/app/leak.rb"), B.record(0x18, 3, "String"), B.record(0x18, 4, "[mpp_recorder]"),
               B.record(0x19, 1, 1, 2, 3, 0), B.record(0x19, 2, 4, 2, 0, 2), B.record(0x1A, 1, 0, 1, 10), B.record(0x1A, 2, 1, 2, 11), B.record(0x1C, 1, 3, 0),
               B.record(0x1D, 1, 1), B.record(0x1B, 1, 1, 1, 5, 1, 40), B.record(0x1B, 2, 2, 0, 26, 1, 80)].join
life = B.record(1, 1000) + B.alloc(1) * 3 + B.alloc(2) + B.record(7, 1, 1) + B.record(1, 10) + B.record(8, 1, 1, 1, 99) + B.record(4, [2], 100) +
       B.free(1) + B.record(3, [-1], 8) + B.record(9, "warm")
rare = B.record(2, 1, 1000) + B.record(5, [0], 7) + B.record(6, 1, 2, 50, 3, [-5], 2) + B.record(0x0A, 1) + B.record(0x0B, 5, 1) + B.record(0x0C, 1, 1, 2) +
       B.record(0x0D, 1_764_597_786_000_000_000) + B.record(0x0E, 1, 10, 400) + B.record(0x0F, 100) + B.record(0x10, 2, 1, 4096, 99, 1) + B.record(0x11, 8) +
       B.record(0x21, "later") + B.alloc(200)
weights = B.record(0x1B, 1, 0, 0, 5, 0, (1 << 40) - 1) + B.record(2, 1, (1 << 24) - 1) + B.free(0)
proc = B.record(1, 5) + B.record(0x10, 2, 1, 1 << 20, 2, 77)

put("log", "clean", log(1, part(0x11, definitions + life), part(3, proc), part(0x11, life), part(2, definitions)))
put("log", "killed", log(2 << 3, part(1, definitions + life), part(0x0F, life), part(0x0F, rare)))
put("log", "rare", log(1, part(1, definitions + life + rare), part(1, rare + life), fork_serial: 9))
put("log", "damage", log(1, part(1, definitions + life), part(0, "MPPB garbage"), part(0x21, life), part(1, life + "\0"), part(1, life, 12, 1), part(0x41, life)))
put("log", "header", log(3 | 1 << 3, part(4, B.field(1, "u" * 16) + B.field(2, "\1")), part(1, definitions + life), part(0x0F, life, 16, 0x0109)))
put("log", "lies", log(5, part(1, definitions + life, 4, 1 << 25), part(1, life, 5, 1 << 26), part(1, life, 6, 1 << 48), part(1, life, 7, 1 << 63), part(5, "\1\2\3")))
put("log", "proc-times", log(1, part(1, definitions), part(3, proc, 7, 1 << 63), part(3, proc)))
put("log", "weights", log(1, part(1, weights)))
put("log", "empty", log(0))
put("log", "many", log(1, part(1, definitions), part(0x91, life), part(0xC1, B.alloc(1) * 3 + B.record(1, 1) + B.free(1) + B.free(-32_000 * 8)),
                     part(1, B.alloc(1)), part(0xD1, B.alloc(2)), part(1, B.free(-(1 << 14) * 20) + B.record(4, [-(1 << 14) * 30], 9))))
put("log", "plain", MppOracle::LogBuilder.new.events(1, 1, 0, definitions + life).tap { |l|
  l.halves = [B.half(2, 5, 1010, life), B.half(1, 1, 0, life)]
}.bytes)

place = [10, 0].pack("Q<2")
put("record", "definitions", place + definitions)
put("record", "life", place + life)
put("record", "rare", place + rare)
put("record", "limits", [(1 << 48) - 1, (1 << 63) - 2].pack("Q<2") + B.record(1, 1) + B.alloc(1) + weights)

%w[start end peak 12.5 12.5s 250ms 2m30s 1h -10s 50% 2025-12-01T14:03:05Z 2025-12-01T15:03:05.25+01:00 14:03 14:03:05 @1764597785.25 mark:warm
   mark:a#2 mark:warm#2 gc:4 gc:18446744073709551615 0 1h1m1s1ms1us1ns 100% 99.999999999%].each_with_index do |text, i|
  put("time", format("%02d", i), [i].pack("C") + text)
end

# protobuf: field numbers of proto/profile.proto, by hand
def message(number, bytes) = B.varint(number << 3 | 2) + B.varint(bytes.bytesize) + bytes.b
def number(field, value) = B.varint(field << 3) + B.varint(value)
strings = ["", "objects", "count", "f", "a.rb"].map { |s| message(6, s) }.join
profile = message(1, number(1, 1) + number(2, 2)) + message(2, message(1, B.varint(1)) + message(2, B.varint(7)) + message(3, number(1, 3) + number(2, 4))) +
          message(3, number(1, 1) + number(7, 1) + number(8, 1) + number(9, 1)) + message(4, number(1, 1) + number(2, 1) + message(4, number(1, 1) + number(2, 9))) +
          message(5, number(1, 1) + number(2, 3) + number(4, 4)) + strings + number(14, 1)
put("pprof", "valid", "\0" + profile)
put("pprof", "twice", "\0" + profile * 2)
put("pprof", "built", "\1\x03\x01f\x04a.rb" + "\0" * 15 + "\x05\x04" + "\0" * 7 + "\1" * 60 + "\1c\2x\xFF" + "\2" * 20)
