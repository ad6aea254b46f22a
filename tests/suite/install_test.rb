# frozen_string_literal: true

# What `make install` puts down works from there, without the source tree, and `make uninstall` takes all of it away.
require "minitest/autorun"
require "fileutils"
require "open3"
require "pathname"
require "tmpdir"

class InstallTest < Minitest::Test
  ROOT = Pathname(File.expand_path("../..", __dir__))
  # as `make` was given it: another spelling of the directory would be another include path, and build everything anew
  BUILD = Pathname(File.expand_path(ENV.fetch("MPP_BUILD", "build"), ROOT)).relative_path_from(ROOT).to_s

  def setup
    @dir = Dir.mktmpdir("mpp install") # with a space
    @prefix = "/opt/mpp"
    @root = File.join(@dir, @prefix)
  end

  def teardown
    FileUtils.rm_rf(@dir)
  end

  def make(target)
    out, status = Open3.capture2e({ "MAKEFLAGS" => nil, "MAKELEVEL" => nil }, "make", "--no-print-directory", "BUILD=#{BUILD}",
                                  "RUBY=#{RbConfig.ruby}", "PREFIX=#{@prefix}", "DESTDIR=#{@dir}", target, chdir: ROOT.to_s)
    assert status.success?, out
  end

  # Nothing of the checkout, nor of this test's run, may help the installed programs.
  def run_installed(*command)
    env = { "PATH" => "#{@root}/bin:#{File.dirname(RbConfig.ruby)}:/usr/bin:/bin", "MPP_BUILD" => nil, "RUBYLIB" => nil, "RUBYOPT" => nil }
    out, err, status = Open3.capture3(env, *command, chdir: @dir)
    assert status.success?, "#{command.join(" ")}: #{status}\n#{err}"
    assert_empty err, command.join(" ")
    out
  end

  def installed
    Dir.glob("**/*", base: @dir).reject { |f| File.directory?(File.join(@dir, f)) }
  end

  def test_installed_programs_work_and_leave
    make "install-files"
    assert_match(/\d+\.\d+\.\d+/, run_installed("mppanalyze", "--version"))
    assert_match(/\d+\.\d+\.\d+/, run_installed("mpprecord", "--version"))
    run_installed("mpprecord", "-o", "t.mpp", "--", "ruby", "-e", "$kept = Array.new(1000) { 'x' * 100 }")
    assert_includes run_installed("mppanalyze", "top", "--by", "class", "--format", "json", "t.mpp"), '"String"'

    %w[man1/mppanalyze.1 man1/mpprecord.1].each { |page| assert File.file?("#{@root}/share/man/#{page}"), page }
    assert File.file?("#{@root}/share/bash-completion/completions/mppanalyze")
    assert File.file?("#{@root}/share/zsh/site-functions/_mppanalyze")
    assert_empty installed.grep_v(%r{\Aopt/mpp/}) - ["t.mpp"]

    make "uninstall"
    assert_equal ["t.mpp"], installed
  end
end
