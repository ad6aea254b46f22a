# frozen_string_literal: true

# Records every allocation, free and size change of this process's Ruby heap into a log, which `mppanalyze` reads.
#
#   require "mpp_recorder"
#   MppRecorder.start(path: "app-%p.mpp")   # %p pid, %t time in UTC, %h host, %% a percent sign
#   MppRecorder.mark("warm")
#   MppRecorder.stop
#
# The methods are the C extension's (recorder/ext/mpp_recorder/api.c); here is what is better said in Ruby.
require_relative "mpp_recorder/version"
require_relative "mpp_recorder/locate"
MppRecorder::Locate.load_extension
require_relative "mpp_recorder/log_name"

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

require_relative "mpp_recorder/railtie" if defined?(Rails::Railtie)
