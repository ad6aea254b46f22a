# Lexes a Ruby file (argument 1), as often as argument 2 says, and prints what came out. Run by recorder_programs_test.rb.
require "rouge"

text = File.read(ARGV[0])
tokens = nil
Integer(ARGV[1] || 1).times { tokens = Rouge::Lexers::Ruby.new.lex(text).to_a }
puts tokens.size
tokens.group_by { |type, _| type.qualname }.sort.each { |name, list| puts "#{name} #{list.size} #{list.sum { |_, part| part.bytesize }}" }
