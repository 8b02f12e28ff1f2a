# frozen_string_literal: true

# The web application of the crash kit below `seriatim web -r`: everyone may consume.
require "seriatim/web"

Seriatim::Web.configure { |web| web.consume = true }
