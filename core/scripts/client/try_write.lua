-- TRY_WRITE: would Redis take a push now? It writes nothing into a key that is never there, which changes nothing. Redis refuses that
-- where it refuses a push: at maxmemory, on a replica, after a snapshot or an append-only file that could not be written, without
-- enough replicas, and to a user who may not write.
-- KEYS: 1 guard of the nodes, never there (prelude.lua)
-- Returns '', or the error of Redis
-- include: rights
local tried = redis.pcall('SETRANGE', KEYS[1], 0, '')
if type(tried) == 'table' then return tried.err end
return missing_commands(KEYS[1]) ~= '' and 'NOPERM' or ''
