# frozen_string_literal: true

# The completions of mpprecord know the options that --help names, and no others.
require "minitest/autorun"
require "open3"
require "rbconfig"

class MpprecordCompletionTest < Minitest::Test
  ROOT = File.expand_path("../..", __dir__)
  BASH = File.join(ROOT, "docs/completion/mpprecord.bash")
  ZSH = File.join(ROOT, "docs/completion/_mpprecord")
  COMMANDS = %w[start stop pause resume mark flush stats].freeze

  def help(*words)
    out, err, status = Open3.capture3({ "RUBYOPT" => nil }, RbConfig.ruby, File.join(ROOT, "recorder/exe/mpprecord"), *words, "--help")
    assert_equal [0, ""], [status.exitstatus, err]
    out
  end

  def options(*words)
    help(*words).scan(/^\s+(?:-\w, )?(--[a-z-]+)/).flatten.sort
  end

  def complete(*words)
    script = 'source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _mpprecord; printf "%s\n" "${COMPREPLY[@]}"'
    out, err, status = Open3.capture3("bash", "--norc", "-c", script, BASH, "mpprecord", *words)
    assert_equal [0, ""], [status.exitstatus, err]
    out.split("\n")
  end

  def test_options_in_bash
    assert_equal options, complete("-").grep(/\A--/).sort
    assert_equal options, complete("--rate", "1/2", "-").grep(/\A--/).sort
    assert_equal ["--max-depth"], complete("--max-d")
  end

  def test_options_that_take_a_word_are_known_in_bash
    help.scan(/(--[a-z-]+) [A-Z]/).flatten.each { |option| assert_equal options, complete(option, "x", "-").grep(/\A--/).sort, option }
  end

  def test_the_commands_words_are_its_own_in_bash
    assert_empty complete("true", "--ra")
    assert_empty complete("-o", "x", "--", "true", "--ra")
  end

  def test_ctl_in_bash
    assert_includes complete("ct"), "ctl"
    assert_equal COMMANDS.sort, complete("ctl", "1", "").sort
    assert_equal options("ctl"), complete("ctl", "--").sort
    COMMANDS.each { |command| assert_match(/\b#{command}\b/, help("ctl")) }
  end

  def test_zsh
    text = File.readlines(ZSH).grep_v(/\A#/).join
    assert_equal (options | options("ctl")).sort, text.scan(/--[a-z][a-z-]*/).uniq.sort
    assert_equal COMMANDS, text[/COMMAND:\(([^)]*)\)/, 1].split
  end
end
