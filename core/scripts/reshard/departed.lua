-- include: prelude keys change record moving scheduled parts
-- DEPARTED: these ids of the open batch have arrived, and their replicas have them: nothing of them stays here.
-- KEYS: the shard's
-- ARGV: 1 generation, 2 sequence of the batch, 3.. ids
-- Returns 'OK', or 'MORE': to be sent again, because much is left to be removed. Of another batch nothing is removed.
local LEFT, FREED = 500, 10 -- entries that this call may yet remove; how many a record counts whose payloads are freed: one of 1 MiB takes some 100 microseconds
if call('HGET', LEAVING, '') ~= ARGV[2] then return 'OK' end
probe()
call('ZCARD', SCHEDULED)
local parts = ARGV[3] and call('HMGET', LEAVING, unpack(ARGV, 3)) or {}
for i = 1, #parts do
  if parts[i] and ARGV[i + 2] ~= '' and has_letter(letters_of(parts[i]), 's') then call('ZCARD', LEFT_SCHED .. ARGV[i + 2]) end
end
open_for_writing()
local answer, gone = 'OK', {}

-- Are all entries of the id gone?
local function unschedule_left(id)
  if LEFT <= 0 then return false end
  local stamps, members = call('ZRANGE', LEFT_SCHED .. id, 0, LEFT - 1), {}
  for i = 1, #stamps do members[i] = stamps[i] .. id end
  if stamps[1] then
    call('ZREM', SCHEDULED, unpack(members))
    call('ZREM', LEFT_SCHED .. id, unpack(stamps))
  end
  LEFT = LEFT - #stamps
  if call('ZCARD', LEFT_SCHED .. id) > 0 then return false end
  call('UNLINK', LEFT_SCHEDMAP .. id)
  return true
end

for i = 3, #ARGV do
  local id = ARGV[i]
  local part = id ~= '' and parts[i - 2]
  local letters = part and letters_of(part) or ''
  if part and LEFT <= 0 then
    answer = 'MORE'
    break
  end
  for letter, store in pairs({w = first, d = morgue}) do
    if has_letter(letters, letter) then
      call('UNLINK', store.spill .. id, store.map .. id)
      LEFT = LEFT - FREED
    end
  end
  if has_letter(letters, 's') then LEFT = LEFT - FREED end
  if has_letter(letters, 's') and not unschedule_left(id) then
    answer = 'MORE'
  elseif part then
    gone[#gone + 1] = id
  end
end
local count = gone[1] and call('HDEL', LEAVING, unpack(gone)) or 0
call('HSET', RESHARD, 'moved', (tonumber(call('HGET', RESHARD, 'moved')) or 0) + count)
if call('HLEN', LEAVING) == 1 then call('DEL', LEAVING) end
note_delivers()
save()
return answer
