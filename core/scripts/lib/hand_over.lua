-- library: hand_over - a push of one plain job, of an id that is nowhere, to a shard whose owner sleeps: claims the id for the owner and
-- sends the owner its record, so that it need not ask. Ends the script if it did so. KEYS and ARGV are those of push.lua
--
-- The message is '=', the prefix, the fence of the claim and that of the claim before (<dd), the length of the id (I2), the id, the record.
-- An owner that misses a message sees it at the next one, whose second fence it does not know, or at its next claim, and is answered by
-- claim.lua as after a lost answer.
--
-- Where nobody is subscribed at this Redis, the job is pushed as any other, and the message is not sent: replicas and the other members
-- of a cluster would pass it on to an owner that is subscribed there, for which nothing is claimed.
--
-- `window` is what the last claim left for `held`. A script that has noted runs of the owner in `running` since then has made it smaller.
--
-- While `wake` is ahead, nothing that is due is unclaimed, so nothing is overtaken. Left to the general path is what needs more than this
-- claim writes: a history, scheduled payloads of the id (unique), poppers that wait, a shard that is paused, in doubt or unfinished.
--
-- While ids move, an id that stays in the shard, or has moved to it (unless.lua), is handed over, too. One that leaves is never new here.
if held < window and wake > now and #ARGV == 8 and (given.width or ARGV[5]) == '2' and ARGV[6] == '0' and history == 0 and ARGV[4] ~= 'unique'
  and flags % FLAG_SOURCE == 0 and asleep <= now and #ARGV[8] <= PLAIN_BYTES and not given.elsewhere then
  -- include apart: channel
  local listeners = redis.pcall('PUBSUB', 'NUMSUB', channel)[2] or 0 -- an ACL user may lack the command
  local job_id, stamp = ARGV[7], max(tick + 1, now)
  local record = '\0' .. pack('<d', stamp) .. ARGV[8]
  -- The first write proves the type of its key, and that there is memory. Behind it no error may end the script with a part written.
  if listeners > 0 and call('HSETNX', JOBS, job_id, record) == 1 then
    local sequence, answer = ARGV[2], '1 1 0'
    local token = redis.pcall('SET', KEYS[3], sequence .. ' ' .. answer, 'PX', PUSH_TOKEN_MS, 'GET')
    local known = token and (type(token) ~= 'string' or string.match(token, '^%d+'))
    -- As texts: two conversions to numbers take half as long as a command.
    if known and (known == true or #known > #sequence or #known == #sequence and known >= sequence) then
      -- The same call, or a later one, has come before, and the id has ended since; or the token could not be written.
      call('HDEL', JOBS, job_id)
      if known ~= true then redis.pcall('SET', KEYS[3], token, 'PX', PUSH_TOKEN_MS) end
    else
      local fence = stamp + 1
      local field = format('%d%06d', (fence - fence % 1000000) / 1000000, fence % 1000000)
      -- MessagePack of a list of one id. A short one needs no table.
      local packed = #job_id < 32 and char(145, 160 + #job_id) .. job_id or cmsgpack.pack({job_id})
      local is_noted = redis.pcall('HSET', CLAIMS, field, packed) == 1
      local heard = is_noted and redis.pcall('PUBLISH', channel, '=' .. PREFIX .. pack('<ddI2', fence, claimed, #job_id) .. job_id .. record)
      if type(heard) == 'number' and heard > 0 then
        claimed, held = fence, held + 1
      else
        if is_noted then call('HDEL', CLAIMS, field) end
        local listed = redis.pcall('RPUSH', READY, job_id)
        if type(listed) ~= 'number' then
          call('HDEL', JOBS, job_id)
          redis.pcall('SET', KEYS[3], token or '0 ', 'PX', PUSH_TOKEN_MS) -- the same call again is refused, too
          return listed
        end
        wake = 0
      end
      tick, pushed = fence, pushed + 1
      -- include: save_held
      return answer
    end
  end
end
