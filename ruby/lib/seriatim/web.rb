# frozen_string_literal: true

require "seriatim"

module Seriatim
  # The dashboard, its API and the metrics, as a Rack application (Rack 2 and 3) for any prefix. It needs no session and
  # no other gem.
  #
  # By default everyone who can reach it is an admin: protect the mount, or set a role or a token.
  #
  #   mount Seriatim::Web => "/seriatim"                           # Rails, inside `authenticate :user, ->(u) { u.admin? }`, say
  #   map("/seriatim") { run Seriatim::Web }                       # config.ru
  #   run Seriatim::Web.new(read_only: true)                       # one more, with settings of its own
  #
  #   Seriatim::Web.configure do |web|
  #     web.role = ->(env) { env["warden"].user&.admin? ? "admin" : "viewer" }
  #     web.redact = ->(_queue, _id, text) { text.gsub(/\d{16}/, "****") }
  #   end
  #
  # Beside the pages: `/metrics` for Prometheus, and two probes that need neither role nor token: `/livez` (this process works) and
  # `/readyz` (Redis takes writes).
  class Web
    MAX_BODY = 1_048_576 # bytes; a longer one is a 413
    READ_SECONDS = 5 # how long an answer waits for Redis; a change goes on while Redis answers its parts
    # definitions: roles, written by script/embed from core/definitions/operations.json

    ROLES = { nil => 0, viewer: 1, operator: 2, admin: 3, consumer: 4 }.freeze

    # end of definitions
    SETTINGS = { title: "Seriatim", read_only: false, role: nil, redact: nil, audit: nil, hosts: [], token: nil, consume: false, polls: nil }.freeze
    HEADERS = {
      "content-type" => "application/json", "cache-control" => "no-store", "x-content-type-options" => "nosniff",
      "content-security-policy" => "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " \
                                   "base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
      "x-frame-options" => "DENY", "referrer-policy" => "no-referrer"
    }.freeze
    LIVEZ = "/livez"
    PROBES = [LIVEZ, "/readyz"].freeze # open to all: nobody is asked for a role
    CONSUME = "/api/v1/consume/"
    POLLS = 2 # pops that may wait at once, where each takes a thread of the server
    private_constant :MAX_BODY, :READ_SECONDS, :ROLES, :SETTINGS, :HEADERS, :LIVEZ, :PROBES, :CONSUME, :POLLS

    class << self
      # Yields the settings of `Seriatim::Web` itself, with which every later {#initialize new} one begins.
      def configure = yield(configured)

      # @param env [Hash] Rack's
      # @return [Array(Integer, Hash, Array<String>)]
      def call(env) = configured.call(env)

      # @api private
      def configured = MAIN

      # Requests of one kind share connections, and the threads of {StandAlone}.
      # @api private
      # @return [Symbol] livez, read, change or consume
      def kind(env)
        return env["PATH_INFO"] == LIVEZ ? :livez : :read unless env["REQUEST_METHOD"] == "POST"

        env["PATH_INFO"].to_s.start_with?(CONSUME) ? :consume : :change
      end

      # @api private
      def refusal(status, message, body = %({"error":"#{message}"}))
        [status, { **HEADERS, "content-length" => body.bytesize.to_s }, [body]]
      end

      # Every connection of the request's kind is in use: nothing was sent.
      # @api private
      def busy(env)
        message = "the dashboard is busy"
        kind(env) == :change ? refusal(503, message, %({"done":0,"error":"#{message}; nothing was changed","unknown":false})) : refusal(503, message)
      end

      # @api private
      def too_many_polls(polls)
        status, headers, body = refusal(503, "#{polls} pops wait already, as many as this mount lets wait (polls)")
        [status, { **headers, "retry-after" => "1" }, body]
      end
    end

    # What the pages are headed with. "Seriatim".
    # @return [String]
    attr_reader :title

    # Nothing can be changed through it. false.
    # @return [Boolean]
    attr_reader :read_only

    # Rack's env -> "viewer" (reads), "operator" (also performs now, queues up, reschedules, pauses, parks, quiets a node), "admin"
    # (also kills, deletes, cancels, drops payloads, reshards, stops a node, pushes and consumes), "consumer" (pushes and consumes,
    # nothing else) or nil (nothing: 401). nil: everyone is an admin, for the host application guards the mount.
    # @return [#call, nil]
    attr_reader :role

    # (queue, id, text) -> the text to show instead of a payload, a context or an error, on every page and in every answer. Texts
    # that are not UTF-8 come as binary Strings; of a group of errors the id is empty. What it raises is a 500 that shows nothing.
    # @return [#call, nil]
    attr_reader :redact

    # (env, change) -> anything; told of each change that was asked for, before the answer is sent, and of each that was refused:
    # {action: "delete", role: "admin", queue: "Orders", ids: ["1"], count: 1, status: 200}. `node`, `fingerprint` (of errors), `shards` (of reshard)
    # and `error` (why not) stand there where they apply, `status` unless the request was broken off. Texts are as they were
    # given. What it raises is logged with the change and alters nothing. nil: a line of the log.
    # @return [#call, nil]
    attr_reader :audit

    # The Host fields that are answered, with or without a port. Empty: any; the host application checks.
    # @return [Array<String>]
    attr_reader :hosts

    # What `Authorization: Bearer TOKEN` must say, for all but the two probes and the page's own files; 1 to 1,024 bytes. nil: it need not be there.
    # @return [String, nil]
    attr_reader :token

    # Programs may push and consume through it, by `/api/v1/consume/`, with the role "consumer" or "admin". false.
    # @return [Boolean]
    attr_reader :consume

    # How many pops may wait at the same time, each of which takes a thread of the server; more are answered with 503. 2, and 1,000 in
    # `seriatim web`, where a waiting pop takes none.
    # @return [Integer]
    def polls = polls_or(POLLS)

    # @api private
    # @return [Integer] the default of the host if the application has set none
    def polls_or(default) = @polls || default

    # @param settings [Hash] title, read_only, role, redact, audit, hosts, token, consume, polls; the rest as `configure` left it
    def initialize(**settings)
      unknown = settings.keys - SETTINGS.keys
      raise Invalid, "unknown setting #{unknown.join(", ")}; there are #{SETTINGS.keys.join(", ")}" unless unknown.empty?

      base = Web.const_defined?(:MAIN) ? SETTINGS.to_h { |name, _| [name, MAIN.instance_variable_get(:"@#{name}")] } : SETTINGS
      base.merge(settings).each { |name, value| public_send(:"#{name}=", value) }
    end

    def title=(text)
      @title = Validate.text("title", text, 1..128)
    end

    def read_only=(flag)
      @read_only = Validate.flag("read_only", flag)
    end

    def role=(hook)
      @role = Validate.callable("role", hook, none: true)
    end

    def redact=(hook)
      @redact = Validate.callable("redact", hook, none: true)
    end

    def audit=(hook)
      @audit = Validate.callable("audit", hook, none: true)
    end

    def hosts=(names)
      @hosts = Validate.list("hosts", names).map { |name| Validate.text("hosts[]", name, 1..255) }
    end

    def token=(text)
      @token = text && Validate.text("token", text, 1..1024)
    end

    def consume=(flag)
      @consume = Validate.flag("consume", flag)
    end

    def polls=(count)
      @polls = count && Validate.integer("polls", count, 1..1000)
    end

    # @param env [Hash] Rack's
    # @return [Array(Integer, Hash, Array<String>)]
    def call(env)
      noted = []
      status, headers, body = answer(env, request(env), noted)
      headers["content-length"] = body.bytesize.to_s unless status == 204 || env["REQUEST_METHOD"] == "HEAD"
      [status, headers, [body]]
    rescue PoolTimeout
      Web.busy(env)
    rescue StandardError, ScriptError, SystemStackError => e
      Log.error("web", "#{env["REQUEST_METHOD"]} #{env["PATH_INFO"].inspect} raised #{Log.describe(e)}")
      Web.refusal(500, "internal error")
    ensure
      noted&.each { |change, line| tell(env, change, line) }
    end

    private

    # A pop that finds nothing waits only then, on a connection of its own: the others never wait for it. StandAlone waits itself: it gives
    # how many of its pops wait and for how many milliseconds this one has, and the answer 204 says when it is to ask again.
    def answer(env, request, noted)
      began = monotonic_ms
      waiting = env["seriatim.waiting"]
      *answer, wait_ms = pool(env).with { |connection| connection.web(settings, [*request, *(waiting || [1, 0])], @redact, load_error, noted, limit: limit(env)) }
      return answer unless wait_ms.positive?
      return poll(request, began, noted) unless waiting

      answer[1]["seriatim.wait_ms"] = wait_ms
      answer
    end

    def poll(request, began, noted)
      Pool.web_polls(self, polls).with(0) do |connection|
        connection.web(settings, [*request, 0, monotonic_ms - began], @redact, load_error, noted, limit: nil).first(3)
      end
    rescue PoolTimeout
      status, headers, (body,) = Web.too_many_polls(polls)
      [status, headers, body]
    end

    def monotonic_ms = Process.clock_gettime(Process::CLOCK_MONOTONIC, :millisecond)

    # The change is made: whatever the host's own does, the answer stands.
    def tell(env, change, line)
      return Log.info("web", line) unless @audit

      @audit.call(env, change)
    rescue StandardError, ScriptError, SystemStackError => e
      Log.error("web", "audit raised #{Log.describe(e)} at: #{line}")
    end

    def settings = [@title, @read_only, @hosts, @token, Server.stalled, Workers.renamed, @consume]

    # @return [#call, nil] nil: errors are stored as they are
    def load_error = Seriatim.loads_errors? ? method(:loaded) : nil

    # The text of a stored error, or why load_error cannot read it, with what is stored if that is text.
    def loaded(stored)
      Seriatim.load_error.call(stored).to_str
    rescue StandardError, ScriptError, SystemStackError => e
      raised = "load_error raised #{Log.brief(e)}"
      return "(#{raised}; the stored error is no text)" unless stored.encoding == Encoding::UTF_8

      "(#{raised}; the error is shown as it is stored)\n#{stored}"
    end

    def post?(env) = env["REQUEST_METHOD"] == "POST"

    def pool(env) = Pool.web(Web.kind(env))

    def limit(env) = post?(env) ? nil : READ_SECONDS

    # In the order of the native side.
    def request(env)
      fields = env.values_at("HTTP_HOST", "HTTP_ORIGIN", "HTTP_SEC_FETCH_SITE", "CONTENT_TYPE", "HTTP_AUTHORIZATION", "HTTP_ACCEPT", "HTTP_ACCEPT_ENCODING")
      [env["REQUEST_METHOD"], env["SCRIPT_NAME"], path(env), env["QUERY_STRING"], *fields, body(env), env["rack.url_scheme"] == "https",
       role_of(env), socket_of(env)]
    end

    # The descriptor of the visitor's connection, if the server tells it; else 0. A change ends when the visitor has left.
    def socket_of(env) = (env["seriatim.socket"] || env["puma.socket"])&.to_io&.fileno || 0

    # Rails' router takes a slash off the end and adds one at the mount itself, but the page's relative addresses depend on it.
    def path(env)
      path = env["PATH_INFO"].to_s
      asked = env["ORIGINAL_FULLPATH"] or return path
      return path.delete_suffix("/") unless asked[/\A[^?]*/].end_with?("/")

      path.end_with?("/") ? path : "#{path}/"
    end

    # One byte more than allowed is enough for the core to refuse it. A middleware may have read it before.
    def body(env)
      input = env["rack.input"]
      return unless input && post?(env)

      input.rewind if input.respond_to?(:rewind)
      input.read(MAX_BODY + 1)
    end

    def role_of(env)
      return ROLES.fetch(nil) if PROBES.include?(env["PATH_INFO"])
      return ROLES.fetch(:admin) unless @role

      word = @role.call(env)
      ROLES.fetch(word.respond_to?(:to_sym) ? word.to_sym : word) { Validate.refuse("role", "#{ROLES.keys.compact.join(", ")} or nil", word) }
    end

    MAIN = new
    private_constant :MAIN
  end
end
