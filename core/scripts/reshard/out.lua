-- include: prelude change moving is_out
-- OUT: a mover has found that no id is to leave the shard any more.
-- KEYS: the shard's
-- ARGV: 1 generation, 2 mark that the first call of its scan gave (foreign.lua); '': it only asks
-- Returns 1: it is out; 0: it is not, because a batch is open, or an id may have come back behind the scan
local out, mark = unpack(call('HMGET', RESHARD, 'out', 'mark'))
if is_out(out, mark) then
  open_for_writing()
  call('HSET', RESHARD, 'out', out) -- a write: WAIT waits for what its own connection has written
  return 1
end
if ARGV[2] == '' or not is(FLAG_SOURCE) or call('EXISTS', LEAVING) == 1 or (mark or '0') ~= ARGV[2] then return 0 end
open_for_writing()
if call('HLEN', JOBS) == 0 then call('UNLINK', READY) end -- its entries are stale
call('HSET', RESHARD, 'out', out_at(mark))
return 1
