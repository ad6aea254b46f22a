# frozen_string_literal: true

# Signs in the names of logs: %p, %t, %h, %%. Whoever writes the log expands them.
require "minitest/autorun"
require_relative "support/mpprecord_tree"

class MpprecordNamesTest < Minitest::Test
  include MpprecordRuns

  HOST = File.read("/proc/sys/kernel/hostname").chomp

  def test_pid_host_time_and_percent_sign
    before = Time.now.utc.strftime("%Y%m%dT%H%M%SZ")
    run = record("-o", "%p,%h,%t,%%p.mpp", "ruby", "-e", "puts $$")
    after = Time.now.utc.strftime("%Y%m%dT%H%M%SZ")
    assert_equal ["", 1], [run.err, logs.size], logs.inspect
    pid, host, time, rest = logs.first.split(",")
    assert_equal [run.out.chomp, HOST, "%p.mpp"], [pid, host, rest]
    assert_match(/\A\d{8}T\d{6}Z\z/, time)
    assert_includes before..after, time
    assert_log logs.first
  end

  def test_each_process_expands_its_own
    run = record("-o", "a-%p.mpp", "ruby", "-e", "puts $$, Process.wait(spawn('ruby', '-e', '1')), Process.wait(spawn('ruby', '-e', '1'))")
    assert_equal "", run.err
    assert_logs(*run.out.split.map { |pid| "a-#{pid}.mpp" })
  end

  # A forked child goes on with its parent's recording, whose name it takes.
  def test_forked_children_are_named_after_their_parent
    run = record("-o", "a-%p.mpp", "ruby", "-e", "puts $$; $stdout.flush; puts Process.wait(fork { 1 })")
    parent, child = run.out.split
    assert_logs "a-#{parent}.mpp", "a-#{parent}.#{child}.mpp"
  end

  def test_unknown_signs
    ["%x.mpp", "100%.mpp", "a%", "%P.mpp"].each { |name| assert_refused 2, /is not one of %p/, record("-o", name, "ruby", "-e", "puts 1") }
  end

  def test_directories_cannot_differ
    assert_refused 2, /in the file's name only/, record("-o", "%p/a.mpp", "ruby", "-e", "puts 1")
    FileUtils.mkdir(File.join(@dir, HOST))
    assert_equal "1\n", record("-o", "%h/a.mpp", "ruby", "-e", "puts 1").out
    assert File.file?(File.join(@dir, HOST, "a.mpp"))
    assert_refused 1, /there is no directory/, record("-o", "no-%h/a-%p.mpp", "ruby", "-e", "puts 1")
  end

  def test_a_name_with_the_host_is_claimed_like_any_other
    write "#{HOST}.mpp", "precious"
    assert_refused 1, /exists/, record("-o", "%h.mpp", "ruby", "-e", "puts 1"), logs: ["#{HOST}.mpp"]
    assert_equal "", record("--force", "-o", "%h.mpp", "ruby", "-e", "1").err
    assert_log "#{HOST}.mpp"
  end

  def test_names_that_are_no_text
    run = record("-o", "\xFF%%\xC3-%p.mpp".b, "ruby", "-e", "print $$", env: { "LC_ALL" => "C.UTF-8" })
    assert_equal "", run.err
    assert_equal ["\xFF%\xC3-#{run.out}.mpp".b], logs.map(&:b)
  end

  API = <<~'RUBY'
    require "pathname"
    MppRecorder.start(path: Pathname("a-%p.mpp"))
    puts MppRecorder.path
    MppRecorder.stop
    MppRecorder.record(path: "%%-%p.mpp") { 1 }
    [{ path: "%x" }, { path: nil }, { path: 5 }, {}, { path: "a\0b%p" }, { path: "x", no_such_option: 1 }].each do |options|
      MppRecorder.start(**options)
    rescue => e
      puts e.class
    end
  RUBY

  def assert_api(run)
    assert_equal "", run.err
    pid = run.status.pid
    assert_equal ["#{File.realpath(@dir)}/a-#{pid}.mpp", *%w[ArgumentError TypeError TypeError ArgumentError ArgumentError ArgumentError]], run.out.lines(chomp: true)
    assert_logs "%-#{pid}.mpp", "a-#{pid}.mpp"
  end

  def test_the_methods_expand_too
    assert_api bare_run("ruby", "-w", "-I#{@tree.path("recorder/lib")}", "-rmpp_recorder", "-e", API)
  end

  # Without `require "mpp_recorder"`, under mpprecord, whose own recording has to end first.
  def test_the_methods_expand_under_mpprecord
    run = record("-o", "first.mpp", "ruby", "-w", "-e", "MppRecorder.stop; File.unlink('first.mpp')\nmodule MppRecorder; def self.record(path:, **o, &) = (start(path: path, **o); stop); end\n#{API}")
    assert_api run
  end
end
