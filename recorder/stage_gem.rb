# frozen_string_literal: true

# Builds the gem in a directory of its own, where formats/ lies beside the extension, so that the gem compiles alone.
#
#   ruby recorder/stage_gem.rb DIRECTORY       prints the path of the gem
require "fileutils"
require "rubygems/package"

ROOT = File.expand_path("..", __dir__)
GENERATED = /\.(o|so|log)\z|\/Makefile\z/

abort "usage: ruby recorder/stage_gem.rb DIRECTORY" unless ARGV.size == 1
target = File.expand_path(ARGV.first)
stage = File.join(target, "stage")
FileUtils.rm_rf(stage)

copy = lambda do |from, to|
  FileUtils.mkdir_p(File.dirname(to))
  FileUtils.cp(from, to)
end

Dir.chdir(File.join(ROOT, "recorder")) do
  Dir["mpp_recorder.gemspec", "{exe,lib,ext}/**/*"].each do |name|
    copy.call(name, File.join(stage, name)) if File.file?(name) && !name.match?(GENERATED)
  end
end
# pprof is the analyzer's alone.
Dir[File.join(ROOT, "formats/*.[ch]")].reject { |path| File.basename(path).match?(/\A(mpp_)?pprof/) }.each do |path|
  copy.call(path, File.join(stage, "ext/mpp_recorder/formats", File.basename(path)))
end
copy.call(File.join(ROOT, "LICENSE"), File.join(stage, "LICENSE"))
copy.call(File.join(ROOT, "docs/man/mpprecord.1"), File.join(stage, "man/mpprecord.1"))

Dir.chdir(stage) do
  specification = Gem::Specification.load("mpp_recorder.gemspec") or abort "stage_gem: the gemspec does not load"
  name = Gem::DefaultUserInteraction.use_ui(Gem::SilentUI.new) { Gem::Package.build(specification) }
  path = File.join(target, name)
  FileUtils.mv(name, path)
  puts path
end
