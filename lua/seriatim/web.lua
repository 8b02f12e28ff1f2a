-- The dashboard, its API and the metrics, for an application to mount.
--
--     local web = require("seriatim.web").new { prefix = "/admin/jobs", read_only = true }
--     local response = web(request)
--
-- and in nginx, with what follows as `serve`'s options: location /seriatim/ { content_by_lua_block { require("seriatim.web").serve {} } }

local web = require "seriatim.web.dashboard" -- the same table: hosts set web.stalled

---In nginx: answers the request that runs. Its arguments may be said anew for each.
---@param options seriatim.WebOptions?
function web.serve(options)
  return require("resty.seriatim.web").serve(options) -- late, because outside of nginx it cannot be loaded
end

return web
