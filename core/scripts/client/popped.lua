-- include: prelude keys change
-- POPPED: a popper reports the result of the id that it took, or changes its run. If the run has ended, is another's, or is over its time,
-- the report is counted as refused and changes nothing else; a run that is over its time fails here.
--
-- KEYS: the shard's (prelude)
--       3 token, as pop.lua's
-- ARGV: 1 generation
--       2 sequence of this call. The same sequence gets the same answer again
--       3 fold
--       4 history_per_id
--       5 kind: see below
--       6 id
--       7 fence
--       8 time in microseconds
--       9 text
--       10 max_retry_count
--       11 on_exhausted, with '+' behind it if retries_exhausted is to be told
--       12 key
--       13 number
--       14 remember_score in microseconds, 0 for none
--       15 the highest score that was given to a delivered payload, packed >d, '' for none
--       16 '1': the caller reports to the new shard of the id if this one refuses, which is then not counted
--   kinds, and what they use of time, text, key and number. The key is stamp and score of the last delivered payload, packed >dd:
--     'ack'         the delivered payloads are done: all payloads, or, with a key, those up to the key
--     'checkpoint'  the payloads up to the key, but for the last ones (number), are done, and the run goes on
--     'fail'        time: until the id is due again, '' for the default back-off; text: the error
--     'release'     hands the id back as it is
--     'extend'      time: from now to the end of the run, which goes on
--     'snooze'      time: until the id is due again; with a key, text replaces the first delivered payload that is left
--     'reject'      payloads that cannot be read go to the morgue, and the rest comes back. text: the reason; key: their stamps,
--                   packed >d. If the run has none of them, it fails with the default back-off: else the same payloads would be
--                   popped without end
--
-- Returns 1: done; 0: refused; 2: some payloads are removed, and the caller sends it again with a new sequence within 10 s, until when the
-- run is not over
-- Error replies: STALE pop: the client has used a later sequence
local SEQUENCE, FOLD, kind, id = tonumber(ARGV[2]), ARGV[3], ARGV[5], ARGV[6]
local time, text, limit, key, without = tonumber(ARGV[8]), ARGV[9], tonumber(ARGV[10]), ARGV[12], tonumber(ARGV[13])
local REMEMBER, highest = tonumber(ARGV[14]), ARGV[15]
local action, hooked = string.match(ARGV[11] or '', '^(%l+)(%+?)$')
history = tonumber(ARGV[4])
do -- blocks, because a script has at most 200 local variables
  local KINDS = {ack = true, checkpoint = true, fail = true, release = true, extend = true, snooze = true, reject = true}
  if #ARGV ~= 16 or not SEQUENCE or not KINDS[kind] or not limit or not action or not (without and without >= 0) or not (history and history >= 0 and history <= HISTORY_MOST)
    or not tonumber(ARGV[7]) or time and not (time >= 0 and time <= FOREVER - now) or not time and kind ~= 'fail'
    or not (REMEMBER and REMEMBER >= 0 and REMEMBER <= FOREVER) or #highest ~= 0 and #highest ~= 8
    or kind == 'checkpoint' and #key ~= 16 or (kind == 'ack' or kind == 'snooze') and #key ~= 16 and key ~= '' or kind == 'reject' and #key % 8 ~= 0 then
    return error_reply('ERR wrong arguments')
  end
end
events = history > 0 and {} or nil
remembers = REMEMBER > 0 and 1 or 0
highest = remembers == 1 and #highest == 8 and unpack_struct('>d', highest)
if highest and highest - highest ~= 0 then return error_reply('ERR wrong arguments') end -- NaN or infinite

do
  local token = call('GET', KEYS[3])
  local last, said = string.match(token or '', '^(%d+) (.*)$')
  if last and tonumber(last) > SEQUENCE then return error_reply('STALE pop') end
  if last and tonumber(last) == SEQUENCE then
    call('PEXPIRE', KEYS[3], PUSH_TOKEN_MS)
    return tonumber(said) or 0
  end
end

-- include: note spread record scores
local TELLER, has_next = '', true
local remember, remove_behind = remember_score, remove_stale
-- include: notify outcome overdue edit_running scored owner
hooked = hooked == '+'
probe()
probe_spill(first, {id})
probe_spill(second, {id})
probe_spill(morgue, {id})
probe_notices()
if REMEMBER > 0 then probe_scores() end
local run, to = call('HGET', RUNNING, id), tonumber(call('ZSCORE', OVERRUN, id))
local is_mine = run and sub(run, 2) == RUN_POPPED .. ARGV[7]
open_for_writing()

local function back_off(retry)
  return min(retry ^ 4 + 15 + now % 30 * (retry + 1), 3155760000) * 1000000
end

local function leave_run()
  call('HDEL', RUNNING, id)
  call('ZREM', OVERRUN, id)
  leave_popped()
end

local function acknowledge(r, digit)
  local all = key == '' or not r or is_deleted(digit)
  if all and highest then finish_scored(id, digit, run, highest, REMEMBER) return end
  processed = processed + 1
  note(id, EVENT_DONE, tonumber(ARGV[7]))
  if all then finish(id, digit) return end
  r.pops, r.mark = nil, MARK_NONE
  -- The rest of the id comes next, together with what was pushed meanwhile; of that, what is stale now must not come.
  local newer = REMEMBER > 0 and not empty(r) and call('HGET', NEXT, id)
  local score = newer and scores_of({id})[id]
  local following = score and remove_behind(id, read(newer), score, 0)
  if following then unite_later(id, r, FOLD, digit, following + 1) else go_on(id, r, digit) end
end

-- How many payloads are done, and stamp and score of the last one of them; below 1 if it was removed before. Payloads are removed from the
-- first on, so if the last delivered one is gone, it counts as the first.
local function last_done(r)
  local stamp, score = unpack_struct('>dd', key)
  if r.entries then
    table.sort(r.entries, comes_before)
    local count = 0
    for i = 1, #r.entries do
      if r.entries[i].stamp == stamp then count = i - without end
    end
    local last = r.entries[count] or {}
    return count, last.stamp, last.score
  end
  local count = spilled_place(first, id, stamp, score) + 1 - without
  if without > 0 and count > 0 then
    local flat = call('ZRANGE', first.spill .. id, count - 1, count - 1, 'WITHSCORES')
    if not flat[1] then return 0 end
    stamp, score = unpack_struct('>d', flat[1]), tonumber(flat[2])
  end
  return count, stamp, score
end

local function remember_entries(entries)
  for i = #entries, 1, -1 do
    if has_own_score(entries[i]) then
      remember_score(id, entries[i].score, REMEMBER)
      return
    end
  end
end

-- Removes what is done of a record; what is left counts as never popped. Is there more to remove?
local function take_done(r)
  local count, stamp, score = last_done(r)
  if count < 1 then return false end
  local answer, done = checkpoint(id, r, stamp, score, count)
  if REMEMBER > 0 then remember_entries(done or {}) end
  r.pops = kind == 'checkpoint' and -1 or nil
  rewrite(first, id, r)
  return answer == '2'
end

-- The delivered payloads of a spilled record up to the last one that cannot be read, and few others: a delivery has at most 1,000 payloads,
-- and more than 1 MiB only if it has one.
local function first_entries(r)
  local entries, bytes, step, last, found = {}, 0, min(50, portion(r)), sub(key, -8), false
  repeat
    local part = spilled_entries(first, id, #entries, step)
    for i = 1, #part do
      bytes = bytes + #part[i].payload + #part[i].context
      entries[#entries + 1] = part[i]
      found = found or pack('>d', part[i].stamp) == last
    end
  until found or #part < step or #entries >= 1000 or bytes > 1048576
  return entries
end

local function come_back_as(r, digit)
  if kind == 'reject' and reject(id, r, r.entries or first_entries(r), text, key, hooked) then
    go_on(id, r, digit)
    return
  end
  count_pop(r)
  if kind == 'fail' or kind == 'reject' then
    fail(id, r, digit, kind == 'fail' and time or back_off(r.retry + 1), text, limit, action, hooked)
  elseif kind == 'snooze' then
    if key ~= '' then
      local e = r.entries and r.entries[lowest(r.entries)] or not r.entries and spilled_entries(first, id, 0, 1)[1]
      local stamp, score = unpack_struct('>dd', key)
      if e and (e.score < score or e.score == score and e.stamp <= stamp) then replace(id, r, e.stamp, text) end
    end
    r.mark, r.due, r.place, r.delivered = MARK_NONE, now + time, PLACE_DUE, true
    put_back(id, r, FOLD, digit)
    note(id, EVENT_SNOOZED, r.due)
  else
    put_back(id, r, FOLD, digit)
    note(id, EVENT_RETURNED)
  end
end

-- Returns the answer.
local function report(r, digit)
  if kind == 'extend' then
    call('ZADD', OVERRUN, 'XX', format('%.0f', now + time), id)
    ends, placed = min(ends, now + time), min(placed, now + time) -- sleepers know of an end that may lie behind this one
    return 1
  end
  if key ~= '' and (kind == 'ack' or kind == 'checkpoint') and r and take_done(r) then
    -- What came in time is done as a whole, though it takes several calls.
    call('ZADD', OVERRUN, 'XX', 'GT', format('%.0f', now + 10000000), id)
    return 2
  end
  if kind == 'checkpoint' then return 1 end
  leave_run()
  if kind == 'ack' then
    acknowledge(r, digit)
  elseif not r or is_deleted(digit) then
    if kind == 'fail' then
      failed = failed + 1
      note(id, EVENT_FAILED, 0, text)
    end
    finish(id, digit)
  else
    come_back_as(r, digit)
  end
  return 1
end

local answer = 0
if is_mine and to and to <= now then
  expire_popped(id, run, to, limit, action, hooked)
elseif is_mine then
  answer = report(record_of_run(id), digit_of(run))
end
if answer == 0 and ARGV[16] ~= '1' then refused = refused + 1 end
if placed < wake then wake_owner(placed) end
save()
call('SET', KEYS[3], ARGV[2] .. ' ' .. answer, 'PX', PUSH_TOKEN_MS)
return answer
