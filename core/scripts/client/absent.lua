-- include: prelude
-- ABSENT: is any of these ids in the shard, which ids leave, or on its way from it? A push of many jobs asks this first: if not, it sends
-- the jobs to the new shards alone. Nothing that is stored of an id changes.
-- KEYS: the shard's (prelude)
-- ARGV: 1 generation, 2 MessagePack array of ids: 1 to 1,000
-- Returns the tick of the shard, which the ids' new shards are to have at least; '' if one of the ids is there or on its way (lib/here.lua)
-- Error replies: GENERATION 1 of a shard without a state: it takes jobs of an earlier layout until it is turned
if not state then return error_reply('GENERATION 1') end
-- include: here
local ids, noted = cmsgpack.unpack(ARGV[2]), {}
local old = call('HMGET', JOBS, unpack(ids))
if find_elsewhere(PREFIX, ids, old, noted) < #ids or string.find(table.concat(noted), 'g', 1, true) then return '' end
-- include: absence
return format('%.0f', tick)
