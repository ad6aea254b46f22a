# frozen_string_literal: true

# Holds the layers:  ruby tests/ci/layers.rb BUILD/libmppformats.a
#
#   recorder/ and analyzer/ never include each other; both know only formats/ (and proto/ is known to formats/ alone).
#   formats/ knows neither of them, nor Ruby; it returns codes, and never prints, exits or aborts.
#
# The first is read off the #include lines, the second off the undefined symbols of formats/'s objects, so that no macro hides a call.
# To add a room, add it to MAY_INCLUDE. Exit: 0 when the layers hold, 1 when not, 2 when it cannot tell.

ROOMS = {
  "formats" => ["formats"],
  "recorder" => ["recorder/ext/mpp_recorder"],
  "analyzer" => ["analyzer"],
  "proto" => ["proto"]
}.freeze
MAY_INCLUDE = {
  "formats" => %w[formats proto],
  "recorder" => %w[recorder formats],
  "analyzer" => %w[analyzer formats]
}.freeze
RUBY_HEADER = %r{\A(ruby(/.*)?|rubys?ig|node|vm_core|internal/.*)\.h\z|\Aruby/}
MAY_KNOW_RUBY = %w[recorder].freeze

# What a library that returns codes does not call: output to the standard streams, and ends of the process.
FORBIDDEN = %w[
  printf vprintf puts putchar putchar_unlocked fputs fputc putc fprintf vfprintf perror psignal dprintf vdprintf stdout stderr
  __printf_chk __vprintf_chk __fprintf_chk __vfprintf_chk __dprintf_chk __vdprintf_chk
  exit _exit _Exit quick_exit abort err errx verr verrx warn warnx vwarn vwarnx error
].freeze
RUBY_SYMBOL = /\A(rb_|ruby_|st_|onig)/
# assert's own way out is allowed: it states what cannot be, and never depends on a file's bytes.
ALLOWED = %w[__assert_fail].freeze

# The room whose file an #include names, as the compiler would find it: beside the file, from the top, or in a room's directory.
def header_owner(name, from_dir)
  return "proto" if name.end_with?(".pb-c.h") # generated into the build

  places = [from_dir, ".", *ROOMS.values.flatten].map { |dir| File.join(dir, name) }
  found = places.find { |path| File.file?(path) } or return
  path = File.expand_path(found).delete_prefix("#{Dir.pwd}/")
  ROOMS.each { |room, dirs| dirs.each { |dir| return room if path.start_with?("#{dir}/") } }
  nil
end

def include_faults
  count = 0
  faults = MAY_INCLUDE.flat_map do |room, allowed|
    ROOMS.fetch(room).flat_map { |dir| Dir["#{dir}/**/*.[ch]"].sort }.flat_map do |file|
      File.foreach(file, encoding: "UTF-8").with_index(1).filter_map do |line, number|
        next unless (name = line.scrub[/\A\s*#\s*include\s*["<]([^">]+)[">]/, 1])

        count += 1
        if name.match?(RUBY_HEADER) && !MAY_KNOW_RUBY.include?(room)
          "#{file}:#{number}: #{room}/ includes Ruby's #{name}"
        elsif (owner = header_owner(name, File.dirname(file))) && !allowed.include?(owner)
          "#{file}:#{number}: #{room}/ includes #{name} of #{owner}/"
        end
      end
    end
  end
  [faults, count]
end

def symbol_faults(archive)
  faults = []
  count = 0
  object = nil
  IO.popen(["nm", "-u", archive], &:readlines).each do |line|
    if (m = line.match(/\A(\S+\.o):/)) then object = m[1]
    elsif (m = line.match(/\A\s+[Uw] ([^@\s]+)/))
      count += 1
      name = m[1]
      next if object&.end_with?(".pb-c.o") || ALLOWED.include?(name)

      faults << "#{object}: formats/ uses #{name}" if FORBIDDEN.include?(name) || name.match?(RUBY_SYMBOL)
    end
  end
  [faults, count]
end

archive = ARGV.fetch(0) { abort "usage: ruby tests/ci/layers.rb BUILD/libmppformats.a" }
included, include_count = include_faults
used, symbol_count = symbol_faults(archive)
if include_count.zero? || symbol_count.zero?
  warn "check-layers: nothing to look at (#{include_count} includes, #{symbol_count} symbols of #{archive})"
  exit 2
end
faults = included + used
puts faults
puts "check-layers: ok (#{include_count} includes, #{symbol_count} symbols)" if faults.empty?
exit faults.empty? ? 0 : 1
