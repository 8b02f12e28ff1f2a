-- library: owner - how a shard's owner hears of what it did not do itself. PUBLISH is best effort, here and in every script: an
-- ACL user may lack the channel, and an error behind the first write would leave the script half done. The owner then sees the
-- change when it polls the shard: of its shards it asks one each poll_interval.

-- Tells the owner, if there is one, to look at its shard; with '!' also to hand back what it has not begun; with '~' only to
-- settle what has ended, because something waits behind it. hand_over.lua sends another message by itself.
local function tell_owner(mark)
  if owner == '' then return end
  -- include apart: channel
  redis.pcall('PUBLISH', channel, (mark or '') .. PREFIX)
end

-- Tells the sleeping owner that something is due at `time`; saving the state tells the sleeping poppers.
local function wake_owner(time)
  placed = min(placed, time)
  if time < wake then
    wake = 0
    tell_owner()
  end
end
