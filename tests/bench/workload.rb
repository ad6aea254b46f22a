# One measurement: runs one workload under one way of watching it, prints JSON.
#   ruby workload.rb MODE WORKLOAD      (driven by record.rb)
# Without such a way of watching here, it prints {"missing": why}.
require "json"

mode, work = ARGV
BUILD = ENV.fetch("MPP_BUILD") { File.expand_path("../../build", __dir__) }

# A peer from RubyGems, which `record.rb --install` put into a directory of the benchmark's own.
def peer(name)
  Gem.paths = { "GEM_HOME" => File.join(BUILD, "bench/gems", RbConfig::CONFIG["ruby_version"]), "GEM_PATH" => Gem.path.join(":") }
  require name
rescue LoadError
  missing "not installed"
end

def missing(why)
  puts JSON.generate(missing: why)
  exit
end

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
when "births", "noop", "frames"
  require File.join(BUILD, "bench/floor", RbConfig::CONFIG["ruby_version"], "floor")
  Floor.start(mode.to_sym)
when "mpp", "mpp1pct"
  require_relative "../../recorder/lib/mpp_recorder"
  MppRecorder.start(path: log, sample_rate: mode == "mpp" ? 1.0 : 0.01)
when "objspace"
  require "objspace"
  ObjectSpace.trace_object_allocations_start
when "stackprof"
  peer "stackprof"
  StackProf.start(mode: :object, interval: 1, raw: true)
when "memory_profiler"
  peer "memory_profiler"
  MemoryProfiler.start
when "allocation_tracer" # counts by path and line, no stacks
  peer "allocation_tracer"
  ObjectSpace::AllocationTracer.setup(%i[path line class])
  ObjectSpace::AllocationTracer.start
when "memprofiler_pprof", "memprofiler_1pct"
  peer "ruby_memprofiler_pprof"
  $collector = MemprofilerPprof::Collector.new(sample_rate: mode == "memprofiler_pprof" ? 1.0 : 0.01, max_heap_samples: 10_000_000)
  $collector.start!
when "vernier" # what is retained; it sees births and deaths of all
  peer "vernier"
  missing "needs Ruby 3.2" if Vernier::VERSION.start_with?("0.")
  $collector = Vernier::Collector.new(:retained)
  $collector.start
when "datadog" # samples as its budget allows; its uploads go nowhere
  peer "datadog"
  Datadog.logger.level = 4
  Datadog.configure do |c|
    c.profiling.enabled = c.profiling.allocation_enabled = true
    c.profiling.advanced.experimental_heap_enabled = true
    c.tracing.enabled = c.remote.enabled = c.telemetry.enabled = false
    c.agent.host = "127.0.0.1"
    c.agent.port = 9
  end
  sleep 0.2
  missing "does not start" unless Thread.list.any? { |t| t.name.to_s.start_with?("Datadog::Profiling") }
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
