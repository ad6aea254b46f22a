# frozen_string_literal: true

# ruby tests/ci/coverage.rb BUILD: reads what the instrumented programs left in BUILD, by gcov, and prints covered lines a file.
require "json"
require "open3"

build = ARGV.fetch(0) { abort "usage: ruby tests/ci/coverage.rb BUILD" }
notes = Dir["#{build}/{formats,analyzer}/**/*.gcno"].sort
abort "coverage: no .gcno in #{build}" if notes.empty?

lines = Hash.new { |h, file| h[file] = Hash.new(0) } # file => { line => times }
notes.each do |note|
  out, status = Open3.capture2("gcov", "--json-format", "--stdout", note, err: File::NULL)
  abort "coverage: gcov failed on #{note}" unless status.success?

  JSON.parse(out).fetch("files").each do |file|
    next unless file["file"].match?(/\A(formats|analyzer)\//)

    file["lines"].each { |l| lines[file["file"]][l["line_number"]] += l["count"] }
  end
end

row = ->(name, hit, all) { puts format("%-44s %6d of %6d  %5.1f %%", name, hit, all, 100.0 * hit / [all, 1].max) }
lines.sort.each { |file, of| row.(file, of.count { |_, n| n.positive? }, of.size) }
row.("all", lines.sum { |_, of| of.count { |_, n| n.positive? } }, lines.sum { |_, of| of.size })
