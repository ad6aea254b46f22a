# frozen_string_literal: true

# The oracle: a second reader and a naive replayer of mpp logs, written from formats/FORMAT.md and docs/REPORTS.md alone.
# Clear before fast. The tests hold it against mppanalyze: where they differ, the pages decide who is wrong.
#
#   native.rb       libxxhash, libzstd, CRC-32C
#   log.rb          the file: header, blocks, journal, footer, damage      (FORMAT.md §1, §2, §3, §6)
#   records.rb      bytes to records                                       (§4)
#   definitions.rb  names, stacks, sites                                   (§5)
#   replay.rb       records to counters and live objects                   (§7)
#   moment.rb       TIME to position                                       (REPORTS.md)
#   report.rb       the reports                                            (REPORTS.md)
require_relative "report"
