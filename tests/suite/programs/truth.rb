# A program that knows its own heap: records itself, makes objects of every kind, and at a mark writes what Ruby says is live of what was allocated since the
# start, by class: {class name: [objects, bytes]}. Run by truth_test.rb: ruby truth.rb LOG OUT [compact] [auto_compact] [threads]
require "objspace"
require "json"
require "set"
require "bigdecimal"
require "stringio"
require "strscan"
require_relative "../../../recorder/lib/mpp_recorder"

LOG, OUT, *MODES = ARGV
CLASS_OF = Kernel.instance_method(:class)
SINGLETON = Class.instance_method(:singleton_class?)
GC.auto_compact = true if MODES.include?("auto_compact")

class Plain; def initialize(n) = (@a = "plain #{n}"; @b = [n] * (n % 7)); end
class Wide; def initialize = 20.times { |i| instance_variable_set("@v#{i}", i.to_s * 30) }; end
class NamedByTrick; def self.name = :a_symbol; def initialize = @x = 1; end
class Bare < BasicObject; end
class MyString < String; end
class MyArray < Array; end
class MyHash < Hash; end
class MyError < StandardError; end
Point = Struct.new(:x, :y)
Big = Struct.new(*(:a..:t).to_a)

# Puts a mark and counts, without an allocation in between once it has run: the caches of its calls are objects too.
BEGINS = "work begins"
ENDS = "work ends"
def begins = MppRecorder.mark(BEGINS) && GC.stat(:total_allocated_objects)
def moment = [GC.stat(:total_allocated_objects), GC.stat(:total_freed_objects), MppRecorder.stats]
def ends = GC.stat(:total_allocated_objects).tap { MppRecorder.mark(ENDS) }

# All that the counting needs is allocated before the start.
counts = Hash.new(0).compare_by_identity
bytes = Hash.new(0).compare_by_identity
before = {}.compare_by_identity
keeps = []
singletons = 0
look = ->(object) { before[object] = true }
count = lambda do |object|
  next if before.key?(object)
  klass = CLASS_OF.bind_call(object)
  if Class.equal?(klass) && SINGLETON.bind_call(object)
    singletons += 1
    next
  end
  counts[klass] += 1
  bytes[klass] += ObjectSpace.memsize_of(object)
end
make = lambda do |keep, rounds|
  rounds.times do |n|
    keep << Plain.new(n) << Wide.new << NamedByTrick.new << Point.new(n, "p#{n}") << Big.new(*(1..20).map(&:to_s))
    keep << "short#{n}" << "long " * n << MyString.new("mine" * 40) << "shared #{"x" * 100}"[3..]
    grown = []
    (n % 50).times { |i| grown << i.to_s }
    keep << grown << MyArray.new(n % 30) { |i| i * 1.5e300 } << [1, 2].product([3, 4], [n]) << [[n, [n]], [[[n]]]].flatten
    small = { n => "v" }
    large = (0..n % 40).to_h { |i| ["k#{i}", i] }
    keep << small << large << MyHash[n, n] << Set.new([n, "s#{n}"])
    keep << 2**(60 + n) << Rational(n, 7) << Complex(n, 1.5) << BigDecimal("1.#{n}") << (n * 1e300)
    keep << proc { n } << lambda { |x| x + n } << method(:puts) << (1..n) << (n.to_s.."z") << "sym#{n}".to_sym
    keep << (raise(MyError, "e#{n}") rescue $!) << /re#{n}(x)/.match("re#{n}x") << Regexp.new("x{#{n}}") << StringIO.new("io#{n}") << StringScanner.new("s")
    keep << Enumerator.new { |y| y << n } << [n].each_slice(2) << Time.now << Object.new.tap { |o| o.instance_variable_set(:@late, "x" * n) }
    extended = Object.new
    extended.extend(Comparable)
    keep << extended << "tagged".dup.tap { |s| s.instance_variable_set(:@tag, n) }
    keep << Bare.new if n < 50
    keep << Class.new(Plain).new(n) << Module.new if n < 30
    keep << Thread.new { n }.tap(&:join) << Fiber.new { n } if n < 20
    keep << File.open(__FILE__) if n < 10
    10.times { |i| "garbage #{i}".upcase }
  end
  # Some die, some change.
  keep.each_index { |i| keep[i] = nil if i % 3 == 1 }
  keep.each { |o| o << "more" * 20 if String === o && !o.frozen? }
  keep.each { |o| o.concat([1] * 50) if Array === o && o.size.odd? }
  keep.each { |o| 30.times { |i| o["late#{i}"] = i } if Hash === o }
end
make_all = lambda do
  if MODES.include?("threads")
    4.times.map { Thread.new { make.call(keeps << [] && keeps.last, 125) } }.each(&:join)
  else
    make.call(keeps << [] && keeps.last, 500)
  end
end
# One of everything, so that constants, caches, autoloads and the recorder's own symbols are there.
make_all.call
keeps.clear
MppRecorder.start(path: "#{LOG}.warm")
moment
begins
ends
MppRecorder.mark("warm", measure: true)
MppRecorder.stop
File.delete("#{LOG}.warm")
GC.start
ObjectSpace.each_object(BasicObject, &look)
ObjectSpace.each_object(BasicObject, &look)

first = last = allocated_before = allocated_after = nil
MppRecorder.start(path: LOG)
first = moment
allocated_before = begins
make_all.call
GC.compact if MODES.include?("compact")
allocated_after = ends
3.times { GC.start }
GC.disable
# Names are asked at safe points, which allocates: have that behind us when Ruby counts.
MppRecorder.mark("names", measure: true)
ObjectSpace.each_object(Bare, &count)
counts.clear
bytes.clear
MppRecorder.flush
MppRecorder.mark("truth", measure: true)
singletons = 0
ObjectSpace.each_object(BasicObject, &count)
last = moment
GC.enable
MppRecorder.stop

names = Module.instance_method(:name)
rows = Hash.new { |h, k| h[k] = [0, 0] }
counts.each do |klass, n|
  name = names.bind_call(klass) || "(anonymous #{names.bind_call(klass.superclass) || "class"})"
  rows[name][0] += n
  rows[name][1] += bytes[klass]
end
File.write(OUT, JSON.generate(rows: rows, singletons: singletons, stats: last[2], allocated: allocated_after - allocated_before,
                              ruby_says: last[0, 2].zip(first).map { |to, from| to - from },
                              hooks_say: %i[newobj_calls freeobj_calls].map { |name| last[2][name] - first[2][name] }))
