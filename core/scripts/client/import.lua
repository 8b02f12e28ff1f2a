-- include: prelude keys record admin
-- IMPORT: adds payloads that another queue system held of one id, with what it knew of them. Once: a call is known by its sequence.
-- KEYS: the shard's
-- ARGV: 1 generation, 2 fold, 3 id, 4 the record, packed <: 'w' (it waits) or 'd' (it is dead), sequence d, time d (microseconds: when it
--       is due, or of its death), retry_count i4, source I4+bytes, error I4+bytes, count I4, then per payload: score d, I4+bytes.
--       At most 250 payloads and 384 KiB of them, or one
-- Returns 1, or 2: a call of this source with this sequence, or a later one, was applied before. The sequences of a source rise; what it
--   gave last is remembered for 30 days, in the way of a push.
-- Of an id that waits already the due time, retry_count and error stay, unless it has never failed and the record has.
local REMEMBERED = '2592000000' -- milliseconds
local FOLD, id, packed = ARGV[2], ARGV[3], ARGV[4]
local kind, sequence, time, retry, source, error, count, at = unpack_struct('<c1ddi4I4c0I4c0I4', packed)
if not ((kind == 'w' or kind == 'd') and sequence >= 0 and sequence < FOREVER and time >= 0 and time < FOREVER and count >= 1 and count <= PORTION) then return error_reply('ERR wrong record') end
local mark = PREFIX .. 'push:' .. source
local known = call('GET', mark)
if known and tonumber(string.match(known, '^%d+')) >= sequence then return 2 end

local base = max(tick + 1, now) - 1
local entries = {}
for i = 1, count do
  local e = {stamp = base + i, context = ''}
  e.score, e.payload, at = unpack_struct('<dI4c0', packed, at)
  if not (e.score > -math.huge and e.score < math.huge) then return error_reply('ERR wrong score') end
  entries[i] = e
end

probe()
local run = look_at_runs({id})[id]
local store = kind == 'd' and morgue or run and second or first
local r = look(store, {id})[id]
probe_spill(store, {id})
-- As with a push, the first write is one that Redis refuses at maxmemory.
call('SET', mark, known or '0 ', 'PX', REMEMBERED)
tick = base + count

local function take_fields()
  r.due, r.retry, r.delivered = time, retry, r.delivered or retry >= 0
  set_error(r, error)
end

local is_new = not r
if is_new then r = blank() end
if is_new and not run and is(FLAG_SOURCE) then
  -- include: moving
  note_return(id)
end
if kind == 'd' then
  if is_new or time >= r.due then
    r.due = time
    set_error(r, error)
  end
  r.place = PLACE_READY
  fold_entries(morgue, id, r, entries, FOLD == 'list' and FOLD or 'merge')
  call('ZADD', DIED, format('%.0f', r.due), id)
  note(id, EVENT_BURIED, count, error)
else
  local moves = not is_new and r.place ~= PLACE_PARKED and r.retry < 0 and retry >= 0
  if run then
    spread()
  elseif moves then
    unplace(id, r)
  end
  if is_new or moves then
    take_fields()
    r.place = PLACE_DUE
    if not run then place(id, r) end
  end
  fold_entries(store, id, r, entries, FOLD)
  pushed = pushed + count
  note(id, is_new and EVENT_PUSHED or EVENT_FOLDED, r.due > now and r.due)
end
write(store, id, r, FOLD)
call('SET', mark, format('%.0f', sequence) .. ' ', 'PX', REMEMBERED)
if kind == 'd' or run then note_change() else note_due() end
save()
return 1
