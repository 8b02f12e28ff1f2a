-- library: parts - what a batch holds of an id: as depart.lua takes it out of a source and arrive.lua puts it into a destination. It needs
-- change, record, moving, scheduled and, where ids depart or arrive, scores and notices.
--
-- A part is the letters of what lies in keys of its own and goes in slices (w payloads of the waiting record, d of the dead one, s
-- scheduled), a space, and in MessagePack a table:
--   j record in jobs, p microsecond of its parking; d dead record, t microsecond of the death; n number of the scheduled payloads that
--   go in slices; s {stamp, deliver_at, text, ...} of few; m remembered score, as it is stored; e events, x microsecond of
--   the last one; o notices that nobody tells yet; u {name of an outbox, numbers of jobs that were taken from it, ...}
-- The part of the id '' has l: {name of an outbox, low-water mark, ...} of the shard.
-- While a batch is open, the payloads of the source stay in the keys of their records, and the scheduled ones under other names: a
-- claim that comes to an entry of such a payload in `scheduled` finds nothing, and removes the entry.
local LEFT_SCHED, LEFT_SCHEDMAP = PREFIX .. 'leavesched:', PREFIX .. 'leaveschedmap:'

local function letters_of(part) return sub(part, 1, string.find(part, ' ', 1, true) - 1) end

local function open_part(part)
  local letters = letters_of(part)
  return cmsgpack.unpack(sub(part, #letters + 2)), letters
end

local function has_letter(letters, letter) return string.find(letters, letter, 1, true) ~= nil end

-- Where slices lie until their id has arrived.
local arriving = {
  w = {hash = PREFIX .. 'arriving', spill = PREFIX .. 'arrivespill:', map = PREFIX .. 'arrivespillmap:'},
  d = {hash = PREFIX .. 'arriving', spill = PREFIX .. 'arrivedeadspill:', map = PREFIX .. 'arrivedeadspillmap:'},
  s = {spill = PREFIX .. 'arrivesched:', map = PREFIX .. 'arriveschedmap:'},
}
