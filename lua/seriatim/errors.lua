-- Errors. An invalid argument or setting (misuse) raises a text that names the field and the rule, at the line of the code that
-- called the library; nothing was written. A failure at run time, of the network or of Redis, is returned as nil and a
-- seriatim.Error: the same call may succeed later.

local errors = {}

---kind:
---  IO               no connection to Redis, or it broke (PROTOCOL: it answered nonsense)
---  TIMEOUT          Redis did not answer in time
---  POOL_TIMEOUT     all connections were busy for pool_timeout seconds
---  QUEUE_FULL       nginx: too many jobs of push_later wait for Redis
---  UNKNOWN_OUTCOME  a push was sent and no answer came within push_timeout: the message names the chunks that may have been written
---  NOT_REPLICATED   a push is written, all of it, but fewer replicas than wait_replicas said in wait_timeout that they have it;
---                   the error's field result is what the push would have given
---  STALE            the lease under which the jobs ran was taken by another node, or a popped delivery has ended or its time is over
---  FULL             Redis is at its maxmemory and refuses writes
---  GENERATION       the queue was deleted, made anew or resharded since its layout was read
---  READONLY         Redis is a read-only replica
---  LOADING          Redis still loads its data
---  AUTH             Redis refused user or password
---  SERVER           any other refusal by Redis, in its words
---  UNSUPPORTED      this build cannot do it (rediss:// without OpenSSL, for one)
---  CLOSED           used after it was closed, or in another process than the one that made it
---  UNDECODABLE      a payload that its worker's codec cannot read
---  NOMEM            no memory
---  SYSTEM           raised: there is no thread or descriptor for a server that starts
---  OUTPUT           raised: the command cannot write what it prints
---  USAGE            raised: what the command line answers with exit code 2
---@class seriatim.Error
---@field kind string
---@field message string
---@field result seriatim.PushResult?
---@field of_application boolean?  the application that the command loads is wrong, not the command line
---@field unread boolean?  of OUTPUT: the reader of the pipe is gone, of which the command says nothing
local Error = {}
Error.__index = Error
Error.__name = "seriatim.Error"

function Error:__tostring()
  return self.kind .. ": " .. self.message
end

---@param kind string
---@param message string
---@return seriatim.Error
function errors.new(kind, message)
  return setmetatable({ kind = kind, message = message }, Error)
end

---Is it one of ours, and of this kind where one is given?
---@param value any
---@param kind string?
---@return boolean
function errors.is(value, kind)
  return getmetatable(value) == Error and (kind == nil or value.kind == kind)
end

local ROOT = debug.getinfo(1, "S").source:match("^(@.*)seriatim[/\\]errors%.lua$")

local function is_ours(source)
  if not ROOT or source:sub(1, #ROOT) ~= ROOT then
    return false
  end
  local name = source:sub(#ROOT + 1)
  return name:find("^seriatim[/\\.]") ~= nil or name:find("^resty[/\\]seriatim[/\\.]") ~= nil
end

---The nearest function on the stack that is not the library's: its level for error() in the function that asks, and its source.
local function caller()
  local level = 2
  while true do
    local info = debug.getinfo(level, "Sl")
    if not info then
      return 0, "?"
    end
    if info.currentline > 0 and not is_ours(info.source) then
      return level - 1, info.source
    end
    level = level + 1
  end
end

---Raises at the line of the code that called us.
---@param message string  field and rule
function errors.misuse(message)
  local level = caller()
  error("seriatim: " .. message, level)
end

---Raises what was caught. USAGE, which the command says in its own way, is misuse like any other here: PUC 5.1 and nginx show no
---table that nobody caught.
---@param raised any
function errors.refuse(raised)
  if errors.is(raised, "USAGE") then
    errors.misuse(raised.message)
  end
  error(raised, 0)
end

---The nearest function on the stack that is a file as a whole, and not the library's: another one each time that the file is loaded.
local function nearest_file(level)
  while true do
    local info = debug.getinfo(level, "Sf")
    if not info or info.what == "main" and not is_ours(info.source) then
      return info
    end
    level = level + 1
  end
end

---@class seriatim.Place
---@field file string  that was being loaded, or else that of the code that called us
---@field chunk function?  the file's function; nil: no file was being loaded
---@field line string  file and line of the code that called us; "": that was a tail call, which leaves nothing on the stack

---Where the library was called.
---@return seriatim.Place
function errors.place()
  local level, source = caller()
  local file, info = nearest_file(3), debug.getinfo(3, "Sl")
  local is_known = level > 0 and info and info.currentline > 0
  return {
    file = file and file.source or source, chunk = file and file.func,
    line = is_known and ("%s:%d"):format(info.source, info.currentline) or "",
  }
end

---Raises a seriatim.Error of kind USAGE.
---@param message string
function errors.usage(message)
  error(errors.new("USAGE", message), 0)
end

---Raises a seriatim.Error of kind USAGE that says what is wrong in the application, not in the command line.
---@param message string
function errors.application(message)
  local raised = errors.new("USAGE", message)
  raised.of_application = true
  error(raised, 0)
end

---Reports the status of a function of the C module: raises misuse, or returns nil and a seriatim.Error.
---@param kind string  the name of a core's status
---@param message string
---@return nil, seriatim.Error
function errors.failure(kind, message)
  if kind == "INVALID" then
    errors.misuse(message)
  end
  return nil, errors.new(kind, message)
end

---The results of a function of the C module. A failure, which comes as nil, kind and message, becomes nil and a seriatim.Error.
---@return any ...
function errors.outcome(first, second, ...)
  if first == nil and type(second) == "string" then
    return errors.failure(second, ...)
  end
  return first, second, ...
end

---The results of a call. A failure (nil, kind and message, or nil and a seriatim.Error) is raised.
---@return any ...
function errors.must(first, second, third, ...)
  if first ~= nil then
    return first, second, third, ...
  end
  if type(second) == "string" then
    second = select(2, errors.failure(second, third))
  end
  error(second, 0)
end

local function guarded(ok, ...)
  if ok then
    return ...
  end
  local raised = ...
  if type(raised) == "string" then
    errors.misuse(raised)
  end
  error(raised, 0)
end

---Calls a function of the C module. What it raises is misuse, raised again at the line of the code that called us.
---@param called function
---@return any ...  its results
function errors.guard(called, ...)
  return guarded(pcall(called, ...))
end

return errors
