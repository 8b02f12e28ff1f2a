-- include: rights
-- LAYOUT: the number of shards of a queue and its generation; creates them when the queue is new.
-- KEYS: 1 layout string 'generation shards schema'
-- ARGV: 1 shards if the queue is new, 0 to only look
-- Returns 'generation shards schema', or '' when there is no such queue
-- Error replies: NOPERM ... (an ACL user who could begin a script and not end it: see rights.lua)
local missing = missing_commands(KEYS[1])
if missing ~= '' then
  return redis.error_reply('NOPERM this user may write, but not use all commands that scripts need; missing: ' .. missing)
end
local layout = redis.call('GET', KEYS[1])
if layout then return layout end
if ARGV[1] == '0' then return '' end
layout = '1 ' .. ARGV[1] .. ' 3'
redis.call('SET', KEYS[1], layout)
return layout
