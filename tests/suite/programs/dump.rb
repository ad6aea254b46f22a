# Records itself and has ObjectSpace.dump_all write the heap at two marks, with no collection in between, so that an address stands for one object.
# Run by truth_test.rb: ruby dump.rb LOG DUMP_FROM DUMP_TO
require "objspace"
require_relative "../../../recorder/lib/mpp_recorder"

log, from, to = ARGV.map(&:dup)
Thing = Struct.new(:a, :b)
keep = Array.new(10_000)
first = File.open(from, "w")
second = File.open(to, "w")
dump = ->(file) { ObjectSpace.dump_all(output: file) }
work = lambda do |rounds|
  rounds.times do |n|
    keep[n] = case n % 12
              when 0 then "s" * (n % 200)
              when 1 then [n] * (n % 60)
              when 2 then (0..n % 30).to_h { |i| [i, n] }
              when 3 then Thing.new(n, "thing #{n}")
              when 4 then Object.new.tap { |o| (n % 9).times { |i| o.instance_variable_set("@i#{i}", n) } }
              when 5 then 3**(40 + n % 90)
              when 6 then /x#{n % 5}(.)/.match("x#{n % 5}y")
              when 7 then Regexp.new("r#{n % 50}+")
              when 8 then (n.to_s..)
              when 9 then n * 1e300
              when 10 then Rational(n, 7)
              else proc { n }
              end
  end
end
# Without an allocation once it has run: the caches of a call and its keywords are objects too.
# The first write makes a file its lock.
[first, second].each { |file| file.write("x") && file.rewind && file.truncate(0) }
mark = ->(name) { MppRecorder.mark(name) }
none, start, finish, after = %w[none from to after].map(&:freeze)
work.call(100)
MppRecorder.start(path: log)
work.call(1000)
GC.start
GC.disable
File.open(File::NULL, "w") { |null| dump.call(null) }
MppRecorder.mark(none, measure: true)
mark.call(none)
dump.call(first)
mark.call(start)
work.call(10_000)
MppRecorder.flush
MppRecorder.mark(finish, measure: true)
dump.call(second)
mark.call(after)
MppRecorder.stop
[first, second].each(&:close)
