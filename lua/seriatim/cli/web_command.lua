-- Serves the dashboard until TERM or INT, by a few threads that share one listening socket.
local codes = require "seriatim.cli.exit_codes"
local private_redis = require "seriatim.client.private_redis"
local redis_url = require "seriatim.client.redis_url"
local validate = require "seriatim.client.validate"
local errors = require "seriatim.errors"
local log = require "seriatim.log"
local native = require "seriatim.native"
local settings = require "seriatim.settings"

local BIND, PORT = "127.0.0.1", 9292
local THREADS = 4 -- a Redis that does not answer holds one request up, not all
local CHANGE_THREADS = 2 -- of their own, so that changes, which may take long, hold up no page and no probe
local CONSUME_THREADS = 4 -- of their own, so that changes hold up no consumer
local TOKEN = "SERIATIM_WEB_TOKEN" -- the variable that sets the token where --token does not; empty is a mistake, not no token
local POLLS = 1000 -- pops that may wait at once
local LOCAL_HOSTS = { "localhost", "127.0.0.1", "[::1]" } -- with any port
local CHUNK = [[
local path, cpath = ...
package.path, package.cpath = path, cpath
require("seriatim.cli.web_command").serve(select(3, ...))
]]

---@class seriatim.WebCommand
local WebCommand = {}
WebCommand.__index = WebCommand

local command = {}

local function token_of(options)
  local token = options.token or os.getenv(TOKEN)
  return token and validate.text(options.token and "--token" or TOKEN, token, 1, 1024)
end

---@param options table
---@return seriatim.WebCommand
function command.new(options)
  if options.require then
    require("seriatim.server.application").load(options.require)
    require("seriatim.server.workers").load_named() -- fails here and not in the threads, which load it again
  end
  local bind = options.bind or BIND
  return setmetatable({
    application = options.require,
    bind = bind == "localhost" and BIND or bind,
    path = bind:match("^unix://(.+)") or bind:match("^unix:(.+)"),
    port = validate.integer("--port", options.port or PORT, 0, 65535),
    has_port = options.port ~= nil,
    token = token_of(options),
    read_only = options.read_only or false,
    consume = options.consume or false,
    log_format = options.log_format or log.format,
  }, WebCommand)
end

-- ---- where

local function is_loopback(address)
  return address:find("^127%.%d+%.%d+%.%d+$") ~= nil or address == "::1"
end

local function literal(address)
  return address:find(":", 1, true) and "[" .. address .. "]" or address
end

function WebCommand:open()
  local listener, port, message
  if self.path and self.has_port then
    errors.usage("--port and a Unix socket exclude each other")
  elseif self.path then
    listener, port, message = native.listen_unix(self.path)
  elseif not self.token and not is_loopback(self.bind) then
    local text = "--bind %s is not a loopback address: other machines could reach the dashboard; set %s or --token"
    errors.usage(text:format(self.bind, TOKEN))
  else
    listener, port, message = native.listen(self.bind, self.port)
  end
  if not listener then
    errors.usage(("cannot listen on %s: %s"):format(self.bind, message))
  end
  self.address = self.path and "unix:" .. self.path or ("http://%s:%d/"):format(literal(self.bind), port)
  self.port = port
  self.listener = listener
end

---A page of another site whose name was bound to 127.0.0.1 has that name as its Host; with a token it has no token.
function WebCommand:hosts()
  if self.path or self.token then
    return false
  end
  return table.concat(LOCAL_HOSTS, " ") .. " " .. literal(self.bind)
end

-- ---- serving

function WebCommand:start()
  local url = errors.must(redis_url.resolve())
  local threads = {}
  self.given, self.taken = errors.must(native.channel())
  self.given_of_consumers, self.taken_of_consumers = errors.must(native.channel())
  self.polls = native.places()
  for place = 1, THREADS + CHANGE_THREADS + (self.consume and CONSUME_THREADS or 0) do
    local source, changes, consumers = self.listener:fd(), self.given:fd(), self.consume and self.given_of_consumers:fd()
    if place > THREADS then
      local taken = place > THREADS + CHANGE_THREADS and self.taken_of_consumers or self.taken
      source, changes, consumers = taken:fd(), false, false
    end
    threads[place] = errors.must(native.thread(CHUNK, "web-" .. place, package.path, package.cpath, source, changes, consumers, url,
      settings.namespace, self:hosts(), self.token or false, self.read_only, self.consume, self.polls:share(), self.log_format,
      self.application or false))
  end
  return threads
end

local function any_ended(threads)
  for _, thread in ipairs(threads) do
    if not thread:alive() then
      local _, failure = thread:join(0)
      log.error("crash", "a thread of the dashboard ended: " .. tostring(failure))
      return true
    end
  end
  return false
end

local function watch(threads)
  while true do
    local name = native.signal(1)
    if name == "TERM" or name == "INT" then
      return codes.STOPPED
    elseif any_ended(threads) then
      return codes.CRASHED
    end
  end
end

---Ends the process: its threads serve for ever.
function WebCommand:run()
  self:open()
  native.catch_signals { "TERM", "INT", "PIPE" }
  local threads = self:start()
  io.stdout:write("seriatim: the dashboard is at ", self.address, "\n")
  io.stdout:flush()
  local code = watch(threads)
  if self.path then
    os.remove(self.path)
  end
  private_redis.release()
  native.exit(code)
end

---What each thread runs, in a state of its own. changes: where it hands connections over that ask for a change; false: it serves what is
---handed over. consumers: the same of those of consumers; false: they are not served.
---application: of -r, whose workers have names, and which may read stored errors (load_error).
function command.serve(fd, changes, consumers, url, namespace, hosts, token, read_only, consume, shared_polls, log_format, application)
  if application then
    require("seriatim.server.application").load(application)
    require("seriatim.server.workers").load_named() -- one that is not loaded yet would not be known by its name
  end
  local dashboard, stand_alone = require "seriatim.web.dashboard", require "seriatim.web.stand_alone"
  log.format = log_format
  settings.redis, settings.namespace = url, namespace
  local list = {}
  for host in (hosts or ""):gmatch("%S+") do
    list[#list + 1] = host
  end
  local app = dashboard.new { hosts = hosts and list or nil, token = token or nil, read_only = read_only, consume = consume, polls = POLLS }
  dashboard.share_polls(app, shared_polls)
  local source = native.listener(fd)
  local polls = consume and POLLS or 0
  local to_changes, to_consumers = changes and native.listener(changes), consumers and native.listener(consumers) or nil
  local server = to_changes and stand_alone.new(source, app, to_changes, to_consumers, polls) or stand_alone.for_changes(source, app, polls)
  server:run()
end

return command
