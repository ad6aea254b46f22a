# frozen_string_literal: true

# How programs end: with handlers in order, from threads, without stdin and stdout, as daemons. Status, output and order are those of the program
# alone, and the log has its clean end where there is one to be had.
require "minitest/autorun"
require_relative "support/recorder_runs"

class RecorderEndingsTest < Minitest::Test
  include RecorderRuns

  START = <<~RUBY
    Made = Class.new
    MppRecorder.start(path: LOG)
    $kept = Array.new(300) { Made.new }
  RUBY

  # What the program does with and without the recorder is the same; returns the run with it.
  def same(code, clean_end: true, **options)
    without, with = ["Made = Class.new\n\n$kept = Array.new(300) { Made.new }\n", START].map { |start| program(start + code, **options) }
    assert_equal [without.status.exitstatus, without.status.termsig, without.out, without.err], [with.status.exitstatus, with.status.termsig, with.out, with.err]
    sound(clean_end: clean_end)
    assert_operator live(clean_end: clean_end)["Made"][0], :>=, 300
    with
  end

  def test_order_of_handlers
    run = same(<<~RUBY)
      $stdout.sync = true
      at_exit { puts "first in, last out"; $kept << Made.new }
      at_exit { at_exit { puts "nested"; $kept << Made.new }; puts "second" }
      END { puts "END" }
      ObjectSpace.define_finalizer($kept[0], proc { $stdout.puts("finalizer") })
      puts "end"
    RUBY
    assert_equal "end\nEND\nsecond\nnested\nfirst in, last out\nfinalizer\n", run.out
    assert_equal 301 + 1, live["Made"][0]
  end

  # Handlers that were there before the recorder was loaded run after it has ended: its end is in order nevertheless.
  def test_handlers_from_before
    File.write(path("early.rb"), 'at_exit { puts "early"; Array.new(10) { Object.new } }')
    run = program!(START + 'at_exit { puts "late" }', ruby: ["-r#{path("early.rb")}"])
    assert_equal "late\nearly\n", run.out
    sound
  end

  def test_statuses
    ["exit 7", "exit! 7", "abort", "abort 'why'", "raise 'why'", "at_exit { exit 9 }", "at_exit { raise 'late' }", "at_exit { exit! 6 }", "throw :nothing"].each do |ending|
      same(ending, clean_end: !ending.include?("exit!"))
      File.unlink(path("app.mpp"))
    end
  end

  # (Words on stderr may name the recorder's frames no less than the program's: not compared.)
  def test_endings_in_threads
    ["Thread.new { exit 7 }.join; sleep", "Thread.new { abort 'why' }.join; sleep", "Thread.new { Thread.main.raise(Interrupt) }; sleep",
     "Thread.new { Thread.main.kill }; sleep", "Thread.abort_on_exception = true; Thread.report_on_exception = false; Thread.new { raise 'why' }; sleep",
     "Thread.new { loop { Object.new } }; sleep 0.05; exit 3", "Fiber.new { exit 4 }.resume"].each do |ending|
      without, with = ["", START].map { |start| program(start + ending) }
      assert_equal [without.status.exitstatus, without.status.termsig, without.out], [with.status.exitstatus, with.status.termsig, with.out], ending
      soundly_analyzed
      File.unlink(path("app.mpp"))
    end
  end

  def test_exit_at_once_in_a_thread
    same("Thread.new { exit! 5 }.join; sleep", clean_end: false)
  end

  # Descriptors 0, 1 and 2 are closed: Ruby puts pipes there, and the log is the log alone. (A fork dies of SIGPIPE then, recorded or not.)
  def test_without_standard_streams
    file = path("program.rb")
    File.write(file, <<~RUBY)
      #{START}
      warn "to nobody" rescue nil
      puts "to nobody" rescue nil
      File.write(LOG + ".out", [MppRecorder.running?, Dir.children("/proc/self/fd").size].inspect)
    RUBY
    run = run_command("sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *ruby_command, file)
    assert_equal [0, "", ""], [run.status.exitstatus, run.out, run.err]
    assert_match(/\A\[true/, File.read(path("app.mpp.out")))
    sound
    assert_equal 300, live["Made"][0]
  end

  def test_program_that_closes_its_streams
    program(START + "[$stdin, $stdout, $stderr].each(&:close); $kept.concat(Array.new(200) { Made.new })").then { |run| assert run.status.success? }
    sound
    assert_equal 500, live["Made"][0]
  end

  def test_daemon_under_mpprecord
    File.write(path("daemon.rb"), <<~RUBY)
      Made = Class.new
      at_exit { File.write("#{path("done")}", $$.to_s) }
      Process.daemon(true)
      $kept = Array.new(400) { Made.new }
    RUBY
    run = run_command(RbConfig.ruby, MPPRECORD, "-o", path("app.mpp"), "--", RbConfig.ruby, path("daemon.rb"))
    assert_equal [0, "", ""], [run.status.exitstatus, run.out, run.err]
    eventually { File.size?(path("done")) }
    daemon = "app.#{File.read(path("done"))}.mpp"
    # The handler of the log comes after the program's; a file that is being made has no header yet.
    eventually { logs.include?(daemon) && (MppOracle::Log.new(path(daemon)).clean_end? rescue false) }
    sound(path(daemon))
    assert_equal 400, live(log: path(daemon))["Made"][0]
    sound(clean_end: false) # the first process ended at once
  end

  def eventually(seconds = 30)
    deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + seconds
    until yield
      flunk "it never came" if Process.clock_gettime(Process::CLOCK_MONOTONIC) > deadline
      sleep 0.02
    end
  end
end
