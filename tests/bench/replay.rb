# frozen_string_literal: true

# How fast mppanalyze goes through a log, in one run with a control (every block read, checked and decompressed, and nothing done with it) and with
# heaptrack_print on a log of as many mallocs and frees. Best of so many runs each, taken in turn, so that a slow moment hits all alike.
#
#   ruby tests/bench/replay.rb        EVENTS=20000000 and RUNS=3 can be set. Prints a table; the numbers also go into $MPP_BUILD/bench/replay.json.
require "etc"
require "fileutils"
require "json"
require "open3"
require "rbconfig"

class ReplayBench
  ROOT = File.expand_path("../..", __dir__)
  BUILD = ENV.fetch("MPP_BUILD", File.join(ROOT, "build"))
  DIR = File.join(BUILD, "bench")
  EVENTS = Integer(ENV.fetch("EVENTS", "20000000"))
  RUNS = Integer(ENV.fetch("RUNS", "3"))
  MPPANALYZE = File.join(BUILD, "mppanalyze")
  GENLOG = File.join(BUILD, "tests/tools/genlog")
  LOG = File.join(DIR, "replay.mpp")
  HEAPTRACK_LOG = File.join(DIR, "replay.heaptrack.zst")
  FIRST = { "info" => %w[info --format json], "top" => %w[top --limit 20], "diff" => %w[diff --from 25% --to 75% --limit 20], "timeline" => %w[timeline --format json],
            "pprof" => %w[pprof --at end -o -] }.freeze
  AGAIN = { "top --at 50%, asked again" => %w[top --at 50% --limit 20] }.freeze

  def run
    FileUtils.mkdir_p(DIR)
    build
    make_logs
    @load = File.read("/proc/loadavg").to_f if File.readable?("/proc/loadavg")
    measure_all
    result = summary
    File.write(File.join(DIR, "replay.json"), "#{JSON.pretty_generate(result)}\n")
    print_table(result)
  end

  private

  def sh!(*command, **options)
    out, status = Open3.capture2e(*command, **options)
    abort "#{command.join(" ")}: #{status}\n#{out}" unless status.success?
    out
  end

  def build
    [MPPANALYZE, GENLOG].each { |program| abort "#{program} is missing: make all tools" unless File.executable?(program) }
    %w[measure malloc_load].each { |name| compile(name) }
    %w[read_blocks pprof_load].each { |name| compile(name, File.join(BUILD, "libmppformats.a"), "-lprotobuf-c", "-lxxhash", "-lzstd", "-lz") }
  end

  def compile(name, *libraries)
    sh!(ENV.fetch("CC", "cc"), "-std=gnu11", "-O2", "-g", "-D_GNU_SOURCE", "-I#{ROOT}", "-o", File.join(DIR, name), File.join(ROOT, "tests/bench/#{name}.c"), *libraries)
  end

  def make_logs
    sh!(GENLOG, "--model", "bench", "--seed", "1", "--events", EVENTS.to_s, "--out", LOG)
    @heaptrack = %w[heaptrack heaptrack_print].all? { |program| ENV["PATH"].split(":").any? { |dir| File.executable?(File.join(dir, program)) } }
    return unless @heaptrack

    warn "recording #{EVENTS} mallocs and frees with heaptrack …"
    sh!("heaptrack", "-o", HEAPTRACK_LOG.delete_suffix(".zst"), File.join(DIR, "malloc_load"), EVENTS.to_s, (1 << 20).to_s)
    out = Open3.pipeline_r(["zstd", "-dcq", HEAPTRACK_LOG], ["grep", "-c", "^[+-]"]) { |last, _| last.read }
    @heaptrack_events = Integer(out)
  end

  # Runs a command under measure; remembers what it cost.
  def measure(name, *command, env: {})
    out, status = Open3.capture2(env, File.join(DIR, "measure"), File.join(DIR, "out"), *command)
    cost = status.success? ? JSON.parse(out) : { "exit" => status.to_s }
    abort "#{command.join(" ")} failed: #{cost["exit"]}" unless cost["exit"] == 0
    ((@costs ||= {})[name] ||= []) << cost
  end

  # An index may be kept beside the log or in the cache directory: without both, it is the first time.
  def fresh
    dir = File.join(DIR, "fresh")
    FileUtils.rm_rf(dir)
    FileUtils.mkdir_p(File.join(dir, "cache"))
    FileUtils.ln(LOG, File.join(dir, "log.mpp"))
    [File.join(dir, "log.mpp"), { "XDG_CACHE_HOME" => File.join(dir, "cache"), "HOME" => dir }]
  end

  def measure_all
    File.open(LOG, "rb") { |file| nil while file.read(1 << 20) }
    RUNS.times do
      measure("control", File.join(DIR, "read_blocks"), LOG)
      FIRST.each do |name, args|
        log, env = fresh
        measure(name, MPPANALYZE, *args, log, env: env)
      end
      AGAIN.each do |name, args|
        log, env = fresh
        Open3.capture3(env, MPPANALYZE, *args, log)
        measure(name, MPPANALYZE, *args, log, env: env)
      end
      measure("heaptrack_print", "heaptrack_print", "-f", HEAPTRACK_LOG) if @heaptrack
      ((@profiles ||= []) << JSON.parse(sh!(File.join(DIR, "pprof_load"), File.join(DIR, "load.pb.gz"))))
    end
    @info = JSON.parse(Open3.capture2(MPPANALYZE, "info", "--format", "json", LOG)[0])
  ensure
    FileUtils.rm_rf(File.join(DIR, "fresh"))
  end

  def summary
    events = @info["event_count"]
    control = @costs["control"].map { |cost| cost["wall_s"] }.min
    programs = @costs.to_h do |name, costs|
      best = costs.min_by { |cost| cost["wall_s"] }
      count = name == "heaptrack_print" ? @heaptrack_events : events
      row = { "wall_s" => best["wall_s"], "cpu_s" => best["cpu_s"], "max_rss_bytes" => costs.map { |cost| cost["max_rss_bytes"] }.min, "events" => count,
              "events_per_s" => (count / best["wall_s"]).round, "of_control" => (best["wall_s"] / control).round(3) }
      [name, row]
    end
    peer = programs["heaptrack_print"]
    programs.each do |name, row|
      next if peer.nil? || name == "heaptrack_print"

      row["times_heaptrack_print"] = row["events_per_s"].fdiv(peer["events_per_s"]).round(2)
      # by CPU seconds: what remains comparable on a busy machine
      row["times_heaptrack_print_cpu"] = ((row["events"] / row["cpu_s"]) / (peer["events"] / peer["cpu_s"])).round(2)
    end
    { "cores" => Etc.nprocessors, "load" => @load, "runs" => RUNS, "events" => events, "live_objects" => @info["totals"]["live_objects"], "peak_live_objects" => @info["peak"]["live_objects"],
      "file_bytes" => @info["file_bytes"], "raw_bytes_per_event" => @info["raw_bytes"].fdiv(events).round(3), "file_bytes_per_event" => @info["file_bytes"].fdiv(events).round(3),
      "programs" => programs, "pprof_100000_stacks" => @profiles.min_by { |profile| profile["seconds"] } }
  end

  def print_table(result)
    puts format("%d events, %d objects live at the peak; %.2f bytes an event raw, %.2f in the file; %d cores; best of %d", result["events"], result["peak_live_objects"],
                result["raw_bytes_per_event"], result["file_bytes_per_event"], result["cores"], RUNS)
    if @load && @load > Etc.nprocessors / 2.0
      puts format("the machine was busy when it began (load %.1f): trust the columns of CPU time more than those of wall time", @load)
    end
    puts format("%-28s %9s %9s %10s %11s %10s %12s %12s", "", "wall s", "CPU s", "MiB", "M events/s", "x control", "x heaptrack", "by CPU")
    result["programs"].each do |name, row|
      puts format("%-28s %9.3f %9.3f %10.1f %11.1f %10.2f %12s %12s", name, row["wall_s"], row["cpu_s"], row["max_rss_bytes"].fdiv(1 << 20), row["events_per_s"] / 1e6,
                  row["of_control"], row["times_heaptrack_print"] || "", row["times_heaptrack_print_cpu"] || "")
    end
    puts "heaptrack is not installed (make deps-bench): no comparison with heaptrack_print" unless @heaptrack
    puts format("a profile of 100,000 stacks of depth 30, built and written: %.3f s, %d bytes", *result["pprof_100000_stacks"].values_at("seconds", "bytes"))
    puts "numbers: #{File.join(DIR, "replay.json")}"
  end
end

ReplayBench.new.run if $PROGRAM_NAME == __FILE__
