-- library: places - where a payload of an id may wait. It needs record and runs.

-- Behind a run, or in the waiting record. What runs has been delivered; of an id that is uniting, nothing runs.
local function places_to_look(id)
  local run = run_of(id)
  if not run then return {first} end
  return is_uniting(run) and {second, first} or {second}
end
