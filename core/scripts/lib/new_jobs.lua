-- library: new_jobs - for a push: lists the ids of `list`, which are due now, in ready, and writes the records of `hash`. It makes no
-- function. Redis searches a hash of up to 512 short records field by field; one long value turns it into a hash table for good.
if list[1] then
  local listed, FEW = call('RPUSH', READY, unpack(list)), 32
  if hash[1] and listed > FEW and listed - #list <= FEW then
    call('HSET', JOBS, hash[1], hash[2], '', string.rep(' ', 100))
    call('HDEL', JOBS, '')
  end
  soonest = 0
end
if hash[1] then call('HSET', JOBS, unpack(hash)) end
