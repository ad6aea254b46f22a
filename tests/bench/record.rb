# What recording costs, as ratios in one run: each way of watching against nothing, and against the floor.
#   ruby tests/bench/record.rb [--rounds N] [--workloads a,b] [--modes a,b]
# CPU is that of the program's thread; the recorder's own writer thread is told beside it. Of several rounds the best counts.
require "json"
require "optparse"
require "fileutils"
require "rbconfig"

options = { rounds: 5, workloads: %w[asciidoc rouge json micro], modes: %w[none noop frames mpp mpp1pct objspace stackprof memory_profiler] }
OptionParser.new do |o|
  o.on("--rounds N", Integer) { |n| options[:rounds] = n }
  o.on("--workloads LIST", Array) { |list| options[:workloads] = list }
  o.on("--modes LIST", Array) { |list| options[:modes] = list }
end.parse!

root = File.expand_path("../..", __dir__)
build = ENV["MPP_BUILD"] || File.join(root, "build")
ENV["MPP_BUILD"] = File.expand_path(build)
floor = File.join(build, "bench/floor")
FileUtils.mkdir_p(floor)
unless File.exist?(File.join(floor, "floor.so"))
  system(RbConfig.ruby, File.join(__dir__, "floor/extconf.rb"), chdir: floor, out: File::NULL) &&
    system("make", chdir: floor, out: File::NULL, err: File::NULL) or abort "the control does not build"
end

best = Hash.new { |h, k| h[k] = {} }
options[:rounds].times do |round|
  options[:workloads].each do |work|
    options[:modes].each do |mode|
      $stderr.print "\rround #{round + 1}/#{options[:rounds]}: #{work} #{mode}            " if $stderr.tty?
      text = IO.popen([RbConfig.ruby, File.join(__dir__, "workload.rb"), mode, work], err: File::NULL, &:read)
      next if text.empty? # a peer that is not installed
      result = JSON.parse(text)
      if (log = result.delete("log"))
        if round.zero?
          analyzer = File.join(build, "mppanalyze")
          info = File.executable?(analyzer) ? IO.popen([analyzer, "info", "--quiet", "--format", "json", log], &:read) : ""
          info = info.empty? ? {} : JSON.parse(info)
          result["bytes_per_event"] = info["bytes_per_event"]
          result["raw_bytes_per_event"] = info["raw_bytes"].to_f / info["event_count"] if info["raw_bytes"]
        end
        File.delete(log)
      end
      old = best[work][mode]
      best[work][mode] = old && old["thread_s"] <= result["thread_s"] ? old.merge("bytes_per_event" => old["bytes_per_event"] || result["bytes_per_event"]) : result.merge(old ? old.slice("bytes_per_event", "raw_bytes_per_event") : {})
    end
  end
end
$stderr.print "\r\e[K" if $stderr.tty?

puts format("%-10s %-16s %7s %9s %9s %9s %8s %10s", "workload", "watched by", "x none", "+ns/alloc", "x floor's", "x objsp's", "writer x", "B/event")
best.each do |work, by_mode|
  none = by_mode.dig("none", "thread_s")
  added = by_mode.transform_values { |r| none ? r["thread_s"] - none : nil }
  by_mode.each do |mode, r|
    puts format("%-10s %-16s %7.2f %9.0f %9s %9s %8.2f %10s", work, mode, r["thread_s"] / none, added[mode] * 1e9 / r["objects"],
                added["frames"] ? format("%.2f", added[mode] / added["frames"]) : "-",
                added["objspace"] ? format("%.2f", added[mode] / added["objspace"]) : "-",
                (r["process_s"] - r["thread_s"]) / none,
                r["bytes_per_event"] ? format("%.2f", r["bytes_per_event"]) : "")
  end
end
FileUtils.mkdir_p(File.join(build, "bench"))
File.write(File.join(build, "bench/record.json"), JSON.pretty_generate(best))
