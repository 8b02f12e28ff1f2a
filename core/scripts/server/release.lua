-- include: prelude change runs
-- RELEASE: gives a shard up. The caller has settled everything that it claimed.
-- KEYS: the shard's
-- ARGV: 1 generation, 2 lease, 3 channel to tell ('' for none)
-- Returns 'OK', 'BUSY' (runs are open, nothing was done) or 'STALE' (the lease is another's)
if lease ~= tonumber(ARGV[2]) then return 'STALE' end
if running_count() > 0 then return 'BUSY' end
call('HDEL', RUNNING, '')
call('DEL', CLAIMS)
owner, lease, wake = '', 0, 0
save()
if ARGV[3] ~= '' then redis.pcall('PUBLISH', ARGV[3], PREFIX) end -- see owner.lua
return 'OK'
