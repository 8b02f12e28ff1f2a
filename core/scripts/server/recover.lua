-- include: prelude change spread record scores
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
-- more, then alone, then a failure.
local function recover(id, run)
  local r, mode = record_of_run(id), sub(run, 2, 2)
  recovered = recovered + 1
  note(id, mode == RUN_LOST and EVENT_RETURNED or EVENT_RECOVERED)
  if r and digit_of(run) % RUN_TO_PARK < RUN_DELETED and mode ~= RUN_LOST then
    if mode == RUN_SUSPECT or mode == RUN_DIED then report(id, run) return end
    r.mark, r.due, r.place = mode == RUN_UNPROVEN and MARK_SUSPECT or MARK_UNPROVEN, now, PLACE_IN_DOUBT
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
    if flat[i] ~= '' and mode ~= RUN_UNITING and (mode == RUN_LOST or tonumber(sub(flat[i + 1], 3)) < since) then
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

-- An id whose run is done, and behind which more waited than one call looks at: removes what is stale there. The number in its run is the
-- place where to go on.
local function end_stale(id, run, n)
  local known = scores_of({id})[id]
  local following = known and remove_stale(id, n, known, tonumber(sub(run, 3)))
  if following then
    may_move = 0
    call('HSET', RUNNING, id, sub(run, 1, 2) .. format('%.0f', following))
    return
  end
  call('ZREM', UNITING, id)
  come_back(id, run, nil, fold)
  promoted = 1
end

-- Moves payloads of an id that is uniting; with the last ones it comes back.
local function unite_some(id)
  local run, record, newer = call('HGET', RUNNING, id), call('HGET', JOBS, id), call('HGET', NEXT, id)
  local r, n = record and read(record), newer and read(newer)
  if not run or sub(run, 2, 2) ~= RUN_UNITING then
    call('ZREM', UNITING, id)
  elseif r and n and empty(r) and digit_of(run) % RUN_TO_PARK < RUN_DELETED then
    end_stale(id, run, n)
  elseif not r or not n or digit_of(run) % RUN_TO_PARK >= RUN_DELETED or payloads_to_move(r, n, fold) <= may_move then
    call('ZREM', UNITING, id)
    come_back(id, run, record_of_run(id), fold)
    promoted = 1
  else
    local part = spilled_entries(second, id, 0, max(1, min(may_move, portion(n))))
    if n.mark == MARK_EARLIER then r.due = min(r.due, n.due) end
    remove_spilled(second, id, n, part)
    fold_entries(first, id, r, part, fold)
    rewrite(second, id, n)
    rewrite(first, id, r)
    may_move = 0
  end
end

local function unite_more()
  local ids = call('ZRANGE', UNITING, 0, 19)
  for i = 1, #ids do
    probe_spill(first, {ids[i]})
    probe_spill(second, {ids[i]})
  end
  open_for_writing()
  for i = 1, #ids do
    if may_move > 0 then unite_some(ids[i]) end
  end
  if call('ZCARD', UNITING) > 0 then return end
  flag_as(FLAG_UNFINISHED, false)
  cursor = ''
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
-- What came back as due is the caller's to claim; it is awake.
wake = 0
save()
return {cursor, recovered, deaths, promoted}
