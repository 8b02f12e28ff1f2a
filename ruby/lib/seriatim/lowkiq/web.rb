# frozen_string_literal: true

module Lowkiq
  # The dashboard and the JSON API.
  Web = Seriatim::Web
end
