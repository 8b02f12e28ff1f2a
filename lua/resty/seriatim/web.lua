-- The dashboard in an nginx location: content_by_lua_block { require("seriatim.web").serve { ... } }.

local loops = require "resty.seriatim.loop"
local dashboard = require "seriatim.web.dashboard"

local PREFIX = "/seriatim"
local MOST_HEADERS = 100
local POLLS = 1000 -- pops that may wait at once in an nginx worker: each is a light thread, and holds no connection to Redis

local serving = {}

dashboard.stalled = loops.stalled

---nginx wrote a long body to a file.
local function read_file(path)
  local file = path and io.open(path, "rb")
  local text = file and file:read(dashboard.MAX_BODY + 1)
  if file then
    file:close()
  end
  return text
end

---Nil: it is too long.
local function read_body()
  if ngx.req.get_method() ~= "POST" then
    return ""
  elseif (tonumber(ngx.var.http_content_length) or 0) > dashboard.MAX_BODY then
    return nil
  end
  ngx.req.read_body()
  local body = ngx.req.get_body_data() or read_file(ngx.req.get_body_file()) or ""
  return #body <= dashboard.MAX_BODY and body or nil
end

---A function that says whether the client has closed its connection, and calls `wake`, if that is given, when it does so; nil:
---nginx does not tell (lua_check_client_abort is off).
local function watch_client()
  local has_left, wakes = false, nil
  local function leave()
    has_left = true
    if wakes then
      wakes()
    end
  end
  if ngx.on_abort(leave) then
    return function(wake)
      wakes = wake or wakes
      return has_left
    end
  end
end

local function request_of(body)
  local path, query = ngx.var.request_uri:match("^([^?]*)%??(.*)$")
  return {
    method = ngx.req.get_method(),
    path = path,
    query = query,
    headers = ngx.req.get_headers(MOST_HEADERS),
    body = body,
    secure = ngx.var.scheme == "https",
    has_left = watch_client(),
  }
end

local function send(response)
  ngx.status = response.status
  for name, value in pairs(response.headers) do
    ngx.header[name] = value
  end
  if ngx.req.get_method() ~= "HEAD" and response.status ~= 204 then
    ngx.header["Content-Length"] = #response.body
    ngx.print(response.body)
  end
  return ngx.exit(ngx.OK)
end

---Answers the request that runs. The prefix is /seriatim unless one is given: the location's.
---@param options seriatim.WebOptions?
function serving.serve(options)
  local mounted = dashboard.new(options)
  if not options or options.prefix == nil then
    mounted.prefix = PREFIX
  end
  if not options or options.polls == nil then
    mounted.polls = POLLS
  end
  local body = read_body()
  return send(body and mounted(request_of(body)) or dashboard.refusal(413, ("the body is longer than %d bytes"):format(dashboard.MAX_BODY)))
end

return serving
