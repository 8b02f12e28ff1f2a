-- Parses the command's options. The texts of --help are in core/command/command.json.
local spelling = require "seriatim.client.spelling"
local errors = require "seriatim.errors"

local options = {}

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

-- ---- rows: names, the option's key, how its value is read (nil: a flag), is it a list

local ROWS = {
  { "-r, --require", "require", text },
  { "-C, --config", "config", text },
  { "-c, --threads", "threads", integer },
  { "-p, --processes", "processes", integer },
  { "-q, --queue", "queues", text, true },
  { "-t, --timeout", "timeout", finite },
  { "-e, --environment", "environment", text },
  { "-v, --verbose", "verbose" },
  { "--log-format", "log_format", log_format },
  { "--json", "json" },
  { "--all", "all" },
  { "--limit", "limit", integer },
  { "--create", "create" },
  { "--shards", "shards", integer },
  { "--force", "force", text },
  { "--delay", "delay", finite },
  { "--score", "score", finite },
  { "--wait", "wait", finite },
  { "--ack", "ack" },
  { "--bind", "bind", text },
  { "--port", "port", integer },
  { "--token", "token", text },
  { "--read-only", "read_only" },
  { "--consume", "consume" },
  { "--repair", "repair" },
  { "--error", "error", text },
  { "--id", "id", text },
  { "--from", "from", text },
  { "--watch", "watch" },
  { "--status", "status" },
  { "--no-wait", "no_wait" },
  { "-V, --version", "version" },
  { "-h, --help", "help" },
}

---The descriptor by which a process of -p hears that its supervisor is gone.
options.PARENT = "--parent"

local LONG_NAMES = {}
local BY_NAME = { [options.PARENT] = { options.PARENT, "parent", integer } }
for _, row in ipairs(ROWS) do
  for name in row[1]:gmatch("%-%-?[%a-]+") do
    BY_NAME[name] = row
  end
  LONG_NAMES[#LONG_NAMES + 1] = row[1]:match("%-%-.*")
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
  local value = row[3](given)
  if value == nil then
    errors.usage(("invalid argument: %s %s"):format(name, given))
  end
  if row[4] then
    found[row[2]] = found[row[2]] or {}
    table.insert(found[row[2]], value)
  else
    found[row[2]] = value
  end
end

---Reads the option at this place; gives the place of the next word.
local function read_option(found, arguments, at)
  local name, value = split(arguments[at])
  local row = BY_NAME[name]
  if not row then
    local nearest = name:sub(1, 2) == "--" and spelling.did_you_mean(name, LONG_NAMES) or ""
    errors.usage("invalid option: " .. arguments[at] .. nearest)
  end
  if not row[3] then
    if value and name:sub(1, 2) == "--" then
      errors.usage("needless argument: " .. arguments[at])
    end
    found[row[2]] = true
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

return options
