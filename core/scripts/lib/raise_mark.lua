-- library: raise_mark - tells the movers of the shard that an id may have come to a kind of key through which they have looked: what they
-- ask then, whether the shard is out (out.lua), is denied. It has no functions, as the prelude.
local marked = PREFIX .. 'reshard'
call('HSET', marked, 'mark', (tonumber(call('HGET', marked, 'mark')) or 0) + 1)
