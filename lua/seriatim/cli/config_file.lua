-- The file of -C: Lua that returns a table, or JSON. Keys are require, threads, processes, queues, timeout, environment,
-- verbose and log_format; any other key must hold a map and is the name of an environment, whose keys win there.
local private_redis = require "seriatim.client.private_redis"
local validate = require "seriatim.client.validate"
local errors = require "seriatim.errors"
local native = require "seriatim.native"

local config_file = {}

local function is_integer(value)
  return type(value) == "number" and value == math.floor(value) and math.abs(value) < 2 ^ 53
end

local function is_finite(value)
  return type(value) == "number" and value - value == 0
end

local function is_texts(value)
  if not validate.is_list(value) then
    return false
  end
  for _, text in ipairs(value) do
    if type(text) ~= "string" then
      return false
    end
  end
  return true
end

local function is_type(name)
  return function(value)
    return type(value) == name
  end
end

local KEYS = { "require", "threads", "processes", "queues", "timeout", "environment", "verbose", "log_format" }

local RULES = {
  require = { "a text", is_type("string") },
  threads = { "an integer", is_integer },
  processes = { "an integer", is_integer },
  queues = { "a list of texts", is_texts },
  timeout = { "a number of seconds", is_finite },
  environment = { "a text", is_type("string") },
  verbose = { "true or false", is_type("boolean") },
  log_format = {
    "text or json",
    function(value)
      return value == "text" or value == "json"
    end,
  },
}

-- ---- formats

local function run_lua(path, text)
  local chunk, problem = (loadstring or load)(text, "@" .. path)
  if not chunk then
    error(problem, 0)
  end
  return chunk()
end

local function read_json(_, text)
  local value, _, problem = native.load(text)
  if value == nil then
    error(problem, 0)
  end
  return value
end

local function read_text(path)
  local file, problem = io.open(path, "rb")
  local text = file and file:read("*a")
  if file then
    file:close()
  end
  if not text then
    local prefix = path .. ": "
    problem = problem or "Is a directory"
    problem = problem:sub(1, #prefix) == prefix and problem:sub(#prefix + 1) or problem
    errors.usage(("-C %s: %s"):format(path, problem))
  end
  return (text:gsub("^\239\187\191", ""))
end

local function parser(path)
  if path:find("%.lua$") then
    return run_lua
  elseif path:find("%.json$") then
    return read_json
  end
  errors.usage(("-C %s: the name must end in .lua or .json"):format(path))
end

---Is it a list? An empty table is a map.
local function is_list(value)
  return getmetatable(value) == native.array_mt or value[1] ~= nil
end

local function parse(path)
  local parse_text = parser(path)
  local text = read_text(path)
  local read, root = pcall(parse_text, path, text)
  if not read then
    errors.usage(("-C %s: %s"):format(path, tostring(root)))
  end
  if type(root) ~= "table" or is_list(root) then
    errors.usage(("%s: must be a map of settings"):format(path))
  end
  return root
end

-- ---- settings

local function checked(path, settings)
  local unknown = {}
  for key in pairs(settings) do
    if not RULES[key] then
      unknown[#unknown + 1] = tostring(key)
    end
  end
  if #unknown > 0 then
    table.sort(unknown)
    errors.usage(("%s: unknown key %s; known are %s"):format(path, table.concat(unknown, ", "), table.concat(KEYS, ", ")))
  end
  for _, key in ipairs(KEYS) do
    local value, rule = settings[key], RULES[key]
    if value ~= nil and not rule[2](value) then
      errors.usage(("%s: %s must be %s, not %s"):format(path, key, rule[1], validate.describe(value)))
    end
  end
  return settings
end

local function is_section(key, value)
  return type(value) == "table" and not RULES[key]
end

---Its settings in that environment (of -e). Raises usage errors.
---@param path string
---@param environment string?
---@return table
function config_file.read(path, environment)
  local plain, sections = {}, {}
  for key, value in pairs(parse(path)) do
    (is_section(key, value) and sections or plain)[key] = value
  end
  checked(path, plain)
  local name = environment or plain.environment or private_redis.environment()
  for key, value in pairs(checked(path, sections[name] or {})) do
    plain[key] = value
  end
  return plain
end

return config_file
