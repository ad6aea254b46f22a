# The same work recorded in full and then many times at a rate: ruby sampled.rb DIR RATE RUNS. Objects of one line have one size, so that the variance of an
# estimate is known: (period - 1) x count x size squared.
require_relative "../../../recorder/lib/mpp_recorder"

DIR, RATE, RUNS = ARGV[0], Float(ARGV[1]), Integer(ARGV[2])
Point = Struct.new(:x, :y)

def work(keep)
  3000.times { keep << Object.new }
  2000.times { keep << "x" * 500 }
  1500.times { |i| keep << Point.new(i, i) }
  1000.times { |i| keep << Array.new(60, i) }
  20_000.times { |i| "garbage #{i}" }
  5000.times { |i| keep << "half #{i}" }
  5000.times { |i| keep[-1 - i] = nil if i.odd? }
end

def record(path, **options)
  keep = Array.new(20_000)
  keep.clear
  MppRecorder.start(path: path, **options)
  work(keep)
  3.times { GC.start }
  MppRecorder.mark("end", measure: true)
  MppRecorder.stop
end

record(File.join(DIR, "warm.mpp"))
record(File.join(DIR, "full.mpp"))
RUNS.times { |i| record(File.join(DIR, "sampled#{i}.mpp"), sample_rate: RATE, seed: i + 1) }
