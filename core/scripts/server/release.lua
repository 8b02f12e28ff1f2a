-- include: prelude keys change
-- RELEASE: gives a shard up. The caller has settled everything that it claimed. Runs of poppers go on, and ids that are uniting wait.
-- KEYS: the shard's
-- ARGV: 1 generation, 2 lease, 3 channel to tell ('' for none)
-- Returns 'OK', 'BUSY' (runs are open, nothing was done) or 'STALE' (the lease is another's)
if lease ~= tonumber(ARGV[2]) then return 'STALE' end
if held > 0 then return 'BUSY' end
local runs = call('HGETALL', RUNNING)
for i = 1, #runs, 2 do
  local mode = sub(runs[i + 1], 2, 2)
  if runs[i] ~= '' and mode ~= RUN_POPPED and mode ~= RUN_UNITING then return 'BUSY' end
end
call('HDEL', RUNNING, '')
call('DEL', CLAIMS)
owner, lease, wake, window = '', 0, 0, 0
save()
if ARGV[3] ~= '' then redis.pcall('PUBLISH', ARGV[3], PREFIX) end -- see owner.lua
return 'OK'
