-- The settings, which are fields of the module seriatim. Each is checked when it is set.

local spelling = require "seriatim.client.spelling"
local validate = require "seriatim.client.validate"
local errors = require "seriatim.errors"
local log = require "seriatim.log"

---@class seriatim.Hooks  functions to call, in this order; calling it with one adds it
---@field functions function[]
---@overload fun(added: function): function
local Hooks = {}
Hooks.__index = Hooks

local function new_hooks()
  return setmetatable({ functions = {} }, Hooks)
end

---@param added function
---@return function
function Hooks:__call(added)
  table.insert(self.functions, validate.callable("hook", added))
  return added
end

function Hooks:clear()
  for place = #self.functions, 1, -1 do
    self.functions[place] = nil
  end
end

local function integer(low, high)
  return function(field, value) return validate.integer(field, value, low, high) end
end

local function seconds(low, high)
  return function(field, value) return validate.seconds(field, value, low, high) end
end

local function namespace(field, value)
  if type(value) == "string" and value:find("\0", 1, true) then
    return validate.refuse(field, "a text of 1 to 128 bytes without a zero byte", value)
  end
  return validate.text(field, value, 1, 128)
end

local function redis(field, value)
  if value == nil or validate.is_callable(value) then
    return value
  end
  return validate.url(field, value, "a URL, a function that gives one, or nil")
end

local function workers(field, value)
  return validate.is_callable(value) and value or validate.list(field, value)
end

local function hooks(field, value)
  if getmetatable(value) == Hooks then
    return value
  end
  local made = new_hooks()
  if validate.callable_or_nil(field, value) ~= nil then
    made(value)
  end
  return made
end

local function same(value)
  return value
end

local BACKTRACE_LINES = 10
local FORMATTED_BYTES = 4096

---Is this line of a traceback a call in one of our modules? A tail call left nothing to tell either.
local function is_ours(line)
  local path = line:match("^(.-)%.lua:") or "" -- a folder above ours may have the same name
  local name = (path:match(".*seriatim/([%w_/]+)$") or ""):gsub("/", ".")
  return package.loaded["seriatim." .. name] or package.loaded["resty.seriatim." .. name] or line:find("^%(%.*tail call")
end

---The protected call in which a delivery runs: the application has none above it, which would have caught the error. Where Lua left
---out levels of a deep stack, that call and those below it are behind the gap.
local function ends_application(line)
  return line:find("^%.%.%.") or line:find("^%[C%]: in function '.-pcall'") or line:find("^%[C%]: in function 'guard'")
end

---The default of format_error: raised.message or tostring(raised), and the first ten lines of the traceback that are the application's.
local function format_error(raised, traceback)
  local lines = { log.describe(raised) }
  for line in (traceback or ""):gmatch("\t([^\n]+)") do
    if #lines > BACKTRACE_LINES or ends_application(line) then
      break
    end
    lines[#lines + 1] = not is_ours(line) and line or nil
  end
  return log.cut(table.concat(lines, "\n"), FORMATTED_BYTES)
end

local function value_of(value)
  return function() return value end
end

local function empty()
  return {}
end

-- name, check, what makes the default, and whether another value needs other connections
local DECLARED = {
  { "workers", workers, empty },
  { "poll_interval", seconds(0.01, 3600), value_of(1) },
  { "threads_per_node", integer(1, 10000), value_of(5) },
  { "redis", redis, value_of(nil), true },
  { "client_pool_size", integer(1, 10000), value_of(5), true },
  { "pool_timeout", seconds(0, 3600), value_of(5), true },
  { "server_middlewares", validate.callables, empty },
  { "client_middlewares", validate.callables, empty },
  { "on_server_init", hooks, new_hooks },
  { "on_thread_init", hooks, new_hooks },
  { "last_words", hooks, new_hooks },
  { "build_scheduler", validate.callable, value_of(nil) }, -- set_default by seriatim.server.schedulers
  { "build_splitter", validate.callable, value_of(nil) }, -- set_default by seriatim.server.splitters
  { "dump_payload", validate.callable_or_nil, value_of(nil) },
  { "load_payload", validate.callable_or_nil, value_of(nil) },
  { "format_error", validate.callable, value_of(format_error) },
  { "dump_error", validate.callable, value_of(same) },
  { "load_error", validate.callable, value_of(same) },
  { "push_timeout", validate.push_timeout, value_of(10) },
  { "wait_replicas", validate.wait_replicas, value_of(0) },
  { "wait_timeout", validate.wait_timeout, value_of(1) },
  { "lease_time", seconds(0.2, 3600), value_of(10) },
  { "stop_timeout", seconds(0, 86400), value_of(25) },
  { "namespace", namespace, value_of("seriatim"), true },
}

local values = {} -- by name
local was_set = {} -- by name: true
local rules = {} -- by name: check and whether it connects

---All settings of this Lua state: read and set as fields, by their names.
---@class seriatim.Settings
---@field names string[]
---@field changes integer  grows with every assignment
---@field connection_changes integer  grows when other connections are needed
local settings = { names = {}, changes = 0, connection_changes = 0 }

for place, declared in ipairs(DECLARED) do
  settings.names[place] = declared[1]
  rules[declared[1]] = { check = declared[2], default = declared[3], connects = declared[4] }
end

---@param name any
---@return boolean
function settings.is_one(name)
  return rules[name] ~= nil
end

---@param name string
---@return boolean  was it set since the last reset?
function settings.was_set(name)
  return was_set[name] == true
end

---Have workers been chosen, by an assignment or by an insertion?
---@return boolean
function settings.workers_set()
  return settings.was_set("workers") or validate.is_callable(values.workers) or next(values.workers) ~= nil
end

---@return boolean  is load_error another one than the default? Else errors are stored as they are.
function settings.loads_errors()
  return values.load_error ~= same
end

---Gives a setting its default. For modules that need the settings themselves, so that the settings cannot need them.
---@param name string
---@param default any  neither a table nor nil: every reset uses the same one
function settings.set_default(name, default)
  rules[name].default = value_of(default)
  if not was_set[name] then
    values[name] = default
  end
end

---Sets each back to its default.
function settings.reset()
  for _, declared in ipairs(DECLARED) do
    values[declared[1]] = rules[declared[1]].default()
  end
  was_set = {}
  settings.changes = settings.changes + 1
  settings.connection_changes = settings.connection_changes + 1
end

---As settings[name] = value.
---@param name any
---@param value any
function settings.set(_, name, value)
  local rule = rules[name]
  if not rule then
    local problem = "there is no setting %s%s; there are %s"
    errors.misuse(problem:format(validate.shown(name), spelling.did_you_mean(name, settings.names), table.concat(settings.names, ", ")))
  end
  values[name] = rule.check(name, value)
  was_set[name] = true
  settings.changes = settings.changes + 1
  if rule.connects then
    settings.connection_changes = settings.connection_changes + 1
  end
end

settings.reset()

return setmetatable(settings, { __index = values, __newindex = settings.set })
