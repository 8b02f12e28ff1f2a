-- How many operations on a Redis Cluster may be under way at once in an nginx worker. Each needs connections to several masters,
-- so by nginx's own limits two operations could wait for each other's connections for ever.

local semaphore = require "ngx.semaphore"
local native = require "seriatim.native"

local RECOUNT = 1 -- seconds after which the places of killed requests are looked for, once for all that wait

local places = {}

---@class seriatim.Places
local Places = {}
Places.__index = Places

---@class seriatim.Place
local Place = {}
Place.__index = Place

local all = {} -- by the name of a pool
local looked_ms = 0 -- when they were looked for last

local function of(name)
  -- nginx kills light threads without a word to them; a place that nobody holds any more vanishes.
  local made = all[name] or setmetatable({ taken = setmetatable({}, { __mode = "k" }), semaphore = semaphore.new() }, Places)
  all[name] = made
  return made
end

function Places:count()
  local count = 0
  for _ in pairs(self.taken) do
    count = count + 1
  end
  return count
end

---Frees the places of killed requests. It collects all garbage of the nginx worker, which may take some milliseconds.
local function look_for_killed()
  if native.now_ms() - looked_ms >= RECOUNT * 1000 then
    collectgarbage()
    looked_ms = native.now_ms()
  end
end

---Waits for a place. Nil: all were taken in these milliseconds.
---@param name string  of the pool
---@param size integer
---@param patience number
---@return seriatim.Place?
function places.enter(name, size, patience)
  local self, ends = of(name), native.now_ms() + patience
  while self:count() >= size do
    local left = (ends - native.now_ms()) / 1000
    if left <= 0 then
      return nil
    end
    if not self.semaphore:wait(math.min(left, RECOUNT)) then
      look_for_killed()
    end
  end
  local place = setmetatable({ places = self }, Place)
  self.taken[place] = true
  return place
end

function Place:leave()
  local own = self.places
  own.taken[self] = nil
  if own.semaphore:count() < 0 then
    own.semaphore:post()
  end
end

return places
