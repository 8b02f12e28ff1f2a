-- library: absence - for an answer that ids are not there: its caller waits until a replica has this. WAIT waits for what its own connection
-- has written, so the state is written once more: without it, the shard would take jobs of an earlier layout. It has no functions, as the
-- prelude.
redis.pcall('ZREM', PREFIX .. 'due', '') -- allowed at maxmemory
redis.pcall('SET', STATE, state)
