# frozen_string_literal: true

# The extension under valgrind's memcheck and under AddressSanitizer. Ruby's own collector reads uninitialised words off the machine stack and leaves its
# heap behind at exit, so only what our code does itself counts.
require "minitest/autorun"
require_relative "support/recorder_runs"

class RecorderSafetyTest < Minitest::Test
  include RecorderRuns

  # Libraries that act for their caller.
  SERVANTS = /\A(vgpreload|libc[.-]|libm[.-]|libpthread|ld-|libzstd|libxxhash)/
  Frame = Struct.new(:function, :object, :line)

  def installed!(command)
    skip "#{command} is not installed: nothing was tested" unless system("command -v #{command} >/dev/null")
  end

  def frames(error)
    error[/<stack>(.*?)<\/stack>/m, 1].scan(/<frame>(.*?)<\/frame>/m).map do |frame,|
      Frame.new(frame[/<fn>(.*?)</, 1], File.basename(frame[/<obj>(.*?)</, 1].to_s), frame[/<line>(.*?)</, 1])
    end
  end

  # The errors of which the first one to answer is ours.
  def ours(xml)
    xml.scan(/<error>.*?<\/error>/m).filter_map do |error|
      list = frames(error)
      first = list.find { |frame| !frame.object.match?(SERVANTS) }
      next unless first&.object == "mpp_recorder.so"

      "#{error[/<kind>(.*?)</, 1]} in #{list.take_while { |frame| frame.object.match?(SERVANTS) || frame.object == "mpp_recorder.so" }.map { |f| "#{f.function}:#{f.line}" }.join(" < ")}"
    end.uniq
  end

  def memcheck(*arguments)
    installed! "valgrind"
    run = run_command("valgrind", "--xml=yes", "--xml-file=#{path("vg.%p.xml")}", "--leak-check=full", "--show-leak-kinds=definite", "--num-callers=20", *arguments)
    assert_equal true, run.status.success?, run.err
    found = Dir[path("vg.*.xml")].flat_map { |file| ours(File.read(file)) }
    assert_empty found
    run
  end

  def test_memcheck
    run = memcheck(*ruby_command, File.join(PROGRAMS, "small.rb"), path("app.mpp"))
    assert_equal "done\n", run.out
    assert_operator Dir[path("vg.*.xml")].size, :>=, 3, "one for each process"
    Dir[path("app*.mpp?")].each { |log| soundly_analyzed(log) }
    assert_operator Dir[path("app*.mpp?")].size, :>=, 6
  end

  # That the sieve lets through what it is for: the same program beside a library of that name which reads beyond its memory, and leaks.
  def test_the_sieve
    installed! "valgrind"
    File.write(path("faulty.c"), <<~C)
      #include <stdlib.h>
      #include <string.h>
      int faulty(void);
      int faulty(void) { volatile char *p = malloc(10); volatile char *q = malloc(10); int r = p[12]; free((void *)p); q = NULL; return r; }
    C
    assert system(ENV.fetch("CC", "cc"), "-g", "-O0", "-shared", "-fPIC", "-o", path("mpp_recorder.so"), path("faulty.c"))
    File.write(path("main.c"), "int faulty(void); int main(void) { return faulty() * 0; }")
    assert system(ENV.fetch("CC", "cc"), "-o", path("main"), path("main.c"), path("mpp_recorder.so"), "-Wl,-rpath,#{@dir}")
    run_command("valgrind", "--xml=yes", "--xml-file=#{path("vg.xml")}", "--leak-check=full", "--show-leak-kinds=definite", path("main"))
    assert_equal ["InvalidRead in faulty:4", "Leak_DefinitelyLost in malloc: < faulty:4"], ours(File.read(path("vg.xml"))).sort
  end

  # The extension built with -fsanitize=address,undefined, in a Ruby that is not: the run-time library comes first by LD_PRELOAD.
  def test_address_sanitizer
    library = `#{ENV.fetch("CC", "cc")} -print-file-name=libasan.so`.chomp
    skip "this compiler has no AddressSanitizer: nothing was tested" unless File.file?(library)
    built = path("build/recorder/#{RbConfig::CONFIG["ruby_version"]}-#{RbConfig::CONFIG["arch"]}")
    FileUtils.mkdir_p(built)
    out, status = Open3.capture2e(CLEAN.merge("MPP_SAN" => "address,undefined"), RbConfig.ruby, File.join(ROOT, "recorder/ext/mpp_recorder/extconf.rb"), chdir: built)
    assert status.success?, out
    out, status = Open3.capture2e("make", "-j2", chdir: built)
    assert status.success?, out
    assert_includes File.binread(File.join(built, "mpp_recorder.so")), "__asan_report_load"
    # Ruby has signal stacks of its own, which the sanitizer would unmap.
    env = { "MPP_BUILD" => path("build"), "LD_PRELOAD" => "#{library} #{`#{ENV.fetch("CC", "cc")} -print-file-name=libubsan.so`.chomp}",
            "ASAN_OPTIONS" => "detect_leaks=0:halt_on_error=1:exitcode=99:use_sigaltstack=0", "UBSAN_OPTIONS" => "print_stacktrace=1:halt_on_error=1:exitcode=98" }
    run = run_command(*ruby_command, File.join(PROGRAMS, "small.rb"), path("app.mpp"), env: env)
    assert_equal [0, "done\n", ""], [run.status.exitstatus, run.out, run.err]
    Dir[path("app*.mpp?")].each { |log| soundly_analyzed(log) }
  end
end
