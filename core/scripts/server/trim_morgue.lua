-- include: prelude keys record admin
-- TRIM_MORGUE: removes ids from the morgue that died longer ago than the queue keeps them, then the oldest of those that are more
-- than it keeps, at most 30 ids a call.
-- KEYS: the shard's
-- ARGV: 1 generation, 2 lease, 3 how long a dead id is kept, in microseconds (0: for ever), 4 how many dead ids this shard
--       keeps (0: all)
-- Returns {removed, 'more' where the next call may remove others, else ''}. Error replies: STALE owner
local age, most = tonumber(ARGV[3]), tonumber(ARGV[4])
if not age or not most or age < 0 or most < 0 then return error_reply('ERR wrong arguments') end
if lease ~= tonumber(ARGV[2]) then return error_reply('STALE ' .. owner) end
probe()

-- The oldest deaths stand first in `died`, so one range holds whatever is to go.
local surplus = most > 0 and max(0, call('ZCARD', DIED) - most) or 0
local old = age > 0 and call('ZCOUNT', DIED, '-inf', format('(%.0f', now - age)) or 0
local count = max(surplus, old)
if count == 0 then return {0, ''} end
local ids = call('ZRANGE', DIED, 0, min(count, REMOVED) - 1)
local dead = look(morgue, ids)
open_for_writing()
local gone = 0
for i = 1, #ids do
  if dead[ids[i]] then
    forget(morgue, ids[i], dead[ids[i]])
    note(ids[i], EVENT_DELETED_DEAD)
    gone = gone + 1
  end
  call('ZREM', DIED, ids[i])
end
removed = removed + gone
note_change()
save()
return {gone, count > REMOVED and 'more' or ''}
