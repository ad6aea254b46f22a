# frozen_string_literal: true

require "rails/railtie"

module MppRecorder
  # Records a Rails application from the moment when it is initialized, if it is asked to:
  #
  #   config.mpp_recorder.path = "log/heap-%p.mpp"   # below Rails.root; or MPP_RECORD=heap.mpp in the environment, which wins
  #   config.mpp_recorder.sample_rate = 0.01         # and the other options of MppRecorder.start
  #   config.mpp_recorder.label = true               # inserts MppRecorder::Rack before all other middlewares,
  #   config.mpp_recorder.mark_every = 1000          # with these options of its own
  #
  # Without a path it does nothing, but that a middleware that was asked for stands there under `mpprecord`, too.
  # Processes that a server forks after that (Puma's cluster with preload_app!) write logs of their own without more ado; where each
  # boots the application itself, each takes a free name: heap.mpp, heap.PID.mpp.
  class Railtie < ::Rails::Railtie
    OPTIONS_OF_OURS = %i[path label mark_every].freeze

    config.mpp_recorder = ActiveSupport::OrderedOptions.new

    class << self
      # The path that was asked for, absolute, or nil.
      def path_for(options, env = ENV)
        asked = env["MPP_RECORD"].to_s
        return File.expand_path(asked) unless asked.empty?

        path = options.path
        File.expand_path(path.to_s, ::Rails.root || Dir.pwd) unless path.nil? || path.to_s.empty?
      end

      # `mpprecord` records this process, or will when it is told to.
      def under_mpprecord?
        MppRecorder.running? || !ENV["MPP_PATH"].to_s.empty?
      end

      def start(options)
        path = path_for(options)
        return if path.nil? || under_mpprecord?

        MppRecorder.start(path: path, on_exists: :next_free, **options.to_h.except(*OPTIONS_OF_OURS))
        ::Rails.logger&.info("mpp_recorder: recording to #{MppRecorder.path}")
      rescue MppRecorder::Error => e
        # The application is worth more than its recording. (A wrong option is an ArgumentError, and seen at once.)
        warn "mpp_recorder: recording is off: #{e.message}"
      end
    end

    initializer "mpp_recorder.middleware" do |app|
      options = app.config.mpp_recorder
      wanted = { label: options.label, mark_every: options.mark_every }.select { |_, value| value }
      if wanted.any? && (Railtie.path_for(options) || Railtie.under_mpprecord?)
        require "mpp_recorder/rack"
        app.config.middleware.insert_before(0, MppRecorder::Rack, **wanted)
      end
    end

    config.after_initialize { |app| Railtie.start(app.config.mpp_recorder) }
  end
end
