# frozen_string_literal: true

require_relative "records"

module MppOracle
  Frame = Struct.new(:function, :path, :line, :native)
  Site = Struct.new(:id, :stack, :class_id, :type, :thread_id, :birth_bytes)

  # All definitions of a log (FORMAT.md §5), gathered before anything is replayed: they hold for all of it.
  class Definitions < Records::Handler
    TYPES = { 0 => "UNKNOWN", 1 => "OBJECT", 2 => "CLASS", 3 => "MODULE", 4 => "FLOAT", 5 => "STRING", 6 => "REGEXP", 7 => "ARRAY", 8 => "HASH", 9 => "STRUCT",
              10 => "BIGNUM", 11 => "FILE", 12 => "DATA", 13 => "MATCH", 14 => "COMPLEX", 15 => "RATIONAL", 20 => "SYMBOL", 26 => "IMEMO",
              27 => "NODE", 28 => "ICLASS" }.freeze
    UNRESOLVED = "[unresolved]"
    # The class of a site that is not defined; no id of a log is negative.
    UNDEFINED = -1

    attr_reader :malformed, :stacks, :sites, :functions, :classes, :threads

    def initialize(log)
      super()
      @strings = {}
      @stacks = {}
      @sites = {}
      @functions = {}
      @classes = {}
      @threads = {}
      @frames = { 0 => [].freeze }
      @malformed = []
      log.history.each { |payload| Records.new(payload).each(self) }
      log.definitions.each { |payload| read_definitions(payload) }
    end

    def string(_time, id, bytes) = @strings[id] ||= Log.text(bytes)
    def stack(_time, id, parent, function, line) = @stacks[id] ||= [parent, function, line]
    def site(_time, id, *rest) = @sites[id] ||= Site.new(id, *rest)
    def function_name(_time, id, label, path, line, flags) = @functions[id] = [label, path, line, flags]
    def class_name(_time, id, name, flags) = @classes[id] = [name, flags]
    def thread_name(_time, id, name) = @threads[id] = name

    def site_of(id)
      @sites[id] || Site.new(id, 0, UNDEFINED, 0, UNDEFINED, 0)
    end

    def text_of(string_id)
      @strings[string_id] || UNRESOLVED
    end

    def class_name_of(class_id, type)
      return "(internal #{type_name_of(type)})" if class_id.zero?

      @classes[class_id] ? text_of(@classes[class_id][0]) : UNRESOLVED
    end

    def thread_name_of(thread_id)
      @threads[thread_id] ? text_of(@threads[thread_id]) : UNRESOLVED
    end

    def type_name_of(type)
      TYPES[type] || type.to_s
    end

    # The backtrace, leaf first.
    def frames_of(stack_id)
      @frames[stack_id] ||= begin
        frames = []
        while (node = @stacks[stack_id])
          frames << frame(node[1], node[2])
          stack_id = node[0]
        end
        frames.freeze
      end
    end

    private

    def read_definitions(payload)
      decoder = Records.new(payload)
      decoder.each(self)
      @malformed << [payload.offset, decoder.malformed_at] if decoder.malformed_at
    end

    def frame(function_id, line)
      label, path, _first_line, flags = @functions[function_id]
      return Frame.new(UNRESOLVED, "", line, false) unless label

      Frame.new(text_of(label), @strings[path] || "", line, flags.odd?)
    end
  end
end
