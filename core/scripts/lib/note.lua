-- library: note - how a script says what happened to an id. events.lua, which saving the state includes, writes it into the id's history.

-- kind: EVENT_* of model/stored.h; number: a time in microseconds, a fence or a count, as the kind says; text: a node or an error.
local function note(id, kind, number, text)
  if events then events[#events + 1] = {id, kind, number, text} end
end
