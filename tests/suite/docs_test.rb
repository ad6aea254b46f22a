# frozen_string_literal: true

# What the documents say, compared with what the programs say of themselves: --help is derived from the command table, so it is the truth.
require "minitest/autorun"
require "open3"

class DocsTest < Minitest::Test
  ROOT = File.expand_path("../..", __dir__)
  BUILD = File.expand_path(ENV.fetch("MPP_BUILD", "build"), ROOT)
  TOOL = File.join(BUILD, "mppanalyze")
  MAN = File.join(ROOT, "docs/man/mppanalyze.1")
  PAGES = Dir[File.join(ROOT, "docs/man/*.1")].sort
  RECORD = File.join(ROOT, "recorder/exe/mpprecord")
  OPTION = /--[a-z][a-z-]*/

  def output_of(*command, env: {}, input: "")
    out, err, status = Open3.capture3(env, *command, stdin_data: input)
    assert status.success?, "#{command.join(" ")}: #{status}\n#{err}"
    assert_empty err, command.join(" ")
    out
  end

  # The options that a help text defines: those that begin a line, not those that its prose mentions.
  def options_in_help(text)
    text.lines.flat_map { |l| l[/\A\s+(-\w(, | ))?--[a-z].*/] ? l[/\A\s+(?:-\w(?:, | ))?(--[a-z-]+)/, 1] : [] }.compact.uniq.sort
  end

  def commands
    @commands ||= begin
      help = output_of(TOOL, "--help")
      list = help[/^commands:\n(.*?)(?:\n\n|\z)/im, 1] or flunk "no list of commands in:\n#{help}"
      list.lines.filter_map { |l| l[/\A\s+([a-z]+)\b/, 1] }
    end
  end

  def help_options(command)
    (@help_options ||= {})[command] ||= options_in_help(output_of(TOOL, command, "--help")).tap do |options|
      refute_empty options, "no option in: mppanalyze #{command} --help"
    end
  end

  # roff's source as plain text: the minus signs, fonts and macros of lines taken off
  def plain(roff)
    roff.gsub("\\-", "-").gsub(/\\f[A-Z]/, "")
  end

  def man_sections
    @man_sections ||= begin
      heading = nil
      plain(File.read(MAN, encoding: "UTF-8")).lines.each_with_object(Hash.new { |h, k| h[k] = +"" }) do |line, h|
        if (m = line.match(/\A\.(SH|SS) (.*)/)) then heading = [m[1], m[2].delete('"')]
        else h[heading] << line unless line.start_with?('.\\"')
        end
      end
    end
  end

  # A command's subsection opens with its synopsis, which ends with .PP
  def man_synopsis(command)
    body = man_sections.fetch(["SS", command]) { flunk "no subsection #{command} in #{MAN}" }
    body[/\A.*?(?=^\.PP)/m].scan(OPTION)
  end

  def man_defined
    man_sections.fetch(%w[SH OPTIONS]).scan(/^\.TP\n(?:\.TQ\n)?(.*)/).flat_map { |(l)| l.scan(OPTION) }
  end

  # every command takes these, and no synopsis repeats them
  EVERY = %w[--color --format --help --output --quiet --version].freeze

  def complete_bash(*words)
    script = 'source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _mppanalyze 2>/dev/null; printf "%s\n" "${COMPREPLY[@]}"'
    output_of("bash", "-c", script, File.join(ROOT, "docs/completion/mppanalyze.bash"), "mppanalyze", *words).split("\n")
  end

  def test_the_man_page_has_a_subsection_for_every_command_and_no_other
    assert_equal commands.sort, man_sections.keys.select { |kind, _| kind == "SS" }.map(&:last).sort
  end

  def test_options_of_every_command_in_help_and_man_page
    commands.each do |command|
      assert_equal help_options(command), (man_synopsis(command) | EVERY).sort, "#{command}: --help and the synopsis in #{MAN}"
    end
  end

  def test_every_option_is_described_once_in_the_man_page
    assert_equal commands.flat_map { |c| help_options(c) }.uniq.sort, man_defined.sort
  end

  def test_options_of_every_command_in_the_bash_completion
    commands.each do |command|
      offered = complete_bash(command, "-").grep(/\A--/).sort
      assert_equal help_options(command), offered, "#{command}: --help and the completion"
    end
  end

  def test_commands_in_the_bash_completion
    assert_equal commands.sort, complete_bash("").select { |w| commands.include?(w) || w.match?(/\A[a-z]+\z/) && !File.exist?(w) }.sort
  end

  def test_no_command_completes_as_pprof
    assert_equal help_options("pprof"), complete_bash("-").grep(/\A--/).sort
  end

  def test_zsh_completion_knows_the_same_words
    text = File.read(File.join(ROOT, "docs/completion/_mppanalyze"), encoding: "UTF-8")
    assert_equal commands.flat_map { |c| help_options(c) }.uniq.sort, text.lines.grep_v(/\A#/).join.scan(OPTION).uniq.sort
    assert_equal commands.sort, text[/^commands=\((.*?)^\)/m, 1].scan(/'([a-z]+):/).flatten.sort
  end

  # What the completion offers behind --by, --format and --sort is what the command accepts: it says so for a wrong word.
  def test_values_in_the_bash_completion_are_in_the_help
    commands.each do |command|
      help = output_of(TOOL, command, "--help")
      (%w[--by --format --sort --color] & help_options(command)).each do |option|
        words = complete_bash(command, option, "")
        refute_empty words, "#{command} #{option}"
        words.each { |word| assert_match(/\b#{word}\b/, help, "#{command} --help does not name #{option} #{word}") }
      end
    end
  end

  def test_mpprecord_options_in_help_and_man_page
    page = File.join(ROOT, "docs/man/mpprecord.1")
    text = plain(File.read(page, encoding: "UTF-8"))
    # mdoc: `.It Fl o Ar file , Fl \-output Ar file`, where Fl itself stands for a minus
    described = text.scan(/^\.It (Fl .*)/).flat_map { |(l)| l.scan(/Fl (-[a-z-]+)/).map { |(o)| "-#{o}" } }
    assert_equal options_in_help(output_of(RbConfig.ruby, RECORD, "--help")), described.sort
  end

  def test_man_pages_are_clean
    refute_empty PAGES
    PAGES.each do |page|
      _, err, = Open3.capture3({ "LC_ALL" => "C.UTF-8", "MANWIDTH" => "100" }, "man", "--warnings", "-E", "UTF-8", "-l", page)
      assert_empty err, page
      _, err, = Open3.capture3("groff", "-mandoc", "-ww", "-Tutf8", "-z", page)
      assert_empty err, page
    end
  end

  # Lines of code blocks, fenced or indented, that call one of the programs: behind `$ `, a path, `ruby `, or in a pipe
  def calls(file)
    text = File.read(file, encoding: "UTF-8")
    blocks = text.scan(/^```[a-z]*\n(.*?)^```/m).flatten
    indented = text.gsub(/^```.*?^```/m, "").lines.grep(/\A(?: {4}|\t)/)
    (blocks.flat_map(&:lines) + indented).join.gsub(/\\\n/, " ").lines.flat_map do |line|
      line.sub(/(\s|\A)#\s.*/, "").split(/[|;]|&&/).filter_map do |call|
        m = call.match(%r{\A\s*(?:\$ )?(?:\w+=\S* )*(?:ruby )?(?:\S*/)?(mppanalyze|mpprecord)(?: (.*))?\s*\z}) and [m[1], m[2].to_s.strip]
      end
    end
  end

  def test_commands_in_the_readme_exist
    found = calls(File.join(ROOT, "README.md")).select { |tool, _| tool == "mppanalyze" }.map(&:last)
    refute_empty found, "no call of mppanalyze in README.md"
    found.each do |line|
      words = line.split
      command = words.find { |w| !w.start_with?("-") }
      command = "pprof" unless words.first == command && command&.match?(/\A[a-z]+\z/)
      assert_includes commands, command, "README.md: mppanalyze #{line}"
      unknown = line.scan(/(?<=\s|\A)--[a-z][a-z-]*/) - help_options(command)
      assert_empty unknown, "README.md: mppanalyze #{line}"
    end
  end

  def test_mpprecord_calls_in_the_readme_exist
    found = calls(File.join(ROOT, "README.md")).select { |tool, _| tool == "mpprecord" }.map(&:last)
    refute_empty found, "no call of mpprecord in README.md"
    known = options_in_help(output_of(RbConfig.ruby, RECORD, "--help"))
    found.each do |line|
      own = line.split(/ -- /, 2).first
      assert_empty own.scan(/(?<=\s|\A)--[a-z][a-z-]*/) - known, "README.md: mpprecord #{line}"
    end
  end

  def test_make_targets_in_the_readme_exist
    targets = File.read(File.join(ROOT, "Makefile")).scan(/^([a-z0-9-]+):/).flatten
    text = File.read(File.join(ROOT, "README.md"), encoding: "UTF-8")
    named = text.scan(/^\s*(?:\$ )?(?:sudo )?make ([a-z][a-z0-9-]*)|`make ([a-z][a-z0-9-]*)/).flatten.compact.uniq
    refute_empty named, "README.md does not say how to build"
    assert_empty named - targets
  end

  def test_one_version
    version = File.read(File.join(ROOT, "VERSION")).chomp
    assert_match(/\A\d+\.\d+\.\d+\z/, version)
    assert_equal version, output_of(RbConfig.ruby, "-I#{ROOT}/recorder/lib", "-e", 'require "mpp_recorder/version"; print MppRecorder::VERSION')
    assert_match(/\b#{Regexp.escape(version)}\b/, output_of(TOOL, "--version"))
    assert_match(/\b#{Regexp.escape(version)}\b/, output_of(RbConfig.ruby, RECORD, "--version"))
    assert_match(/^\.TH .*"mpp #{Regexp.escape(version)}"/, File.read(MAN))
    assert_match(/^## \[#{Regexp.escape(version)}\]/, File.read(File.join(ROOT, "CHANGELOG.md")))
  end
end
