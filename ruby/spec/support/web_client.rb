# frozen_string_literal: true

require "json"
require "net/http"
require "rack"
require "rack/lint"
require "rack/mock"
require_relative "command"

# Requests to Seriatim::Web through Rack::Lint, and to `seriatim web` by sockets.
module WebClient
  Answer = Struct.new(:status, :headers, :body) do
    def json = JSON.parse(body)
  end
  JSON_POST = { CONTENT_TYPE: "application/json", HTTP_SEC_FETCH_SITE: "same-origin" }.freeze

  def dashboard(prefix = "/jobs", **settings)
    Rack::URLMap.new((prefix.empty? ? "/" : prefix) => Rack::Lint.new(Seriatim::Web.new(**settings)))
  end

  # A field of nil is not sent.
  def ask(method, path, app: @app, input: "", **fields)
    env = Rack::MockRequest.env_for(path, method: method, input: input).merge(fields.transform_keys(&:to_s)).compact
    status, headers, body = app.call(env)
    text = +""
    body.each { |part| text << part }
    body.close if body.respond_to?(:close)
    Answer.new(status, headers, text)
  end

  def get(path, **env) = ask("GET", path, **env)

  def post(path, body = {}, **env)
    ask("POST", path, input: body.is_a?(String) ? body : JSON.generate(body), **JSON_POST, **env)
  end

  Route = Struct.new(:method, :pattern, :role, :mutates) do
    # With this queue's name, and a fingerprint that no error has, where it needs them.
    def path(queue) = "/jobs#{pattern.sub(/:(worker|queue|node)\b/, queue).sub(":fingerprint", "0123456789abcdef")}"
    def to_s = "#{self.method} #{pattern}"
  end

  # Without those of consumers, which are there only with `consume`.
  def routes = Seriatim.module_eval { const_get(:Native) }.web_routes.map { |row| Route.new(*row) }.reject { |route| route.pattern.start_with?("/api/v1/consume/") }

  # A running `seriatim web`; yields it and its port or path.
  def served(*arguments, **options)
    command = Command.new("web", *arguments, wait: false, **options)
    address = command.wait_for(/the dashboard is at \S+/).split.last
    yield command, address[/:(\d+)\/\z/, 1]&.to_i || address.delete_prefix("unix:")
  ensure
    command&.remove
  end

  # Sends the bytes unchanged; returns what was received until the end, or within `seconds`.
  def raw(port, bytes, seconds: 15)
    TCPSocket.open("127.0.0.1", port) do |io|
      io.write(bytes)
      Timeout.timeout(seconds) { io.read }
    end
  end
end
