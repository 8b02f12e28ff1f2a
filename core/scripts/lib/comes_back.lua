-- library: comes_back - with what an id that is uniting comes back.
-- It needs record and runs.

-- The record in jobs, if payloads are left that its run had: by its due time and retry_count the id waits. nil or false if none are, or
-- what ran was deleted: it comes back with what waited behind it.
local function comes_back(id, run)
  local record = digit_of(run) % RUN_TO_PARK < RUN_DELETED and call('HGET', JOBS, id)
  return record and not empty(read(record)) and record
end
