-- include: prelude change
-- POPPED: a popper reports the result of the id that it took, or changes its run. If the run has ended, is another's, or is over its time,
-- the report is counted as refused and changes nothing else; a run that is over its time fails here.
-- KEYS: the shard's (prelude), 15 token, as pop.lua's
-- ARGV: 1 generation, 2 sequence of this call, 3 fold, 4 history_per_id, 5 kind, 6 id, 7 fence, 8 time (microseconds), 9 text,
--       10 max_retry_count, 11 on_exhausted, with '+' behind it if retries_exhausted is to be told, 12 key, 13 count
--   kinds: 'ack'         the delivered payloads are done: all payloads, or, with a key, those up to the key
--          'checkpoint'  the payloads up to the key are done, and the run goes on
--          'fail'        time: until the id is due again, '' for the default back-off; text: the error
--          'release'     hands the id back as it is
--          'extend'      time: from now to the end of the run, which goes on
--          'snooze'      time: until the id is due again; if key is not '', text replaces the first payload that is left
--          'reject'      text: the reason; key: packed stamps >d of payloads that cannot be read: they go to the morgue, and the rest comes back
--   key: stamp and score of a payload, packed >dd; count: the number of payloads up to it that the caller knows of
-- Returns 1: done; 2: some payloads are removed, send it again with a new sequence; 0: refused. The same sequence gets the same answer
--   again. Error replies: STALE pop (the client has used a later sequence)
local SEQUENCE, FOLD, kind, id = tonumber(ARGV[2]), ARGV[3], ARGV[5], ARGV[6]
local time, text, limit, key, count = tonumber(ARGV[8]), ARGV[9], tonumber(ARGV[10]), ARGV[12], tonumber(ARGV[13])
local action, told = string.match(ARGV[11] or '', '^(%l+)(%+?)$')
local KINDS = {ack = true, checkpoint = true, fail = true, release = true, extend = true, snooze = true, reject = true}
history = tonumber(ARGV[4])
if #ARGV ~= 13 or not SEQUENCE or not KINDS[kind] or not limit or not action or not count or not (history and history >= 0 and history <= HISTORY_MOST)
  or not tonumber(ARGV[7]) or time and not (time >= 0 and time <= FOREVER - now) or not time and kind ~= 'fail'
  or kind == 'checkpoint' and #key ~= 16 or kind == 'ack' and #key ~= 16 and key ~= '' or kind == 'reject' and #key % 8 ~= 0 then
  return error_reply('ERR wrong arguments')
end
events = history > 0 and {} or nil

local token = call('GET', KEYS[15])
local last, said = string.match(token or '', '^(%d+) (.*)$')
if last and tonumber(last) > SEQUENCE then return error_reply('STALE pop') end
if last and tonumber(last) == SEQUENCE then
  call('PEXPIRE', KEYS[15], 60000)
  return tonumber(said) or 0
end

-- include: spread record
local TELLER, has_next = '', true
-- include: notify outcome overdue edit_running owner
local hooked = told == '+'
probe()
probe_spill(first, {id})
probe_spill(second, {id})
probe_spill(morgue, {id})
probe_notices()
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
  processed = processed + 1
  note(id, EVENT_DONE, tonumber(ARGV[7]))
  if key == '' or not r or is_deleted(digit) then finish(id, digit) return end
  r.pops, r.mark = nil, MARK_NONE
  go_on(id, r, digit)
end

-- Removes what is done of a record; what is left counts as never popped.
local function take_done(r)
  local answer = checkpoint(id, r, (unpack_struct('>d', key)), (unpack_struct('>d', key, 9)), max(1, count))
  r.pops = kind == 'checkpoint' and -1 or nil
  rewrite(first, id, r)
  return answer == '2'
end

local function come_back_as(r, digit)
  if kind == 'reject' then
    reject(id, r, 0, text, 2 * PORTION, key, hooked)
    go_on(id, r, digit)
    return
  end
  count_pop(r)
  if kind == 'fail' then
    fail(id, r, digit, time or back_off(r.retry + 1), text, limit, action, hooked)
  elseif kind == 'snooze' then
    local at = r.entries and r.entries[lowest(r.entries)] or not r.entries and spilled_entries(first, id, 0, 1)[1]
    if key ~= '' and at then replace(id, r, at.stamp, text) end
    r.mark, r.due, r.place, r.delivered = MARK_NONE, now + time, PLACE_DUE, true
    put_back(id, r, FOLD, digit >= RUN_TO_PARK)
    note(id, EVENT_SNOOZED, r.due)
  else
    put_back(id, r, FOLD, digit >= RUN_TO_PARK)
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
  if key ~= '' and (kind == 'ack' or kind == 'checkpoint') and r and take_done(r) then return 2 end
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
if answer == 0 then refused = refused + 1 end
if placed < wake then wake_owner(placed) end
save()
call('SET', KEYS[15], ARGV[2] .. ' ' .. answer, 'PX', 60000)
return answer
