-- include: prelude claims
-- SETTLE: ends runs, each by its own outcome. Refused are runs that are no longer the caller's.
--
-- KEYS: the shard's
-- ARGV: 1 generation
--       2 lease
--       3 sequence of this call. The sequence of the last call, or an earlier one, changes nothing
--       4 fold
--       5 number of groups of runs that are done, then for each group one of
--           the run that its ids have, the number of ids, the ids
--           the run of a whole claim, the number of its ids below zero. A claim of which one id was settled alone cannot be settled so
--       then for each other run: kind, id, run, time (microseconds), text, limit, action:
--         'done'    only with remember_score. text: the highest score that was given to a payload of the run, packed >d; time: how long
--                   it is kept. What waits behind the run and has a score of its own that is not above it is removed
--         'fail'    time: until the next run; text: the error; limit: max_retry_count; action: bury, park or drop
--         'release' hands back what was not finished: nothing about it changes
--         'reject'  payloads that cannot be read go to the morgue. text: the reason; action: their stamps, packed >d, in their order;
--                   time: the place of the first of them in the record (from 0); limit: places up to the last
--         'bury'    as 'reject', and the run goes on: more of its payloads are to be rejected
--         'fail+', 'reject+' and 'bury+' are the same where retries_exhausted is to be told: a notice is kept for the owner
--         'extend'  time: from now to the end of the time to run; the run goes on; never refused
--         'checkpoint'  the first payloads of the run are done; the run goes on; never refused. text: stamp and score of the last of
--                   them, packed >dd; limit: how many they are, as far as the caller knows, of a spilled record; action: '', or
--                   the highest score of these payloads, as the text of 'done', kept for `time`
--         'snooze'  time: until the next run; action: '', or the stamp >d of the first payload, which becomes text. The run has
--                   neither ended well nor failed: retry_count stays, nothing is counted
--
-- Returns 0 where there were only whole claims whose runs nobody has touched, else one of
--   {refused, promoted, checkpoints, exhausted id, ...}
--     refused      how many runs were
--     promoted     1: an id became due by being settled; plus 2: recover.lua has something to do
--     checkpoints  a digit for each, in their order: 0 the run is no longer the caller's, 1 done, 2 to be sent again, because it
--                  needs more than one call
--     exhausted    the failed ids that reached their limit
--   {'STALE', owner}  the lease is another's: all runs are refused
--   {'AGAIN'}         the sequence is not a new one. A checkpoint may be sent again under a new sequence: it names payloads by
--                     their arrival
local sequence, FOLD, given = tonumber(ARGV[3]), ARGV[4], tonumber(ARGV[5])
if not sequence or not given then return error_reply('ERR wrong arguments') end
-- groups: where each group begins in ARGV that is settled by its ids; plain: the fences of whole claims whose runs nobody has touched, and
-- their entries of `claims`; touched: the entries of other whole claims, by where the group begins
local groups, wholes, fences, done, others = {}, {}, {}, 0, 6
for _ = 1, given do
  local count = tonumber(ARGV[others + 1])
  local listed = count and max(count, 0)
  if not count or count == 0 or count < -1000 or count > 1000 or count % 1 ~= 0 or others + 1 + listed > #ARGV then
    return error_reply('ERR wrong arguments')
  end
  if count < 0 then
    wholes[#wholes + 1], fences[#fences + 1] = others, sub(ARGV[others], 3)
    done = done - count
  else
    groups[#groups + 1] = others
    done = done + count
  end
  others = others + 2 + listed
end
local plain, entries, touched = fences, nil, nil
if fences[1] then
  entries = call('HMGET', CLAIMS, unpack(fences))
  for i = 1, #fences do
    if not (entries[i] and byte(entries[i]) ~= SPREAD) then touched = {} end
  end
end
if touched then
  local noted = entries
  plain, entries = {}, {}
  for i = 1, #fences do
    if noted[i] and byte(noted[i]) ~= SPREAD then
      plain[#plain + 1], entries[#entries + 1] = fences[i], noted[i]
    else
      groups[#groups + 1], touched[wholes[i]] = wholes[i], noted[i]
    end
  end
end
for i = 1, #groups do
  if not tonumber(sub(ARGV[groups[i]], 3)) then return error_reply('ERR wrong arguments') end
end
local total = done + (#ARGV - others + 1) / 7
if total % 1 ~= 0 then return error_reply('ERR wrong number of arguments') end
local scored = false
for at = others, #ARGV, 7 do
  local time, limit = tonumber(ARGV[at + 3]), tonumber(ARGV[at + 5])
  local kind = string.match(ARGV[at], '^(%l+)%+?$')
  local rejects = kind == 'reject' or kind == 'bury'
  local packed_score = kind == 'done' and ARGV[at + 4] or kind == 'checkpoint' and ARGV[at + 6] ~= '' and ARGV[at + 6] or nil
  local score = packed_score and #packed_score == 8 and unpack_struct('>d', packed_score)
  if not time or time ~= time or not limit
    or kind == 'checkpoint' and (#ARGV[at + 4] ~= 16 or limit < 1)
    or packed_score and not (score and score - score == 0 and time >= 0 and time <= FOREVER) -- neither NaN nor infinite
    or kind == 'snooze' and #ARGV[at + 6] ~= 0 and #ARGV[at + 6] ~= 8
    or rejects and (#ARGV[at + 6] % 8 ~= 0 or time % 1 ~= 0 or limit % 1 ~= 0 or time < 0 or limit < 1 or max(time, limit) > 1e9) then
    return error_reply('ERR wrong arguments')
  end
  scored = scored or packed_score
end
local answer, late, checkpoints = 0, 0, ''
if lease ~= tonumber(ARGV[2]) then
  call('ZREM', PREFIX .. 'due', '')
  refused = refused + total
  answer = {'STALE', owner}
elseif sequence <= settled then
  return {'AGAIN'}
elseif plain[1] and not groups[1] and others > #ARGV then
  -- The first write, an HDEL, proves the type of its key, and is allowed at maxmemory.
  settled = sequence
  -- include apart: wholes
  if not events then
    -- include: save_held
    return 0
  end
else
  -- Here are the functions: to make them takes longer than to settle a claim.
  -- include: keys note spread count_held record

  local function advance()
    tick = max(tick + 1, now)
    return tick
  end
  -- include: notify
  local all = {}
  for at = others + 1, #ARGV, 7 do all[#all + 1] = ARGV[at] end
  probe()
  probe_spill(first, all)
  probe_spill(second, all)
  probe_spill(morgue, all)
  probe_notices()
  local remember, remove_behind
  if scored then
    -- include: scores
    probe_scores()
    remember, remove_behind = remember_score, remove_stale
  end
  call('HLEN', JOBS)
  local has_next, has_overrun, TELLER = call('HLEN', NEXT) > 0, call('ZCARD', OVERRUN) > 0, owner
  call('ZREM', DUE, '')
  settled = sequence
  do
    -- include: wholes
  end

  -- One id of a claim ends alone: the claim is no whole any more.
  local function take_apart(fence)
    local packed = call('HGET', CLAIMS, fence)
    if not packed then return end
    if byte(packed) ~= SPREAD then spread_claim(fence, packed) end
    call('HDEL', CLAIMS, fence)
  end
  for i = 1, #groups do
    if tonumber(ARGV[groups[i] + 1]) > 0 then take_apart(sub(ARGV[groups[i]], 3)) end
  end
  for at = others, #ARGV, 7 do
    if ARGV[at] ~= 'extend' then take_apart(sub(ARGV[at + 2], 3)) end
  end

  local function is_open(run, mine) return run and (run == mine or sub(run, 2) == sub(mine, 2)) end

  -- include: outcome

  -- The flags digit of a run if it is still the caller's (1 spilled, 2 suppressed, 4 to be parked, 8 to leave), or nil.
  local function flags_of(run, mine)
    if is_open(run, mine) then return digit_of(run) end
    late = late + 1
    return nil
  end

  local function settle_group(ids, mine)
    local runs = call('HMGET', RUNNING, unpack(ids))
    local newer = has_next and call('HMGET', NEXT, unpack(ids)) or {}
    local alone, gone = {}, {}
    for k = 1, #ids do
      local digit = flags_of(runs[k], mine)
      if digit then
        gone[#gone + 1] = ids[k]
        note(ids[k], EVENT_DONE, tonumber(sub(mine, 3)))
        if digit == 0 and not newer[k] then alone[#alone + 1] = ids[k] else finish(ids[k], digit) end
      end
    end
    if alone[1] then call('HDEL', JOBS, unpack(alone)) end
    if gone[1] then
      call('HDEL', RUNNING, unpack(gone))
      if has_overrun then call('ZREM', OVERRUN, unpack(gone)) end
    end
    processed = processed + #gone
  end

  local is_gone = false
  for i = 1, #groups do
    local at = groups[i]
    local run, count = ARGV[at], tonumber(ARGV[at + 1])
    local ids = {unpack(ARGV, at + 2, at + 1 + max(count, 0))}
    if count < 0 then
      local entry = touched[at]
      ids = entry and ids_of(entry) or {}
      call('HDEL', CLAIMS, sub(run, 3))
      late, is_gone = late - count - #ids, is_gone or not entry
    end
    if ids[1] then settle_group(ids, run) end
  end
  if is_gone then count_held() end

  -- include: edit_running scored

  for at = others, #ARGV, 7 do
    local kind, id, run, time, text, limit, action = unpack(ARGV, at, at + 6)
    local hooked = sub(kind, -1) == '+'
    if hooked then kind = sub(kind, 1, -2) end
    local open = call('HGET', RUNNING, id)
    local goes_on = kind == 'extend' or kind == 'checkpoint'
    local digit = not goes_on and flags_of(open, run)
    if kind == 'checkpoint' then
      local r = is_open(open, run) and record_of_run(id)
      local stamp, score = unpack_struct('>dd', text)
      local outcome = r and checkpoint(id, r, stamp, score, tonumber(limit))
      outcome = outcome or is_open(open, run) and '1' or '0'
      if outcome == '1' and action ~= '' then remember(id, unpack_struct('>d', action), tonumber(time)) end
      checkpoints = checkpoints .. outcome
    elseif kind == 'extend' then
      -- Of a run that is gone it is no loss: the run's own outcome counts, which may lie before it in this call.
      if has_overrun and is_open(open, run) then call('ZADD', OVERRUN, 'XX', format('%.0f', now + tonumber(time)), id) end
    elseif kind == 'bury' then
      local r = digit and digit % RUN_TO_PARK < RUN_DELETED and record_of_run(id)
      if r then
        reject(id, r, r.entries or spilled_entries(first, id, tonumber(time), min(tonumber(limit), 2 * PORTION)), text, action, hooked)
        rewrite(first, id, r)
      end
    elseif digit then
      local r = record_of_run(id)
      call('HDEL', RUNNING, id)
      call('ZREM', OVERRUN, id)
      if kind == 'done' then
        finish_scored(id, digit, run, unpack_struct('>d', text), tonumber(time))
      elseif not r or digit % RUN_TO_PARK >= RUN_DELETED then
        if kind == 'fail' then
          failed = failed + 1
          note(id, EVENT_FAILED, 0, text)
        end
        finish(id, digit)
      elseif kind == 'fail' then
        fail(id, r, digit, tonumber(time), text, tonumber(limit), action, hooked)
      elseif kind == 'snooze' then
        if action ~= '' then replace(id, r, unpack_struct('>d', action), text) end
        r.mark, r.due, r.place, r.delivered = MARK_NONE, now + time, PLACE_DUE, true
        put_back(id, r, FOLD, digit)
        note(id, EVENT_SNOOZED, r.due)
        promoted = 1
      elseif kind == 'reject' then
        reject(id, r, r.entries or spilled_entries(first, id, tonumber(time), min(tonumber(limit), 2 * PORTION)), text, action, hooked)
        go_on(id, r, digit)
      else
        put_back(id, r, FOLD, digit)
        note(id, EVENT_RETURNED)
        promoted = 1
      end
    end
  end
  refused = refused + late
  -- The owner claims what became due, as soon as it has this answer: until then no push may claim past it (hand_over.lua).
  if promoted > 0 then wake = 0 end
  if is(FLAG_UNFINISHED) then promoted = promoted + SAYS_UNFINISHED end
  answer = {late, promoted, checkpoints, unpack(exhausted)}
end
-- include: save
return answer
