# Records itself; at each step makes objects of a class of the step's own, marks the step, and then says so on stdout.
# Run by recorder_kill_test.rb: ruby steps.rb LOG JOURNAL_BYTES [WHAT TO DO AT THE END] [STEPS]
# HOARD: what each step keeps, up to the end of memory; HOARD_AT: the step that takes all memory that there is, and gives it back.
require_relative "../../../recorder/lib/mpp_recorder"

log, journal_bytes, ending, steps = ARGV
$stdout.sync = true
Step = Class.new { def initialize(n) = @n = n }
Garbage = Class.new
kept = []
options = journal_bytes == "0" ? {} : { journal_bytes: Integer(journal_bytes) }
MppRecorder.start(path: log, **options)
at_exit { raise "in at_exit" } if ending == "at_exit"
hoard = []
hoarder = { "strings" => -> { hoard << "x" * 500_000 }, "objects" => -> { 5000.times { hoard << Object.new } }, "arrays" => -> { 500.times { hoard << [1, 2, 3, 4] } } }[ENV["HOARD"]]
hoard_at = ENV["HOARD_AT"].to_i
1.upto(Integer(steps || 1_000_000)) do |n|
  (n % 7 + 1).times { kept << Step.new(n) }
  40.times { Garbage.new }
  kept.shift(3) if n % 3 == 0
  MppRecorder.mark(n.to_s)
  $stdout.write("#{n}\n")
  hoarder&.call
  next unless n == hoard_at

  begin
    loop { hoard << "x" * 4_000_000 }
  rescue NoMemoryError
    hoard.clear
    GC.start
  end
end
case ending
when "segv" then Process.kill(:SEGV, $$) && sleep
when "abrt" then Process.kill(:ABRT, $$) && sleep
when "kill" then Process.kill(:KILL, $$) && sleep
when "term" then Process.kill(:TERM, $$) && sleep
when "int" then trap(:INT, "DEFAULT") && Process.kill(:INT, $$) && sleep # ignored where the tests run in the background
when "exit!" then exit!(4)
when "abort" then abort("the end")
when "raise" then raise "the end"
when "exec" then exec("true")
when "null" then require("fiddle") && Fiddle::Pointer.new(8)[0, 1]
end
