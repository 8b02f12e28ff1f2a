-- The same as settings_probe.rb, in Lua.
local config_file = require "seriatim.cli.config_file"
local log = require "seriatim.log"
local native = require "seriatim.native"
local seriatim = require "seriatim"
local settings = require "seriatim.settings"

local worker = seriatim.worker { name = "orders" }

-- Calls what raises when it refuses: null, or why.
local function refusal(...)
  local taken, raised = pcall(...)
  return taken and native.null or tostring(raised)
end

local function set(target, name, value)
  target[name] = value
end

local function refusals(target, values)
  local answers = {}
  for name, list in pairs(values) do
    answers[name] = seriatim.array()
    for place, value in ipairs(list) do
      answers[name][place] = refusal(set, target, name, value)
    end
  end
  return answers
end

local function plain(value)
  if value == nil or type(value) == "table" and value.functions and #value.functions == 0 then
    return native.null
  elseif type(value) == "table" and next(value) == nil then
    return seriatim.array()
  end
  return (type(value) == "table" or type(value) == "function") and "built in" or value
end

local function defaults(target, names)
  local values = {}
  for _, name in ipairs(names) do
    values[name] = plain(target[name])
  end
  return values
end

-- The names of a worker's options, as the refusal of an unknown one lists them.
local function worker_names()
  local names, known = {}, refusal(set, worker, "nothing", 1):match("known are (.*)$")
  for name in known:gmatch("[%w_]+") do
    names[#names + 1] = name
  end
  return names
end

local function log_line(format)
  local written
  log.format, log.output = format, function(line) written = line end
  log.warn("fail", "no stock", { q = "orders", id = "17", n = 0, elapsed = 0.5 })
  return written
end

local asked = native.load(io.read("*a"))
local answer = {
  module = defaults(seriatim, settings.names),
  worker = defaults(worker, worker_names()),
  refusals = { module = refusals(seriatim, asked.module), worker = refusals(worker, asked.worker) },
  unknown_key = refusal(config_file.read, arg[1]),
  text = log_line("text"),
  json = log_line("json"),
}
print(native.dump(answer, "answer"))
