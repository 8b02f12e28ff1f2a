"""A random check of the protocol that moves ids between shards while a queue is in use. See README.md.

    python3 reshard.py [--schedules N] [--controls N]
"""
import argparse
import random
from collections import Counter, namedtuple

import actors
import rare
from shard import Layout, Shard, place, rest
from store import HERE, Store


# How a queue is used. pause: between the pushes of a producer, in steps. skew: of the masters' clocks. given, later: how many pushes have a
# score, a time. slow: how long a mover takes between two kinds of a scan. claims: how often a server claims.
# extras: there are histories and an outbox.
Shape = namedtuple("Shape", "ids pause skew given later slow claims extras")
SHAPES = {
    "busy": Shape(8, 5, 300, .2, .3, 3, .43, True),
    "quiet": Shape(4, 150, 2000, 0, 0, 0, .43, False),
    "later": Shape(6, 60, 300, .1, .9, 40, .43, True),
    "pulled": Shape(8, 30, 300, .2, .1, 0, .02, True),
}


class Bad(Exception):
    """Something that the protocol promises did not hold."""


class LayoutKey:
    """The key that holds the layout, on a master of its own."""

    def __init__(self, world, value):
        self.world, self.value, self.kept, self.previous, self.connection = world, value, value, value, 0

    def replace(self, old, new):
        if self.value != old:
            return False
        self.previous, self.value = old, new
        return True

    def raise_to(self, text):
        if text.generation > self.value.generation:
            self.value = text

    def fail_over(self):
        self.value = self.kept
        self.connection += 1

    def forget(self):
        """A failover without a consensus forgets a layout that was waited for."""
        self.value = self.kept = self.previous
        self.connection += 1

    def wait(self):
        if self.world.wait_fails():
            return False
        self.world.keep(self)
        return True


class World:
    def __init__(self, seed, mode, off, shape=None):
        self.rnd = random.Random(seed)
        self.off, self.mode = off, mode
        self.fails = mode in ("failovers", "slow replicas", "one Redis")
        self.is_one = mode == "one Redis"  # all shards and the layout lie on it, and its replicas get all in the order in which it was written
        self.shape = SHAPES[shape or self.rnd.choice(sorted(SHAPES))]
        self.ids, self.skew, self.has_hook = list(range(self.shape.ids)), self.shape.skew, True
        self.clock, self.names, self.texts, self.row, self.events = 1000, 0, 0, 0, 0
        shards = self.rnd.choice((1, 2, 3, 4))
        layout = Layout(1, shards, None, shards)
        self.layout = LayoutKey(self, layout)
        self.draining, self.moves, self.begun, self.ended = False, 2, 0, 0
        self.alive, self.echoes, self.kills, self.away = set(), [], Counter(), {}
        self.truth = Store(ended=self.was_ended)
        self.fences, self.stamps, self.counts, self.acknowledged, self.over = {}, {}, Counter(), {}, set()
        self.rows, self.handles, self.parked, self.episodes = [], [], {}, 0
        self.reported, self.told, self.hooks = set(), set(), Counter()
        self.noticed, self.hooked_nodes = set(), set()
        self.shards = [Shard(self, index, layout) for index in range(5)]
        makers = [actors.producer] * 3 + [actors.relay] + [actors.popper] * 2 + [actors.operator]
        makers += [actors.starter] * 2 + [actors.ender] * 2 + [actors.mover] * 6
        self.makers = makers + [lambda w, k=k: actors.server(w, k) for k in range(5)]
        self.actors = [make(self) for make in self.makers]

    # ---- what the actors and scripts ask ----

    def time(self):
        return self.clock

    def wait_fails(self):
        return self.mode == "slow replicas" and self.rnd.random() < .3

    def is_away(self, index):
        return self.away.get(index, 0) > self.clock

    def next_generation(self, layout):
        """Like a fence: so a layout that a failover forgets and the next one do not have the same."""
        return layout.generation + 1 if "a generation is given once" in self.off else max(layout.generation + 1, self.clock)

    def kill(self, point):
        if self.draining or self.rnd.random() >= .06:
            return False
        self.kills[point] += 1
        return True

    # ---- what must hold ----

    def in_batch(self, id, shard):
        """Does an open batch of another shard hold the id, which has not arrived yet?"""
        return any(holds(other, id) and shard.arrived.get(other.index, 0) < other.sequence for other in self.shards if other is not shard)

    def change(self, shard, name, id, args):
        for other in self.shards:
            if other is not shard and other.store.is_here(id):
                raise Bad("an id is in two shards")
        if self.in_batch(id, shard):
            raise Bad("an id is in a batch and in a shard")
        self.events += 1
        results = []
        for store in (shard.store, self.truth):
            try:
                results.append(getattr(store, name)(id, *args))
            except (KeyError, AttributeError) as error:
                raise Bad("what was stored of an id is gone") from error
            if self.shape.extras:
                store.events[id] = store.events.get(id, ()) + (self.events,)
        for number, notice in self.truth.notices.items():
            self.noticed.add(notice[1:])
        self.agrees(shard, id)
        record = self.truth.jobs.get(id)
        if record and record.place == "parked":
            if id not in self.parked:
                self.episodes += 1
                self.parked[id] = self.episodes
        else:
            self.parked.pop(id, None)
        return results[0]

    def agrees(self, shard, id):
        if shard.store.view(id) != self.truth.view(id):
            raise Bad("a move changed what is stored of an id")

    def begins(self, shard, id, fence):
        for other in self.shards:
            if other is not shard and other.store.run_of(id):
                raise Bad("an id runs in two shards")
        if not self.fails and fence <= self.fences.get(id, 0):
            raise Bad("a fence fell")
        self.fences[id] = fence

    def applied(self, id, text, stamp):
        self.counts[text] += 1
        if self.counts[text] > 1 and not self.fails:
            raise Bad("a payload was written twice")
        if not self.fails and stamp <= self.stamps.get(id, 0):
            raise Bad("a payload arrived before an earlier one")
        self.stamps[id] = stamp

    def acknowledge(self, id, text, answer):
        if not self.counts[text]:
            raise Bad("an accepted payload was never written")
        self.acknowledged[text] = id
        if answer[2] and len(self.handles) < 60:
            self.handles.append((id, answer[2]))

    def was_ended(self, text):
        self.over.add(text)

    def hooked(self, notice):
        self.hooks[notice] += 1
        if notice in self.told and not self.fails:
            raise Bad("retries_exhausted was called again after it had returned")

    def refused_report(self, id, fence, client, sequence):
        run = self.truth.run_of(id)
        if not self.fails and ((client, sequence) in self.reported or run and run.mode == "p" and run.fence == fence):
            raise Bad("the report of a run that is there was refused as stale")

    def is_cancellable(self, id, stamp):
        found = [e for e in self.truth.entries("jobs", id) if e.stamp == stamp and not self.truth.run_of(id)]
        return bool(found) or any(s.entry.stamp == stamp for s in self.truth.entries("sched", id))

    def cancelled(self, id, stamp, before, found):
        """A handle is good until its payload runs, wherever the payload has moved meanwhile."""
        if not found and before and self.is_cancellable(id, stamp) and not self.fails:
            raise Bad("a handle did not find its payload")

    def unparked_all(self, parked):
        if not self.fails and any(self.parked.get(id) == episode for id, episode in parked.items()):
            raise Bad("a bulk action passed over an id")

    # ---- faults ----

    def keep(self, key):
        """The replicas have what `key` holds, a shard or the layout."""
        for each in [self.layout, *self.shards] if self.is_one else [key]:
            each.kept = each.value if each is self.layout else each.saved()

    def fail_over(self):
        if self.is_one:
            for each in [self.layout, *self.shards]:
                each.fail_over()
            for id in self.ids:
                self.look_again(id)
            return
        index = self.rnd.randrange(len(self.shards) + 1)
        if index == len(self.shards):
            self.layout.fail_over()
            return
        self.shards[index].fail_over()
        for id in self.ids:
            self.look_again(id)

    def look_again(self, id):
        """After a failover the store that never moves follows what Redis has; still an id is in one place only."""
        places = [s for s in self.shards if s.store.is_here(id)]
        batches = [s for s in self.shards if holds(s, id)
                   and self.shards[place(id, s.text.shards)].arrived.get(s.index, 0) < s.sequence]
        if len(places) + len(batches) > 1:
            raise Bad("a failover brought an id into two places")
        self.truth.remove(id, self.truth.part(id))
        if places:
            self.truth.add(id, places[0].store.part(id))
        elif batches:
            self.truth.add(id, batches[0].leaving[id])
        if id not in self.truth.jobs or self.truth.jobs[id].place != "parked":
            self.parked.pop(id, None)

    def step(self):
        self.clock += 1
        self.has_hook = self.has_hook and self.rnd.random() > .0003
        rnd = self.rnd.random()
        if rnd < .02 and self.echoes:
            index, name, args = self.echoes.pop(self.rnd.randrange(len(self.echoes)))
            getattr(self.shards[index], name)(*args)
        elif rnd < .023 and not self.draining:
            self.away[self.rnd.randrange(len(self.shards))] = self.clock + 40
        elif rnd < (.0243 if self.is_one else .028) and self.fails and not self.draining:  # it takes all shards back
            self.fail_over()
        elif rnd < .06 and self.is_one:
            self.keep(None)  # the replicas have caught up
        elif rnd < .033 and self.mode == "lost layouts" and not self.draining:
            if any(shard.text == self.layout.value for shard in self.shards):
                self.layout.forget()
        else:
            at = self.rnd.randrange(len(self.actors))
            try:
                next(self.actors[at])
            except StopIteration:
                self.actors[at] = self.makers[at](self)

    def is_done(self):
        layout = self.layout.value
        if layout.old is not None or self.rows or any(s.generation != layout.generation or s.leaving for s in self.shards):
            return False
        return not any(s.store.jobs or s.store.sched for s in self.shards)

    def drain(self):
        """No producer, no fault: the moves end, all that waits runs."""
        self.draining = True
        for turn in range(16000):
            self.step()
            if turn % 100 == 0:
                for shard in self.shards:
                    for id, record in list(shard.store.jobs.items()):
                        if record.place == "parked" and not shard.store.run_of(id):
                            shard.change("unpark", id)
                if self.is_done():
                    return
        raise Bad("a move does not end" if self.layout.value.old is not None else "a queue does not drain")

    def finally_holds(self):
        for shard in self.shards:
            if rest(shard):
                raise Bad("something was left behind: %s" % rest(shard)[0].split()[0])
        if not self.fails:
            for text, id in self.acknowledged.items():
                if text not in self.over and not any(e.text == text for e in self.truth.entries("dead", id)):
                    raise Bad("an accepted payload was lost")
            for id in self.ids:
                events = [number for s in self.shards for number in s.store.events.get(id, ())]
                if sorted(events) != sorted(self.truth.events.get(id, ())):
                    raise Bad("the history of an id was lost")
            held = {n[1:] for s in self.shards for n in s.store.notices.values()}
            if self.noticed - held - set(self.hooks):
                raise Bad("a notice was lost")
        else:
            for text, id in self.acknowledged.items():
                if text not in self.over and not any(e.text == text for s in self.shards for e in s.store.entries("dead", id)):
                    raise Bad("an accepted payload was lost")


def holds(shard, id):
    """Does the open batch of a shard hold an id with more than traces of it?"""
    return any(kind in HERE for kind in shard.leaving.get(id, ()))


def run(seed, mode, off, steps, shape=None):
    world = World(seed, mode, off, shape)
    for _ in range(steps):
        world.step()
    ended = world.ended
    world.drain()
    world.finally_holds()
    return world, ended


# ---- What is run ----

MODES = ("plain", "failovers", "slow replicas", "one Redis", "lost layouts")
# A control leaves one rule out; the check must find that.
CONTROLS = (
    ("plain", "busy", "nothing is created in the old shard"), ("plain", "busy", "again is not moved"),
    ("plain", "busy", "a batch arrives once"), ("plain", "busy", "one batch at a time"), ("plain", "busy", "running ids stay"),
    ("plain", "busy", "hand-overs are unfolded"), ("plain", "quiet", "an arrival carries the tick"),
    ("plain", "busy", "a push carries the tick of the old shard"), ("plain", "quiet", "the end lifts all ticks"),
    ("plain", "busy", "a token is asked for"), ("plain", "busy", "a refused command stays the same"),
    ("plain", "busy", "an earlier layout's answer is not followed"), ("plain", "pulled", "a report's token is asked for"),
    ("plain", "pulled", "a report looks in the old shard"), ("plain", "busy", "a notice stays with a living teller"),
    ("plain", "busy", "an outbox has a number for each id"), ("plain", "busy", "a bulk action passes twice"),
    ("plain", "busy", "jobs move"), ("plain", "busy", "dead move"), ("plain", "later", "sched move"), ("plain", "busy", "scores move"),
    ("plain", "busy", "events move"), ("plain", "busy", "taken move"), ("plain", "busy", "notices move"),
    ("plain", "later", "sched keep an id here"), ("plain", "busy", "dead keep an id here"), ("plain", "busy", "scores keep an id here"),
    ("failovers", "busy", "slices are counted"), ("failovers", "busy", "WAIT counts on the connection of the write"),
    ("failovers", "busy", "an absence is waited for"), ("failovers", "busy", "a departure is waited for"),
    ("failovers", "busy", "an arrival is waited for"), ("failovers", "quiet", "the end is waited for"),
    ("slow replicas", "busy", "a WAIT that times out is repeated"),
    ("one Redis", "busy", "an arrival goes over the connection of its departure"),
    ("one Redis", "busy", "a batch is removed over the connection of its arrival"),
    ("lost layouts", "busy", "a text raises the layout"),
)
POINTS = ("K1", "K2", "K3", "K4", "K5", "K6", "K7", "K8", "K9")
STEPS = 3500  # of a schedule before it drains


def try_protocol(mode, schedules):
    """The whole protocol. Returns what went wrong, the points at which somebody was killed, and the moves that ended under load."""
    failures, kills, begun, ended = [], Counter(), 0, 0
    for seed in range(schedules):
        try:
            world, under_load = run(seed, mode, frozenset(), STEPS)
            kills += world.kills
            begun, ended = begun + world.begun, ended + under_load
        except Bad as error:
            failures.append("seed %d: %s" % (seed, error))
    return failures, kills, begun, ended


def try_control(mode, shape, rule, schedules):
    """The protocol without one rule. Returns the seed that shows it, and how, or None."""
    for seed in range(schedules):
        try:
            run(seed, mode, frozenset((rule,)), STEPS, shape)
        except Bad as error:
            return seed, str(error)
    return None


def try_rare(rule, off):
    world = World(1, "failovers", frozenset(off), "quiet")
    world.layout.value = world.layout.kept = Layout(1, 1, None, 1)
    try:
        return rare.SCHEDULES[rule](world)
    except Bad:
        return False


def main():
    parser = argparse.ArgumentParser(description="Checks the protocol of resharding by random schedules.")
    parser.add_argument("--schedules", type=int, default=60, help="of each mode (60)")
    parser.add_argument("--controls", type=int, default=200, help="schedules in which a control must be caught (200)")
    options = parser.parse_args()
    failed, kills, checks = [], Counter(), 0
    for mode in MODES:
        failures, killed, begun, ended = try_protocol(mode, options.schedules)
        kills += killed
        checks += options.schedules
        failed += ["%s, %s" % (mode, failure) for failure in failures]
        figures = (mode, options.schedules, begun, ended, len(failures))
        print("%-14s %d schedules, %d moves, %d ended under load, %d failed" % figures, flush=True)
        if ended < options.schedules // 4:
            failed.append("%s: only %d moves ended under load" % (mode, ended))
    print("killed at", ", ".join("%s %d" % (point, kills[point]) for point in POINTS))
    failed += ["nobody was killed at %s" % point for point in POINTS if not kills[point]]
    for mode, shape, rule in CONTROLS:
        checks += 1
        caught = try_control(mode, shape, rule, options.controls)
        print("without: %-46s %s" % (rule, "caught by seed %d: %s" % caught if caught else "NOT CAUGHT"), flush=True)
        if not caught:
            failed.append("%s, %s, without '%s': not caught" % (mode, shape, rule))
    for rule in rare.SCHEDULES:
        checks += 2
        held, without = try_rare(rule, ()), try_rare(rule, (rule,))
        print("without: %-46s %s" % (rule, "caught by its own schedule" if not without else "NOT CAUGHT"))
        failed += ["the schedule of '%s' fails" % rule] * (not held) + ["without '%s': not caught" % rule] * without
    for failure in failed:
        print("FAILED", failure)
    print("%d scenarios, %d checks, %d failed" % (len(MODES) + len(CONTROLS) + len(rare.SCHEDULES), checks, len(failed)))
    raise SystemExit(1 if failed else 0)


if __name__ == "__main__":
    main()
