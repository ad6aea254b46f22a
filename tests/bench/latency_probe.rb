# Loaded into fixtures/apps/shop/traffic.rb: writes how long each request took, in seconds, into the file LATENCIES as JSON.
require "json"
require "net/http"

module LatencyProbe
  SECONDS = Queue.new

  def request(...)
    began = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    super
  ensure
    SECONDS << Process.clock_gettime(Process::CLOCK_MONOTONIC) - began
  end
end
Net::HTTP.prepend(LatencyProbe)
at_exit { File.write(ENV.fetch("LATENCIES"), JSON.generate(Array.new(LatencyProbe::SECONDS.size) { LatencyProbe::SECONDS.pop })) }
