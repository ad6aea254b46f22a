# frozen_string_literal: true

# ruby tests/oracle/oracle.rb top|diff|timeline|info [OPTIONS] LOG: prints what mppanalyze prints with --format json.
require_relative "mpp_oracle"
require "json"
require "optparse"

command, *arguments = ARGV
options = {}
parser = OptionParser.new do |o|
  o.banner = "usage: oracle.rb top|diff|timeline|info [OPTIONS] LOG"
  %i[at from to by sort focus ignore class].each { |name| o.on("--#{name} VALUE") { |value| options[name] = value } }
  %i[limit points].each { |name| o.on("--#{name} N", Integer) { |value| options[name] = value } }
  o.on("--min-age N", Integer) { |value| options[:min_age] = value }
  o.on("--recorder") { options[:recorder] = true }
  o.on("--format FORMAT") { |value| abort "oracle: only json" unless value == "json" }
end
begin
  paths = parser.parse(arguments)
  abort parser.banner unless %w[top diff timeline info].include?(command) && paths.size == 1
  puts JSON.generate(MppOracle::Oracle.new(paths[0]).public_send(command, **options))
rescue OptionParser::ParseError => e
  warn "oracle: #{e.message}"
  exit 2
rescue MppOracle::Refused, SystemCallError => e
  warn "oracle: #{e.message}"
  exit 1
end
