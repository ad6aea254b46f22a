# frozen_string_literal: true

# Loaded by tests/run.rb before a minitest file: a test that hangs fails with the place where it hung, and the rest of its file runs on.
require "minitest"
require "timeout"

module EachTestTimeout
  Hung = Class.new(StandardError)
  SECONDS = Integer(ENV.fetch("MPP_TEST_TIMEOUT", "120"))

  # Minitest calls this around the test with its setup, and around each teardown, and turns what rises inside into an error.
  def capture_exceptions(&block)
    super { Timeout.timeout(SECONDS, Hung, "took more than #{SECONDS} s", &block) }
  end
end

Minitest::Test.prepend(EachTestTimeout)
