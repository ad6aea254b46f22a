# frozen_string_literal: true

# The gem as a user installs it: built, compiled and run with nothing of the checkout in reach.
require "minitest/autorun"
require "open3"
require "rubygems/package"
require "tmpdir"
require "fileutils"

class GemTest < Minitest::Test
  ROOT = File.expand_path("../..", __dir__)
  # RubyGems and mpprecord must not see what the tests were started with.
  CLEAN = %w[RUBYOPT RUBYLIB GEM_PATH MPP_BUILD MPP_PATH MPP_ABI BUNDLE_GEMFILE MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES BUILD CFLAGS CPPFLAGS]
          .to_h { |name| [name, nil] }.freeze

  def setup
    @dir = File.realpath(Dir.mktmpdir("mpp-gem"))
    @env = CLEAN.merge("GEM_HOME" => File.join(@dir, "home"))
  end

  def teardown
    FileUtils.remove_entry(@dir)
  end

  def run!(*command, from: @dir)
    out, err, status = Open3.capture3(@env, *command, chdir: from)
    assert status.success?, "#{command.join(" ")}: #{status}\n#{out}#{err}"
    [out, err]
  end

  def build
    path = File.join(@dir, "recorder.gem")
    run!(RbConfig.ruby, "-S", "gem", "build", "mpp_recorder.gemspec", "--output", path, from: ROOT)
    path
  end

  def test_contents
    files = Gem::Package.new(build).spec.files
    %w[recorder/exe/mpprecord recorder/lib/mpp_recorder.rb recorder/lib/mpp_recorder/autostart.rb recorder/ext/mpp_recorder/extconf.rb
       formats/mpp_format.h LICENSE].each { |name| assert_includes files, name }
    assert_empty files.grep(/analyzer|fixtures|\.(o|so|log|mpp)\z|Makefile/)
  end

  def test_installs_and_records
    path = build
    run!(RbConfig.ruby, "-S", "gem", "install", "--local", "--no-document", path)
    File.unlink(path)

    mpprecord = File.join(@dir, "home/bin/mpprecord")
    out, err = run!(mpprecord, "-o", "a.mpp", "--", RbConfig.ruby, "-w", "-e", "puts MppRecorder.running?")
    assert_equal ["true\n", ""], [out, err]
    assert_equal "\x89MPPLOG\n".b, File.binread(File.join(@dir, "a.mpp"), 8)

    # both ways of loading it at once: one extension
    out, err = run!(mpprecord, "-o", "b.mpp", "--", RbConfig.ruby, "-w", "-e",
                    "require 'mpp_recorder'; puts MppRecorder.running?, $LOADED_FEATURES.grep(/mpp_recorder\\.so/).size")
    assert_equal ["true\n1\n", ""], [out, err]

    out, err = run!(RbConfig.ruby, "-w", "-e", "require 'mpp_recorder'; p MppRecorder.record(path: 'c.mpp') { 6 * 7 }, MppRecorder.running?")
    assert_equal ["42\nfalse\n", ""], [out, err]
    assert File.exist?(File.join(@dir, "c.mpp"))
  end
end
