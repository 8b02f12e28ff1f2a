-- The command's options and its help.
local errors = require "seriatim.errors"

local options = {}

local BANNER = [[
Usage: seriatim-lua -r PATH [options]                run the server
       seriatim-lua push QUEUE ID [PAYLOAD]          enqueue; PAYLOAD is JSON
       seriatim-lua stats [QUEUE...] [--json]        the figures of the queues
       seriatim-lua explain QUEUE ID                 why this id is or is not running
       seriatim-lua dead list|retry|delete QUEUE [ID...] [--all]
       seriatim-lua pause|resume QUEUE [ID]          a queue, or one id of it
       seriatim-lua queues delete QUEUE [--force QUEUE]  delete a queue that no node serves; with what it holds: --force
       seriatim-lua check [QUEUE...] [--repair]      prove what is stored; exit code 1 if it is not right
       seriatim-lua web [--bind ADDRESS] [--port N]  the dashboard, at http://127.0.0.1:9292/

Redis: SERIATIM_REDIS_URL, REDIS_URL or seriatim.redis; without any, a private one (not in production).

]]

-- ---- values

local function text(given)
  return given
end

local function integer(given)
  return given:find("^[+-]?%d+$") and math.floor(tonumber(given)) or nil
end

local function finite(given)
  local number = not given:find("[xX]") and tonumber(given)
  return number and number - number == 0 and number or nil
end

local function log_format(given)
  return (given == "text" or given == "json") and given or nil
end

-- ---- rows: names, what the help says, the option's key, how its value is read (nil: a flag), is it a list

local ROWS = {
  { "-r, --require PATH", "the application: a file, a folder with init.lua, or a module", "require", text },
  { "-C, --config FILE", "settings from a Lua or JSON file", "config", text },
  { "-c, --threads N", "threads a process (seriatim.threads_per_node)", "threads", integer },
  { "-p, --processes N", "processes (1)", "processes", integer },
  { "-q, --queue NAME", "only this queue; may be repeated", "queues", text, true },
  { "-t, --timeout SECONDS", "what a stop gives to running jobs (25)", "timeout", finite },
  { "-e, --environment NAME", "production, development, ...", "environment", text },
  { "-v, --verbose", "log every job", "verbose" },
  { "--log-format FORMAT", "text or json", "log_format", log_format },
  { "--json", "stats, explain, dead list, check: print JSON", "json" },
  { "--all", "dead retry, dead delete: all of them", "all" },
  { "--limit N", "dead list: at most so many (100)", "limit", integer },
  { "--create", "push: makes the queue if it is not there", "create" },
  { "--shards N", "push --create: how many shards a new queue gets (5)", "shards", integer },
  { "--force QUEUE", "queues delete: also with what it holds; the name again", "force", text },
  { "--delay SECONDS", "push: not before so many seconds", "delay", finite },
  { "--score SCORE", "push: the payload's place among the id's", "score", finite },
  { "--bind ADDRESS", "web: a loopback address, unix:PATH, or with --token any (127.0.0.1)", "bind", text },
  { "--port N", "web: (9292); 0: a free one", "port", integer },
  { "--token TOKEN", "web: what `Authorization: Bearer` must say", "token", text },
  { "--read-only", "web: nothing can be changed through it", "read_only" },
  { "--repair", "check: mend what can be mended without losing a payload", "repair" },
  {},
  { "-V, --version", "print the version", "version" },
  { "-h, --help", "print this", "help" },
}

---The descriptor by which a process of -p hears that its supervisor is gone.
options.PARENT = "--parent"

local BY_NAME = { [options.PARENT] = { options.PARENT, "", "parent", integer } }
for _, row in ipairs(ROWS) do
  for name in (row[1] or ""):gmatch("%-%-?[%a-]+") do
    BY_NAME[name] = row
  end
end

-- ---- reading

local function is_negative_number(word)
  return word:find("^%-%.?%d") and tonumber(word) ~= nil
end

local function is_option(word)
  return word:find("^%-.") ~= nil and not is_negative_number(word)
end

---An option's word as name and attached value: --name=value, -nvalue.
local function split(word)
  local name, value = word:match("^(%-%-[^=]+)=(.*)$")
  if name then
    return name, value
  end
  if word:sub(1, 2) ~= "--" and #word > 2 then
    return word:sub(1, 2), word:sub(3)
  end
  return word, nil
end

local function keep(found, row, name, given)
  local value = row[4](given)
  if value == nil then
    errors.usage(("invalid argument: %s %s"):format(name, given))
  end
  if row[5] then
    found[row[3]] = found[row[3]] or {}
    table.insert(found[row[3]], value)
  else
    found[row[3]] = value
  end
end

---Reads the option at this place; gives the place of the next word.
local function read_option(found, arguments, at)
  local name, value = split(arguments[at])
  local row = BY_NAME[name]
  if not row then
    errors.usage("invalid option: " .. arguments[at])
  end
  if not row[4] then
    if value and name:sub(1, 2) == "--" then
      errors.usage("needless argument: " .. arguments[at])
    end
    found[row[3]] = true
    if value then -- -vV is -v -V
      arguments[at] = "-" .. value
      return at
    end
    return at + 1
  end
  if not value then
    at = at + 1
    value = arguments[at]
    if value == nil or is_option(value) then
      errors.usage("missing argument: " .. name)
    end
  end
  keep(found, row, name, value)
  return at + 1
end

---The options by name, of which only what was given is there, and the other words. Raises a usage error.
---@param given string[]
---@return table<string, any> found
---@return string[] words
function options.parse(given)
  local arguments, found, words, at = {}, {}, {}, 1
  for place, word in ipairs(given) do
    arguments[place] = word
  end
  while arguments[at] do
    if arguments[at] == "--" then
      for place = at + 1, #arguments do
        words[#words + 1] = arguments[place]
      end
      break
    elseif is_option(arguments[at]) then
      at = read_option(found, arguments, at)
    else
      words[#words + 1] = arguments[at]
      at = at + 1
    end
  end
  return found, words
end

---@return string
function options.help()
  local lines = {}
  for place, row in ipairs(ROWS) do
    local left = row[1] and (row[1]:find("^%-%-") and "    " .. row[1] or row[1])
    lines[place] = left and ("    %-32s %s\n"):format(left, row[2]) or "\n"
  end
  return BANNER .. table.concat(lines)
end

return options
