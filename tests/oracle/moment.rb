# frozen_string_literal: true

require_relative "replay"
require "time"

module MppOracle
  # Finds the position that a TIME of docs/REPORTS.md means, from the facts that a first replay has gathered.
  class Moments
    UNITS = { "h" => 3600, "m" => 60, "s" => 1, "ms" => Rational(1, 1000) }.freeze
    NUMBER = /\d+(?:\.\d+)?/
    DURATION = /\A(?:#{NUMBER}(?:ms|h|m|s))+\z/
    DAY_NS = 86_400 * 1_000_000_000

    attr_reader :end_ns

    def initialize(log, facts, end_ns)
      @facts = facts
      @clocks = [[0, log.fields[:start_unix_ns] || 0]] + facts.clocks
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
      when /\A-(.+)\z/ then @end_ns - (duration(Regexp.last_match(1)) * 1_000_000_000).floor
      when /\A(#{NUMBER})%\z/o then percentage(number(Regexp.last_match(1)))
      when /\A@(#{NUMBER})\z/o then wall((number(Regexp.last_match(1)) * 1_000_000_000).floor)
      when /\A(\d\d):(\d\d)(?::(\d\d)(\.\d+)?)?\z/ then clock(*Regexp.last_match.captures)
      when /\A\d{4}-/ then wall(rfc3339(spec))
      else (duration(spec) * 1_000_000_000).floor
      end
    end

    def percentage(number)
      (@end_ns * number / 100).floor
    end

    def duration(text)
      return number(text) if text.match?(/\A#{NUMBER}\z/o)
      raise Refused, "no time: #{text}" unless text.match?(DURATION)

      text.scan(/(#{NUMBER})(ms|h|m|s)/o).sum { |amount, unit| number(amount) * UNITS.fetch(unit) }
    end

    # Decimals beyond the ninth are ignored.
    def number(text)
      whole, decimals = text.split(".")
      whole.to_i + Rational(decimals.to_s[0, 9].ljust(9, "0").to_i, 1_000_000_000)
    end

    def rfc3339(spec)
      spec =~ /\A\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(?:\.\d+)?(?:[Zz]|[+-]\d\d:\d\d)\z/ or raise Refused, "no time: #{spec}"
      (Time.iso8601(spec.tr(" ", "T")).to_r * 1_000_000_000).floor
    rescue ArgumentError
      raise Refused, "no time: #{spec}"
    end

    # The times at which the wall clock said so. It runs from one CLOCK record to the next; one that it jumped over is the moment before the jump.
    def walls(unix_ns)
      found = []
      @clocks.each_with_index do |(time, clock), index|
        passed, jumped_to = @clocks[index + 1]
        moment = time + unix_ns - clock
        if passed.nil?
          found << moment if moment >= time || index.zero?
        elsif moment >= time || index.zero?
          if moment < passed then found << moment
          elsif unix_ns < jumped_to then found << passed - 1
          end
        end
      end
      found
    end

    def wall(unix_ns)
      one_of(walls(unix_ns))
    end

    def one_of(found)
      found = found.uniq.select { |moment| moment.between?(0, @end_ns) }
      raise Refused, "the log spans no such moment" if found.empty?
      raise Refused, "the log spans several such moments" if found.size > 1

      found[0]
    end

    def clock(hours, minutes, seconds, fraction)
      raise Refused, "no clock time" if hours.to_i > 23 || minutes.to_i > 59 || seconds.to_i > 59

      of_day = ((hours.to_i * 3600 + minutes.to_i * 60 + seconds.to_i + "0#{fraction}".to_r) * 1_000_000_000).floor - @utc_offset_s * 1_000_000_000
      one_of(days.flat_map { |day| walls(of_day + day * DAY_NS) })
    end

    # The days (UTC) that some part of the log may lie in.
    def days
      @clocks.each_with_index.flat_map do |(time, clock), index|
        last = clock + (@clocks[index + 1]&.first || @end_ns) - time
        [*(clock / DAY_NS - 2..last / DAY_NS + 2)]
      end.uniq
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
