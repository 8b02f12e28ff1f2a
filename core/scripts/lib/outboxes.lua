-- library: outboxes - reads the numbers of the jobs that a shard took from outboxes (push_outbox.lua)
--   outboxes     hash  NAME -> low-water mark: numbers below it are not needed
--   outbox:NAME  zset  8 bytes >d of a number, id -> the number
local OUTBOXES, OUTBOX = PREFIX .. 'outboxes', PREFIX .. 'outbox:'

-- A slice: the name of an outbox (nil if the shard has no outbox at the cursor), members of it, and the cursor of the next slice
-- ('0' at the end). A cursor is the place of the outbox among the names, '-', and the last number that was looked at; '0' at first.
local function slice_of_outboxes(cursor)
  local SLICE = 100
  local names = call('HKEYS', OUTBOXES)
  table.sort(names)
  local place, last = string.match(cursor, '^(%d+)-(%d+)$')
  place, last = tonumber(place) or 1, tonumber(last) or 0
  local name = names[place]
  if not name then return nil, {}, '0' end
  last = max(last, (tonumber(call('HGET', OUTBOXES, name)) or 0) - 1)
  local members = call('ZRANGEBYSCORE', OUTBOX .. name, format('(%.0f', last), '+inf', 'LIMIT', 0, SLICE)
  if #members == SLICE then return name, members, format('%d-%.0f', place, unpack_struct('>d', members[SLICE])) end
  return name, members, names[place + 1] and place + 1 .. '-0' or '0'
end
