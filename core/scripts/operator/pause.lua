-- include: prelude change flags owner
-- PAUSE: nothing of this shard is claimed until it is resumed; its owner hears of it and hands back what is not begun.
-- KEYS: the shard's
-- ARGV: 1 generation
-- Returns 1 if it was not paused before, else 0
local changed = is(FLAG_PAUSED) and 0 or 1
open_for_writing()
flag_as(FLAG_PAUSED, true)
save()
tell_owner('!')
return changed
