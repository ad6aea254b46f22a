# frozen_string_literal: true

# No source file of more than 600 lines, unless its reason stands here.
LIMIT = 600
REASONS = {
  # "path" => "why it is one room"
}.freeze

files = IO.popen(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], &:read).split("\0")
files = Dir["**/*"].select { |f| File.file?(f) } if files.empty? # a tarball
sources = files.select { |f| f.match?(/\.(c|h|rb|sh|go|proto|bash|ru)\z|(\A|\/)Makefile\z|\.ci\/run\z|\/exe\//) && File.file?(f) }
long = sources.to_h { |f| [f, File.foreach(f, encoding: "BINARY").count] }.select { |_, n| n > LIMIT }

faults = long.reject { |f, _| REASONS.key?(f) }.map { |f, n| "#{f}: #{n} lines, the limit is #{LIMIT}" }
faults += REASONS.keys.reject { |f| long.key?(f) }.map { |f| "#{f}: listed in tests/ci/lengths.rb, but not longer than #{LIMIT} lines" }
faults << "no source file found" if sources.empty?
puts faults
puts "check-lengths: ok (#{sources.size} files)" if faults.empty?
exit faults.empty? ? 0 : 1
