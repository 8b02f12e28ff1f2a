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

-- Is it the run of an id that is uniting? Nothing runs of such an id: it waits.
local function is_uniting(run) return run and string.sub(run, 2, 2) == RUN_UNITING end

-- The runs of ids, in their order; false for an id that does not run.
local function runs_of(ids)
  local runs = call('HMGET', RUNNING, unpack(ids))
  if held == 0 then return runs end
  local by_id = runs_held()
  for i = 1, #ids do runs[i] = runs[i] or by_id[ids[i]] or false end
  return runs
end

-- A slice of what runs: {cursor ('0' at the end), {id, run, ...}}, the held ones in the first.
local function scan_runs(cursor, count)
  local page, found = call('HSCAN', RUNNING, cursor, 'COUNT', count), {}
  local function add(id, run) found[#found + 1], found[#found + 2] = id, run end
  for i = 1, #page[2], 2 do
    local id, run = page[2][i], page[2][i + 1]
    if id ~= '' and not is_uniting(run) then add(id, run) end
  end
  if cursor == '0' then
    for id, run in pairs(runs_held()) do add(id, run) end
  end
  return {page[1], found}
end
