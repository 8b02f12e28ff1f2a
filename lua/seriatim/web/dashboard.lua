-- The dashboard, its API and the metrics, answered by the core: a request as a table in, a response as a table out. Applications
-- require seriatim.web.

local pool = require "seriatim.client.pool"
local validate = require "seriatim.client.validate"
local log = require "seriatim.log"
local native = require "seriatim.native"
local workers = require "seriatim.server.workers"
local settings = require "seriatim.settings"

local dashboard = { MAX_BODY = native.web_max_body }

---Why /livez answers 503; nil: this process works, or runs no jobs.
---@type nil|fun(): string?
dashboard.stalled = nil

local OPTIONS = { "title", "read_only", "role", "redact", "audit", "hosts", "token", "prefix", "consume", "polls" }
-- definitions: roles, written by script/embed from core/definitions/operations.json

local ROLES = { viewer = 1, operator = 2, admin = 3, consumer = 4 }

-- end of definitions
local NOBODY = 0
local PROBES = { ["/livez"] = true, ["/readyz"] = true } -- open to all: nobody is asked for a role
local POLLS, MOST_POLLS = 2, 1000 -- pops that may wait at once
local READ_SECONDS = 5 -- how long an answer waits for Redis; a change goes on while Redis answers its parts

---All are optional. Without `role` everyone who can reach the dashboard is an admin, so protect the mount.
---@class seriatim.WebOptions
---@field title string?  "Seriatim"
---@field read_only boolean?  nothing that changes anything answers
---called with the request: "viewer" (reads), "operator" (also perform now, queue up, reschedule, pause, resume, park, unpark, quiet
---a node), "admin" (also kill, delete, cancel, drop payloads, reshard, stop a node, push and consume), "consumer" (pushes and
---consumes, nothing else), or nil: 401
---@field role nil|fun(request: seriatim.WebRequest): string?
---called before a payload, context or error is shown: the text to show instead. What it raises ends the request with 500
---@field redact nil|fun(queue: string, id: string, text: string): string
---told of each change that was asked for, before the answer is sent, and of each that was refused. What it raises is logged with
---the change and alters nothing. nil: a line of the log, at info
---@field audit nil|fun(request: seriatim.WebRequest, change: seriatim.WebChange)
---@field hosts string[]?  the Host fields that are answered, "jobs.example:8080"; without a port: with any. nil: all
---@field token string?  then all but the two probes and the page's own files ask for `Authorization: Bearer TOKEN`; 1 to 1,024 bytes
---@field consume boolean?  programs push and consume by /api/v1/consume/, with the role "consumer" or "admin"
---@field polls integer?  how many of its pops may wait at once in a Lua state; more are answered with 503. 2, and 1,000 in nginx
---@field prefix string?  where it is mounted: "/admin/jobs"; nil: "", and "/seriatim" in nginx

---@class seriatim.WebRequest
---@field method string  "GET"
---@field path string  as it came, percent-encoded, with the prefix
---@field query string?  without its question mark
---@field headers table<string, string|string[]>  in any case; a list where one came several times
---@field body string?  hosts read no more than web.MAX_BODY bytes and answer 413
---@field secure boolean?  it came by https
---@field socket integer?  the descriptor of the visitor's connection, open until the response: a change ends when the visitor closed it
---says the same, where there is no descriptor; `wake` is to be called once the visitor has left
---@field has_left nil|fun(wake: function?): boolean
---lets others run meanwhile; nil: a pop that waits does so on its connection, which blocks a Lua state, but no nginx worker
---@field sleep nil|fun(seconds: number)

---What a request asked to change and what came of it. Texts are as they were given.
---@class seriatim.WebChange
---@field action string  "pause", "delete", "quiet_node"
---@field role string  "viewer", "operator", "admin"; "nobody": also who has no token
---@field queue string?  this or node
---@field node string?
---@field fingerprint string?  of errors
---@field shards string?  of reshard
---@field ids string[]?  at most 1,000; nil where the request was refused before its body was read
---@field count integer?  what it really did
---@field status integer  of the answer
---@field error string?  of an answer other than 200

---@class seriatim.WebResponse
---@field status integer
---@field headers table<string, string>  without Content-Length
---@field body string

---@class seriatim.Web
---@operator call(seriatim.WebRequest): seriatim.WebResponse
local Web = {}
Web.__index = Web

-- ---- options

local function optional(check_it, name, value, ...)
  if value == nil then
    return nil
  end
  return check_it(name, value, ...)
end

local function checked_prefix(prefix)
  if prefix == "" or type(prefix) == "string" and prefix:find("^/[%w%-._~/]*$") and not prefix:find("//") and not prefix:find("/$") then
    return prefix
  end
  return validate.refuse("prefix", 'a path as "/admin/jobs", without a slash at its end, or ""', prefix)
end

local function checked_hosts(hosts)
  for place, host in ipairs(validate.list("hosts", hosts)) do
    validate.text(("hosts[%d]"):format(place), host, 1, 255)
  end
  return hosts
end

---@param options seriatim.WebOptions?
---@return seriatim.Web
function dashboard.new(options)
  local given = validate.options(options, OPTIONS)
  return setmetatable({
    settings = {
      title = optional(validate.text, "title", given.title, 1, 200),
      read_only = optional(validate.flag, "read_only", given.read_only),
      consume = optional(validate.flag, "consume", given.consume),
      token = optional(validate.text, "token", given.token, 1, 1024),
      hosts = given.hosts ~= nil and checked_hosts(given.hosts) or nil,
    },
    role = validate.callable_or_nil("role", given.role),
    redact = validate.callable_or_nil("redact", given.redact),
    audit = validate.callable_or_nil("audit", given.audit),
    polls = given.polls == nil and POLLS or validate.integer("polls", given.polls, 1, MOST_POLLS),
    prefix = given.prefix == nil and "" or checked_prefix(given.prefix),
  }, Web)
end

-- ---- one request

local function role_of(self, request, path)
  if PROBES[path] then
    return NOBODY
  end
  if not self.role then
    return ROLES.admin
  end
  local role = self.role(request)
  if role == nil then
    return NOBODY
  end
  return ROLES[role] or validate.refuse("role's result", "viewer, operator, admin, consumer or nil", role)
end

---By lower-case names. What came several times is one text, which is no host, origin or token.
local function fields_of(headers)
  local fields = {}
  for name, value in pairs(headers or {}) do
    name = name:lower()
    value = type(value) == "table" and table.concat(value, ", ") or tostring(value)
    fields[name] = fields[name] and fields[name] .. ", " .. value or value
  end
  return fields
end

---What follows the prefix; nil: the path is not below it.
local function below(prefix, path)
  local rest = path:sub(#prefix + 1)
  if path:sub(1, #prefix) == prefix and (rest == "" or rest:sub(1, 1) == "/") then
    return rest
  end
end

---As the core wants it. A path that is not below the prefix is one that the API does not know.
local function core_request(self, request)
  local fields, path = fields_of(request.headers), below(self.prefix, request.path)
  return {
    method = request.method,
    prefix = self.prefix,
    path = path or "/api/",
    query = request.query,
    host = fields.host,
    origin = fields.origin,
    sec_fetch_site = fields["sec-fetch-site"],
    content_type = fields["content-type"],
    authorization = fields.authorization,
    accept = fields.accept,
    accept_encoding = fields["accept-encoding"],
    body = request.body,
    secure = request.secure,
    role = role_of(self, request, path),
    socket = request.socket,
    has_left = request.has_left,
    host_waits = 1,
    waited_ms = 0,
  }
end

---The text of a stored error, or why load_error cannot read it, with what is stored if that is text.
local function loaded(stored)
  local ran, text = pcall(settings.load_error, stored)
  if ran and type(text) == "string" then
    return text
  end
  local failed = ran and "gave no string but " .. type(text) or "raised " .. log.brief(log.describe(text))
  if log.utf8(stored) ~= stored then
    return ("(load_error %s; the stored error is no text)"):format(failed)
  end
  return ("(load_error %s; the error is shown as it is stored)\n%s"):format(failed, stored)
end

---Nil: errors are stored as they are.
local function load_error()
  return settings.loads_errors() and loaded or nil
end

---Goes on with a request whose errors were loaded before a change, as the status 0 says.
local function gone_on(connection, status, ...)
  if status ~= 0 then
    return status, ...
  end
  return gone_on(connection, connection:call("web_go_on", nil))
end

---Without a connection: a page and a refusal need none, all else is answered as when Redis cannot be reached.
local function answer_alone(self, asked, err)
  local client = assert(native.client(settings.namespace, "seriatim-web", 0))
  client:web(self.settings, asked, self.redact, load_error())
  if client:status() == "again" then
    client:give_up("IO", err.message)
  end
  return client:result()
end

---The change is made: whatever the host's own does, the answer stands.
local function tell(self, request, change)
  local line = change.line
  if not self.audit then
    return log.info("web", line)
  end
  change.line = nil
  local ran, raised = pcall(self.audit, request, change)
  if not ran then
    log.error("web", ("audit raised %s at: %s"):format(log.describe(raised), line))
  end
end

---Seconds: nil where the answer may take as long as Redis goes on.
local function ask(self, asked, seconds)
  return pool.ask(function(connection)
    return gone_on(connection, connection:call("web", self.settings, asked, self.redact, load_error(), seconds))
  end)
end

---An answer of the host's own, as guarded as the core's.
---@param status integer
---@param text string
---@param more table?  members of the body
---@return seriatim.WebResponse
function dashboard.refusal(status, text, more)
  local headers = {
    ["Content-Type"] = "application/json",
    ["Cache-Control"] = "no-store",
    ["X-Content-Type-Options"] = "nosniff",
    ["Content-Security-Policy"] = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
      .. "base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    ["X-Frame-Options"] = "DENY",
    ["Referrer-Policy"] = "no-referrer",
  }
  local body = { error = text }
  for name, value in pairs(more or {}) do
    body[name] = value
  end
  return { status = status, headers = headers, body = native.dump(body, "error") }
end

---By the prefix of a mount, which nginx makes anew for each request: of its pops that wait. The garbage collector gives back those
---of killed requests.
local places = {}

local function places_of(self)
  local own = places[self.prefix] or native.places()
  places[self.prefix] = own
  return own
end

---Counts the pops of a mount that wait in this Lua state together with those of others.
---@param mount seriatim.Web
---@param shared lightuserdata  what share() of native.places returned in another Lua state, which keeps its places
function dashboard.share_polls(mount, shared)
  places[mount.prefix] = native.places(shared)
end

---Asks again and again, as often as the core says, until there is something, the pop's time is over or its client has left.
local function wait_by_sleeping(self, request, asked, began, wait_ms)
  local waiting = places_of(self)
  local status, headers, body
  repeat
    request.sleep(wait_ms / 1000)
    asked.host_waits, asked.waited_ms = waiting:taken(), math.floor(native.now_ms() - began)
    local _
    status, headers, body, _, wait_ms = ask(self, asked)
  until not status or wait_ms == 0
  return status, headers, body
end

---What resume returned, once the coroutine has ended. Until then this one yields what that yields.
local function pass_on(thread, ran, ...)
  if ran and coroutine.status(thread) ~= "dead" then
    return pass_on(thread, coroutine.resume(thread, coroutine.yield(...)))
  end
  return ran, ...
end

---pcall of what may yield. PUC 5.1's pcall cannot, so the function has a coroutine of its own there.
local function guarded(call, ...)
  if _VERSION ~= "Lua 5.1" or rawget(_G, "jit") then
    return pcall(call, ...)
  end
  local thread = coroutine.create(call)
  return pass_on(thread, coroutine.resume(thread, ...))
end

---Of a pop that found nothing.
local function poll(self, request, asked, began, wait_ms)
  local place = places_of(self):take(self.polls)
  if not place then
    local busy = dashboard.refusal(503, ("%d pops wait already, as many as this mount lets wait (polls)"):format(self.polls))
    busy.headers["Retry-After"] = "1"
    return busy.status, busy.headers, busy.body
  end
  local ran, status, headers, body
  if request.sleep then
    ran, status, headers, body = guarded(wait_by_sleeping, self, request, asked, began, wait_ms)
  else
    asked.host_waits, asked.waited_ms = 0, math.floor(native.now_ms() - began)
    ran, status, headers, body = pcall(ask, self, asked)
  end
  place:leave()
  if not ran then
    error(status, 0)
  end
  return status, headers, body
end

local function answer(self, request)
  local asked, began = core_request(self, request), native.now_ms()
  self.settings.stalled = dashboard.stalled and dashboard.stalled()
  self.settings.workers = workers.renamed()
  local seconds = request.method ~= "POST" and READ_SECONDS or nil
  local status, headers, body, change, wait_ms = ask(self, asked, seconds)
  if status and wait_ms > 0 then
    status, headers, body = poll(self, request, asked, began, wait_ms)
  end
  if not status then
    status, headers, body, change = answer_alone(self, asked, headers)
  end
  if change then
    tell(self, request, change)
  end
  return { status = status, headers = headers, body = body }
end

---Always a response: what role or redact raise is written to the log, and is 500.
---@param request seriatim.WebRequest
---@return seriatim.WebResponse
function Web:call(request)
  local ran, response = guarded(answer, self, request)
  if ran then
    return response
  end
  log.error("web", log.describe(response))
  return dashboard.refusal(500, "internal error")
end

Web.__call = Web.call

return dashboard
