# Works with much of Ruby's library: YAML, JSON, ERB, CSV, sets, times, big numbers, eval, threads, fibers, processes. Prints what came out; nothing of it depends on addresses or times.
# Run by recorder_programs_test.rb.
require "json"
require "yaml"
require "erb"
require "set"
require "stringio"
require "digest"
require "bigdecimal"
require "securerandom"
require "tempfile"
require "ostruct"
require "forwardable"

rounds = Integer(ARGV[0] || 20)
out = []
data = Array.new(rounds) { |n| { "id" => n, "name" => "name #{n}", "tags" => %w[a b c].first(n % 4), "nested" => { "n" => [n] * (n % 5), "f" => n / 3.0, "nil" => nil } } }
json = JSON.pretty_generate(data)
out << Digest::SHA256.hexdigest(json) << (JSON.parse(json) == data)
yaml = YAML.dump(data)
out << Digest::SHA256.hexdigest(yaml) << (YAML.load(yaml) == data)
page = ERB.new("<% data.each do |row| %><p class=\"<%= row['id'] %>\"><%= ERB::Util.html_escape(row['name']) %></p>\n<% end %>", trim_mode: "<>").result(binding)
out << Digest::SHA256.hexdigest(page)
rounds.times { |n| eval("def made_#{n}(x) = [x, #{n}]; out << made_#{n}(:a).size if #{n} % 10 == 0", binding, "made.rb", n + 1) }
threads = Array.new(4) { |t| Thread.new { Array.new(rounds) { |n| "#{t}-#{n}" }.map(&:upcase).map(&:to_sym).uniq.size } }
out << threads.map(&:value)
fibers = Array.new(10) { |n| Fiber.new { 3.times { |i| Fiber.yield(n * i) }; :done } }
out << 4.times.map { fibers.map(&:resume) }
out << Set.new(data.map { |row| row["tags"] }).size << (2**rounds).to_s.size << BigDecimal("1").div(7, 30).to_s << 10.fdiv(7).rationalize(Rational(1, 100))
out << Struct.new(:a, :b).new(1, "two").to_h << OpenStruct.new(x: 1).x << ObjectSpace::WeakMap.new.size
out << (begin; Integer("no"); rescue ArgumentError => e; e.message; end) << catch(:thrown) { 5.times { |n| throw(:thrown, n) if n == 3 } }
out << Comparable.instance_method(:clamp).owner << [3, 1, 2].lazy.map { |n| n * 2 }.select(&:even?).first(2) << "äöü".unicode_normalize(:nfd).bytes.size
Tempfile.create("library") { |f| f.write(json); f.flush; out << File.size(f.path) }
out << `echo from a shell`.chomp << IO.popen(%w[cat], "r+") { |io| io.write("through a pipe"); io.close_write; io.read }
refined = Module.new { refine(String) { def shout = upcase + "!" } }
out << refined.refinements.size rescue out << 1
klass = Class.new { extend Forwardable; def_delegators :@list, :size, :<<; def initialize = @list = []; def method_missing(name, *) = name.to_s; def respond_to_missing?(*) = true }
out << klass.new.anything << klass.new.tap { |o| o << 1 }.size
trace = []
TracePoint.new(:call) { |tp| trace << tp.method_id }.enable { made_0(1) }
out << trace << ObjectSpace.each_object(Class).include?(klass) << GC.start.inspect << caller.size
warn "to stderr", uplevel: 0
$stderr.puts "and more"
puts out.inspect
at_exit { puts "at exit" }
exit 3
