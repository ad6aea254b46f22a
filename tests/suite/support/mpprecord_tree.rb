# frozen_string_literal: true

require "fileutils"
require "open3"
require "rbconfig"
require "shellwords"
require "tmpdir"

# A copy of mpprecord and its library with an extension beside them, as in a checkout: free to be moved and broken.
class MpprecordTree
  ROOT = File.expand_path("../../..", __dir__)
  ABI = RbConfig::CONFIG.values_at("ruby_version", "arch").join("-")
  BUILT = File.join(ENV.fetch("MPP_BUILD", File.join(ROOT, "build")), "recorder", ABI, "mpp_recorder.so")

  # An extension that runs the Ruby code in the file beside it.
  STAND_IN = <<~C
    #define _GNU_SOURCE
    #include <dlfcn.h>
    #include <stdio.h>
    #include <ruby.h>
    void Init_mpp_recorder(void);
    void Init_mpp_recorder(void) {
        Dl_info self;
        char path[4096];
        if (!dladdr((void *)(size_t)Init_mpp_recorder, &self)) rb_raise(rb_eLoadError, "dladdr");
        snprintf(path, sizeof path, "%s.txt", self.dli_fname);
        VALUE text = rb_funcall(rb_cFile, rb_intern("read"), 1, rb_str_new_cstr(path));
        rb_funcall(rb_const_get(rb_cObject, rb_intern("TOPLEVEL_BINDING")), rb_intern("eval"), 1, text);
    }
  C

  attr_reader :extension

  def initialize(directory)
    @directory = directory
    FileUtils.mkdir_p(path("recorder"))
    %w[exe lib].each { |part| FileUtils.cp_r(File.join(ROOT, "recorder", part), path("recorder")) }
    @extension = path("build/recorder/#{ABI}/mpp_recorder.so")
    FileUtils.mkdir_p(File.dirname(@extension))
    FileUtils.cp(BUILT, @extension)
  end

  def path(name)
    File.join(@directory, name)
  end

  def stub
    path("recorder/lib/mpp_recorder/autostart.rb")
  end

  def move_to(directory)
    FileUtils.mv(@directory, directory)
    @extension = @extension.sub(@directory, directory)
    @directory = directory
  end

  # The extension lies where RubyGems puts it.
  def as_gem
    installed = path("recorder/lib/mpp_recorder/mpp_recorder.so")
    FileUtils.mv(@extension, installed)
    @extension = installed
  end

  def stand_in(code)
    FileUtils.cp(self.class.compiled_stand_in, @extension)
    File.write("#{@extension}.txt", code)
  end

  def self.compiled_stand_in
    @compiled_stand_in ||= begin
      directory = Dir.mktmpdir("mpp-stand-in")
      Minitest.after_run { FileUtils.remove_entry(directory) }
      source = File.join(directory, "stand_in.c")
      File.write(source, STAND_IN)
      library = File.join(directory, "stand_in.so")
      headers = RbConfig::CONFIG.values_at("rubyhdrdir", "rubyarchhdrdir").map { |d| "-I#{d}" }
      out, status = Open3.capture2e(ENV.fetch("CC", "cc"), "-shared", "-fPIC", "-o", library, *headers, source)
      raise "the stand-in does not compile:\n#{out}" unless status.success?

      library
    end
  end
end

# Runs of mpprecord in a directory of the test's own.
module MpprecordRuns
  Run = Struct.new(:out, :err, :status)
  MAGIC = "\x89MPPLOG\n".b
  # Nothing of the environment of whoever runs the tests may decide them.
  CLEAN = [*%w[RUBYOPT RUBYLIB BUNDLE_GEMFILE XDG_RUNTIME_DIR], *ENV.keys.grep(/\AMPP_/)].to_h { |n| [n, nil] }.freeze

  def setup
    @base = Dir.mktmpdir("mpprecord")
    @dir = File.join(File.realpath(@base), "work")
    @tmp = File.join(@base, "tmp")
    FileUtils.mkdir_p([@dir, @tmp])
    @tree = MpprecordTree.new(File.join(@base, "tree"))
  end

  def teardown
    FileUtils.remove_entry(@base)
  end

  def extension
    File.realpath(@tree.extension)
  end

  def mpprecord
    [RbConfig.ruby, @tree.path("recorder/exe/mpprecord")]
  end

  # With a block: it gets the pid as soon as the program has written a line.
  def record(*arguments, **more, &block)
    bare_run(*mpprecord, *arguments, **more, &block)
  end

  def bare_run(*command, env: {}, input: "")
    environment = CLEAN.merge("TMPDIR" => @tmp, "PATH" => "#{RbConfig::CONFIG["bindir"]}:#{ENV.fetch("PATH")}").merge(env)
    Open3.popen3(environment, *command, chdir: @dir) do |stdin, stdout, stderr, waiter|
      [stdin, stdout, stderr].each(&:binmode)
      errors = Thread.new { stderr.read }
      stdin.write(input)
      stdin.close
      out = +""
      if block_given?
        out << stdout.gets.to_s
        yield waiter.pid
      end
      out << stdout.read
      Run.new(out, errors.value, waiter.value)
    end
  end

  def shell(script)
    bare_run("sh", "-c", script)
  end

  # What mpprecord would set, for a Ruby that is run without it.
  def stub_environment
    { "RUBYOPT" => "-r#{@tree.stub}", "MPP_PATH" => File.join(@dir, "app.mpp") }
  end

  def write(name, text, mode: 0o644)
    File.write(File.join(@dir, name), text)
    File.chmod(mode, File.join(@dir, name))
  end

  def read(name)
    File.binread(File.join(@dir, name))
  end

  def logs
    Dir.children(@dir).select { |name| name.end_with?(".mpp") }.sort
  end

  def assert_log(name)
    assert_includes logs, name
    assert_equal MAGIC, read(name)[0, MAGIC.bytesize], "'#{name}' is no log"
  end

  # These logs, and no others.
  def assert_logs(*names)
    assert_equal names.sort, logs
    names.each { |name| assert_log(name) }
  end

  # One line that says why, nothing done.
  def assert_refused(status, message, run, logs: [])
    assert_equal [status, ""], [run.status.exitstatus, run.out], run.err
    assert_match message, run.err
    assert_equal 1, run.err.lines.size, run.err
    assert_equal logs, self.logs
  end
end
