-- library: owner - how a shard's owner hears of what it did not do itself. PUBLISH is best effort, here and in every script: an
-- ACL user may lack the channel, and an error behind the first write would leave the script half done. The owner then sees the
-- change when poll_interval is over.

local function owner_channel() return string.match(STATE, '^(.-):{') .. ':wake:' .. owner end

-- Tells the owner, if there is one, to look at its shard; with '!' also to hand back what it has not begun; with '~' only to
-- settle what has ended, because something waits behind it; with '=', and `run` behind the prefix, that a push has claimed a job for
-- it (hand_over.lua). Returns whether anybody is subscribed.
local function tell_owner(mark, run)
  if owner == '' then return false end
  local heard = redis.pcall('PUBLISH', owner_channel(), (mark or '') .. PREFIX .. (run or ''))
  return type(heard) == 'number' and heard > 0
end

-- Tells the sleeping owner that something is due at `time`; saving the state tells the sleeping poppers.
local function wake_owner(time)
  placed = min(placed, time)
  if time < wake then
    wake = 0
    tell_owner()
  end
end
