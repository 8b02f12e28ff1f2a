-- In which of nginx's phases a connection may be used, and in which a timer.

local errors = require "seriatim.errors"

local get_phase = ngx.get_phase

local WITH_SOCKETS = {
  rewrite = true,
  server_rewrite = true,
  access = true,
  content = true,
  timer = true,
  preread = true,
  ssl_cert = true,
  ssl_session_fetch = true,
  ssl_client_hello = true,
}

-- Where nginx makes no timer either: what to do instead.
local WITHOUT_TIMERS = {
  init = "push in init_worker_by_lua_block, by seriatim.push_later",
  exit_worker = "push before the nginx worker ends",
}

local phases = {}

---Nil where timers can be made; else why nothing can be pushed later from here.
---@return seriatim.Error?
function phases.refusal_later()
  local phase = get_phase()
  local advice = WITHOUT_TIMERS[phase]
  local text = "nginx allows no connection and no timer in its phase %s: %s"
  return advice and errors.new("UNSUPPORTED", text:format(phase, advice)) or nil
end

---Nil where cosockets work; else why nothing can be asked of Redis here.
---@return seriatim.Error?
function phases.refusal()
  local phase = get_phase()
  if WITH_SOCKETS[phase] then
    return nil
  end
  local text = "nginx allows no connection in its phase %s: use seriatim.push_later, or ngx.timer.at"
  return phases.refusal_later() or errors.new("UNSUPPORTED", text:format(phase))
end

return phases
