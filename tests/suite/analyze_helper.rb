# frozen_string_literal: true

# For tests of mppanalyze from outside: running it, and a small log whose every number is known.
require "json"
require "minitest/autorun"
require "open3"
require "tmpdir"
require_relative "../oracle/log_builder"

module AnalyzeHelper
  BUILD = ENV.fetch("MPP_BUILD") { File.expand_path("../../build", __dir__) }
  MPPANALYZE = File.join(BUILD, "mppanalyze")
  GENLOG = File.join(BUILD, "tests/tools/genlog")

  Run = Struct.new(:out, :err, :status) do
    def json = JSON.parse(out)
    def exit_code = status.exitstatus
  end

  # Runs a command line with both outputs captured (so: not a terminal), as bytes.
  def self.run(*command, env: {}, **options)
    out, err, status = Open3.capture3(env, *command.map(&:to_s), binmode: true, stdin_data: "", **options)
    Run.new(out, err.force_encoding(Encoding::UTF_8).scrub, status)
  end

  def analyze(*args, **options) = AnalyzeHelper.run(MPPANALYZE, *args, **options)

  # The same, and it must succeed without a word on stderr.
  def analyze!(*args, **options)
    run = analyze(*args, **options)
    assert_equal [0, ""], [run.exit_code, run.err], "mppanalyze #{args.join(" ")}"
    run
  end

  def json!(*args) = analyze!(*args, "--format", "json").json

  # A log of a made-up program, written block by block. `live`, `totals` … tell what it must come to.
  class SmallLog
    B = MppOracle::LogBuilder
    STRINGS = ["main", "/app/main.rb", "Leak#grow", "/app/leak.rb", "Array#push", "Leak::Node", "Array", "String", "worker", "[mpp_recorder]", "(none)",
               "bad\xFFname", "/app/caf\u00e9.rb", "<main>"].freeze
    # label, path, first line, flags (1: native, 2: a remark)
    FUNCTIONS = [["<main>", "/app/main.rb", 1, 0], ["Leak#grow", "/app/leak.rb", 3, 0], ["Array#push", "/app/leak.rb", 0, 1],
                 ["[mpp_recorder]", "(none)", 0, 2], ["bad\xFFname", "/app/caf\u00e9.rb", 5, 0]].freeze
    # parent, function, line
    STACKS = [[0, 1, 10], [1, 2, 5], [2, 3, 5], [1, 4, 0], [1, 5, 7], [1, 1, 11]].freeze
    CLASSES = %W[Leak::Node Array String bad\xFFname].freeze
    THREADS = %w[main worker].freeze
    # stack, class, type, thread, birth bytes
    SITES = [[2, 1, 1, 1, 40], [3, 2, 7, 1, 40], [1, 3, 5, 2, 40], [0, 0, 26, 1, 40], [4, 3, 5, 1, 40], [5, 4, 1, 2, 80], [6, 3, 5, 1, 40]].freeze
    FUNCTION_OF_RECORDER = "[mpp_recorder]"

    attr_reader :bytes, :block_offsets

    # `blocks` blocks of events; each has its allocations, its garbage and a GC; marks "block1" ….
    def initialize(blocks: 6, allocs: 300, compress: true, clean_end: true)
      @log = MppOracle::LogBuilder.new
      @compress = compress
      @random = Random.new(1)
      @live = []
      @serial = 1
      @time = 0
      @alloc_count = allocs
      # META's header is made anew, with true counts
      @log.blocks.clear
      add(4, 0, @log.fields, 0, 0, [0, 0, 0])
      1.upto(blocks) { |n| events(n) }
      finish if clean_end
      @bytes = @log.bytes
    end

    def write(path)
      File.binwrite(path, @bytes)
      path
    end

    private

    def add(kind, sequence, payload, first_serial, first_time, counts)
      stored = @compress ? MppOracle::Native.zstd(payload) : payload.b
      compression = stored.bytesize < payload.bytesize ? 1 : 0
      stored = payload.b if compression.zero?
      head = "MPPB".b + [kind, compression, 80].pack("CCS<") + [sequence].pack("Q<") + [stored.bytesize, payload.bytesize].pack("L<2") +
             [first_serial, first_time, kind == 1 ? @time : 0].pack("Q<3") + [*counts, 0].pack("L<4") + [MppOracle::Native.xxh3(stored)].pack("Q<")
      (@block_offsets ||= []) << 4096 + @log.blocks.sum(&:bytesize)
      (@index ||= []) << [@block_offsets.last, kind, sequence, first_serial, first_time, kind == 1 ? @time : 0, counts[0]]
      @log.blocks << head + [MppOracle::Native.xxh3(head)].pack("Q<") + stored
    end

    def events(n)
      first_serial = @serial
      first_time = @time
      @payload = "".b
      @counts = [0, 0, 0]
      @free_base = first_serial
      definitions.each { |d| put(d) } if n == 1
      @alloc_count.times { one_alloc }
      tick(1_000_000)
      put(B.record(0x07, n, n.even? ? 1 : 0))
      garbage = @live.shuffle(random: @random).take(@live.size / 2)
      garbage.sort.each { |serial| one_free(serial) }
      tick(500_000)
      put(B.record(0x08, n, 0))
      put(B.record(0x09, "block#{n}"))
      add(1, n, @payload, first_serial, first_time, @counts)
    end

    def definitions
      all = STRINGS | FUNCTIONS.flat_map { |f| f.take(2) } | CLASSES | THREADS
      id = ->(text) { all.index(text) + 1 }
      all.each_with_index.map { |s, i| B.record(0x18, i + 1, s) } +
        FUNCTIONS.each_with_index.map { |(label, path, line, flags), i| B.record(0x19, i + 1, id.(label), id.(path), line, flags) } +
        STACKS.each_with_index.map { |stack, i| B.record(0x1A, i + 1, *stack) } +
        SITES.each_with_index.map { |site, i| B.record(0x1B, i + 1, *site) } +
        CLASSES.each_with_index.map { |c, i| B.record(0x1C, i + 1, id.(c), 0) } +
        THREADS.each_with_index.map { |t, i| B.record(0x1D, i + 1, id.(t)) }
    end

    def put(record)
      @payload << record
      @counts[0] += 1
    end

    def tick(ns)
      @time += ns
      put(B.record(0x01, ns))
    end

    def one_alloc
      tick(@random.rand(20_000)) if @random.rand(4).zero?
      put(B.alloc(@random.rand(SITES.size) + 1))
      @counts[1] += 1
      @live << @serial
      @serial += 1
    end

    def one_free(serial)
      delta = serial - @free_base
      @free_base = serial
      put(serial % 5 == 0 ? B.record(0x03, [delta], 40 + serial % 1000) : B.free(delta))
      @counts[2] += 1
      @live.delete(serial)
    end

    def finish
      @payload = "".b
      @counts = [0, 0, 0]
      definitions.each { |d| put(d) }
      add(2, 1, @payload, 0, 0, @counts)
      last = 0
      index = B.varint(@index.size) + @index.map { |offset, *rest| B.varint(offset - last).tap { last = offset } + rest.map { |v| B.varint(v) }.join }.join
      add(5, 0, index, 0, 0, [0, 0, 0])
      @log.tail = B.footer(@block_offsets.last, @time)
    end
  end
end
