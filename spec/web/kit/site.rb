# frozen_string_literal: true

require "json"
require "socket"

# Where a dashboard is, and what it answers to bytes that no browser would send.
class Site
  Answer = Struct.new(:status, :headers, :body) do
    def json = JSON.parse(body)
    def [](name) = headers[name]
  end
  CHANGE = { "Content-Type" => "application/json", "Sec-Fetch-Site" => "same-origin" }.freeze

  attr_reader :host, :port, :prefix

  def initialize(host, port, prefix)
    @host = host
    @port = port
    @prefix = prefix
  end

  def origin = "http://#{host}:#{port}"

  # @return [String] with the last slash
  def url = "#{origin}#{prefix}/"

  # Of a page: "dead", queue: "Q".
  def page(name, **parameters)
    query = parameters.map { |key, value| "#{key}=#{Site.encode(value)}" }.join("&")
    "#{url}#{name}#{"?#{query}" unless query.empty?}"
  end

  # Of a route of a queue.
  def self.queue(name, rest = nil) = ["/api/v1/queues", encode(name), rest].compact.join("/")
  def self.worker(name, rest) = "/api/web/#{encode(name)}/#{rest}"

  # Percent-encoded, byte by byte.
  def self.encode(text) = text.to_s.b.gsub(/[^A-Za-z0-9_.~-]/n) { |byte| format("%%%02X", byte.ord) }

  def get(path, **headers) = ask("GET", path, headers: headers.transform_keys(&:to_s))

  def post(path, body = {}, headers: CHANGE, seconds: 60)
    ask("POST", path, headers: headers, body: body.is_a?(String) ? body : JSON.generate(body), seconds: seconds)
  end

  # `path` follows the prefix and goes out as it is; a field of nil is not sent.
  def ask(method, path, headers: {}, body: nil, seconds: 60)
    fields = { "Host" => "#{host}:#{port}", "Content-Length" => body&.bytesize, "Connection" => "close", **headers }.compact
    raw("#{method} #{prefix}#{path} HTTP/1.1\r\n#{fields.map { |name, value| "#{name}: #{value}\r\n" }.join}\r\n#{body}", seconds: seconds)
  end

  # Sends the bytes as they are.
  def raw(bytes, seconds: 60)
    text = Socket.tcp(host, port, connect_timeout: seconds) do |io|
      io.write(bytes)
      read_all(io, seconds)
    end
    head, _, body = text.partition("\r\n\r\n")
    status, *fields = head.split("\r\n")
    headers = fields.to_h { |line| line.split(/: */, 2).then { |name, value| [name.downcase, value.to_s] } }
    body = unchunked(body) if headers["transfer-encoding"] == "chunked"
    Answer.new(status.to_s[%r{\AHTTP/1\.\d (\d+)}, 1].to_i, headers, body.force_encoding(Encoding::UTF_8))
  end

  # It answers at all.
  def up?
    ask("GET", "/livez").status == 200
  rescue SystemCallError
    false
  end

  private

  def read_all(io, seconds)
    text = +"".b
    loop do
      raise "no answer within #{seconds} s" unless io.wait_readable(seconds)

      text << io.readpartial(65_536)
    end
  rescue EOFError, Errno::ECONNRESET
    text
  end

  def unchunked(body)
    text = +"".b
    while (size = body.slice!(/\A\h+\r\n/)&.to_i(16)) && size.positive?
      text << body.slice!(0, size + 2).byteslice(0, size)
    end
    text
  end
end
