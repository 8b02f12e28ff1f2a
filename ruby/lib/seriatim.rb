# frozen_string_literal: true

# Background jobs in order, per id, folded, on Redis.
#
#   module OrderWorker
#     extend Seriatim::Worker
#
#     def self.perform(payloads_by_id) = payloads_by_id.each { |id, payloads| ... }
#   end
#
#   OrderWorker.perform_async([{ id: 1, payload: { status: "paid" } }])
module Seriatim
end

require "seriatim/version"
require "seriatim/errors"
begin
  require "seriatim/seriatim_native"
rescue LoadError => e
  raise unless e.path == "seriatim/seriatim_native" # it is there, but what it is linked to is not: the message names it

  raise LoadError, "#{e.message}: the C extension of seriatim is not compiled. In a checkout, or for a gem by `path:`, run " \
                   "`rake compile` in #{File.expand_path("../..", __dir__)}; or install the gem: " \
                   "gem build seriatim.gemspec && gem install ./seriatim-*.gem"
end
# Before the other files, which ask the extension already while they are loaded.
unless Seriatim.module_eval { const_get(:Native).version } == Seriatim::VERSION
  raise LoadError, "seriatim #{Seriatim::VERSION} was loaded with the extension of another version; compile it again"
end

require "seriatim/client/validate"
require "seriatim/client/interrupts"
require "seriatim/log"
require "seriatim/notifications"
require "seriatim/client/redis_url"
require "seriatim/client/private_redis"
require "seriatim/client/connection"
require "seriatim/client/pool"
require "seriatim/settings"
require "seriatim/client/codec"
require "seriatim/client/middlewares"
require "seriatim/client/jobs"
require "seriatim/client/stored_error"
require "seriatim/client/push_outcome"
require "seriatim/client/kept_jobs"
require "seriatim/client/pipeline"
require "seriatim/client/push"
require "seriatim/client/queries"
require "seriatim/client/actions"
require "seriatim/client/metrics"
require "seriatim/client/node_commands"
require "seriatim/client/queue"
require "seriatim/client/ick"
require "seriatim/after_commit"
require "seriatim/worker"
require "seriatim/client/delivery"
require "seriatim/client/pop"
require "seriatim/server/splitters"
require "seriatim/server/schedulers"
require "seriatim/server/batch"
require "seriatim/server/execution"
require "seriatim/server/workers"
require "seriatim/server"
require "seriatim/events"
require "seriatim/fenced"

module Seriatim
  extend Settings
  extend Splitters::Builders
  extend Schedulers::Builders
  extend NodeCommands
  extend Pull
  extend EventsBuilder
  extend Fenced

  def self.connections_changed = Pool.reset
  private_class_method :connections_changed

  # Chooses how jobs are handled in tests, without Redis. With a block: in this thread until the block ends, with queues of its own; blocks may
  # be nested, and the innermost counts. Without a block: in all threads, until it is called again.
  # @param mode [Symbol] :fake keeps pushes in memory, until the test runs them (`OrderWorker.drain`); :inline runs each push at once;
  #   :disable uses Redis
  def self.testing!(mode, &block)
    require "seriatim/testing"
    Testing.start(mode, &block)
  end

  # Loads Seriatim::ActiveJob where it is named first, as in an initializer of Rails. An autoload would be in
  # the way of those who require it by its file, as the adapter does.
  # @api private
  def self.const_missing(name)
    return super unless name == :ActiveJob

    require "active_job"
    ::ActiveJob.const_get(:Base) # first: its load hooks need all of Seriatim::ActiveJob
    require "seriatim/active_job"
    const_get(name)
  end

  reset_settings
end

Seriatim.autoload :Web, "seriatim/web"
Seriatim.autoload :CurrentAttributes, "seriatim/rails/current_attributes"
Seriatim.autoload :Outbox, "seriatim/outbox" # needs ActiveRecord
require "seriatim/rails" if defined?(Rails::Railtie)
