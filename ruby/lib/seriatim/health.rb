# frozen_string_literal: true

require "seriatim/raw_redis"

module Seriatim
  # Whether Redis is set up to keep jobs. Only ever warns.
  # @api private
  module Health
    module_function

    def check(url)
      RawRedis.open(url) do |redis|
        policy = setting(redis, "maxmemory-policy")
        appendonly = setting(redis, "appendonly")
        warn "maxmemory-policy is #{policy}: Redis may throw jobs away; set it to noeviction" unless policy == "noeviction"
        warn "appendonly is no: what Redis has not saved is lost when it stops; set it to yes" if appendonly == "no"
      end
    rescue RawRedis::Refused
      warn "Redis forbids CONFIG GET, so maxmemory-policy and appendonly cannot be checked"
    rescue StandardError => e
      warn "maxmemory-policy and appendonly cannot be checked: #{Log.describe(e)}"
    end

    def setting(redis, name) = redis.call("CONFIG", "GET", name)&.last

    def warn(text) = Log.warn("redis", text)
  end
  private_constant :Health
end
