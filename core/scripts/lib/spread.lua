-- library: spread - gives what whole claims hold runs of their own, for scripts that change single runs
-- include: claims

-- Gives each id of a claim a run of its own in `running`, where it may be looked at and changed.
local function spread_claim(fence, packed)
  local ids, runs, run = ids_of(packed), {}, RUN_PLAIN .. fence
  for k = 1, #ids do runs[2 * k - 1], runs[2 * k] = ids[k], run end
  if ids[1] then call('HSET', RUNNING, unpack(runs)) end
  held, window = held - #ids, max(window - #ids, 0)
end

-- May a claim hold one of these ids? Of a few it is looked up, of many it is taken for granted unless the caller wants it exactly.
local function may_hold(ids, exactly)
  if held == 0 or not ids[1] then return false end
  if #ids > 8 and not exactly then return true end
  local claims = call('HVALS', CLAIMS)
  if exactly then
    local sought = {}
    for j = 1, #ids do sought[ids[j]] = true end
    for i = 1, #claims do
      local claimed_ids = byte(claims[i]) ~= SPREAD and ids_of(claims[i]) or {}
      for k = 1, #claimed_ids do
        if sought[claimed_ids[k]] then return true end
      end
    end
    return false
  end
  for i = 1, #claims do
    for j = 1, #ids do
      if byte(claims[i]) ~= SPREAD and string.find(claims[i], ids[j], 1, true) then return true end
    end
  end
  return false
end

-- Gives the ids of all claims that hold some a run of their own. To be called, ready for writing, before the runs of single ids are
-- changed; the caller saves.
local function spread()
  if held == 0 then return end
  local claims = call('HGETALL', CLAIMS)
  for i = 1, #claims, 2 do
    local fence, packed = claims[i], claims[i + 1]
    if byte(packed) ~= SPREAD then
      spread_claim(fence, packed)
      call('HSET', CLAIMS, fence, 'x' .. packed)
    end
  end
  held = 0
end
