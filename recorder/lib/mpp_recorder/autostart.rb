# frozen_string_literal: true

# Starts the recording in every Ruby that `mpprecord` runs: RUBYOPT names this file. Whatever goes wrong here, the program goes on:
# each error becomes one line on stderr. This runs before the program, so it loads nothing of Ruby's library (but control.rb does,
# when it is asked for) and leaves nothing but MppRecorder behind (and not even that without the extension, so that
# `defined?(MppRecorder)` means that it can be called). Its syntax is that of old Rubies on purpose: a child may be any Ruby.
begin
  # Not `require`: a later `require "mpp_recorder"` must find it not loaded yet. It may be there: Ruby does `ruby -rmpp_recorder`
  # before what RUBYOPT says.
  locate_is_ours = !defined?(MppRecorder::Locate)
  load File.join(__dir__, "locate.rb") if locate_is_ours
  # `mpprecord` runs under the Ruby that installed it, so it can tell for which one the gem's extension was built.
  MppRecorder::Locate.load_extension(:installed_for => ENV["MPP_ABI"])
  load File.join(__dir__, "log_name.rb")
  # For a program that says `require "mpp_recorder"` to set marks: behind all else, so that a gem of that name comes first.
  lib = File.expand_path("..", __dir__)
  $LOAD_PATH << lib unless $LOAD_PATH.include?(lib)

  text = lambda { |name| ENV[name] unless ENV[name].to_s.empty? }
  path = text.call("MPP_PATH")
  raise ArgumentError, "MPP_PATH is not set" unless path

  options = { :path => path, :on_exists => :next_free }
  options[:sample_rate] = Float(text.call("MPP_SAMPLE_RATE")) if text.call("MPP_SAMPLE_RATE")
  { :max_depth => "MPP_MAX_DEPTH", :max_stacks => "MPP_MAX_STACKS", :max_tracked_objects => "MPP_MAX_TRACKED",
    :journal_bytes => "MPP_JOURNAL_BYTES" }.each do |option, name|
    options[option] = Integer(text.call(name), 10) if text.call(name)
  end
  { :max_log_bytes => "MPP_MAX_LOG_BYTES", :mark_at_rss => "MPP_MARK_AT_RSS" }.each do |option, name|
    options[option] = text.call(name) if text.call(name) # "500MB": the extension knows the units
  end
  options[:baseline] = true if text.call("MPP_BASELINE")

  if text.call("MPP_CONTROL") || text.call("MPP_PAUSED") || text.call("MPP_SIGNAL")
    load File.join(__dir__, "control.rb")
    MppRecorder::Control.open(options, :socket => text.call("MPP_CONTROL") || text.call("MPP_PAUSED"), :signal => text.call("MPP_SIGNAL"))
  end
  MppRecorder.start(**options) unless MppRecorder.running? || text.call("MPP_PAUSED")
rescue Exception => error # rubocop:disable Lint/RescueException -- LoadError and ScriptError are no StandardError
  raise if error.is_a?(SignalException) || error.is_a?(SystemExit)

  if ENV["MPP_QUIET"].to_s.empty?
    why = error.message.to_s.lines.first.to_s.chomp
    why = error.class.name if why.empty?
    begin
      $stderr.write("mpprecord: recording is off: #{why}\n")
    rescue StandardError
      nil # stderr is closed: there is nobody to tell
    end
  end
ensure
  if defined?(MppRecorder)
    MppRecorder.send(:remove_const, :Locate) if locate_is_ours && MppRecorder.const_defined?(:Locate, false)
    Object.send(:remove_const, :MppRecorder) unless MppRecorder.respond_to?(:start)
  end
end
