# frozen_string_literal: true

module Seriatim
  # Finds the URL of Redis: Seriatim.redis, then SERIATIM_REDIS_URL, then the variable that REDIS_PROVIDER names, then
  # REDIS_URL, then a private one.
  module RedisUrl
    module_function

    # @return [String]
    def resolve
      configured || ENV[variable.to_s] || PrivateRedis.url
    end

    # @return [Boolean] nothing names a Redis, so a private one would be used
    def none? = named_by.nil?

    # @return [String, nil] the setting or the variable that holds the URL; nil: none does
    def named_by = Seriatim.redis.nil? ? variable : "Seriatim.redis"

    def configured
      url = Seriatim.redis
      url = url.call if url.respond_to?(:call)
      return if url.nil? && Seriatim.redis.nil?

      url.is_a?(String) && !url.empty? ? url : Validate.refuse("redis", "a URL, or a callable that gives one", url)
    end

    def variable
      names = ["SERIATIM_REDIS_URL", ENV.fetch("REDIS_PROVIDER", nil), "REDIS_URL"]
      names.compact.find { |name| !ENV.fetch(name, "").empty? }
    end
  end
  private_constant :RedisUrl

  # @return [String] the URL of the Redis in use; starts the private one if there is no other
  def self.redis_url = RedisUrl.resolve
end
