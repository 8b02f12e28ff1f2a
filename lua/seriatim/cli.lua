-- The command `seriatim-lua`. Exit codes: 0 stopped, 1 crashed, 2 usage, 3 no Redis.
local codes = require "seriatim.cli.exit_codes"
local failure = require "seriatim.cli.failure"
local options = require "seriatim.cli.options"
local output = require "seriatim.cli.output"
local private_redis = require "seriatim.client.private_redis"
local errors = require "seriatim.errors"
local log = require "seriatim.log"
local native = require "seriatim.native"
local application = require "seriatim.server.application"

local VERBS = {} -- the same words in each language: core/command/command.json
for verb in native.command_text("verbs"):gmatch("%S+") do
  VERBS[#VERBS + 1] = verb
end
local OPTIONS = {} -- by verb, or by verb and action
for name, keys in native.command_text("options"):gmatch("([^\n]+): ([^\n]*)") do
  OPTIONS[name] = {}
  for key in keys:gmatch("%S+") do
    OPTIONS[name][key] = true
  end
end
local OF_ITSELF = { help = true, version = true, man = true, completion = true }

local cli = {}

---What the command line says wins.
local function with_config_file(found)
  if not found.config then
    return found
  end
  local merged = require("seriatim.cli.config_file").read(found.config, found.environment)
  for key, value in pairs(found) do
    merged[key] = value
  end
  return merged
end

local function set_up_log(found, file)
  log.output, log.notices = log.to(file), log.to(io.stderr)
  log.format = found.log_format or "text"
  log.level = found.verbose and log.DEBUG or log.INFO
end

local function is_verb(word)
  for _, verb in ipairs(VERBS) do
    if verb == word then
      return true
    end
  end
  return false
end

local function unknown(verb)
  errors.usage(("unknown command %s; there are %s"):format(verb, table.concat(VERBS, ", ")))
end

---An option of another verb or action. With -h and -V none is used.
local function refuse_foreign_option(found, words)
  local both = words[2] and words[1] .. " " .. words[2]
  local name, foreign = OPTIONS[both] and both or words[1] or "server", nil
  if not OPTIONS[name] or found.help or found.version then
    return
  end
  for key in pairs(found) do
    if not OPTIONS[name][key] and key ~= "parent" and (not foreign or key < foreign) then
      foreign = key
    end
  end
  if foreign then
    errors.usage(("%s, not of %s"):format(native.command_text("option " .. foreign), name))
  end
end

---help, version and the like, which need neither Redis nor an application.
local function said_of_itself(found, words)
  local text
  if found.help or words[1] == "help" then
    local verb = words[words[1] == "help" and 2 or 1]
    if verb and not is_verb(verb) then
      unknown(verb)
    end
    text = native.command_text(verb and "help " .. verb or "help")
  elseif found.version or words[1] == "version" then
    return "seriatim " .. require "seriatim.version" .. "\n"
  else
    text = native.command_text(table.concat(words, " "))
  end
  return text and (text:gsub("{program}", "seriatim-lua")) or errors.usage("usage: seriatim-lua completion bash|zsh|fish")
end

local function dispatch(found, words, arguments)
  local verb = table.remove(words, 1) or "server"
  if not is_verb(verb) then
    unknown(verb)
  end
  if found.environment then
    application.set_environment(found.environment)
  end
  if verb ~= "server" then
    native.hold_signals(false)
    native.catch_signals({ "PIPE" }, false) -- else a reader that is gone would end pop before it has handed anything back
  end
  if verb == "outbox" then
    errors.usage("outbox is for applications in Ruby: use the command of the Ruby gem")
  end
  if verb ~= "server" and verb ~= "web" then
    set_up_log(found, io.stderr)
    local code = require("seriatim.cli.operators").new(found):call(verb, words)
    output.flush()
    return code
  end
  if #words > 0 then
    errors.usage("unexpected " .. table.concat(words, " "))
  end
  if verb == "web" then
    set_up_log(found, io.stderr)
    return require("seriatim.cli.web_command").new(found):run()
  end
  set_up_log(found, io.stdout)
  return require("seriatim.cli.server_command").new(found, arguments):run()
end

local function run(arguments)
  local found, words = options.parse(arguments)
  refuse_foreign_option(found, words)
  if found.help or found.version or OF_ITSELF[words[1]] then
    output.write(said_of_itself(found, words))
    output.flush()
    return codes.STOPPED
  end
  return dispatch(with_config_file(found), words, arguments)
end

-- ---- errors

local function complain(code, ...)
  local lines = { ... }
  for place, line in ipairs(lines) do
    lines[place] = log.printable_lines(line)
  end
  io.stderr:write("seriatim: ", table.concat(lines, "\n          "), "\n")
  return code
end

---One line; with -v also the traceback.
local function refuse_application(line, traceback)
  complain(codes.USAGE, line)
  if traceback and log.is_debug() then
    io.stderr:write(log.printable_lines(traceback), "\n")
  end
  return codes.USAGE
end

local function code_of(ended)
  local raised = ended.raised
  local mistake = application.is_loading and application.mistake(ended)
  if mistake then
    return refuse_application(mistake, ended.traceback)
  elseif errors.is(raised) and raised.of_application then
    return refuse_application(raised.message)
  end
  local misuse = failure.misuse(raised)
  if misuse == private_redis.REFUSED then
    return complain(codes.NO_REDIS, misuse)
  elseif misuse then
    return complain(codes.USAGE, misuse, "see seriatim-lua help")
  elseif failure.no_redis(raised) then
    return complain(codes.NO_REDIS, failure.no_redis(raised))
  elseif errors.is(raised, "OUTPUT") and raised.unread then
    return codes.CRASHED
  elseif errors.is(raised) then
    return complain(codes.CRASHED, raised.message)
  end
  return complain(codes.CRASHED, ended.traceback)
end

---The exit code.
---@param arguments string[]
---@return integer
function cli.main(arguments)
  local ran, result = xpcall(function()
    return run(arguments)
  end, failure.seen)
  io.stdout:flush()
  return ran and result or code_of(result)
end

return cli
