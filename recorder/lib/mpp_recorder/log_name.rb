# frozen_string_literal: true

module MppRecorder
  # Names of logs with a sign for what differs between processes: %p pid, %t start in UTC (20261201T140305Z), %h host, %% a percent
  # sign. Expanded by the process that writes the log, when it starts to. Loads nothing, since `mpprecord`'s stub loads this into
  # every Ruby of a process tree.
  unless const_defined?(:LogName, false)
    module LogName
      SIGNS = {
        "%p" => -> { Process.pid.to_s },
        "%t" => -> { Time.now.utc.strftime("%Y%m%dT%H%M%SZ") },
        "%h" => -> { host },
        "%%" => -> { "%" }
      }.freeze
      SIGN = /%.?/n

      module_function

      # Raises ArgumentError for a sign that is none of the four, so that a typing error does not become a file's name.
      def expand(name)
        return name unless name.include?("%")

        # (bytes: a name need not be text in its encoding)
        name.b.gsub(SIGN) { |sign| SIGNS.fetch(sign) { unknown(sign) }.call.b }.force_encoding(name.encoding)
      end

      # Whether the name is another one in each process, or each time.
      def varies?(name)
        name.b.scan(SIGN).any? { |sign| %w[%p %t].include?(sign) }
      end

      def unknown(sign)
        raise ArgumentError, "'#{sign}' in the log's name is not one of %p (pid), %t (time), %h (host), %% (a percent sign)"
      end

      def host
        File.read("/proc/sys/kernel/hostname").chomp.tr("/", "_")
      rescue SystemCallError
        require "etc"
        Etc.uname.fetch(:nodename).tr("/", "_")
      end

      # Stands before the extension's own `start`.
      module Start
        def start(**options)
          path = options[:path]
          path = path.to_path if path.respond_to?(:to_path)
          options[:path] = LogName.expand(path) if path.is_a?(String)
          super(**options)
        end
      end
    end

    singleton_class.prepend(LogName::Start)
  end
end
