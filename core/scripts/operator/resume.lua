-- include: prelude change flags owner
-- RESUME: ends a pause; the owner hears of it and claims.
-- KEYS: the shard's
-- ARGV: 1 generation
-- Returns 1 if it was paused before, else 0
local changed = is(FLAG_PAUSED) and 1 or 0
open_for_writing()
flag_as(FLAG_PAUSED, false)
placed = 0
save()
tell_owner()
return changed
