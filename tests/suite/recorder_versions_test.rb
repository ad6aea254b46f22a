# frozen_string_literal: true

# What differs between Rubies: which ones are refused, and what the others ask of the recorder.
require "minitest/autorun"
require_relative "support/recorder_runs"

class RecorderVersionsTest < Minitest::Test
  include RecorderRuns

  # As if this were another Ruby.
  def other(version: RUBY_VERSION, engine: RUBY_ENGINE, more: "")
    <<~RUBY
      { RUBY_VERSION: #{version.inspect}, RUBY_ENGINE: #{engine.inspect} }.each { |name, value| Object.send(:remove_const, name); Object.const_set(name, value) }
      #{more}
    RUBY
  end

  def refusal(prelude)
    run = program!("#{prelude}\nbegin; MppRecorder.start(path: LOG); rescue MppRecorder::Error => e; puts e.message; end")
    run.out.chomp.tap { |message| assert_equal message.empty? ? ["app.mpp"] : [], logs }
  ensure
    FileUtils.rm_f(path("app.mpp"))
  end

  def test_refused_rubies
    %w[3.2.0 3.2.1 3.2.2].each { |version| assert_includes refusal(other(version: version)), "Ruby 3.2.0 to 3.2.2 crash under allocation hooks: use 3.2.3 or later" }
    %w[2.7.8 3.0.6].each { |version| assert_includes refusal(other(version: version)), "Ruby 3.1 or later is needed" }
    %w[truffleruby jruby].each { |engine| assert_includes refusal(other(engine: engine)), "only MRI can be recorded" }
    mmtk = 'def GC.config(*) = { rgengc_allow_full_mark: true, implementation: "mmtk" }'
    assert_includes refusal(other(more: mmtk)), "only Ruby's default garbage collector can be recorded"
  end

  def test_other_rubies_are_not_refused
    %w[3.1.0 3.2.3 3.2.20 3.3.0 3.4.11 4.0.0 4.1.0].each { |version| assert_equal [version, ""], [version, refusal(other(version: version))] }
    default = 'def GC.config(*) = { rgengc_allow_full_mark: true, implementation: "default" }'
    assert_equal "", refusal(other(more: default))
    assert_equal "", refusal(other(more: "def GC.config(*) = { rgengc_allow_full_mark: true }"))
  end

  # rb_postponed_job_register_one is deprecated from 3.3 on, and gone in 4.1: nothing of it may be in an extension that has something better.
  def test_one_kind_of_postponed_jobs
    extension = File.join(BUILD, "recorder/#{RbConfig::CONFIG["ruby_version"]}-#{RbConfig::CONFIG["arch"]}/mpp_recorder.so")
    out, status = Open3.capture2("nm", "-D", "--undefined-only", extension)
    assert status.success?
    jobs = out.scan(/\brb_postponed_job_\w+/).sort
    expected = RUBY_VERSION < "3.3" ? %w[rb_postponed_job_register_one] : %w[rb_postponed_job_preregister rb_postponed_job_trigger]
    assert_equal expected, jobs
  end

  # 4.1-dev has slots of 32, 40 and 64 bytes: neither of them is a multiple of the smallest one.
  def test_slots_that_are_no_multiples_of_the_smallest
    run = program!(<<~RUBY)
      def GC.stat_heap(*) = [32, 40, 64, 80, 96].each_with_index.to_h { |bytes, i| [i, { slot_size: bytes }] }
      Kept, Gone = Class.new, Class.new
      MppRecorder.start(path: LOG)
      kept = Array.new(10_000) { Gone.new; Kept.new.tap { |o| o.instance_variable_set(:@text, "x" * 100) } }
      GC.start
      GC.compact
      3.times { GC.start }
      MppRecorder.mark("end", measure: true)
      counts = [Kept, Gone].map { |c| ObjectSpace.each_object(c).count }
      stats = MppRecorder.stats
      MppRecorder.stop
      p [*counts, *stats.values_at(:implied_frees, :audited_frees, :dropped_allocs)]
    RUBY
    kept, gone, *wrong = JSON.parse(run.out)
    assert_equal [[kept, gone], [0, 0, 0]], [%w[Kept Gone].map { |name| live(at: "mark:end").fetch(name, [0])[0] }, wrong]
    assert_equal 10_000, kept
    sound
  end

  def test_slots_of_several_sizes
    skip "slots of this ruby are all of one size" unless GC.respond_to?(:stat_heap)
    program!(<<~RUBY)
      A, B, C = Array.new(3) { Class.new }
      B.class_eval { def initialize = 20.times { |i| instance_variable_set("@v\#{i}", i) } }
      100.times { B.new }
      MppRecorder.start(path: LOG)
      kept = [Array.new(1000) { A.new }, Array.new(1000) { B.new }, Array.new(1000) { |i| ("long " * 90).dup << i.to_s }]
      GC.start
      MppRecorder.mark("end", measure: true)
      kept.clear
    RUBY
    at_end = live(at: "mark:end")
    assert_equal [[1000, 40_000], [1000, true]], [at_end["A"], [at_end["B"][0], at_end["B"][1] >= 160_000]], at_end.slice("A", "B").inspect
    assert_operator at_end["String"][1], :>, 450_000
  end

  # 3.3 frees objects with data of C at its end, with hooks: they live as long as the program does.
  def test_no_deaths_at_the_very_end
    program!(<<~RUBY)
      require "stringio"
      MppRecorder.start(path: LOG)
      KEPT = Array.new(500) { StringIO.new } + Array.new(500) { Mutex.new } + Array.new(20) { File.open(__FILE__) }
      at_exit { KEPT.first.write("still there") }
    RUBY
    at_end = live
    assert_equal [500, 500, 20], at_end.values_at("StringIO", "Thread::Mutex", "File").map(&:first)
    sound
  end

  # From 4.1 on each Ractor collects for itself, as little told to us as below 4.0.
  def test_ractors_of_the_next_ruby
    run = program(<<~RUBY)
      #{other(version: "4.1.0")}
      MppRecorder.start(path: LOG)
      Warning[:experimental] = false
      ractor = Ractor.new { 1 }
      p MppRecorder.running?, ractor.respond_to?(:value) ? ractor.value : ractor.take
    RUBY
    assert_equal "false\n1\n", run.out, run.err
    assert_match(/recording ends here: a Ractor starts/, run.err)
    sound
  end
end
