# frozen_string_literal: true

require_relative "lib/mpp_recorder/version"

# Build it with `make gem`: the extension needs formats/ beside it, and recorder/stage_gem.rb puts it there.
Gem::Specification.new do |spec|
  spec.name = "mpp_recorder"
  spec.version = MppRecorder::VERSION
  spec.summary = "Records every allocation and free of a Ruby heap into a log"
  spec.description = "Records every allocation, free and size change of a Ruby process's heap into one log file, which survives whatever " \
                     "kills the process. mppanalyze tells from it what was live at any moment, and what leaks."
  spec.authors = ["the mpp developers"]
  spec.license = "MIT"
  spec.required_ruby_version = ">= 3.1"
  spec.requirements = ["libzstd and libxxhash with their headers (Debian: libzstd-dev libxxhash-dev)"]

  spec.files = Dir.chdir(__dir__) { Dir["lib/**/*.rb", "exe/*", "ext/**/*.{c,h,rb}", "LICENSE", "man/*.1"].sort }
  spec.bindir = "exe"
  spec.executables = ["mpprecord"]
  spec.extensions = ["ext/mpp_recorder/extconf.rb"]
  spec.metadata = { "rubygems_mfa_required" => "true" }
end
