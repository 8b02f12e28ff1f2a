-- library: runs - who runs, for scripts that only look: claims may hold runs that are not in `running`.
-- It needs call, RUNNING, CLAIMS and held.
-- include: claims

local function running_count()
  local count = call('HLEN', RUNNING)
  if count > 0 then count = count - call('HEXISTS', RUNNING, '') end
  -- Ids that are uniting stand in `running`, and wait.
  if count > 0 then count = count - call('ZCARD', string.sub(RUNNING, 1, -8) .. 'uniting') end
  return count + held
end

-- The run of each id that a claim holds.
local held_runs = nil
local function runs_held()
  if held_runs then return held_runs end
  held_runs = {}
  local claims = held > 0 and call('HGETALL', CLAIMS) or {}
  for i = 1, #claims, 2 do
    local packed, run = claims[i + 1], RUN_PLAIN .. claims[i]
    local ids = string.byte(packed) == SPREAD and {} or ids_of(packed)
    for k = 1, #ids do held_runs[ids[k]] = run end
  end
  return held_runs
end

local function run_of(id) return call('HGET', RUNNING, id) or runs_held()[id] end

-- The runs of ids, in their order; false for an id that does not run.
local function runs_of(ids)
  local runs = call('HMGET', RUNNING, unpack(ids))
  if held == 0 then return runs end
  local by_id = runs_held()
  for i = 1, #ids do runs[i] = runs[i] or by_id[ids[i]] or false end
  return runs
end

-- A slice of what runs: {cursor ('0' at the end), {id, run, ...}}, the held ones in the first. One id is '' in an owned shard.
local function scan_runs(cursor, count)
  local page = call('HSCAN', RUNNING, cursor, 'COUNT', count)
  if cursor == '0' then
    local flat = page[2]
    for id, run in pairs(runs_held()) do flat[#flat + 1], flat[#flat + 2] = id, run end
  end
  return page
end
