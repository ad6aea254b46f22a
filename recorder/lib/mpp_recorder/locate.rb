# frozen_string_literal: true

module MppRecorder
  # Finds and loads the C extension. Shared by `require "mpp_recorder"` and by the stub that `mpprecord` puts into every
  # Ruby of a process tree: so it must work in any Ruby (with another ABI, without RubyGems), load nothing, and be silent.
  module Locate
    LIB = File.expand_path("..", __dir__)
    NAME = "mpp_recorder"

    module_function

    # Loads the extension unless it is there already: a second copy under another path would have a state of its own.
    # `installed_for` is the ABI that a gem's extension was built for, when the caller knows it.
    # Raises LoadError with the reason, in words for the user.
    def load_extension(installed_for: nil)
      return if MppRecorder.respond_to?(:start)

      unless RUBY_ENGINE == "ruby"
        raise LoadError, "this is #{RUBY_ENGINE} #{RUBY_ENGINE_VERSION}, and only CRuby can be recorded"
      end

      path = built || installed(installed_for)
      raise LoadError, "the extension is not built for #{human(abi)} (make recorder RUBY=...)" unless path

      require path
    end

    # `RbConfig` says it exactly; without RubyGems it is not loaded, and loading it would leave a constant behind.
    def abi
      return "#{RbConfig::CONFIG["ruby_version"]}-#{RbConfig::CONFIG["arch"]}" if defined?(RbConfig)

      "#{RUBY_VERSION[/\A\d+\.\d+/]}.0-#{RUBY_PLATFORM}"
    end

    def human(abi)
      version, arch = abi.split("-", 2)
      "Ruby #{version} (#{arch})"
    end

    # From a checkout: the directory's name is the ABI. MPP_BUILD is where `make BUILD=...` was told to build.
    def built
      build = ENV["MPP_BUILD"].to_s.empty? ? File.join(LIB, "..", "..", "build") : ENV["MPP_BUILD"]
      path = File.join(build, "recorder", abi, "#{NAME}.so")
      File.realpath(path) if File.file?(path)
    end

    # From a gem: RubyGems copies the extension into the library, and nothing in the file says for which Ruby it was built.
    # Loaded into another one it would bring in a second libruby and crash the program.
    def installed(built_for)
      path = [File.join(LIB, NAME, "#{NAME}.so"), File.join(LIB, "#{NAME}.so")].find { |so| File.file?(so) }
      return unless path
      return path if built_for.nil? || built_for.empty? || built_for == abi

      raise LoadError, "the extension is built for #{human(built_for)}, this is #{human(abi)}"
    end
  end
end
