-- include: prelude change flags notices
-- TOLD: a node's retries_exhausted has been called for these notices, which go. Those that another node has taken over stay: it
-- tells them again.
-- KEYS: the shard's
-- ARGV: 1 generation, 2 node, 3.. numbers, as tell.lua gave them
-- Returns how many notices the shard still has.
local me = ARGV[2]
probe_notices()
open_for_writing()
for i = 3, #ARGV do
  if call('ZREM', TELLERS, teller(me, ARGV[i])) == 1 then call('HDEL', NOTICES, ARGV[i]) end
end
local left = call('ZCARD', TELLERS)
if left == 0 then flag_as(FLAG_NOTICED, false) end
save()
return left
