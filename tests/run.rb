#!/usr/bin/env ruby
# frozen_string_literal: true

# Runs test programs one after another, goes on after failures, and sums what they report.
#
#   ruby tests/run.rb --unit TITLE BINARY... --suite TITLE FILE_test.rb...   (either several times, in the order to run)
#
# --unit takes cmocka programs, --suite minitest files; each runs in a process of its own. The output of a process is shown whole
# when something failed in it, and is one line otherwise. The last line is `N passed, N failed` (`, N skipped` when some were).
# Exit: 0 when everything passed and something ran; else 1.
#
# Environment: ONLY=SUBSTRING runs the programs whose path holds it; MPP_TEST_TIMEOUT is the seconds that one minitest test or one
# cmocka program may take (default 120); a minitest file may take ten times that. VERBOSE=1 shows the output of all processes.
# Every process gets MPP_BUILD, the directory of the build under test, from the one who calls.

require "tempfile"

module MppTests
  Job = Struct.new(:kind, :title, :path)
  # problem: nil, or what is wrong with the process besides the failures that it reported itself
  Result = Struct.new(:passed, :failed, :skipped, :problem)

  TEST_SECONDS = Integer(ENV.fetch("MPP_TEST_TIMEOUT", "120"))
  EACH_TEST = File.expand_path("ci/each_test_timeout.rb", __dir__)

  module_function

  def jobs(argv)
    kind = title = nil
    args = argv.dup
    list = []
    while (arg = args.shift)
      if (m = arg.match(/\A--(unit|suite)\z/))
        kind = m[1].to_sym
        title = args.shift or abort "tests/run.rb: #{arg} needs a title"
      elsif kind.nil?
        abort "usage: ruby tests/run.rb --unit TITLE BINARY... --suite TITLE FILE..."
      else
        list << Job.new(kind, title, arg)
      end
    end
    only = ENV["ONLY"].to_s
    only.empty? ? list : list.select { |job| job.path.include?(only) }
  end

  def command(job)
    return [File.expand_path(job.path)] if job.kind == :unit

    [RbConfig.ruby, "-w", "-Itests/suite", "-r", EACH_TEST, job.path, "--verbose"]
  end

  # Runs the job with a deadline; returns [output, Process::Status or nil when it was killed at the deadline].
  def run(job)
    limit = job.kind == :unit ? TEST_SECONDS : TEST_SECONDS * 10
    Tempfile.create("mpp-test") do |out|
      pid = Process.spawn({ "MPP_TEST_TIMEOUT" => TEST_SECONDS.to_s }, *command(job),
                          in: File::NULL, %i[out err] => out, pgroup: true)
      status = wait(pid, limit)
      kill_group(pid) # what the test left running, and the test itself at its deadline
      Process.wait(pid) unless status
      out.rewind
      [out.read.force_encoding(Encoding::UTF_8).scrub, status]
    end
  end

  def wait(pid, limit)
    deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + limit
    pause = 0.005
    loop do
      return $? if Process.wait(pid, Process::WNOHANG)
      return nil if Process.clock_gettime(Process::CLOCK_MONOTONIC) > deadline

      sleep pause
      pause = [pause * 1.5, 0.2].min
    end
  end

  def kill_group(pid)
    Process.kill(:KILL, -pid)
  rescue Errno::ESRCH, Errno::EPERM
    nil
  end

  # cmocka: one summary a group, and a program may run several groups.
  def read_unit(output)
    passed = output.scan(/^\[       OK \] /).size
    # "2 test(s), listed below"; newer versions put the group's name and a colon before the number
    count = ->(word) { output.scan(/^\[ +#{word} +\] (?:.*: )?(\d+) test\(s\), listed below/).flatten.sum(&:to_i) }
    failed = count.("FAILED")
    skipped = count.("SKIPPED")
    [passed, failed, skipped]
  end

  def read_suite(output)
    m = output.scan(/^(\d+) runs, \d+ assertions, (\d+) failures, (\d+) errors, (\d+) skips/).last
    if m
      runs, failures, errors, skips = m.map(&:to_i)
      return [runs - failures - errors - skips, failures + errors, skips]
    end
    # It never came to its summary: count the verbose lines `Class#test = 0.01 s = .`
    marks = output.scan(/ = \d+\.\d+ s = ([.FES])$/).flatten
    [marks.count("."), marks.count { |c| %w[F E].include?(c) }, marks.count("S")]
  end

  def judge(job, output, status)
    passed, failed, skipped = job.kind == :unit ? read_unit(output) : read_suite(output)
    problem =
      if status.nil? then "did not end in time and was killed"
      elsif status.signaled? then "was killed by SIG#{Signal.signame(status.termsig)}"
      elsif !status.success? && failed.zero? then "exited with #{status.exitstatus}, though no test failed"
      elsif status.success? && failed.positive? then "exited with 0, though tests failed"
      elsif passed + failed + skipped == 0 then "ran no test"
      end
    # A process that died cannot have reported the test it died in.
    failed += 1 if problem && !(status&.success? && failed.positive?)
    Result.new(passed, failed, skipped, problem)
  end

  def report(job, result, output, seconds)
    mark = result.failed.zero? ? "ok  " : "FAIL"
    counts = "#{result.passed} passed"
    counts += ", #{result.failed} failed" if result.failed.positive?
    counts += ", #{result.skipped} skipped" if result.skipped.positive?
    counts += "; #{result.problem}" if result.problem
    puts format("%s %-44s %s (%.1f s)", mark, job.path, counts, seconds)
    return if result.failed.zero? && ENV["VERBOSE"].to_s.empty?

    puts "---- output of #{job.path}", output, "---- end of #{job.path}"
  end

  def main(argv)
    total = Result.new(0, 0, 0)
    bad = []
    title = nil
    jobs(argv).each do |job|
      puts "== #{title = job.title}" if job.title != title
      began = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      output, status = run(job)
      result = judge(job, output, status)
      report(job, result, output, Process.clock_gettime(Process::CLOCK_MONOTONIC) - began)
      total.passed += result.passed
      total.failed += result.failed
      total.skipped += result.skipped
      bad << job.path if result.failed.positive?
    end
    puts "failed in: #{bad.join(" ")}" unless bad.empty?
    puts "no test ran" if (total.passed + total.failed).zero?
    puts "#{total.passed} passed, #{total.failed} failed#{", #{total.skipped} skipped" if total.skipped.positive?}"
    total.failed.zero? && total.passed.positive? ? 0 : 1
  end
end

if $PROGRAM_NAME == __FILE__
  $stdout.sync = true
  exit MppTests.main(ARGV)
end
