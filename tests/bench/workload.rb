# One measurement: runs one workload under one way of watching it, prints JSON.
#   ruby workload.rb MODE WORKLOAD      (driven by record.rb)
require "json"

mode, work = ARGV
BUILD = ENV.fetch("MPP_BUILD") { File.expand_path("../../build", __dir__) }

job =
  case work
  when "asciidoc"
    require "asciidoctor"
    Asciidoctor::LoggerManager.logger.level = 5
    reference = File.join(Gem.loaded_specs["asciidoctor"].full_gem_path, "data/reference/syntax.adoc")
    book = File.read(reference) * 20
    -> { 4.times { Asciidoctor.convert(book, backend: "html5", safe: :safe) } }
  when "rouge"
    require "rouge"
    source = File.readlines(File.join(RbConfig::CONFIG["rubylibdir"], "optparse.rb")).first(2500).join
    -> { 4.times { Rouge::Formatters::HTML.new.format(Rouge::Lexers::Ruby.new.lex(source)) } }
  when "json"
    users = (0...2000).map { |i| { id: i, name: "user#{i}", tags: %w[a b c], nested: { x: i * 1.5, y: [1, 2, 3] } } }
    text = JSON.generate(users)
    -> { 40.times { JSON.generate(JSON.parse(text)) } }
  when "micro"
    def deep(left, &block) = left.zero? ? block.call : deep(left - 1, &block)
    -> { deep(20) { i = 0; (Object.new; i += 1) while i < 1_000_000 } }
  else
    abort "unknown workload #{work.inspect}"
  end

job.call # warm
log = "/tmp/mpp-bench-#{Process.pid}.mpp"
case mode
when "none" then nil
when "noop", "frames"
  require File.join(BUILD, "bench/floor/floor")
  Floor.start(mode.to_sym)
when "mpp", "mpp1pct"
  require_relative "../../recorder/lib/mpp_recorder"
  MppRecorder.start(path: log, sample_rate: mode == "mpp" ? 1.0 : 0.01)
when "objspace"
  require "objspace"
  ObjectSpace.trace_object_allocations_start
when "stackprof"
  require "stackprof"
  StackProf.start(mode: :object, interval: 1, raw: true)
when "memory_profiler"
  require "memory_profiler"
  MemoryProfiler.start
else abort "unknown mode #{mode.inspect}"
end

GC.start
objects = GC.stat(:total_allocated_objects)
thread_s = Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID)
process_s = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID)
job.call
thread_s = Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID) - thread_s
process_s = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) - process_s
objects = GC.stat(:total_allocated_objects) - objects

result = { mode: mode, workload: work, thread_s: thread_s, process_s: process_s, objects: objects }
result[:depth] = Floor.counts.then { |births, _, depths| depths.to_f / births } if mode == "frames"
if mode.start_with?("mpp")
  stats = MppRecorder.stats
  MppRecorder.stop
  result.merge!(log: log, stats: stats)
end
puts JSON.generate(result)
$stdout.flush
exit! # peers take long to end, which is not what is measured
