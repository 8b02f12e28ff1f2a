"""The scripts of one shard, as far as a move meets them. A method is one script: it does everything or nothing.

Each script that takes a generation is refused unless it is the shard's own. `off` of the world names the rules that a control leaves out.
"""
from collections import namedtuple
from functools import wraps

from store import HERE, KINDS, MOST_RETRIES, SCANNED, SLICED, Entry, Scheduled, Store

# old: shards before the move, None while nothing moves; most: shards that the queue ever had
Layout = namedtuple("Layout", "generation shards old most")
Refused = namedtuple("Refused", "generation text")
# given: a score, or None. at: deliver_at or 0. due: perform_in or 0. number, low: of an outbox, or None
Job = namedtuple("Job", "text given at due number low")

MOVED = ("jobs", "dead", "sched", "scores", "events", "taken", "notices")
SLICE = 2
FIELDS = ("has_state", "generation", "text", "tick", "lease", "owner", "sequence", "out", "mark", "low")
TABLES = ("leaving", "arrived", "arriving", "tokens")


def script(method):
    @wraps(method)
    def checked(self, generation, *args):
        if not self.has_state and method.__name__ == "absent" and not self.off("a shard without a state says nothing of ids"):
            return self.look()
        if not self.has_state and method.__name__ == "push":
            self.has_state, self.generation = True, generation
        if self.has_state and generation != self.generation:
            return Refused(self.generation, self.text)
        return method(self, *args)
    return checked


def old_place(id, layout):
    return place(id, layout.old or layout.shards)


def place(id, shards):
    return (id * 7 + id // 3) % shards


class Shard:
    def __init__(self, world, index, layout):
        self.world, self.index, self.store = world, index, Store()
        self.skew = world.rnd.randint(-world.skew, world.skew)
        used = index < layout.shards
        self.generation, self.text = (layout.generation, layout) if used else (0, Layout(0, 0, None, 0))
        self.has_state = True  # a shard that was never used has none: its first push gives it the generation of that push
        self.tick = self.lease = self.sequence = self.low = 0
        self.owner, self.out, self.mark = "", None, 0
        self.leaving, self.arrived, self.arriving, self.tokens = {}, {}, {}, {}
        self.connection, self.kept = 0, self.saved()

    # ---- a failover goes back to what the replica had ----

    def saved(self):
        return ({name: getattr(self, name) for name in FIELDS}, {name: dict(getattr(self, name)) for name in TABLES}, self.store.saved())

    def wait(self):
        """WAIT: do the replicas have all that was written here? Then they also have what the same Redis wrote elsewhere before."""
        if self.world.wait_fails():
            return False
        if self.world.fails:
            self.world.keep(self)
        return True

    def fail_over(self):
        fields, tables, kinds = self.kept
        self.connection += 1
        for name, value in fields.items():
            setattr(self, name, value)
        for name, value in tables.items():
            setattr(self, name, dict(value))
        self.store.load(kinds)

    # ---- what every script has ----

    def off(self, rule):
        return rule in self.world.off

    def now(self):
        return self.world.time() + self.skew

    def advance(self):
        self.tick = max(self.tick + 1, self.now())
        return self.tick

    def is_foreign(self, id):
        text = self.text
        return bool(text.old) and place(id, text.old) == self.index != place(id, text.shards)

    def change(self, name, id, *args):
        """Changes an id here and in the store that never moves."""
        waited, was_dead = id in self.store.jobs, id in self.store.dead
        result = self.world.change(self, name, id, args)
        came = (not waited and id in self.store.jobs
                or name == "schedule" and not self.off("a push that only schedules stops the end")
                or name == "import_dead" and not was_dead and not self.off("an import of a dead record stops the end"))
        if came and self.is_foreign(id):
            self.mark += 1  # a mover may have looked through this kind already
        return result

    def here_kinds(self):
        return tuple(kind for kind in HERE if not self.off(kind + " keep an id here"))

    def where(self, id, here):
        """Of a call for one id at its old shard (`here`) or its new one: 'again', 'moved', or None: it is to act here."""
        if id in self.leaving:
            return "moved" if self.off("again is not moved") else "again"
        if here and not self.store.is_here(id, self.here_kinds()) and not self.off("nothing is created in the old shard"):
            return "moved"
        return None

    # ---- generations ----

    def turn(self, text):
        if text.generation <= self.generation:
            return "SAME" if text == self.text or text.generation < self.generation else "OTHER"
        if self.leaving:
            return "OPEN"
        self.has_state, self.generation, self.text = True, text.generation, text
        self.out = None
        self.arrived, self.arriving = {}, {}
        return "OK"

    def look(self):
        return Refused(self.generation, self.text)

    # ---- producers, poppers and operators ----

    def token(self, client):
        return self.tokens.get(client)

    @script
    def push(self, client, sequence, id, job, here, floor):
        """Answers (what, tick, stamp): ok, stale, taken, again, moved; EARLIER to an echo."""
        known = self.tokens.get(client)
        if known and known[0] >= sequence:
            return known[1] if known[0] == sequence else ("EARLIER", self.tick, 0)
        if not self.off("a push carries the tick of the old shard"):
            self.tick = max(self.tick, floor)
        answer = self._push(id, job, here)
        self.tokens[client] = (sequence, answer)
        return answer

    @script
    def absent(self, id):
        """Is the id neither here nor on its way? (moved, tick), or (found, tick): the caller pushes as if it had not asked."""
        return ("moved" if self.where(id, True) == "moved" else "found", self.tick)

    def _push(self, id, job, here):
        store = self.store
        if job.number:
            self._raise_low(job.low)
            if self.off("an outbox has a number for each id"):
                last = max([number for number in store.taken] or [0])
                was_taken = job.number <= last
            else:
                was_taken = job.number in store.taken or job.number < self.low
            if was_taken:
                return ("taken", self.tick, 0)
        elsewhere = self.where(id, here)
        if elsewhere:
            return (elsewhere, self.tick, 0)
        stamp = self.advance()
        if job.number:
            store.taken[job.number] = id
        self.world.applied(id, job.text, stamp)
        entry = Entry(job.given if job.given is not None else float(stamp), stamp, job.given is not None, job.text)
        if job.given is not None and job.given <= store.scores.get(id, -1):
            self.world.was_ended(job.text)
            return ("stale", self.tick, 0)
        if job.at > self.now():
            self.change("schedule", id, Scheduled(job.at, entry._replace(score=job.given if entry.given else float(job.at))))
        elif id not in store.jobs and not here and job.due == 0 and self.owner in self.world.alive and self.world.rnd.random() < .3:
            fence = self.advance()
            self.world.begins(self, id, fence)
            self.change("hand_over", id, entry, fence, self.owner)
        else:
            self.change("join", id, entry, job.due if job.due > self.now() else 0)
        return ("ok", self.tick, stamp)

    def _raise_low(self, low):
        """All numbers below `low` were acknowledged to the outbox, so they need not be kept."""
        self.low = max(self.low, low)
        if not self.off("an outbox has a number for each id"):
            for number in [n for n in self.store.taken if n < self.low]:
                del self.store.taken[number]

    @script
    def act(self, name, id, args, here):
        elsewhere = self.where(id, here)
        return elsewhere or ("done", self.change(name, id, *args))

    @script
    def import_dead(self, id, text, here, floor):
        elsewhere = self.where(id, here)
        if elsewhere:
            return (elsewhere, self.tick)
        self.tick = max(self.tick, floor)
        stamp = self.advance()
        self.change("import_dead", id, Entry(float(stamp), stamp, False, text))
        return ("done", self.tick)

    @script
    def unpark_some(self):
        """A slice of a bulk action: (how many, sequence of the open batch or 0)."""
        parked = [id for id, r in self.store.jobs.items() if r.place == "parked" and not self.store.run_of(id)][:2]
        for id in parked:
            self.change("unpark", id)
        return (len(parked), self.sequence if self.leaving else 0)

    @script
    def has_batch(self, sequence):
        return bool(self.leaving) and self.sequence == sequence

    # ---- runs ----

    def _before_claim(self):
        """What a claim and a pop do first. The runs that are over come back, scheduled payloads arrive, ids unite."""
        store, now = self.store, self.now()
        for id, run in list(store.running.items()):
            if run.end is not None and run.end <= now:
                self.change("finish", id, "fail", now, now, self._notice(id, run))
            elif run.mode == "m":
                self.change("unite", id)
        due = sorted((s.at, s.entry.stamp, id) for id in store.sched for s in store.entries("sched", id) if s.at <= now)
        for _, stamp, id in due[:2]:
            self.change("arrive_scheduled", id, stamp)

    def _next_due(self):
        store, now = self.store, self.now()
        due = [id for id, r in store.jobs.items() if r.place != "parked" and r.due <= max(now, self.tick)
               and not store.run_of(id) and id not in store.moving]
        return self.world.rnd.choice(due) if due else None

    def _notice(self, id, run):
        hooked = run.owner in self.world.hooked_nodes or run.mode == "p" and self.world.has_hook
        return self.advance() if hooked and self.store.jobs[id].retry >= MOST_RETRIES else 0

    def _start(self, id, mode, owner, end):
        fence = self.advance()
        self.world.begins(self, id, fence)
        self.change("start", id, mode, fence, owner, end, mode == "n" and self.world.rnd.random() < .5)
        return fence

    @script
    def claim(self, owner):
        if owner != self.owner:
            return None
        self._before_claim()
        id = self._next_due()
        return id is not None and (id, self._start(id, self.store.jobs[id].mark or "n", owner, None))

    @script
    def pop(self, client, sequence, time):
        known = self.tokens.get(client)
        if known and known[0] >= sequence:
            return known[1] if known[0] == sequence else None
        self._before_claim()
        id = self._next_due()
        answer = None
        if id is not None:
            end = self.now() + time
            answer = (id, self._start(id, "p", client, end))
        self.tokens[client] = (sequence, answer)
        return answer

    @script
    def settle(self, owner, id, fence, how, due):
        run = self.store.run_of(id)
        if owner != self.owner or not run or run.fence != fence or run.owner != owner:
            return "STALE"
        return self._settle(id, run, how, due)

    def _settle(self, id, run, how, due):
        if how == "checkpoint":
            if len(self.store.entries("jobs", id)) > 1:
                self.change("checkpoint", id, 1)
        else:
            self.change("finish", id, how, self.now(), due, self._notice(id, run) if how == "fail" else 0)
        return "OK"

    @script
    def popped(self, client, sequence, id, fence, how, due):
        """The report of a popper: OK, or STALE if its run is not here."""
        known = self.tokens.get(client)
        if known and known[0] >= sequence:
            return known[1] if known[0] == sequence else "EARLIER"
        run = self.store.run_of(id)
        if not run or run.fence != fence or run.mode != "p":
            return "STALE"
        answer = self._settle(id, run, how, due)
        self.tokens[client] = (sequence, answer)
        self.world.reported.add((client, sequence))
        return answer

    def acquire(self, owner):
        """Takes the shard of a dead owner, whose runs come back."""
        self.owner, self.lease = owner, self.advance()
        for id, run in list(self.store.running.items()) + list(self.store.hands.items()):
            if run.mode in "nus" and run.owner != owner:
                number = self._notice(id, run) if self.store.jobs[id].mark == "s" else 0
                self.change("finish", id, "died", self.now(), self.now(), number)

    # ---- notices for retries_exhausted ----

    @script
    def tell(self, node):
        """Gives a node a notice, under a new number: one of nobody or of a dead node."""
        for number, (teller, id, text) in sorted(self.store.notices.items()):
            if teller == node or teller not in self.world.alive:
                del self.store.notices[number]
                number = self.advance()
                self.store.notices[number] = (node, id, text)
                return (number, id, text)
        return None

    @script
    def disown(self, node):
        """The notices of dead nodes are nobody's, also where the queue has no hook any more."""
        for number, (teller, id, text) in self.store.notices.items():
            if teller not in self.world.alive:
                self.store.notices[number] = ("", id, text)

    @script
    def told(self, number):
        self.store.notices.pop(number, None)
        return "OK"

    # ---- the move ----

    @script
    def begin_scan(self):
        if self.off("each scan has its own mark"):
            self.mark = 0
        return (self.mark,)

    @script
    def foreign(self, kind):
        """Foreign ids of one kind."""
        if self.off(kind + " move") or kind == "taken" and self.off("an outbox has a number for each id"):
            return []
        value = getattr(self.store, kind)
        ids = set(value.values()) if kind == "taken" else {n[1] for n in value.values()} if kind == "notices" else set(value)
        return sorted(id for id in ids if self.is_foreign(id))

    @script
    def depart(self, ids):
        """Opens a batch, or answers the open one: (sequence, tick, {id: part}), or None where nothing could be taken."""
        if not self.leaving or self.off("one batch at a time"):
            taken = self._take_all(ids)
            if taken:
                self.sequence = self.advance()
        return (self.sequence, self.tick, dict(self.leaving)) if self.leaving else None

    def _take_all(self, ids):
        before, store = len(self.leaving), self.store
        for id in ids:
            if id in store.hands and not self.off("hand-overs are unfolded"):
                store.set_run(id, store.hands[id])
            run = store.running.get(id)
            if run and not self.off("running ids stay"):
                store.running[id] = run._replace(leave=True)
                continue
            tellers = None if self.off("a notice stays with a living teller") else ("",)
            kinds = tuple(kind for kind in MOVED if not self.off(kind + " move")
                          and (kind != "taken" or not self.off("an outbox has a number for each id")))
            part = store.part(id, kinds, tellers)
            if any(part.values()):
                store.remove(id, part)
                store.moving.pop(id, None)
                self.leaving[id] = part
        return len(self.leaving) > before

    @script
    def slice_out(self, sequence, id, kind, start):
        """Entries of a spilled value of the open batch, from this place."""
        if sequence != self.sequence or id not in self.leaving:
            return None
        return self.leaving[id]["spilled"][kind][start:start + SLICE]

    @script
    def slice_in(self, source, sequence, id, kind, start, entries):
        if sequence <= self.arrived.get(source, 0):
            return "AGAIN"
        key = (source, id, kind)
        self.arriving[key] = dict(self.arriving.get(key, {}), **{str(start + i): e for i, e in enumerate(entries)})
        return "OK"

    @script
    def arrive(self, source, sequence, tick, low, heads):
        """Takes a part of a batch in. heads: id -> part, without spilled entries."""
        if sequence <= self.arrived.get(source, 0) and not self.off("a batch arrives once"):
            return "AGAIN"
        parts = {}
        for id, head in heads.items():
            parts[id] = dict(head, spilled={})
            for kind in SLICED:
                count = head[kind].entries if kind == "jobs" and kind in head else head.get(kind, ())
                if not isinstance(count, int):
                    continue
                entries = self.arriving.get((source, id, kind), {})
                if len(entries) != count and not self.off("slices are counted"):
                    return "SLICES"
                parts[id]["spilled"][kind] = tuple(entries.values())
        if not self.off("an arrival carries the tick"):
            self.tick = max(self.tick, tick)
        self.arrived[source] = sequence
        self._raise_low(low)
        for id, part in parts.items():
            part["notices"] = {self.advance(): notice for notice in part.get("notices", {}).values()}
            self.store.add(id, part)
            for kind in SLICED:
                self.arriving.pop((source, id, kind), None)
            self.world.agrees(self, id)
        return "OK"

    @script
    def departed(self, sequence, ids):
        """These ids have arrived."""
        if sequence == self.sequence or self.off("departed names its batch"):
            for id in ids:
                self.leaving.pop(id, None)
        return "OK"

    @script
    def lift(self, tick, low):
        if not self.off("the end lifts all ticks"):
            self.tick = max(self.tick, tick)
        self._raise_low(low)
        return "OK"

    @script
    def close(self):
        return (self.tick, self.low)

    @script
    def leave_no_more(self, mark):
        """Nothing foreign is or will be here, unless something has come back to a kind since the scan began with this mark."""
        if self.leaving or mark != self.mark and not self.off("a mark stops the end"):
            return "NOT YET"
        self.out = mark
        return "OK"

    @script
    def is_out(self):
        """Also behind that, something may come back."""
        return self.out is not None and (self.out == self.mark or self.off("a mark stops the end"))


def rest(shard):
    """What must not be left in a shard of a queue in which nothing moves."""
    if shard.off("an outbox has a number for each id"):
        shard.store.taken.clear()
    left = [name for name in ("leaving", "arriving") if getattr(shard, name)] + (["moving"] if shard.store.moving else [])
    foreign = {id for kind in KINDS if kind in SCANNED for id in _ids_of(shard, kind) if place(id, shard.text.shards) != shard.index}
    return left + ["foreign %s" % sorted(foreign)] * bool(foreign)


def _ids_of(shard, kind):
    value = getattr(shard.store, kind)
    return set(value.values()) if kind == "taken" else {n[1] for n in value.values()} if kind == "notices" else set(value)
