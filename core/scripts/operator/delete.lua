-- include: prelude keys record admin scheduled
-- DELETE: removes ids that wait, are parked or in doubt, with what is scheduled of them. Of a running id it removes what waits behind it,
-- and its run will not be put back; what is pushed later stays.
-- KEYS: the shard's
-- ARGV: 1 generation, 2 began ('' at first), 3 cursor (unused), 4 fold (unused), 5.. ids, at most 1,000
-- Returns {began, 'more' or '', the number of ids that were there}. With 'more' the same ids are to be given again, with began: many scheduled
--   payloads of theirs are gone and still stand in the indexes, some 500 of which a call removes.
local ids, more = chosen(5), ''
local began = tonumber(ARGV[2])
local left = 500 -- entries of the indexes that this call may yet remove
probe()
local waiting, behind, runs = look(first, ids), look(second, ids), look_at_runs(ids)
probe_scheduled(ids)
open_for_writing()
spread()

-- Removes entries of an id whose payloads had come when the action began. Were there any?
local function remove_entries(id, all)
  local stamps, gone = call('ZRANGE', SCHED .. id, 0, left - 1), {}
  for i = 1, #stamps do
    if all or unpack_struct('>d', stamps[i]) <= began then gone[#gone + 1] = stamps[i] end
  end
  if #stamps == left then more = 'more' end
  if gone[1] then unschedule(id, gone) end
  left = max(1, left - #gone)
  return gone[1]
end

local function delete(id)
  local run, r, n = runs[id], waiting[id], behind[id]
  if n then remove(second, id, n) end
  if run then
    local digit = digit_of(run)
    flagged(id, run, digit % RUN_DELETED + RUN_DELETED + (digit >= RUN_TO_LEAVE and RUN_TO_LEAVE or 0))
  elseif r then
    remove(first, id, r)
  end
  call('UNLINK', SCHEDMAP .. id)
  local scheduled = remove_entries(id, true)
  local was_there = run or r or n or scheduled
  if was_there then note(id, EVENT_DELETED) end
  return was_there
end

local count = 0
for i = 1, #ids do
  if began then remove_entries(ids[i], false) elseif delete(ids[i]) then count = count + 1 end
end
note_delivers()
if count > 0 or began then
  note_change()
  tell_owner('!')
end
began = began or count > 0 and advance() or tick
save()
return {format('%.0f', began), more, count}
