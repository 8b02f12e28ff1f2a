# frozen_string_literal: true

module Seriatim
  # Misuse: a setting, a job or a payload that cannot be. The message names the field and the rule; nothing was
  # written. Raised again each time, so it is an ArgumentError and no {Error}.
  class Invalid < ArgumentError; end

  # Weather: what may be different the next time.
  class Error < StandardError; end

  # No connection to Redis, or it broke.
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
  # What was reported belongs to a lease that another node has taken since.
  class Stale < Error; end
  # Redis is at its maxmemory and refuses writes.
  class RedisFull < Error; end
  # The queue was resharded meanwhile.
  class GenerationChanged < Error; end
  # Redis is a read-only replica.
  class ReadOnly < Error; end
  # Redis still loads its data.
  class NotReady < Error; end
  # Redis refused user or password.
  class AuthError < Error; end
  # Any other refusal by Redis, in its words.
  class RedisError < Error; end
  # This build cannot do it (rediss:// without OpenSSL, for one).
  class Unsupported < Error; end
  # Used after it was closed, or in another process than the one that made it.
  class Closed < Error; end
  # A payload that its worker's codec cannot read.
  class Undecodable < Error; end

  # What the command line answers with exit code 2.
  class UsageError < Invalid; end

  # The application that the command loads is wrong, not the command line. The message begins with the file and the line where
  # there is one.
  # @api private
  class ApplicationError < UsageError; end

  # What stands in for the error of a job that ended its own thread.
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
