-- library: spread - gives what whole claims hold runs of their own, for scripts that change single runs
-- include: claims

-- Gives each id of a claim a run of its own in `running`, where it may be looked at and changed.
local function spread_claim(fence, packed)
  local ids, runs, run = ids_of(packed), {}, RUN_PLAIN .. fence
  for k = 1, #ids do runs[2 * k - 1], runs[2 * k] = ids[k], run end
  if ids[1] then call('HSET', RUNNING, unpack(runs)) end
  held = held - #ids
end

-- The same for all claims that hold ids. To be called, ready for writing, before the runs of single ids are changed; the
-- caller saves.
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
