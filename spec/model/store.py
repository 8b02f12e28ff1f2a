"""What one shard holds of its ids, and what happens to one id there.

The model runs two kinds of Store: one in each shard, and one that never moves (World.truth). Each change of an id is done in both, and
both must then hold the same of this id. So whatever a move loses, doubles or changes is seen at the next step.

A value of a kind is a tuple of entries, or their number if they are spilled; then they lie in `spilled`. All values are immutable, so a
copy of the dicts is a copy of the store.
"""
from collections import namedtuple

Entry = namedtuple("Entry", "score stamp given text")  # given: the push named the score
Scheduled = namedtuple("Scheduled", "at entry")
# place: ready, due, parked. mark: '' , u (unproven), s (suspect). pops: deliveries that were not acknowledged.
Record = namedtuple("Record", "place due retry mark pops entries")
# mode: n, u, s (of the owner), p (of a popper), m (uniting). end: of the time to run. leave: the id leaves when the run has ended.
Run = namedtuple("Run", "mode fence owner end deleted park leave")

SPILL = 3  # entries that a value holds; more are spilled
MOST_RETRIES = 1
# hands: runs that stand nowhere but in `claims` or in the state (claims as a whole, hand-overs). moving: ids that may not be claimed.
KINDS = ("jobs", "next", "running", "hands", "dead", "sched", "scores", "events", "taken", "notices", "moving", "spilled")
# What a push to the old shard may join: an id of which one of these is there is there.
HERE = ("jobs", "sched", "dead", "scores")
# The order in which a mover looks for foreign ids: what leaves one of these kinds for a later one is still found. What comes to an earlier
# one stops the end of the move.
SCANNED = ("jobs", "sched", "dead", "scores", "events", "taken", "notices")
SLICED = ("jobs", "dead", "sched")


class Store:
    def __init__(self, ended=None):
        self.ended = ended  # called with the text of each payload that is over
        self.load({})

    def load(self, kinds):
        for kind in KINDS:
            setattr(self, kind, dict(kinds.get(kind, {})))

    def saved(self):
        return {kind: dict(getattr(self, kind)) for kind in KINDS}

    # ---- values ----

    def entries(self, kind, id):
        value = getattr(self, kind).get(id, ())
        if kind == "jobs":
            value = value.entries if value else ()
        return self.spilled[kind, id] if isinstance(value, int) else value

    def _value(self, kind, id, entries):
        self.spilled.pop((kind, id), None)
        if len(entries) <= SPILL:
            return tuple(entries)
        self.spilled[kind, id] = tuple(entries)
        return len(entries)

    def put(self, kind, id, entries):
        if entries:
            getattr(self, kind)[id] = self._value(kind, id, entries)
        else:
            self.spilled.pop((kind, id), None)
            getattr(self, kind).pop(id, None)

    def put_record(self, id, record, entries):
        self.jobs[id] = record._replace(entries=self._value("jobs", id, entries))

    def drop_record(self, id):
        self.put("jobs", id, ())
        self.moving.pop(id, None)

    def run_of(self, id):
        return self.running.get(id) or self.hands.get(id)

    def set_run(self, id, run):
        self.hands.pop(id, None)
        self.running[id] = run

    def is_here(self, id, kinds=HERE):
        return any(id in getattr(self, kind) for kind in kinds)

    def view(self, id):
        """All that counts of an id, wherever and in whatever form it lies."""
        record, run = self.jobs.get(id), self.run_of(id)
        return (record and record[:5] + (tuple(sorted(self.entries("jobs", id))),), tuple(sorted(self.entries("next", id))),
                run and run[:6], tuple(sorted(self.entries("dead", id))), tuple(sorted(self.entries("sched", id))), self.scores.get(id))

    def end(self, entries):
        for entry in entries if self.ended else ():
            self.ended(entry.text)

    def numbers_of(self, id):
        return [number for number, other in self.taken.items() if other == id]

    def notices_of(self, id, tellers=None):
        return [number for number, (teller, other, _) in self.notices.items() if other == id and (tellers is None or teller in tellers)]

    # ---- what happens to an id; the first argument is the id ----

    def join(self, id, entry, due):
        if self.run_of(id):
            self.put("next", id, self.entries("next", id) + (entry,))
        elif id in self.jobs:
            self.put_record(id, self.jobs[id], self.entries("jobs", id) + (entry,))
        else:
            place = "due" if due else "ready"
            self.put_record(id, Record(place, due or entry.stamp, -1, "", 0, ()), (entry,))

    def schedule(self, id, scheduled):
        self.put("sched", id, self.entries("sched", id) + (scheduled,))

    def arrive_scheduled(self, id, stamp):
        mine = [s for s in self.entries("sched", id) if s.entry.stamp == stamp]
        self.put("sched", id, tuple(s for s in self.entries("sched", id) if s.entry.stamp != stamp))
        for scheduled in mine:
            if scheduled.entry.given and scheduled.entry.score <= self.scores.get(id, -1):
                self.end((scheduled.entry,))
            else:
                self.join(id, scheduled.entry, 0)

    def start(self, id, mode, fence, owner, end, hand):
        run = Run(mode, fence, owner, end, False, False, False)
        (self.hands if hand else self.running)[id] = run

    def hand_over(self, id, entry, fence, owner):
        self.join(id, entry, 0)
        self.start(id, "n", fence, owner, None, True)

    def finish(self, id, how, now, due, number):
        """Ends a run: done, failed, snoozed, released, or its process died. number: that of a notice, if one is written."""
        run, record = self.run_of(id), self.jobs[id]
        entries, newer = self.entries("jobs", id), self.entries("next", id)
        self.running.pop(id, None)
        self.hands.pop(id, None)
        record = record._replace(place="ready", pops=record.pops + (run.mode == "p" and how == "fail"))
        parked = run.park
        if how == "died":
            how = "fail" if record.mark == "s" else "release"
            record = record._replace(mark={"": "u", "u": "s", "s": ""}[record.mark])
        if run.deleted and how != "done":
            self.end(entries)
            entries = ()
        elif how == "done":
            given = [e.score for e in entries if e.given]
            if given:
                self.scores[id] = max([self.scores.get(id, -1)] + given)
                stale = [e for e in newer if e.given and e.score <= self.scores[id]]
                self.end(stale)
                newer = tuple(e for e in newer if e not in stale)
            self.end(entries)
            entries = ()
        elif how == "snooze":
            record = record._replace(place="due", due=due, mark="")
        elif how == "fail" and record.retry < MOST_RETRIES:
            record = record._replace(place="due", due=due, retry=record.retry + 1)
        elif how == "fail":
            action = ("bury", "park", "drop")[id % 3]
            if number:
                self.notices[number] = ("" if run.mode == "p" else run.owner, id, run.fence)
            record = record._replace(retry=0, mark="", pops=0)
            if action == "bury" and entries:
                lowest = min(entries)
                self.put("dead", id, self.entries("dead", id) + (lowest,))
                entries = tuple(e for e in entries if e != lowest)
            elif action == "park":
                parked = True
            else:
                self.end(entries)
                entries = ()
        self.put("next", id, ())
        if not entries:
            record = Record("ready", now, -1, "", 0, ())
        if entries and newer and len(entries) + len(newer) > SPILL + 1:
            self.put("next", id, newer)
            self.put_record(id, record, entries)
            self.running[id] = Run("m", 0, "", None, False, parked, run.leave)
            return
        self._come_back(id, record, entries + newer, parked, run.leave)

    def _come_back(self, id, record, entries, parked, leave):
        if not entries:
            self.drop_record(id)
            return
        self.put_record(id, record._replace(place="parked") if parked else record, entries)
        if leave:
            self.moving[id] = True

    def unite(self, id):
        run = self.running.pop(id)
        entries = self.entries("jobs", id) + self.entries("next", id)
        self.put("next", id, ())
        self._come_back(id, self.jobs[id], entries, run.park, run.leave)

    def checkpoint(self, id, count):
        entries = sorted(self.entries("jobs", id))
        self.end(entries[:count])
        mark = "" if entries[:count] else self.jobs[id].mark
        self.put_record(id, self.jobs[id]._replace(retry=-1, pops=0, mark=mark), tuple(entries[count:]))

    def park(self, id):
        run = self.run_of(id)
        if run:
            self.set_run(id, run._replace(park=True))
        elif id in self.jobs:
            self.jobs[id] = self.jobs[id]._replace(place="parked")

    def unpark(self, id):
        if id in self.jobs and not self.run_of(id) and self.jobs[id].place == "parked":
            self.jobs[id] = self.jobs[id]._replace(place="ready", retry=-1)

    def delete(self, id):
        run = self.run_of(id)
        self.end(self.entries("next", id) + tuple(s.entry for s in self.entries("sched", id)))
        self.put("next", id, ())
        self.put("sched", id, ())
        if run and run.mode != "m":
            self.set_run(id, run._replace(deleted=True))
        else:
            self.running.pop(id, None)
            self.end(self.entries("jobs", id))
            self.drop_record(id)

    def import_dead(self, id, entry):
        self.put("dead", id, self.entries("dead", id) + (entry,))

    def delete_dead(self, id):
        """An operator does it, or the limits of the morgue."""
        self.end(self.entries("dead", id))
        self.put("dead", id, ())

    def requeue(self, id):
        entries = sorted(self.entries("dead", id))
        self.put("dead", id, ())
        for entry in entries:
            self.join(id, entry, 0)

    def cancel(self, id, stamp):
        """Removes the payload of a handle; True if it was there and did not run."""
        run = self.run_of(id)
        where = ["sched"] + (["next"] if run else []) + (["jobs"] if not run or run.mode == "m" else [])
        for kind in where:
            entries = self.entries(kind, id)
            mine = [e for e in entries if (e.entry if kind == "sched" else e).stamp == stamp]
            if mine:
                left = tuple(e for e in entries if e not in mine)
                self.end([e.entry if kind == "sched" else e for e in mine])
                if kind == "jobs" and (left or run):
                    self.put_record(id, self.jobs[id], left)
                elif kind == "jobs":
                    self.drop_record(id)
                else:
                    self.put(kind, id, left)
                return True
        return False

    def forget_score(self, id):
        self.scores.pop(id, None)

    # ---- an id as a whole, for moves and failovers ----

    def part(self, id, kinds=KINDS, tellers=None):
        """What lies here of an id, kind by kind, and of spilled values their entries under 'spilled'."""
        part = {"spilled": {kind: self.spilled[kind, id] for kind in SLICED + ("next",) if kind in kinds and (kind, id) in self.spilled}}
        for kind in kinds:
            if kind == "taken":
                part[kind] = self.numbers_of(id)
            elif kind == "notices":
                part[kind] = {number: self.notices[number] for number in self.notices_of(id, tellers)}
            elif kind != "spilled" and id in getattr(self, kind):
                part[kind] = getattr(self, kind)[id]
        return part

    def remove(self, id, part):
        for kind in part["spilled"]:
            self.spilled.pop((kind, id), None)
        for kind, value in part.items():
            if kind in ("taken", "notices"):
                for number in value:
                    getattr(self, kind).pop(number, None)
            elif kind != "spilled":
                getattr(self, kind).pop(id, None)

    def add(self, id, part):
        """Unites a part with what is here; normally nothing is."""
        def values(kind):
            value = part[kind].entries if kind == "jobs" else part[kind]
            return part["spilled"][kind] if isinstance(value, int) else value

        def united(kind):
            return tuple(sorted(set(self.entries(kind, id) + values(kind))))

        for kind in ("dead", "sched", "next"):
            if part.get(kind):
                self.put(kind, id, united(kind))
        if "jobs" in part and self.run_of(id):
            self.put("next", id, tuple(sorted(set(self.entries("next", id) + values("jobs")))))
        elif "jobs" in part:
            self.put_record(id, part["jobs"], united("jobs"))
        for kind in ("running", "hands", "moving"):
            if kind in part:
                getattr(self, kind)[id] = part[kind]
        if "scores" in part:
            self.scores[id] = max(part["scores"], self.scores.get(id, part["scores"]))
        if "events" in part:
            self.events[id] = tuple(sorted(set(self.events.get(id, ()) + part["events"])))
        for number in part.get("taken", ()):
            self.taken[number] = id
        self.notices.update(part.get("notices", {}))
