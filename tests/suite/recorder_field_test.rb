# frozen_string_literal: true

# What other recorders of heaps have met in the field: the cases that no other suite has, and that docs/FIELD_TESTS.md, which tells where each of all of
# them is tested, speaks of tests that there are.
require "minitest/autorun"
require_relative "support/recorder_runs"

class RecorderFieldTest < Minitest::Test
  include RecorderRuns

  def needs_ractors_refused(run)
    skip "this Ruby can record with Ractors" if run.out.include?("started\n")
  end

  def test_start_amid_ractors
    run = program(<<~RUBY)
      Warning[:experimental] = false
      ractor = Ractor.new { Ractor.receive }
      begin
        MppRecorder.start(path: LOG)
        puts "started"
      rescue MppRecorder::Error => e
        puts e.message
      end
      ractor.send(1)
      ractor.respond_to?(:value) ? ractor.value : ractor.take
      GC.start
    RUBY
    assert run.status.success?, run.err
    needs_ractors_refused(run)
    assert_equal ["cannot record: Ractors are running, and this Ruby hides from us what they free\n", ""], [run.out, run.err]
    assert_empty logs
  end

  # A child that is another program has none of our descriptors, whatever its parent closes or not.
  def test_no_descriptor_of_the_log_in_other_programs
    run = program!(<<~RUBY)
      MppRecorder.start(path: LOG)
      links = "puts Dir.children('/proc/self/fd').filter_map { |n| File.readlink(File.join('/proc/self/fd', n)) rescue nil }"
      $stdout.sync = true
      puts Dir.children("/proc/self/fd").count { |n| (File.readlink(File.join("/proc/self/fd", n)) rescue "") == LOG }
      system(#{RbConfig.ruby.inspect}, "--disable-gems", "-e", links, close_others: false)
      Process.wait(fork { exec(#{RbConfig.ruby.inspect}, "--disable-gems", "-e", links, close_others: false) })
    RUBY
    own, *others = run.out.lines(chomp: true)
    assert_equal "1", own
    refute_empty others
    refute_includes others.join("\n"), "app.mpp"
  end

  # Ruby's allocator begins a collection amid a birth, its tables run code of the program, and an object that is given an id is another one.
  def test_what_hooks_must_not_call_is_not_even_linked
    extension = File.join(BUILD, "recorder/#{RbConfig::CONFIG["ruby_version"]}-#{RbConfig::CONFIG["arch"]}/mpp_recorder.so")
    out, status = Open3.capture2("nm", "-D", "--undefined-only", extension)
    assert status.success?
    symbols = out.scan(/\S+$/)
    assert_includes symbols, "rb_profile_frames"
    assert_empty symbols.grep(/\A(ruby_x|rb_x?(malloc|calloc|realloc|free)|rb_alloc_tmp|(rb_)?st_|rb_obj_id\z|rb_memory_id\z|rb_gc_force_recycle|rb_gc_disable)/)
  end

  # Memory that is taken and not touched: 5 GiB of a String that the machine need not have.
  def test_sizes_beyond_4_gib
    bytes = 5 << 30
    run = program!(<<~RUBY)
      MppRecorder.start(path: LOG)
      begin
        $huge = String.new(capacity: #{bytes})
      rescue NoMemoryError
        puts "none"
      end
      MppRecorder.mark("huge", measure: true)
      MppRecorder.mark("again", measure: true)
      $huge = nil
      GC.start
      MppRecorder.mark("gone", measure: true)
    RUBY
    skip "this machine does not give 5 GiB" if run.out == "none\n"
    live = %w[huge again gone].map { |mark| analyze("top", "--at", "mark:#{mark}", "--by", "class", "--class", "^String$", "--limit", "0")["filtered"]["live_bytes"] }
    assert_includes bytes..bytes + (1 << 27), live[0]
    assert_includes live[0] - (1 << 20)..live[0] + (1 << 20), live[1]
    assert_operator live[2], :<, 1 << 27
    sound
  end
end

# The table: every fault and every case once, and nothing in it that there is not.
class FieldTableTest < Minitest::Test
  ROOT = File.expand_path("../..", __dir__)
  ROWS = File.readlines(File.join(ROOT, "docs/FIELD_TESTS.md"), chomp: true).grep(/\A\| *\**[CF]\d/).map { |line| line.split("|").map(&:strip).drop(1) }

  def test_every_fault_and_case_once
    assert_equal (1..37).map { |n| "F#{n}" } + (1..12).map { |n| "C#{n}" }, ROWS.map(&:first)
    ROWS.each { |number, fault, tests| assert fault && tests && !tests.empty?, number }
  end

  def test_its_tests_exist
    ROWS.each do |number, _, tests|
      file = nil
      names = 0
      tests.scan(/`([^`]+)`/).flatten.each do |word|
        if word.include?("/")
          file = File.join(ROOT, word)
          assert File.file?(file), "#{number}: there is no #{word}"
        else
          assert file, "#{number}: #{word} is in no file"
          # (names of several tests of a kind are made up, and end in _)
          there = File.read(file).match?(/\b#{word}#{'\b' unless word.end_with?("_")}/)
          assert there, "#{number}: #{file} has no #{word}"
          names += 1
        end
      end
      assert_operator names, :>, 0, number
    end
  end
end
