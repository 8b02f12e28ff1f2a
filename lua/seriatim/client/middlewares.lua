-- Chains of functions (worker, subject, next), the first outermost.

local validate = require "seriatim.client.validate"

local middlewares = {}

---@alias seriatim.ServerMiddleware fun(worker: seriatim.Worker, batch: seriatim.Batch, next: fun(): ...): ...
---@alias seriatim.ClientMiddleware fun(worker: seriatim.Worker, jobs: seriatim.Job[], next: fun(): ...): ...

---Calls the chain around a core; errors pass through. Raises misuse when one of the chain cannot be called; then none was.
---@param field string  the setting that holds the chain, for errors
---@param chain seriatim.ServerMiddleware[]|seriatim.ClientMiddleware[]
---@param worker seriatim.Worker
---@param subject any  a batch, or the jobs of a push
---@param core fun(): ...
---@return any ...  what the outermost gives; next() gives what the next inner one does
function middlewares.call(field, chain, worker, subject, core)
  local links = {}
  for place, link in ipairs(validate.callables(field, chain)) do
    links[place] = link
  end
  local function from(place)
    local link = links[place]
    if not link then
      return core()
    end
    return link(worker, subject, function() return from(place + 1) end)
  end
  return from(1)
end

return middlewares
