-- library: keys - names ten keys of a shard more than the prelude. A script that often returns early includes this behind that return
--
--      due       zset    id -> microseconds: delayed and retried ids
--      running   hash    id -> run: flags digit (1 spilled, 2 deleted, 4 to be parked, 8 to leave), mode, fence of its claim or pop;
--                        while the shard is owned also '' -> a long text, without which Redis would search a small
--                        hash entry by entry: the fence at which the owner came (runs below it are a dead owner's), then
--                        '!' while recover.lua has not seen all runs, else '.'
--      next      hash    id -> record pushed while the id runs
--      retry     zset    id -> retry_count of waiting ids that failed
--      dead      hash    id -> record in the morgue
--      died      zset    id -> microseconds of the last death
--      parked    zset    id -> microseconds of parking
--      unproven  zset    id -> due: ran in a process that died
--      suspect   zset    id -> due: was unproven and ran in a process that died
--      overrun   zset    id -> microseconds: end of the time to run
local DUE, RUNNING, NEXT, RETRY, DEAD, DIED = PREFIX .. 'due', PREFIX .. 'running', PREFIX .. 'next', PREFIX .. 'retry', PREFIX .. 'dead', PREFIX .. 'died'
local PARKED, UNPROVEN, SUSPECT, OVERRUN = PREFIX .. 'parked', PREFIX .. 'unproven', PREFIX .. 'suspect', PREFIX .. 'overrun'
