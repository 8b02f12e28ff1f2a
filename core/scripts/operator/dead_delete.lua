-- include: prelude keys record admin
-- DEAD_DELETE: removes ids from the morgue.
-- KEYS: the shard's
-- ARGV: 1 generation, 2 began ('' for chosen ids; all: '0' at first), 3 cursor (unused), 4 fold (unused), 5.. ids, at most 1,000
-- Returns {began, '' or 'more', deleted}. All means those that had died when the action began, a slice a call.
local ids, began, more = dead_slice(5, ARGV[2])
probe()
local dead = look(morgue, ids)
open_for_writing()
local deleted = 0
for i = 1, #ids do
  local id = ids[i]
  if dead[id] then
    forget(morgue, id, dead[id])
    note(id, EVENT_DELETED_DEAD)
    deleted = deleted + 1
  end
  call('ZREM', DIED, id)
end
if deleted > 0 then
  advance()
  save()
end
return {began, more, deleted}
