# frozen_string_literal: true

# The recorder as a gem: its own tree, and formats/ at the place where extconf.rb looks for it in a checkout.
Gem::Specification.new do |s|
  s.name = "mpp_recorder"
  s.version = File.read(File.join(__dir__, "VERSION")).chomp
  s.summary = "Records every allocation, free and size change of a Ruby heap into a log"
  s.description = "A recorder for CRuby's heap: what was live at any moment, where it came from and what leaks are asked of its log " \
                  "later, offline, with mppanalyze."
  s.authors = ["the mpp developers"]
  s.license = "MIT"
  s.required_ruby_version = ">= 3.1"
  s.files = Dir.chdir(__dir__) do
    Dir["recorder/{exe,lib}/**/*"].select { |f| File.file?(f) && !f.end_with?(".so") } +
      Dir["recorder/ext/mpp_recorder/*.{c,h,rb}", "formats/*.{c,h}", "formats/FORMAT.md", "docs/man/mpprecord.1"] +
      %w[VERSION LICENSE CHANGELOG.md]
  end
  s.require_paths = ["recorder/lib"]
  s.bindir = "recorder/exe"
  s.executables = ["mpprecord"]
  s.extensions = ["recorder/ext/mpp_recorder/extconf.rb"]
end
