# frozen_string_literal: true

module MppRecorder
  # Names of routes for requests, each the same String every time, out of tables of limited size: the log keeps every label for ever,
  # and whoever sends requests chooses their paths.
  class Routes
    GIVEN = "mpp.route" # in the env, by a router before us
    NAMES_LIMIT = 1000
    PATHS_LIMIT = 4000
    NAME_BYTES = 200
    OTHER = "(other)"

    # A segment that names one thing among many: a number, a UUID, or a hexadecimal id (eight digits and more, one of them a decimal).
    ID = %r{(?<=/)(?:\d+|\h{8}-\h{4}-\h{4}-\h{4}-\h{12}|(?=\h*\d)\h{8,})(?=[/.]|\z)}n

    def initialize(custom = nil)
      @custom = custom
      @names = {}
      @paths = {}
      @path_count = 0
    end

    # nil when the request is to have no label. A path that was seen lately allocates nothing.
    def of(env)
      given = env[GIVEN]
      return intern(given) if given
      return @custom.call(env)&.then { |name| intern(name) } if @custom

      method = env["REQUEST_METHOD"]
      path = env["PATH_INFO"]
      @paths.dig(method, path) || remember(method, path)
    end

    private

    def remember(method, path)
      name = intern("#{method} #{path.to_s.b.gsub(ID, ":id")}")
      return name if path.to_s.bytesize > NAME_BYTES

      if @path_count >= PATHS_LIMIT
        @paths = {} # anew rather than cleared: another thread may be reading it
        @path_count = 0
      end
      @path_count += 1
      (@paths[method] ||= {})[path] = name
    end

    # The label for this name: a String of ours, text, and not too long. Beyond the limit all new ones are one.
    def intern(name)
      @names[name] || begin
        label = name.to_s.byteslice(0, NAME_BYTES).force_encoding(Encoding::UTF_8).scrub.freeze
        known = @names[label]
        return known if known
        return OTHER if @names.size >= NAMES_LIMIT

        @names[label] = label
      end
    end
  end
end
