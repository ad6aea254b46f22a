# frozen_string_literal: true

# Records every allocation, free and size change of this process's Ruby heap into a log, which `mppanalyze` reads.
#
#   require "mpp_recorder"
#   MppRecorder.start(path: "app.mpp")
#   MppRecorder.mark("warm")
#   MppRecorder.stop
#
# `start`, `stop`, `running?`, `mark`, `flush` and `stats` are the C extension's.
require_relative "mpp_recorder/version"
require_relative "mpp_recorder/locate"
MppRecorder::Locate.load_extension

module MppRecorder
  # Records while the block runs, and returns its value. Options are those of `start`.
  def self.record(path:, **options)
    start(path: path, **options)
    begin
      yield
    ensure
      stop if running?
    end
  end
end
