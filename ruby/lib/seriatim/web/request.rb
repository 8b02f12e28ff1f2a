# frozen_string_literal: true

module Seriatim
  class Web
    # Reads the head of an HTTP/1.1 request, strictly: what two readers could read differently is refused.
    # @api private
    module Request
      # What is answered without the application.
      class Refused < StandardError
        attr_reader :status

        def initialize(status, message)
          super(message)
          @status = status
        end
      end

      MAX_HEAD = 16_384
      LINE = %r{\A(GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS) (/[!-~]*) HTTP/1\.([01])\z}n
      FIELD = /\A([!#$%&'*+\-.^_`|~0-9A-Za-z]+):([\t -~\x80-\xff]*)\z/n # in linear time: one class up to the end
      LENGTH = /\A\d{1,9}\z/
      ONCE = %w[HTTP_HOST HTTP_CONTENT_LENGTH HTTP_CONTENT_TYPE HTTP_AUTHORIZATION HTTP_ORIGIN HTTP_SEC_FETCH_SITE].freeze
      private_constant :MAX_HEAD, :LINE, :FIELD, :LENGTH, :ONCE

      module_function

      # Takes the head off the bytes.
      # @param bytes [String] binary, all that came so far
      # @return [Array(Hash, Integer), nil] a Rack env without its input, and the length of the body; nil: more is to come
      # @raise [Refused]
      def take_head(bytes)
        length = bytes.byteslice(0, MAX_HEAD).index("\r\n\r\n")
        return bytes.bytesize < MAX_HEAD ? nil : refuse(431, "the head is longer than #{MAX_HEAD} bytes") unless length

        env = head(bytes.slice!(0, length + 4).delete_suffix("\r\n\r\n").split("\r\n", -1))
        [env, body_length(env)]
      end

      # @return [Boolean] another request may follow on the connection
      def stays?(env) = env["SERVER_PROTOCOL"] == "HTTP/1.1" && !env["HTTP_CONNECTION"].to_s.match?(/\bclose\b/i)

      def head(lines)
        line = LINE.match(lines.shift) || refuse(400, "this is no HTTP/1.1 request")
        env = env(*line.captures)
        lines.each { |field| add(env, FIELD.match(field) || refuse(400, "a header field is malformed")) }
        refuse(400, "Host is missing") unless env["HTTP_HOST"] || line[3] == "0"
        refuse(501, "Transfer-Encoding is not supported") if env["HTTP_TRANSFER_ENCODING"]
        %w[CONTENT_TYPE CONTENT_LENGTH].each { |name| env[name] = env.delete("HTTP_#{name}") if env["HTTP_#{name}"] }
        env
      end

      def env(method, target, minor)
        path, query = target.split("?", 2)
        { "REQUEST_METHOD" => method, "SCRIPT_NAME" => "", "PATH_INFO" => path, "QUERY_STRING" => query || "",
          "SERVER_PROTOCOL" => "HTTP/1.#{minor}", "rack.url_scheme" => "http" }
      end

      def add(env, field)
        return if field[1].include?("_") # what X_Y and X-Y say must not be mixed up

        name = "HTTP_#{field[1].upcase.tr("-", "_")}"
        refuse(400, "#{field[1]} is there twice") if env[name] && ONCE.include?(name)
        value = field[2].strip
        env[name] = env[name] ? "#{env[name]}, #{value}" : value
      end

      def body_length(env)
        text = env["CONTENT_LENGTH"] or return 0
        refuse(400, "Content-Length must be a number") unless LENGTH.match?(text)
        refuse(413, "the body is longer than #{MAX_BODY} bytes") if text.to_i > MAX_BODY
        text.to_i
      end

      def refuse(status, message) = raise(Refused.new(status, message))
      private_class_method :head, :env, :add, :body_length, :refuse
    end
    private_constant :Request
  end
end
