-- One line an event: `LEVEL 2026-11-20T12:00:00.000Z pid= tid= q= id= n= elapsed= msg`, or the same as JSON.
--
-- Its fields may be set: `level` (log.DEBUG to log.FATAL), `format` ("text" or "json"), `thread` (what tid shows) and
-- `output`, a function (line, level) that takes each line without its end; nginx has one that calls ngx.log.
local native = require "seriatim.native"

local log = {
  DEBUG = 10,
  INFO = 20,
  WARN = 30,
  ERROR = 40,
  FATAL = 50,
}

local LEVELS = { [10] = "DEBUG", [20] = "INFO", [30] = "WARN", [40] = "ERROR", [50] = "FATAL" }
local BRIEF = 500 -- bytes
local FIELDS = { "q", "id", "n", "elapsed" }

local VALID = {
  "^[\194-\223][\128-\191]",
  "^\224[\160-\191][\128-\191]",
  "^[\225-\236\238\239][\128-\191][\128-\191]",
  "^\237[\128-\159][\128-\191]",
  "^\240[\144-\191][\128-\191][\128-\191]",
  "^[\241-\243][\128-\191][\128-\191][\128-\191]",
  "^\244[\128-\143][\128-\191][\128-\191]",
}

---A function (line, level) that writes each line at once to this file.
---@param file file*
function log.to(file)
  return function(line)
    file:write(line .. "\n")
    file:flush()
  end
end

log.level = log.INFO
log.format = "text"
log.thread = "main"
log.output = log.to(io.stderr)

---A function as output for log.notice; nil: output takes its lines, too.
log.notices = nil

-- ---- texts

local function valid_end(run, at)
  for _, pattern in ipairs(VALID) do
    local _, last = run:find(pattern, at)
    if last then
      return last
    end
  end
end

local function clean_run(run)
  local parts, at = {}, 1
  while at <= #run do
    local last = valid_end(run, at)
    parts[#parts + 1] = last and run:sub(at, last) or "?"
    at = (last or at) + 1
  end
  return table.concat(parts)
end

---The text; a byte that is no UTF-8 is a question mark.
---@return string
function log.utf8(value)
  return (tostring(value):gsub("[\128-\255]+", clean_run))
end

---The first `bytes` bytes of the text, less where they would end inside of a UTF-8 character.
function log.cut(text, bytes)
  while #text > bytes and (text:byte(bytes + 1) or 0) >= 0x80 and text:byte(bytes + 1) < 0xC0 do
    bytes = bytes - 1
  end
  return text:sub(1, bytes)
end

---The text as a terminal may show it: control characters, which could move its cursor or end a row of a table, are escaped.
---@return string
function log.printable(value)
  return native.printable(log.utf8(value))
end

---The same as one line of a log.
---@return string
function log.one_line(value)
  return native.printable((log.utf8(value):gsub("[\r\n]+", " | ")))
end

---The same of a text of several lines, a traceback for one.
---@return string
function log.printable_lines(value)
  return (log.utf8(value):gsub("\t", "    "):gsub("[^\n]+", native.printable))
end

local function message_of(value)
  if type(value) == "table" then
    local message = value.message
    if type(message) == "string" or type(message) == "number" then
      return tostring(message)
    end
  end
  return tostring(value)
end

---The text of what was raised: an object's `message`, or what tostring makes of it, whatever its own methods do.
---@return string
function log.describe(value)
  local made, text = pcall(message_of, value)
  return made and type(text) == "string" and text ~= "" and text or type(value)
end

---The first line of an error's text, cut where it is long, and the place at its end where it was raised.
---@return string
function log.brief(text)
  text = log.utf8(text)
  local first = text:match("^[^\r\n]*")
  if #first == #text and #first <= BRIEF then
    return first
  end
  local cut = #first > BRIEF and log.utf8(first:sub(1, BRIEF)):gsub("%?*$", "") .. "..." or first
  return cut .. (text:match(" %([^()\r\n]+:%d+%)$") or "")
end

---@param seconds number since 1970
---@return string in UTC, with milliseconds
function log.timestamp(seconds)
  local milliseconds = math.floor(seconds * 1000)
  local whole = math.floor(milliseconds / 1000)
  return ("%s.%03dZ"):format(os.date("!%Y-%m-%dT%H:%M:%S", whole), milliseconds % 1000)
end

local function json(value)
  return native.dump(type(value) == "number" and value or log.utf8(value), "log")
end

local function quote(value)
  local text = type(value) == "number" and value % 1 ~= 0 and ("%.3f"):format(value) or log.utf8(value)
  return text:find('^[^"=%s%c]+$') and text or json(text)
end

-- ---- lines

local function add_fields(parts, fields, write)
  for _, name in ipairs(FIELDS) do
    if fields and fields[name] ~= nil then
      parts[#parts + 1] = write(name, fields[name])
    end
  end
end

local function pair(name, value)
  return name .. "=" .. (name == "elapsed" and ("%.3f"):format(value) or quote(value))
end

local function json_pair(name, value)
  return ('"%s":%s'):format(name, json(value))
end

local function text_line(now, level, name, text, fields)
  local words = { LEVELS[level], log.timestamp(now), pair("pid", native.getpid()), pair("tid", log.thread) }
  add_fields(words, fields, pair)
  words[#words + 1] = name
  words[#words + 1] = text and log.utf8(text)
  return log.one_line(table.concat(words, " "))
end

local function json_line(now, level, name, text, fields)
  local pairs_ = { json_pair("ts", log.timestamp(now)), json_pair("lvl", LEVELS[level]) }
  pairs_[3], pairs_[4] = json_pair("pid", native.getpid()), json_pair("tid", log.thread)
  pairs_[5] = json_pair("event", name)
  pairs_[6] = text and json_pair("msg", text)
  add_fields(pairs_, fields, json_pair)
  return native.printable("{" .. table.concat(pairs_, ",") .. "}")
end

local function write(level, name, text, fields, output)
  local line = log.format == "json" and json_line or text_line;
  (output or log.output)(line(log.now(), level, name, text, fields), level)
end

---Seconds since 1970; nginx has its own.
function log.now()
  return native.time()
end

---Logs an event; never raises. fields: some of q (queue), id (of several: the first), n (how many; of a failure: its
---retry_count) and elapsed (seconds).
---@param level integer
---@param name string
---@param text any
---@param fields table?
function log.write(level, name, text, fields)
  if level >= log.level then
    pcall(write, level, name, text, fields)
  end
end

function log.debug(name, text, fields)
  log.write(log.DEBUG, name, text, fields)
end

function log.info(name, text, fields)
  log.write(log.INFO, name, text, fields)
end

---What a person is to see although standard output, to which a server logs, may be read by a program.
---@param name string
---@param text string
function log.notice(name, text)
  if log.INFO >= log.level then
    pcall(write, log.INFO, name, text, nil, log.notices)
  end
end

function log.warn(name, text, fields)
  log.write(log.WARN, name, text, fields)
end

function log.error(name, text, fields)
  log.write(log.ERROR, name, text, fields)
end

---@return boolean
function log.is_debug()
  return log.level <= log.DEBUG
end

return log
