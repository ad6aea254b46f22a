# Starts late, with baseline: what lived before the start is in the log too. At a mark, writes what Ruby says is live by class: {name: [objects, bytes]}.
# Run by truth_test.rb: ruby baseline.rb LOG OUT [compact]
require "objspace"
require "json"
require "set"
require_relative "../../../recorder/lib/mpp_recorder"

log, out, mode = ARGV
CLASS_OF = Kernel.instance_method(:class)
SINGLETON = Class.instance_method(:singleton_class?)
Early, Late, Dead = Struct.new(:a, :b), Struct.new(:a, :b), Struct.new(:a)
$early = Array.new(5000) { |n| Early.new("early #{n}" * (n % 9), [n] * (n % 40)) }
dead = Array.new(5000) { |n| Dead.new("dead #{n}") }
counts = Hash.new(0).compare_by_identity
bytes = Hash.new(0).compare_by_identity
count = lambda do |object|
  klass = CLASS_OF.bind_call(object)
  next if Class.equal?(klass) && SINGLETON.bind_call(object)
  counts[klass] += 1
  bytes[klass] += ObjectSpace.memsize_of(object)
end
ObjectSpace.each_object(BasicObject, &count)
GC.start
MppRecorder.start(path: log, baseline: true)
MppRecorder.mark("from")
$late = Array.new(5000) { |n| Late.new("late #{n}" * (n % 7), { n => n }) }
$early.each_with_index { |o, n| o.b.concat([1] * 30) if n.odd? }
dead.clear
GC.compact if mode == "compact"
3.times { GC.start }
GC.disable
MppRecorder.mark("names", measure: true)
counts.clear
bytes.clear
# The tables of the counting itself grow while it counts: once before, once for what is written.
ObjectSpace.each_object(BasicObject, &count)
[counts, bytes].each { |table| table.each_key { |key| table[key] = 0 } }
MppRecorder.flush
MppRecorder.mark("truth", measure: true)
ObjectSpace.each_object(BasicObject, &count)
names = Module.instance_method(:name)
rows = Hash.new { |hash, key| hash[key] = [0, 0] }
counts.each do |klass, n|
  name = names.bind_call(klass) || "(anonymous #{names.bind_call(klass.superclass) || "class"})"
  rows[name][0] += n
  rows[name][1] += bytes[klass]
end
GC.enable
MppRecorder.stop
File.write(out, JSON.generate(rows))
