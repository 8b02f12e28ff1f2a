# frozen_string_literal: true

require "stringio"
require "seriatim/web/request"

module Seriatim
  class Web
    # One connection of {StandAlone}: a request comes in, an answer goes out, then the next request, or the end. No call of it waits.
    # @api private
    class Exchange
      CHUNK = 65_536
      SECONDS = 10 # for a whole request; again for its whole answer
      IDLE = 15 # seconds, for the next request to begin
      LINGER = 1 # seconds: a close with bytes unread would take the answer back
      REASONS = { 200 => "OK", 204 => "No Content", 308 => "Permanent Redirect", 400 => "Bad Request", 401 => "Unauthorized", 403 => "Forbidden",
                  404 => "Not Found", 405 => "Method Not Allowed", 409 => "Conflict", 413 => "Content Too Large", 415 => "Unsupported Media Type", 431 => "Request Header Fields Too Large",
                  500 => "Internal Server Error", 501 => "Not Implemented", 503 => "Service Unavailable" }.freeze
      private_constant :CHUNK, :SECONDS, :IDLE, :LINGER, :REASONS

      # @return [Symbol] :reading, :working (the application has it), :writing, :lingering, :closed
      attr_reader :state
      # @return [Float] monotonic
      attr_reader :deadline
      # @return [IO] for IO.select
      attr_reader :io
      # @return [Hash] Rack's, once it is :working
      attr_reader :env
      # @return [Float] monotonic: when the request was here
      attr_reader :began

      alias to_io io

      def initialize(io, now)
        @io = io
        @bytes = String.new
        enter(:reading, now + SECONDS)
      end

      # @return [Boolean] its requests are answered, and no other has begun
      def idle? = @idle

      def readable(now)
        chunk = @io.read_nonblock(CHUNK, exception: false)
        return if chunk == :wait_readable
        return close unless chunk

        read(chunk, now) if @state == :reading
      rescue SystemCallError, IOError
        close
      end

      def writable(now)
        sent = @io.write_nonblock(@bytes, exception: false)
        return if sent == :wait_writable

        @bytes = @bytes.byteslice(sent, @bytes.bytesize)
        finish(now) if @bytes.empty?
      rescue SystemCallError, IOError
        close
      end

      # @param response [Array] as Rack has it
      def answer(response, now)
        status, headers, body = response
        fields = headers.map { |name, value| "#{name}: #{value}\r\n" }.join
        @bytes = "HTTP/1.1 #{status} #{REASONS.fetch(status, "Status")}\r\n#{fields}connection: #{@stays ? "keep-alive" : "close"}\r\n\r\n".b
        @bytes << body.join.b unless head? # the client would read it as the next answer
        enter(:writing, now + SECONDS)
      end

      def close
        @state = :closed
        @io.close
      rescue SystemCallError, IOError
        nil
      end

      private

      def head? = @env && @env["REQUEST_METHOD"] == "HEAD"

      def enter(state, deadline)
        @state = state
        @deadline = deadline
      end

      def read(chunk, now)
        enter(:reading, now + SECONDS) if @idle
        @idle = false
        @bytes << chunk
        @env, @body_length = Request.take_head(@bytes) unless @env
        return if @env.nil? || @bytes.bytesize < @body_length

        @stays = Request.stays?(@env) && @bytes.bytesize == @body_length # who sends more before the answer asks again
        @env["seriatim.socket"] = @io
        @env["rack.input"] = StringIO.new(@bytes.byteslice(0, @body_length))
        @began = now
        enter(:working, Float::INFINITY)
      rescue Request::Refused => e
        @stays = false
        answer(Web.refusal(e.status, e.message), now)
      end

      def finish(now)
        return linger(now) unless @stays

        @env = nil
        @idle = true
        enter(:reading, now + IDLE)
      end

      def linger(now)
        @io.close_write
        enter(:lingering, now + LINGER)
      end
    end
    private_constant :Exchange
  end
end
