# Converts an AsciiDoc document (argument 1) and prints what came out. Run by recorder_programs_test.rb.
require "asciidoctor"
require "digest"

text = File.read(ARGV[0], encoding: "UTF-8")
html = Asciidoctor.convert(text, safe: :safe, standalone: true, attributes: { "reproducible" => "" })
puts html.bytesize, Digest::SHA256.hexdigest(html)
warn "converted #{File.basename(ARGV[0])}"
exit 7
