-- library: save_held - writes the state as far as `held`, in its place: what follows is as it was. It costs Redis less than save, and needs a
-- state that is there. The offset is a text: Redis formats a number by printf, which takes half as long as a command
call('SETRANGE', STATE, '0', pack(STATE_TO_HELD, generation, tick, lease, claimed, settled, wake, processed, failed, refused, pushed, held))
