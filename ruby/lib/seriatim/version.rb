# frozen_string_literal: true

module Seriatim
  VERSION = "0.1.0"
end
