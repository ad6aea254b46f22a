# frozen_string_literal: true

module MppRecorder
  VERSION = "0.1.0" unless const_defined?(:VERSION, false)
end
