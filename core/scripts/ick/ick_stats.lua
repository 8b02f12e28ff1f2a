-- include: rights ick
-- ICK_STATS: the figures of a two-phase commit set; writes nothing.
-- KEYS: 1 to 7 of ick_keys.lua
-- Returns {} if there is no such set, else {version, members that are to be reserved (again), members that are reserved,
-- consumers that hold some, lowest score, highest score of the former, of the latter}; a score is 8 bytes, <d, or ''
if not version then return {} end
local consumers = call('ZRANGE', ENDS, 0, -1)
local low, high = {}, {}

local function look(set, key)
  local first, last = score_at(key, 0), score_at(key, -1)
  if first then low[set], high[set] = min(low[set] or first, first), max(high[set] or last, last) end
end

look(1, PSET)
look(1, AGAIN)
for i = 1, #consumers do look(2, PREFIX .. 'cset:' .. consumers[i]) end

local function packed(score) return score and struct.pack('<d', score) or '' end

return {version, call('ZCARD', PSET) + call('ZCARD', AGAIN), call('HLEN', HELD), #consumers, packed(low[1]), packed(high[1]), packed(low[2]), packed(high[2])}
