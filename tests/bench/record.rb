# What recording costs, as ratios in one run: each way of watching against nothing, and against the floor.
#   ruby tests/bench/record.rb [--rounds N] [--workloads a,b] [--modes a,b] [--[no-]latency] [--install]
# --install first brings the peers that RubyGems has into build/bench/gems; those that are not there are told as such.
# CPU is that of the program's thread; other threads' (the recorder's writer) is told beside it. Of several rounds the best counts.
require "fileutils"
require "json"
require "optparse"
require "rbconfig"
require_relative "latency"

MODES = %w[none noop frames mpp mpp1pct objspace stackprof memory_profiler allocation_tracer memprofiler_pprof memprofiler_1pct vernier datadog].freeze
PEERS = %w[stackprof memory_profiler allocation_tracer ruby_memprofiler_pprof vernier datadog].freeze

options = { rounds: 5, workloads: %w[asciidoc rouge json micro], modes: MODES, latency: true }
OptionParser.new do |o|
  o.on("--rounds N", Integer) { |n| options[:rounds] = n }
  o.on("--workloads LIST", Array) { |list| options[:workloads] = list }
  o.on("--modes LIST", Array) { |list| options[:modes] = list }
  o.on("--[no-]latency") { |wanted| options[:latency] = wanted }
  o.on("--install") { options[:install] = true }
end.parse!

root = File.expand_path("../..", __dir__)
build = File.expand_path(ENV["MPP_BUILD"] || File.join(root, "build"))
ENV["MPP_BUILD"] = build

if options[:install]
  gems = File.join(build, "bench/gems", RbConfig::CONFIG["ruby_version"])
  FileUtils.mkdir_p(gems)
  PEERS.each do |name|
    ok = system(RbConfig.ruby, "-S", "gem", "install", "--no-document", "--conservative", "--install-dir", gems, name, %i[out err] => File.join(gems, "#{name}.log"))
    puts "#{name}: #{ok ? "installed" : "not installed, see #{gems}/#{name}.log"}"
  end
end

exit if options[:rounds].zero?

floor = File.join(build, "bench/floor", RbConfig::CONFIG["ruby_version"])
FileUtils.mkdir_p(floor)
unless File.exist?(File.join(floor, "floor.so"))
  system(RbConfig.ruby, File.join(__dir__, "floor/extconf.rb"), chdir: floor, out: File::NULL) &&
    system("make", chdir: floor, out: File::NULL, err: File::NULL) or abort "the control does not build"
end

# One measurement, or nil when it failed.
run = lambda do |mode, work|
  text = IO.popen([RbConfig.ruby, File.join(__dir__, "workload.rb"), mode, work], err: File::NULL, &:read)
  text.empty? ? { "missing" => "failed" } : JSON.parse(text)
end

# What the log of a run costs in bytes. It is deleted.
bytes = lambda do |log|
  info = IO.popen([File.join(build, "mppanalyze"), "info", "--quiet", "--format", "json", log], &:read)
  JSON.parse(info)["bytes_per_event"]
rescue SystemCallError, JSON::ParserError
  nil
ensure
  File.delete(log)
end

best = options[:workloads].to_h { |work| [work, {}] }
options[:rounds].times do |round|
  options[:workloads].each do |work|
    options[:modes].each do |mode|
      $stderr.print "\r\e[Kround #{round + 1}/#{options[:rounds]}: #{work} #{mode}" if $stderr.tty?
      old = best[work][mode]
      next if old&.key?("missing")

      result = run.(mode, work)
      log = result.delete("log")
      result["bytes_per_event"] = old ? old["bytes_per_event"] : bytes.(log) if log && (old.nil? || File.delete(log))
      best[work][mode] = result if old.nil? || result["thread_s"] && result["thread_s"] < old["thread_s"]
    end
  end
end
$stderr.print "\r\e[K" if $stderr.tty?

puts "Ruby #{RUBY_VERSION}; best of #{options[:rounds]}"
puts format("%-10s %-18s %7s %9s %9s %9s %8s %8s", "workload", "watched by", "x none", "+ns/alloc", "x floor's", "x objsp's", "others x", "B/event")
best.each do |work, by_mode|
  none = by_mode.dig("none", "thread_s")
  added = by_mode.transform_values { |r| none && r["thread_s"] && r["thread_s"] - none }
  by_mode.each do |mode, r|
    next puts(format("%-10s %-18s %s", work, mode, r["missing"])) if r["missing"]

    ratio = ->(to) { mode != "none" && added[to].to_f.positive? ? format("%.2f", added[mode] / added[to]) : "-" }
    puts format("%-10s %-18s %7s %9s %9s %9s %8s %8s", work, mode, none ? format("%.2f", r["thread_s"] / none) : "-", none ? format("%.0f", added[mode] * 1e9 / r["objects"]) : "-",
                ratio.("frames"), ratio.("objspace"), none ? format("%.2f", (r["process_s"] - r["thread_s"]) / none) : "-",
                r["bytes_per_event"] ? format("%.2f", r["bytes_per_event"]) : "")
  end
end
latency = options[:latency] ? Latency.measure(options[:rounds]) : nil
if latency
  puts
  Latency.print(latency)
end
File.write(File.join(build, "bench/record.json"), JSON.pretty_generate("ruby" => RUBY_VERSION, "rounds" => options[:rounds], "workloads" => best, "latency" => latency))
