# A bit of everything that the recorder does, for runs under valgrind and sanitizers. Run by recorder_safety_test.rb: ruby small.rb LOG
log = ARGV[0]
kept = []
work = lambda do |rounds|
  rounds.times do |n|
    kept << Class.new.new << "text #{n} " * 9 << [n] * 20 << { n => [n] } << 2**(80 + n) << proc { n } << /a(.)/.match("ab") << Struct.new(:a).new(n) << Object.new.tap { |o| def o.x = 1 }
    kept << Thread.new { Thread.current.name = "t#{n}"; [n] }.value << Fiber.new { [n] }.resume << (raise "e#{n}" rescue $!) << [1, 2].product([n])
    eval("def small_#{n} = Object.new", nil, "small#{n}.rb")
    kept << send("small_#{n}")
    kept.delete_if.with_index { |_, i| i % 3 == 0 }
    200.times { |i| "garbage #{i}" }
    GC.start if n % 7 == 0
  end
end
def deep(n) = n == 0 ? [n] : deep(n - 1)

[{}, { sample_rate: 0.1 }, { max_depth: 5, max_stacks: 40, max_tracked_objects: 2000, journal_bytes: 131_072 }, { sample_rate: 0.02 }].each_with_index do |options, n|
  MppRecorder.start(path: "#{log}#{n}", **options)
  work.call(20)
  deep(30)
  MppRecorder.mark("m", measure: true)
  MppRecorder.stats
  GC.compact
  work.call(10)
  kept.clear if n.odd?
  GC.start
  MppRecorder.flush
  if n == 0
    Process.wait(fork { work.call(3); MppRecorder.mark("child") })
    Process.wait(fork { exit! })
  end
  MppRecorder.mark("x" * 70_000)
  MppRecorder.stop
end
begin
  MppRecorder.start(path: "/no/such/directory/x")
rescue MppRecorder::Error
  nil
end
MppRecorder.start(path: "#{log}4")
work.call(5)
puts "done"
