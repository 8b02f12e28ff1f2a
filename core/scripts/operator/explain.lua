-- include: prelude keys record runs moving
-- EXPLAIN: all that a shard knows of one id, at one moment.
-- KEYS: the shard's
-- ARGV: 1 generation, 2 id
-- Returns {now, paused, lease, fence of the last claim, owner, run or '', end of its time to run or '', record, behind, dead,
--   number of its scheduled payloads, the smallest deliver_at of them or '', remembered, leaves, event, ...}: the records as heads without
--   payloads, '' for none; remembered: its text in scores (lib/scores.lua), '' for none; leaves: 1 if it is
--   to lie in another shard, 2 if it is in a batch that is on its way there, else 0; the events as events.lua packs them, the latest last
local id = ARGV[2]
local function head(store)
  local record = call('HGET', store.hash, id)
  if not record then return '' end
  local r = read(record)
  set_error(r, error_of(store, id, r))
  return header(r, RECORD_SPILLED, r.count or #r.entries)
end
local is_foreign = foreign_test()
local leaves = is_foreign and is_foreign(id) and (call('HEXISTS', LEAVING, id) == 1 and 2 or 1) or 0
local told = redis.pcall('LRANGE', PREFIX .. 'events:' .. id, -HISTORY_MOST, -1)
return {format('%.0f', now), is(FLAG_PAUSED) and 1 or 0, format('%.0f', lease), format('%.0f', claimed), owner,
  run_of(id) or '', call('ZSCORE', OVERRUN, id) or '', head(first), head(second), head(morgue),
  call('ZCARD', PREFIX .. 'sched:' .. id), call('ZRANGE', PREFIX .. 'sched:' .. id, 0, 0, 'WITHSCORES')[2] or '',
  call('HGET', PREFIX .. 'scores', id) or '', leaves, unpack(told)}
