# frozen_string_literal: true

module Seriatim
  # A setting, a job or a payload is invalid. The message names the field and the rule; nothing was written. The same call fails
  # again, so retrying cannot help: that is why it is an ArgumentError and not an {Error}.
  class Invalid < ArgumentError; end

  # A failure at run time, of the network or of Redis: the same call may succeed later.
  class Error < StandardError; end

  # There is no connection to Redis, or it broke.
  class ConnectionError < Error; end
  # Redis did not answer in time.
  class TimeoutError < ConnectionError; end
  # All connections were busy for pool_timeout seconds.
  class PoolTimeout < Error; end
  # A push was sent and no answer came within push_timeout: the message names the chunks that may have been written.
  class OutcomeUnknown < Error; end
  # The push is written, all of it, but fewer replicas than wait_replicas said in wait_timeout that they have it.
  class NotReplicated < Error
    # @return [PushResult] what the push did
    attr_reader :result

    def initialize(message, result = nil)
      super(message)
      @result = result
    end
  end
  # A result came too late: another node has taken the lease under which the jobs ran, or the time of a popped id is over and somebody
  # else may run it. Nothing was changed.
  class Stale < Error; end
  # Redis is at its maxmemory and refuses writes.
  class RedisFull < Error; end
  # The queue was deleted, made anew or resharded since this process read its layout.
  class GenerationChanged < Error; end
  # Redis is a read-only replica.
  class ReadOnly < Error; end
  # Redis is still loading its data.
  class NotReady < Error; end
  # Redis refused user or password.
  class AuthError < Error; end
  # Redis refused for another reason; the message holds Redis' own words.
  class RedisError < Error; end
  # This build cannot do it (rediss:// without OpenSSL, for one).
  class Unsupported < Error; end
  # Used after it was closed, or in another process than the one that made it.
  class Closed < Error; end
  # A payload that its worker's codec cannot read.
  class Undecodable < Error; end

  # A mistake that ends the command with exit code 2.
  class UsageError < Invalid; end

  # The application that the command loads is wrong, not the command line. The message begins with the file and the line where
  # there is one, and the cause is what the application raised.
  # @api private
  class ApplicationError < UsageError; end

  # Stored as the error of a job that ended its own thread.
  class ThreadEnded < Error
    def initialize(message = "the job ended its thread") = super
  end

  # The C glue; everything public lies above it.
  module Native
    CLASSES = {
      INVALID: Invalid, IO: ConnectionError, PROTOCOL: ConnectionError, TIMEOUT: TimeoutError,
      UNKNOWN_OUTCOME: OutcomeUnknown, STALE: Stale, FULL: RedisFull, GENERATION: GenerationChanged,
      READONLY: ReadOnly, LOADING: NotReady, AUTH: AuthError, SERVER: RedisError, UNSUPPORTED: Unsupported,
      CLOSED: Closed, NOMEM: NoMemoryError, UNDECODABLE: Undecodable,
      REPLICAS: NotReplicated
    }.freeze
    private_constant :CLASSES

    # The exception for a status of the core.
    def self.error(status, message) = CLASSES.fetch(status, Error).new(message)
  end
  private_constant :Native
end
