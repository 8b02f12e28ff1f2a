-- In which of nginx's phases a connection may be used.

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

local phases = {}

---Nil where cosockets work; else why nothing can be asked of Redis here.
---@return seriatim.Error?
function phases.refusal()
  local phase = get_phase()
  if WITH_SOCKETS[phase] then
    return nil
  end
  local text = "nginx allows no connection in its phase %s: use seriatim.push_later, or ngx.timer.at"
  return errors.new("UNSUPPORTED", text:format(phase))
end

return phases
