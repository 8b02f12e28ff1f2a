# frozen_string_literal: true

module Seriatim
  class CLI
    STOPPED, CRASHED, USAGE, NO_REDIS = 0, 1, 2, 3
  end
end
