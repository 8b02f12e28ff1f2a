-- library: absence - for an answer that ids are not there: its caller waits until a replica has this. WAIT waits for what its own connection
-- has written, so the layout is written once more. It has no functions, as the prelude.
local layout = call('HGET', PREFIX .. 'reshard', '')
if layout then
  redis.pcall('ZREM', DUE, '') -- allowed at maxmemory
  redis.pcall('HSET', PREFIX .. 'reshard', '', layout)
end
