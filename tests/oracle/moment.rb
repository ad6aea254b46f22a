# frozen_string_literal: true

require_relative "replay"
require "time"

module MppOracle
  # Finds the position that a TIME of docs/REPORTS.md means, from the facts that a first replay has gathered.
  class Moments
    UNITS = { "h" => 3600, "m" => 60, "s" => 1, "ms" => Rational(1, 1000), "us" => Rational(1, 1_000_000), "ns" => Rational(1, 1_000_000_000) }.freeze
    NUMBER = /\d+(?:\.\d+)?/
    DURATION = /\A(?:#{NUMBER}(?:ms|us|ns|h|m|s))+\z/
    DAY_NS = 86_400 * 1_000_000_000

    attr_reader :end_ns

    def initialize(log, facts, end_ns)
      @facts = facts
      @start_unix_ns = log.fields[:start_unix_ns]
      @utc_offset_s = log.fields[:utc_offset_s] || 0
      @end_ns = end_ns
    end

    def position(spec)
      case spec
      when "start" then 0
      when "end" then @facts.position
      when "peak" then @facts.peak[:position]
      when /\Amark:(.*)\z/m then mark(Regexp.last_match(1))
      when /\Agc:(\d+)\z/ then gc(Regexp.last_match(1).to_i)
      else position_at(nanoseconds(spec))
      end
    end

    def time_of(position)
      return 0 if position.zero?

      step = @facts.steps.bsearch_index { |before, _| before >= position } || @facts.steps.size
      step.zero? ? 0 : @facts.steps[step - 1][1]
    end

    # After the last record whose time is ≤ ns.
    def position_at(ns)
      raise Refused, "time #{ns} is outside of the log, which spans 0 to #{@end_ns}" if ns.negative? || ns > @end_ns

      step = @facts.steps.bsearch { |_, time| time > ns }
      step ? step[0] : @facts.position
    end

    private

    def nanoseconds(spec)
      case spec
      when /\A-(.+)\z/ then @end_ns - (duration(Regexp.last_match(1)) * 1_000_000_000).ceil
      when /\A(#{NUMBER})%\z/o then (@end_ns * Regexp.last_match(1).to_r / 100).floor
      when /\A@(#{NUMBER})\z/o then wall((Regexp.last_match(1).to_r * 1_000_000_000).floor)
      when /\A(\d\d):(\d\d)(?::(\d\d)(\.\d+)?)?\z/ then clock(*Regexp.last_match.captures)
      when /\A\d{4}-/ then wall(rfc3339(spec))
      else (duration(spec) * 1_000_000_000).floor
      end
    end

    def duration(text)
      return text.to_r if text.match?(/\A#{NUMBER}\z/o)
      raise Refused, "no time: #{text}" unless text.match?(DURATION)

      text.scan(/(#{NUMBER})(ms|us|ns|h|m|s)/o).sum { |number, unit| number.to_r * UNITS.fetch(unit) }
    end

    def rfc3339(spec)
      spec =~ /\A\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(?:\.\d+)?(?:[Zz]|[+-]\d\d:\d\d)\z/ or raise Refused, "no time: #{spec}"
      (Time.iso8601(spec.tr(" ", "T")).to_r * 1_000_000_000).floor
    rescue ArgumentError
      raise Refused, "no time: #{spec}"
    end

    def wall(unix_ns)
      raise Refused, "the log does not say when it started" unless @start_unix_ns

      unix_ns - @start_unix_ns
    end

    def clock(hours, minutes, seconds, fraction)
      raise Refused, "no clock time" if hours.to_i > 23 || minutes.to_i > 59 || seconds.to_i > 59

      of_day = ((hours.to_i * 3600 + minutes.to_i * 60 + seconds.to_i + "0#{fraction}".to_r) * 1_000_000_000).floor
      local_start = wall(0) * -1 + @utc_offset_s * 1_000_000_000
      first = (of_day - local_start) % DAY_NS
      candidates = first.step(@end_ns, DAY_NS).first(2)
      raise Refused, "no such clock time in the log" if candidates.empty?
      raise Refused, "several such clock times in the log" if candidates.size > 1

      candidates[0]
    end

    def mark(name)
      name, number = Regexp.last_match(1), Regexp.last_match(2).to_i if name =~ /\A(.*)#(\d+)\z/m
      found = @facts.marks.select { |mark| mark[0] == name }
      raise Refused, "marks are counted from 1" if number&.zero?

      mark = found[(number || 1) - 1] or raise Refused, "no such mark: #{name}"
      mark[1]
    end

    def gc(count)
      found = @facts.gc_ends.find { |_, gc_count| gc_count == count } or raise Refused, "no such GC: #{count}"
      found[0]
    end
  end
end
