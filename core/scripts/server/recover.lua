-- include: prelude keys change spread record scores
-- RECOVER: goes on with what an acquire or a settle left for later, a slice a call: the runs of a dead owner become unproven,
-- suspects or deaths; runs that nobody knows come back; ids that are uniting get some of the payloads that came meanwhile.
-- Until then these ids stand as running, so nobody claims them. Also, of a queue with remember_score: removes what waited behind a run
-- that is done and is stale.
-- KEYS: the shard's
-- ARGV: 1 generation, 2 lease, 3 fold, 4 cursor: '0' at first and after each acquire, then what the last call said
-- Returns {cursor, recovered, deaths, promoted}: cursor is a number while runs are looked at, 'u' while ids are uniting, '' when
--   nothing is left. deaths: runs of suspects whose process died; the next claim answers them (mode o), and the caller waits
--   for that answer before it goes on. promoted: an id became due. Error replies: STALE owner
local fold, cursor = ARGV[3], ARGV[4]
if lease ~= tonumber(ARGV[2]) then return error_reply('STALE ' .. owner) end
local since, pending = read_owner_field()
local recovered, deaths, promoted = 0, 0, 0

-- The claim that follows hands it out as a death: its failure is to be counted.
local function report(id, run)
  if deaths == 0 then claimed = advance() end
  deaths = deaths + 1
  call('ZREM', OVERRUN, id)
  call('HSET', RUNNING, id, sub(run, 1, 1) .. RUN_DIED .. format('%.0f', claimed))
end

-- What becomes of a run: b is one that its living owner does not know, which comes back as it was. That of a process that died: once
-- more, then alone, then a failure. The mark of the record says which, not how the run was claimed: a checkpoint has cleared it.
local function recover(id, run)
  local r, mode = record_of_run(id), sub(run, 2, 2)
  recovered = recovered + 1
  note(id, mode == RUN_LOST and EVENT_RETURNED or EVENT_RECOVERED)
  if r and digit_of(run) % RUN_TO_PARK < RUN_DELETED and mode ~= RUN_LOST then
    -- A claim answers no run whose record was evicted.
    if (r.mark == MARK_SUSPECT or mode == RUN_DIED) and call('HEXISTS', JOBS, id) == 1 then report(id, run) return end
    r.mark, r.due, r.place = r.mark == MARK_NONE and MARK_UNPROVEN or MARK_SUSPECT, now, PLACE_IN_DOUBT
  end
  come_back(id, run, r, fold)
  promoted = 1
end

-- A claim of the dead owner that holds its runs together gives each id a run of its own. Was there one?
local function spread_one()
  local fences = call('HKEYS', CLAIMS)
  for i = 1, #fences do
    if tonumber(fences[i]) < since then
      local packed = call('HGET', CLAIMS, fences[i])
      call('HDEL', CLAIMS, fences[i])
      if byte(packed) ~= SPREAD then
        spread_claim(fences[i], packed)
        return true
      end
    end
  end
  return false
end

local function recover_some()
  local page = call('HSCAN', RUNNING, cursor, 'COUNT', 50)
  local flat, ids = page[2], {}
  for i = 1, #flat, 2 do
    local mode = sub(flat[i + 1], 2, 2)
    if flat[i] ~= '' and mode ~= RUN_UNITING and mode ~= RUN_POPPED and (mode == RUN_LOST or tonumber(sub(flat[i + 1], 3)) < since) then
      ids[#ids + 1], ids[#ids + 2] = flat[i], flat[i + 1]
      probe_spill(first, {flat[i]})
      probe_spill(second, {flat[i]})
    end
  end
  open_for_writing()
  for i = 1, #ids, 2 do recover(ids[i], ids[i + 1]) end
  cursor = page[1]
  if cursor == '0' then
    write_owner_field(since, false)
    cursor = 'u'
  end
end

-- include: uniting
local function unite_more()
  if not unite_slice(fold) then cursor = '' end
end

probe()
probe_scores()
if not pending then
  cursor = 'u'
  unite_more()
else
  if cursor == 'u' then cursor = '0' end
  open_for_writing()
  if not spread_one() then recover_some() end
end
if came_back then promoted = 1 end
-- The caller claims what came back as due, and what the deaths concern: it is awake. Where there is nothing of both, it may sleep already,
-- as its last claim noted, and only a push that knows this wakes it.
if promoted == 1 or deaths > 0 then wake = 0 end
save()
return {cursor, recovered, deaths, promoted}
