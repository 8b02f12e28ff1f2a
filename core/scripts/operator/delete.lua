-- include: prelude keys record admin scheduled
-- DELETE: removes ids that wait, are parked or in doubt, with what is scheduled of them. Of a running id it removes what waits behind it,
-- and its run will not be put back; what is pushed later stays.
-- KEYS: the shard's
-- ARGV: 1 generation, 2 began ('' at first), 3 cursor (unused), 4 fold (unused), 5.. ids, at most 1,000
-- Returns {began, 'more' or '', the number of ids that were there}. A run and scheduled payloads that were deleted before do not
--   count: if the layout changes during an action, all of its ids are given again. With 'more' the same ids are to be given again,
--   with began: many scheduled payloads of theirs are gone and still stand in the indexes, some 500 of which a call looks at. Behind
--   its time, began then says where the next call goes on: the place of an id, a deliver_at, and how many entries of that deliver_at
--   have been looked at and stay.
local ids, more = chosen(5), ''
local began, at, from, passed = string.match(ARGV[2], '^(%S+) ?(%d*) ?(%S*) ?(%d*)$')
began, at, passed = tonumber(began), tonumber(at) or 1, tonumber(passed) or 0
if not from or from == '' then from = '-inf' end
local left = 500 -- entries of the indexes that this call may yet look at
local changed = began
probe()
local waiting, behind, runs = look(first, ids), look(second, ids), look_at_runs(ids)
probe_scheduled(ids)
open_for_writing()
spread()

-- Removes entries of an id from the first on. Were there any?
local function remove_entries(id)
  local stamps = call('ZRANGE', SCHED .. id, 0, left - 1)
  if stamps[1] then unschedule(id, stamps) end
  if #stamps == left then more = 'more' end
  left = max(1, left - #stamps)
  return stamps[1]
end

-- Goes on with the entries of an id, from `from` and `passed` on: removes those whose payloads had come when the action began. Has
-- it come to the end?
local function remove_old_entries(id)
  local entries = call('ZRANGEBYSCORE', SCHED .. id, from, '+inf', 'WITHSCORES', 'LIMIT', format('%.0f', passed), left)
  local gone = {}
  for i = 1, #entries, 2 do
    if entries[i + 1] ~= from then from, passed = entries[i + 1], 0 end
    if unpack_struct('>d', entries[i]) <= began then gone[#gone + 1] = entries[i] else passed = passed + 1 end
  end
  if gone[1] then unschedule(id, gone) end
  left = left - #entries / 2
  return left > 0
end

local function delete(id)
  local run, r, n = runs[id], waiting[id], behind[id]
  local was_there = r or n
  if n then remove(second, id, n) end
  if run then
    local digit = digit_of(run)
    local deleted = digit % RUN_DELETED + RUN_DELETED + (digit >= RUN_TO_LEAVE and RUN_TO_LEAVE or 0)
    was_there = n or digit ~= deleted
    flagged(id, run, deleted)
  elseif r then
    remove(first, id, r)
  end
  local had_payloads = call('UNLINK', SCHEDMAP .. id) == 1
  local had_entries = remove_entries(id)
  was_there = was_there or had_entries and had_payloads
  changed = changed or had_entries or was_there
  if was_there then note(id, EVENT_DELETED) end
  return was_there
end

local count, continued = 0, ''
if began then
  while at <= #ids and remove_old_entries(ids[at]) do
    at, from, passed = at + 1, '-inf', 0
  end
  if at <= #ids then more, continued = 'more', format(' %d %s %d', at, from, passed) end
else
  for i = 1, #ids do
    if delete(ids[i]) then count = count + 1 end
  end
end
note_delivers()
if changed then
  note_change()
  tell_owner('!')
end
began = began or changed and advance() or tick
save()
return {format('%.0f', began) .. continued, more, count}
