# frozen_string_literal: true

# Lets an application that was written for the gem lowkiq run on Seriatim: `gem "seriatim", require: "seriatim/lowkiq"` in place of
# `gem "lowkiq"`. The page docs/guides/from-lowkiq.md says what differs.

if defined?(Lowkiq)
  raise LoadError, "seriatim/lowkiq defines the module Lowkiq, which the gem lowkiq has defined already: take the gem lowkiq out of the Gemfile"
end

require "seriatim"
require "seriatim/lowkiq/redis_client"
require "seriatim/lowkiq/accessors"
require "seriatim/lowkiq/worker"

# The names of the gem lowkiq.
module Lowkiq
  extend Accessors
  autoload :Queue, "seriatim/lowkiq/queue"
  autoload :Web, "seriatim/lowkiq/web"
end

# `require "lowkiq"` of the application finds this as loaded, and so never loads the gem over it.
$LOADED_FEATURES << "lowkiq.rb"
