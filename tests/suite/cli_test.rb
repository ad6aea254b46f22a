# frozen_string_literal: true

# mppanalyze as a program: what it does with bad input, bad wishes and bad luck, and what it puts where.
require_relative "analyze_helper"
require "io/console"
require "pty"
require "timeout"

module CliHelper
  include AnalyzeHelper

  COMMANDS = %w[pprof top diff timeline info dump verify].freeze
  # What each needs besides the log
  NEEDS = Hash.new([]).merge("diff" => %w[--from start --to end]).freeze
  TOP = %w[top --format json --limit 0 --recorder].freeze

  def setup
    @dir = Dir.mktmpdir("mpp-cli")
    @log = SmallLog.new.write(path("good.mpp"))
    # The least common denominator of those who make a file unreadable or a directory unwritable
    File.chmod(0o755, @dir)
  end

  def teardown
    FileUtils.rm_rf(@dir)
  end

  def path(name) = File.join(@dir, name)

  def put(name, bytes)
    File.binwrite(path(name), bytes)
    path(name)
  end

  # One line on stderr, nothing on stdout, no signal, no file left. Returns the line.
  def assert_fails(code, *args, match: nil, as: nil, **options)
    before = tree
    run = as ? AnalyzeHelper.run(*as, MPPANALYZE, *args, **options) : analyze(*args, **options)
    what = "mppanalyze #{args.map(&:inspect).join(" ")}"
    assert run.status.exited?, "#{what}: #{run.status}"
    assert_equal "", run.out, "#{what}: stdout"
    assert_match(/\A[^\n]+\n\z/, run.err, "#{what}: exactly one line on stderr")
    assert_equal code, run.exit_code, "#{what}: #{run.err}"
    refute_match(/\.\n\z/, run.err, "no full stop")
    refute_match(/\e/, run.err, "no colour")
    assert_match match, run.err, what if match
    assert_equal before, tree, "#{what}: files"
    run.err
  end

  # All files below @dir with their sizes and contents
  def tree
    Dir.glob("**/*", File::FNM_DOTMATCH, base: @dir).sort.to_h do |name|
      file = path(name)
      [name, File.file?(file) && File.readable?(file) ? File.binread(file).hash : nil]
    end
  end

  def nobody
    return nil unless Process.uid.zero?

    command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    AnalyzeHelper.run(*command, "true").status.success? && command
  rescue Errno::ENOENT
    nil
  end

  # Runs as somebody whom permissions bind; skips where that cannot be had.
  def unprivileged
    return [] unless Process.uid.zero?

    command = nobody or skip "root, and setpriv is missing: permissions cannot be tested"
    # the program, and what is above it, may be out of nobody's reach
    skip "nobody cannot run #{MPPANALYZE}" unless AnalyzeHelper.run(*command, MPPANALYZE, "--version").status.success?
    command
  end
end

class CliBadInputTest < Minitest::Test
  include CliHelper

  def each_command
    COMMANDS.each { |command| yield command, [command, *NEEDS[command]] }
    yield "no command", []
  end

  def test_missing
    each_command { |_, args| assert_fails(1, *args, path("none.mpp"), match: /none\.mpp.*[Nn]o such file|[Nn]o such file.*none\.mpp/) }
  end

  def test_empty
    log = put("empty.mpp", "")
    each_command { |_, args| assert_fails(1, *args, log, match: /empty/) }
  end

  def test_no_log
    { "text" => "this is no log\n" * 1000, "short" => "x", "zeros" => "\0" * 20_000, "gzip" => "\x1F\x8B\x08".b + Random.new(1).bytes(9000),
      "ruby" => File.binread(RbConfig.ruby)[0, 100_000], "other end of line" => "\x89MPPLOG\r\n".b + "\0" * 9000 }.each do |name, bytes|
      log = put("#{name}.mpp", bytes)
      each_command { |_, args| assert_fails(1, *args, log, match: /#{name}/) }
    end
  end

  def test_directory
    Dir.mkdir(path("dir.mpp"))
    each_command { |_, args| assert_fails(1, *args, path("dir.mpp"), match: /directory/) }
  end

  def test_unreadable
    as = unprivileged
    File.chmod(0, @log)
    each_command { |_, args| assert_fails(1, *args, @log, as: as, match: /[Pp]ermission/) }
  end

  def test_device_and_fifo
    assert_fails(1, *TOP, "/dev/null")
    File.mkfifo(path("fifo"))
    # opening a FIFO that nobody writes must not hang
    Timeout.timeout(20) { assert_fails(1, *TOP, path("fifo")) }
  end

  def test_newer_major_version
    builder = MppOracle::LogBuilder.new
    builder.major = 2
    log = put("new.mpp", builder.bytes)
    each_command { |_, args| assert_fails(1, *args, log, match: /version/) }
  end

  def test_file_name_that_is_not_text
    assert_fails(1, "top", path("no\xFFne\n.mpp".b), match: /[Nn]o such file/)
  end
end

class CliBadWishTest < Minitest::Test
  include CliHelper

  def test_unknown_time
    ["banana", "", "12x", "1.2.3", "-", "--5s", "101%", "-1%", "mark:", "mark:none", "mark:block1#9", "mark:block1#x", "gc:", "gc:99", "gc:x", "@", "@x", "25:00",
     "14:61", "2025-13-01T00:00:00Z", "2025-12-01T14:03:05", "peek", "1e5000", "nan", "inf", "9" * 40, "5h", "@1", "2001-01-01T00:00:00Z", "-99h"].each do |time|
      # --at=VALUE, since some begin with a dash
      assert_fails(1, "top", "--at=#{time}", @log)
    end
  end

  def test_error_names_what_it_does_not_understand
    assert_fails(1, "top", "--at", "banana", @log, match: /banana/)
    assert_fails(1, "top", "--at", "mark:none", @log, match: /none.*: its marks are "block1"(, "block\d"){5,}$/)
    assert_fails(1, "top", "--at", "gc:99", @log, match: /99/)
  end

  def test_from_after_to
    assert_fails(1, "diff", "--from", "mark:block4", "--to", "mark:block2", @log)
    assert_fails(1, "diff", "--from", "end", "--to", "start", @log)
  end

  def test_wrong_usage
    [["--nonsense", @log], ["top", "--nonsense", @log], ["top", "-Z", @log], ["frobnicate"], ["frobnicate", @log], ["toop", @log], ["top"], [], ["diff", @log, "--from"],
     ["top", "--by", "nonsense", @log], ["top", "--by=", @log], ["top", "--sort", "nonsense", @log], ["top", "--format", "nonsense", @log], ["top", "--limit", "x", @log],
     ["top", "--limit", "-1", @log], ["top", "--limit", "99999999999999999999999", @log], ["top", "--min-age", "x", @log], ["top", "--color", "maybe", @log],
     ["timeline", "--points", "0", @log], ["timeline", "--points", "x", @log], ["top", "--limit", "", @log]].each do |args|
      assert_fails(2, *args)
    end
  end

  def test_bad_regex
    ["[", "(", "*a\\", "a{2,1}"].each do |regex|
      %w[--focus --ignore --class].each { |option| assert_includes [1, 2], bad_regex(option, regex) }
    end
  end

  def test_a_typo_gets_a_hint
    assert_match(/top/, assert_fails(2, "toop", @log))
  end

  private

  def bad_regex(option, regex)
    run = analyze("top", option, regex, @log)
    assert_equal "", run.out
    assert_match(/\A[^\n]+\n\z/, run.err)
    run.exit_code
  end
end

class CliOutputTest < Minitest::Test
  include CliHelper

  # Every command with each of its ways to write
  WRITERS = [["pprof"], ["top"], %w[top --format json], %w[top --format pprof], %w[top --format folded], %w[diff --from start --to end], %w[timeline --format json],
             %w[info], %w[info --format json], ["dump"], ["verify"]].freeze
  # Writing more than 4 KiB into a file fails there.
  SMALL_FILES = ["sh", "-c", "trap '' XFSZ; ulimit -f 8; exec \"$0\" \"$@\""].freeze

  def test_directory_that_is_not_there
    WRITERS.each { |args| assert_fails(1, *args, "-o", path("none/out"), @log, match: /none/) }
  end

  def test_unwritable_directory
    as = unprivileged
    Dir.mkdir(path("locked"), 0o555)
    WRITERS.each { |args| assert_fails(1, *args, "-o", path("locked/out"), @log, as: as, match: /[Pp]ermission/) }
  end

  def test_output_is_a_directory
    Dir.mkdir(path("out"))
    WRITERS.each { |args| assert_fails(1, *args, "-o", path("out"), @log) }
  end

  def test_full_disk_behind_stdout
    WRITERS.each do |args|
      err, status = Open3.popen3("sh", "-c", 'exec "$0" "$@" >/dev/full', MPPANALYZE, *args, "-o", "-", @log) do |_, _, stderr, thread|
        [stderr.read, thread.value]
      end
      assert_equal 1, status.exitstatus, args.join(" ")
      assert_match(/\A[^\n]*[Nn]o space[^\n]*\n\z/, err, args.join(" "))
    end
  end

  def test_device_as_output
    WRITERS.each { |args| assert_fails(1, *args, "-o", "/dev/full", @log, match: /[Nn]o space/) }
    assert File.chardev?("/dev/full"), "it was not replaced by a file"
    analyze!("top", "-o", "/dev/null", @log)
    assert File.chardev?("/dev/null")
  end

  def test_full_disk
    mounted = false
    Dir.mkdir(path("disk"))
    mounted = AnalyzeHelper.run("mount", "-t", "tmpfs", "-o", "size=16k", "mpp-test", path("disk")).status.success?
    skip "no tmpfs can be mounted here" unless mounted
    [["dump"], %w[dump --format json]].each { |args| assert_fails(1, *args, "-o", path("disk/out"), @log, match: /[Nn]o space/) }
    assert_empty Dir.children(path("disk"))
  ensure
    AnalyzeHelper.run("umount", path("disk")) if mounted
  end

  # The same for those who may not mount: a limit to the size of files.
  def test_file_size_limit
    [["dump"], %w[dump --format json]].each { |args| assert_fails(1, *args, "-o", path("out"), @log, as: SMALL_FILES) }
  end

  # A file that is there keeps its content when the new one fails, and is replaced when it does not.
  def test_existing_output
    out = put("out", "precious")
    assert_fails(1, "top", "-o", out, path("none.mpp"))
    assert_fails(1, "top", "--at", "banana", "-o", out, @log)
    assert_fails(1, "dump", "-o", out, @log, as: SMALL_FILES)
    assert_equal "precious", File.read(out)
    assert_empty analyze!(*TOP, "-o", out, @log).out
    assert_equal analyze!(*TOP, @log).out, File.binread(out)
    assert_equal %w[good.mpp out], Dir.children(@dir).sort - [index_name].compact
  end

  def test_the_log_is_not_overwritten_by_its_own_report
    File.symlink("good.mpp", path("link.mpp"))
    WRITERS.each do |args|
      assert_fails(1, *args, "-o", @log, @log)
      assert_fails(1, *args, "-o", path("link.mpp"), @log)
      assert_fails(1, *args, "-o", @log, path("link.mpp"))
    end
  end

  def test_reader_that_goes_away
    # longer than a pipe holds
    log = SmallLog.new(blocks: 60).write(path("long.mpp"))
    Timeout.timeout(30) do
      Open3.popen3(MPPANALYZE, "dump", "--format", "json", log) do |_, stdout, stderr, thread|
        stdout.gets
        stdout.close
        err = stderr.read
        assert_operator err.lines.size, :<=, 1
        status = thread.value
        refute_equal 0, status.exitstatus if status.exited?
        assert_equal Signal.list["PIPE"], status.termsig if status.signaled?
      end
    end
  end

  def test_stdout_that_is_closed
    run = AnalyzeHelper.run("sh", "-c", 'exec "$0" "$@" >&-', MPPANALYZE, "top", @log)
    assert_equal 1, run.exit_code
    assert_match(/\A[^\n]+\n\z/, run.err)
  end

  def test_stdout_carries_only_data
    %w[top diff timeline info verify].each do |command|
      assert_match(%r{\Ampp\.#{command}/1\z}, json!(command, *NEEDS[command], @log)["schema"])
    end
    analyze!("dump", "--format", "json", @log).out.each_line { |line| JSON.parse(line) }
    COMMANDS.each { |command| assert_equal "", analyze(command, *NEEDS[command], @log).err, command }
  end

  def test_json_is_the_oracles
    require_relative "../oracle/mpp_oracle"
    assert_equal JSON.parse(JSON.generate(MppOracle::Oracle.new(@log).top(by: "line", limit: 0, recorder: true))), analyze!(*TOP, @log).json
  end

  def test_colour
    COMMANDS.each do |command|
      next if command == "pprof"

      [[], %w[--color auto], %w[--color never]].each do |color|
        [{}, { "TERM" => "xterm-256color", "COLORTERM" => "truecolor", "CLICOLOR" => "1" }].each do |env|
          refute_includes analyze!(command, *NEEDS[command], *color, @log, env: env).out, "\e", "#{command} #{color.join(" ")} in a pipe"
        end
      end
      refute_includes analyze!(command, *NEEDS[command], "--format", "json", "--color", "always", @log).out, "\e", "colour is for text"
    end
    assert_includes analyze!("top", "--color", "always", @log).out, "\e["
  end

  def test_no_profile_onto_a_terminal
    out = terminal(MPPANALYZE, @log)
    refute_includes out.b, "\x1F\x8B".b
    refute_empty out
  end

  def test_terminal_and_pipe_show_the_same_words
    plain = analyze!("top", "--color", "never", @log, env: { "COLUMNS" => "200" }).out.force_encoding(Encoding::UTF_8)
    seen = terminal(MPPANALYZE, "top", @log, env: { "TERM" => "xterm" }).gsub(/\e\[[0-9;]*[A-Za-z]/, "").delete("\r")
    plain.scan(/\S+\.rb:\d+/).each { |name| assert_includes seen, name }
  end

  def test_same_again
    WRITERS.each { |args| assert_equal analyze!(*args, "-o", "-", @log).out, analyze!(*args, "-o", "-", @log).out, args.join(" ") }
  end

  private

  # An index beside the log is no partial output.
  def index_name = Dir.children(@dir).find { |name| name.start_with?("good.mpp.") }

  # What a command shows on a terminal 200 columns wide.
  def terminal(*command, env: {})
    output = +""
    PTY.spawn(env, *command) do |reader, writer, pid|
      reader.winsize = [50, 200]
      begin
        loop { output << reader.readpartial(4096) }
      rescue EOFError, Errno::EIO
        nil # the end of a pseudo-terminal
      end
      writer.close
      Process.wait(pid)
    end
    output.force_encoding(Encoding::UTF_8).scrub
  end
end

class CliHelpTest < Minitest::Test
  include CliHelper

  def test_help_of_every_command
    COMMANDS.each do |command|
      run = analyze!(command, "--help")
      assert_match(/mppanalyze \[?#{command}/, run.out.lines.first(4).join)
      assert_match(/--help/, run.out)
      assert_operator run.out.lines.map { |line| line.chomp.size }.max, :<=, 100
    end
  end

  def test_help
    run = analyze!("--help")
    COMMANDS.each { |command| assert_match(/^\s+#{command}\b/, run.out) }
    assert_match(/TIME/, run.out)
  end

  # What help tells is true: every option that it names is known.
  def test_help_names_only_options_that_work
    COMMANDS.each do |command|
      options = analyze!(command, "--help").out.scan(/(?<![\w-])--[a-z][a-z-]*/).uniq
      refute_empty options
      options.each do |option|
        run = analyze(command, option, "--nonsense")
        refute_match(/(unknown|unrecognized|invalid) option.*#{option}\b/, run.err, "#{command} #{option}")
      end
    end
  end

  def test_version
    run = analyze!("--version")
    assert_match(/\Amppanalyze \d+\.\d+\S*.*\n\z/, run.out)
  end

  def test_help_goes_before_all_else
    analyze!("top", "--help", path("none.mpp"))
    analyze!("top", path("none.mpp"), "--help")
  end
end
