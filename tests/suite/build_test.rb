# frozen_string_literal: true

# The tools that judge the rest: that they see what they are there to see.
require "minitest/autorun"
require "fileutils"
require "open3"
require "tmpdir"

class BuildTest < Minitest::Test
  ROOT = File.expand_path("../..", __dir__)
  CC = ENV.fetch("CC", "cc").split

  def setup
    @dir = Dir.mktmpdir("mpp-build-test")
  end

  def teardown
    FileUtils.rm_rf(@dir)
  end

  def write(path, text)
    full = File.join(@dir, path)
    FileUtils.mkdir_p(File.dirname(full))
    File.write(full, text)
    full
  end

  # The environment, if any, stands first, as for Process.spawn
  def run_in(*command)
    Open3.capture2e(*command, chdir: @dir)
  end

  # ---- tests/run.rb

  def drive(*arguments, env: {})
    clean = { "ONLY" => nil, "VERBOSE" => nil, "MPP_TEST_TIMEOUT" => "5" }
    run_in(clean.merge(env), RbConfig.ruby, File.join(ROOT, "tests/run.rb"), *arguments)
  end

  def suite(name, body)
    write("#{name}_test.rb", "require 'minitest/autorun'\nclass #{name.capitalize}Test < Minitest::Test\n#{body}\nend\n")
  end

  def unit(name, body)
    source = write("#{name}.c", <<~C)
      #include <stdio.h>
      #include <stdlib.h>
      int main(void) {
          setvbuf(stdout, NULL, _IONBF, 0);
          #{body}
      }
    C
    program = source.delete_suffix(".c")
    out, status = run_in(*CC, "-o", program, source)
    assert status.success?, out
    program
  end

  def test_it_sums_both_kinds
    out, status = drive("--unit", "u", unit("a", 'puts("[       OK ] x\n[       OK ] y"); return 0;'),
                        "--suite", "s", suite("good", "def test_a; assert true; end; def test_b; skip; end"))
    assert status.success?, out
    assert_equal "3 passed, 0 failed, 1 skipped", out.lines.last.chomp
  end

  def test_it_goes_on_after_a_failure_and_shows_its_output_whole
    out, status = drive("--suite", "s", suite("bad", "def test_a; puts 'before'; assert_equal 1, 2; end"),
                        suite("good", "def test_a; puts 'not shown'; assert true; end"))
    assert_equal 1, status.exitstatus
    assert_includes out, "before\n"
    assert_includes out, "Expected: 1"
    refute_includes out, "not shown"
    assert_equal "1 passed, 1 failed", out.lines.last.chomp
  end

  def test_cmocka_failures_of_all_groups_count
    body = 'puts("[       OK ] x\n[  FAILED  ] 2 test(s), listed below:\n[  FAILED  ] y\n[  FAILED  ] tests: 1 test(s), listed below:"); return 3;'
    out, status = drive("--unit", "u", unit("a", body))
    assert_equal 1, status.exitstatus
    assert_equal "1 passed, 3 failed", out.lines.last.chomp
  end

  def test_a_crash_is_a_failure
    out, status = drive("--unit", "u", unit("a", 'puts("[       OK ] x"); abort();'),
                        "--suite", "s", suite("dies", "def test_a; Process.kill(:KILL, $$); end"))
    assert_equal 1, status.exitstatus
    assert_includes out, "SIGABRT"
    assert_includes out, "SIGKILL"
    assert_equal "1 passed, 2 failed", out.lines.last.chomp
  end

  def test_an_exit_status_without_a_failed_test_is_a_failure
    out, status = drive("--unit", "u", unit("a", 'puts("[       OK ] x"); return 1;'))
    assert_equal 1, status.exitstatus
    assert_equal "1 passed, 1 failed", out.lines.last.chomp
  end

  def test_a_test_that_hangs_fails_and_the_others_of_its_file_run
    out, status = drive("--suite", "s", suite("hang", "def test_a; sleep; end; def test_b; assert true; end"),
                        "--unit", "u", unit("a", "for (;;) {}"), env: { "MPP_TEST_TIMEOUT" => "1" })
    assert_equal 1, status.exitstatus
    assert_includes out, "took more than 1 s"
    assert_includes out, "did not end in time"
    assert_equal "1 passed, 2 failed", out.lines.last.chomp
  end

  def test_nothing_run_is_a_failure
    out, status = drive("--suite", "s")
    assert_equal 1, status.exitstatus
    assert_equal "0 passed, 0 failed", out.lines.last.chomp

    out, status = drive("--suite", "s", suite("empty", ""))
    assert_equal 1, status.exitstatus
    assert_includes out, "ran no test"
  end

  # ---- tests/ci/layers.rb

  def layers(files)
    files.each { |path, text| write(path, text) }
    objects = Dir["#{@dir}/formats/*.c"].map do |source|
      object = source.sub(/\.c\z/, ".o")
      out, status = run_in(*CC, "-c", "-O0", "-o", object, source)
      assert status.success?, out
      object
    end
    out, status = run_in("ar", "rcs", "libmppformats.a", *objects)
    assert status.success?, out
    run_in(RbConfig.ruby, File.join(ROOT, "tests/ci/layers.rb"), "libmppformats.a")
  end

  SOUND = {
    "formats/a.h" => "int a(void);\n",
    "formats/a.c" => "#include \"a.h\"\n#include <stdlib.h>\nint a(void) { return atoi(\"1\"); }\n",
    "analyzer/b.h" => "#include \"formats/a.h\"\n",
    "recorder/ext/mpp_recorder/r.h" => "#include \"a.h\"\n#include <ruby.h>\n"
  }.freeze

  def test_sound_layers
    out, status = layers(SOUND)
    assert status.success?, out
  end

  {
    "formats/ prints" => ["formats/x.c", "#include <stdio.h>\nvoid x(int n) { printf(\"%d\", n); }\n", "uses printf"],
    "formats/ exits" => ["formats/x.c", "#include <stdlib.h>\nvoid x(void) { exit(1); }\n", "uses exit"],
    "formats/ aborts" => ["formats/x.c", "#include <stdlib.h>\nvoid x(void) { abort(); }\n", "uses abort"],
    "formats/ calls Ruby" => ["formats/x.c", "extern void rb_gc(void);\nvoid x(void) { rb_gc(); }\n", "uses rb_gc"],
    "formats/ includes Ruby" => ["formats/x.h", "#include <ruby/ruby.h>\n", "Ruby's ruby/ruby.h"],
    "formats/ includes the analyzer" => ["formats/x.h", "#include \"analyzer/b.h\"\n", "of analyzer/"],
    "the analyzer includes Ruby" => ["analyzer/x.h", "#include \"ruby.h\"\n", "Ruby's ruby.h"],
    "the analyzer includes the recorder" => ["analyzer/x.h", "#include \"recorder/ext/mpp_recorder/r.h\"\n", "of recorder/"],
    "the analyzer includes the recorder by a bare name" => ["analyzer/x.h", "# include \"r.h\"\n", "of recorder/"],
    "the recorder includes the analyzer" => ["recorder/ext/mpp_recorder/x.c", "#include \"b.h\"\n", "of analyzer/"],
    "the recorder includes the analyzer by a path" => ["recorder/ext/mpp_recorder/x.c", "#include \"../../../analyzer/b.h\"\n", "of analyzer/"]
  }.each do |title, (path, text, fault)|
    define_method("test_layers_#{title.gsub(/\W+/, "_")}") do
      out, status = layers(SOUND.merge(path => text))
      assert_equal 1, status.exitstatus, out
      assert_equal ["#{fault}\n"], out.lines.map { |l| l[/#{Regexp.escape(fault)}\n/] }
    end
  end

  # ---- tests/ci/deps.sh

  def test_missing_packages_are_named_without_a_network
    out, status = run_in({ "PATH" => @dir }, "/bin/sh", File.join(ROOT, "tests/ci/deps.sh"), "--check", "build")
    assert_equal 1, status.exitstatus
    assert_match(/\Amissing: gcc .*libjansson-dev .*ruby-dev$/, out)
  end
end
