-- library: rights - which commands that the scripts need the ACL refuses to the caller. Redis checks a script's commands one by
-- one, when each is called, and undoes nothing: a user who lacks one of them would leave a script half done. So a client is
-- refused before it knows the queue. A user who may call no command that writes is no danger, and may read.

-- The names of the commands that are refused to a user who has some that write, '' for none. Redis before 7 cannot be asked.
local function missing_commands(key)
  local READS = 'EXISTS GET GETRANGE HEXISTS HGET HGETALL HKEYS HLEN HMGET HSCAN HSTRLEN HVALS LLEN LPOS LRANGE MGET PTTL TIME TYPE ZCARD ' ..
    'ZCOUNT ZMSCORE ZRANGE ZRANGEBYSCORE ZREVRANGEBYSCORE ZSCAN ZSCORE'
  local WRITES = 'DEL HDEL HSET HSETNX LPUSH LTRIM PEXPIRE RENAME RPUSH SET SETRANGE UNLINK ZADD ZREM'
  local may = redis.acl_check_cmd
  if not may then return '' end
  local missing, writes = {}, 0
  for name in string.gmatch(WRITES, '%u+') do
    writes = writes + 1
    if not may(name, key, key, key) then missing[#missing + 1] = name end
  end
  if #missing == writes then return '' end
  for name in string.gmatch(READS, '%u+') do
    if not may(name, key, key, key) then missing[#missing + 1] = name end
  end
  if not may('ZINTER', 1, key) then missing[#missing + 1] = 'ZINTER' end
  return table.concat(missing, ' ')
end
