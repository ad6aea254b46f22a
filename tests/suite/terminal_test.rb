# frozen_string_literal: true

# What a person sees: reports on terminals of several widths.
require_relative "analyze_helper"
require "io/console"
require "pty"

class TerminalTest < Minitest::Test
  include AnalyzeHelper

  B = MppOracle::LogBuilder
  PATHS = ["/srv/shop/releases/20261201140305/app/models/concerns/searchable.rb",
           "/usr/local/bundle/ruby/3.1.0/gems/activesupport-6.1.7.10/lib/active_support/notifications/instrumenter.rb"].freeze
  LONG = "ActiveSupport::Notifications::Instrumenter#instrument"

  def setup
    @dir = Dir.mktmpdir("mpp-terminal")
    @log = File.join(@dir, "t.mpp")
    File.binwrite(@log, B.new.events(1, 1, 0, records.join).bytes)
  end

  def teardown = FileUtils.rm_rf(@dir)

  # Site 1 at PATHS[0]:42, called from PATHS[1]:24; site 2 the other way round; site 3 at start.rb.
  def records
    strings = [LONG, *PATHS, "Foo", "/start.rb"]
    size = ->(serial, bytes) { B.record(0x04, [serial], bytes) }
    strings.each_with_index.map { |s, i| B.record(0x18, i + 1, s) } +
      [B.record(0x19, 1, 1, 2, 1, 0), B.record(0x19, 2, 1, 3, 1, 0), B.record(0x19, 3, 1, 5, 1, 0), B.record(0x1A, 1, 0, 1, 42), B.record(0x1A, 2, 0, 2, 24),
       B.record(0x1A, 3, 1, 2, 24), B.record(0x1A, 4, 2, 1, 42), B.record(0x1A, 5, 0, 3, 7), B.record(0x1C, 1, 4, 0),
       B.record(0x1B, 1, 4, 1, 1, 0, 40), B.record(0x1B, 2, 3, 1, 1, 0, 40), B.record(0x1B, 3, 5, 1, 1, 0, 40), B.alloc(3), B.record(0x09, "warm")] +
      [B.record(0x01, 1_500_000_000)] + [B.alloc(1)] * 30_000 + [B.alloc(2)] * 20_000 + [size.(0, 4_000_000)]
  end

  # The log has no clean end, which is said on stderr.
  def report(*args)
    run = analyze(*args)
    assert_equal 0, run.exit_code, run.err
    run
  end

  # The lines that a terminal of so many columns gets.
  def on_terminal(columns, *args)
    output = +""
    PTY.spawn("sh", "-c", "stty cols #{columns} rows 40; exec \"$0\" \"$@\"", MPPANALYZE, *args) do |reader, writer, pid|
      begin
        loop { output << reader.readpartial(4096) }
      rescue EOFError, Errno::EIO
        nil # the end of a pseudo-terminal
      end
      writer.close
      Process.wait(pid)
    end
    output.force_encoding(Encoding::UTF_8).gsub(/\e\[[0-9;]*[A-Za-z]/, "").delete("\r").lines(chomp: true)
  end

  REPORTS = [%w[top], %w[top --by stack], %w[top --by method], %w[diff --from mark:warm], %w[diff --from mark:warm --by stack], %w[timeline]].freeze

  # A path of a log may be of any length.
  def test_no_line_is_wider_than_the_terminal
    [80, 100, 140].each do |columns|
      REPORTS.each do |args|
        lines = on_terminal(columns, *args, @log).grep_v(/#{Regexp.escape(@log)}/)
        assert_operator lines.size, :>, 4, args.join(" ")
        lines.each { |line| assert_operator line.size, :<=, columns, "#{args.join(" ")}: #{line}" }
      end
    end
  end

  def test_a_shortened_path_keeps_its_end_from_a_directory_on
    [%w[top], %w[diff --from mark:warm]].each do |args|
      names = on_terminal(80, *args, @log).grep(/\.rb:\d+\z/).map { |line| line.split.last }
      names.select { |name| name.start_with?("…") }.tap { |cut| assert_equal 2, cut.size, names.inspect }.each do |name|
        assert PATHS.any? { |path| path.end_with?(name[/\A….*?(?=:\d+\z)/].delete_prefix("…")) }, name
      end
      assert(names.any? { |name| name.end_with?("/searchable.rb:42") }, names.inspect)
    end
  end

  def test_what_is_no_terminal_gets_whole_names_and_all_columns
    out = report("diff", "--from", "mark:warm", @log).out.force_encoding(Encoding::UTF_8)
    assert_match(/retained +objects +delta +objects +from +to +name$/, out)
    PATHS.each { |path| assert_includes out, path }
    assert_match(/ live, .* allocated, .* freed$/, out)
  end

  # An object of before that has grown is nobody's retained.
  def test_growth_of_an_older_object_is_told
    out = report("diff", "--from", "mark:warm", "--limit", "2", @log).out
    assert_match(/^not shown: older objects that grew, by 3\.8 MiB at \/start\.rb:7: see --sort delta_bytes$/, out)
    first = report("diff", "--from", "mark:warm", "--sort", "delta_bytes", "--limit", "1", "--format", "json", @log).json["rows"].first
    assert_equal ["/start.rb:7", 0], [first["name"], first["retained"]["bytes"]]
    [%w[--limit 3], %w[--limit 2 --min-age 1], %w[--limit 2 --sort delta_bytes]].each do |args|
      refute_match(/not shown/, report("diff", "--from", "mark:warm", *args, @log).out, args.join(" "))
    end
  end

  def test_a_word_that_is_no_command
    { "leaks" => "mppanalyze --help lists the commands", "timline" => "did you mean timeline?" }.each do |word, hint|
      [[word], [word, @log]].each do |args|
        run = analyze(*args, chdir: @dir)
        assert_equal [2, "mppanalyze: \"#{word}\" is neither a command nor a log: #{hint}\n"], [run.exit_code, run.err]
      end
    end
  end
end
