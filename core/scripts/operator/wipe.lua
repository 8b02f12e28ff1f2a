-- include: prelude keys record admin scheduled
-- WIPE: removes what a closed shard holds, at most 30 ids a call. Its state stays: with the next generation, which refuses old
-- layouts, and with its tick, so that no fence is given twice.
-- KEYS: the shard's
-- ARGV: 1 the generation that close.lua set, 2 '1': ids may be removed, 3 cursor ('0' at first)
-- Returns the cursor of the next call ('0': from the beginning again), or '' when nothing is left or the shard was opened again.
-- The cursor must go on: a call from '0' looks at 300 buckets of the hash, which earlier calls have emptied, and Redis makes a
-- hash smaller only when nine tenths of it are empty. Error replies: NOTEMPTY
if not state or unpack_struct('<d', state) == generation then return '' end
local TRACED = PREFIX .. 'traced'
local WIPED = 500 -- scheduled payloads, or histories, that a call removes; UNLINK frees what is large in another thread
probe()
call('ZCARD', TRACED)
local stores, store = {first, second, morgue}, nil
for i = 1, #stores do
  if not store and call('HLEN', stores[i].hash) > 0 then store = stores[i] end
end
local members = store and {} or call('ZRANGE', SCHEDULED, 0, WIPED - 1)
if (store or members[1]) and ARGV[2] ~= '1' then return error_reply('NOTEMPTY') end

if store then
  local ids, scan = {}, call('HSCAN', store.hash, ARGV[3], 'COUNT', REMOVED)
  local page = scan[2]
  -- Of a small hash HSCAN gives all that it holds, whatever COUNT says.
  for i = 1, min(#page, 2 * REMOVED), 2 do ids[#ids + 1] = page[i] end
  local records = look(store, ids)
  open_for_writing()
  for id, r in pairs(records) do remove(store, id, r) end
  return scan[1]
end
if members[1] then
  open_for_writing()
  for i = 1, #members do call('UNLINK', SCHED .. sub(members[i], 9), SCHEDMAP .. sub(members[i], 9)) end
  call('ZREM', SCHEDULED, unpack(members))
  return '0'
end
local histories = call('ZRANGE', TRACED, 0, WIPED - 1)
if histories[1] then
  open_for_writing()
  for i = 1, #histories do call('UNLINK', PREFIX .. 'events:' .. histories[i]) end
  call('ZREM', TRACED, unpack(histories))
  return '0'
end
open_for_writing()
call('UNLINK', READY, DUE, RUNNING, RETRY, DIED, PARKED, UNPROVEN, SUSPECT, OVERRUN, CLAIMS, UNITING, SCHEDULED, TRACED, PREFIX .. 'notices', PREFIX .. 'tellers',
  PREFIX .. 'scores', PREFIX .. 'scoreends', PREFIX .. 'reshard', PREFIX .. 'leaving', PREFIX .. 'moving')
lease, claimed, settled, wake, processed, failed, refused, pushed, held, flags, delivers, removed, history, stale, remembers, owner = 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, FOREVER, 0, 0, 0, 0, ''
ends, asleep, window = FOREVER, 0, 0
save()
return ''
