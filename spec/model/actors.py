"""Who calls the scripts: producers, relays of outboxes, servers, poppers, operators, movers, and who begins and ends a move.

Each is a generator that stops before each message, so all others may act there. A command whose answer is lost is sent again. A command
may also be executed once more at any later time (an echo). `kill` ends an actor at one of the points K1 to K9.
"""
from shard import Job, Layout, Refused, Shard, old_place, place
from store import SCANNED

SAYS_ELSEWHERE = ("again", "moved")


def call(w, index, name, *args, echo=True, connection=None):
    """The answer of a script. connection: it is sent on this connection only; None if that has ended."""
    while True:
        yield
        if w.is_away(index):
            continue
        if connection not in (None, w.shards[index].connection) and "a scan and its end have one connection" not in w.off:
            return None
        answer = getattr(w.shards[index], name)(*args)
        if echo and w.rnd.random() < .06:
            w.echoes.append((index, name, args))
        if w.rnd.random() >= .1:
            return answer
        for _ in range(w.rnd.choice((0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 10, 100))):
            yield  # until there is a connection again


def wait(w, key, rule, connection):
    """WAIT, until the replicas have what this connection has written. False: the connection has ended, and what it wrote may be forgotten,
    so the command must be sent again. `key` is a shard or the layout."""
    while rule not in w.off:
        yield
        if isinstance(key, Shard) and w.is_away(key.index):
            continue
        if key.connection != connection and "WAIT counts on the connection of the write" not in w.off:
            return False
        if key.wait() or "a WAIT that times out is repeated" in w.off:
            break
    return True


def sure(w, index, rule, name, *args):
    """A command whose answer counts only when the replicas have what it says."""
    while True:
        answer = yield from call(w, index, name, *args)
        shard = w.shards[index]
        if not answer or isinstance(answer, Refused) or (yield from wait(w, shard, rule, shard.connection)):
            return answer


def is_ordered(w, parts):
    """Are the steps of a batch sent on one connection, instead of being waited for? So it is where one Redis has all shards."""
    return w.is_one and not any(part["spilled"] for part in parts.values())


def bound(w, index, rule, connection, name, *args):
    """A command that is sent on this connection only, and lost with it: None. It is never sent again."""
    if rule in w.off:
        return (yield from call(w, index, name, *args))
    yield
    if w.shards[index].connection != connection:
        return None
    answer = getattr(w.shards[index], name)(*args)
    return answer if w.rnd.random() >= .1 else None


def follow(w, layout, index, refused, turns):
    """After a GENERATION refusal of a shard: the layout to go on with. `turns`: the caller may turn the shard."""
    yield
    now, connection = w.layout.value, w.layout.connection
    if refused.text.generation > now.generation and "a text raises the layout" not in w.off:
        w.layout.raise_to(refused.text)
    elif refused.generation < now.generation and turns:
        # A layout that a failover may yet forget turns no shard: there could be another one of the same generation.
        if (yield from wait(w, w.layout, "the layout is waited for", connection)):
            yield from call(w, index, "turn", now)
    return w.layout.value


def first_step(layout, id):
    moving = layout.old is not None and old_place(id, layout) != place(id, layout.shards)
    return "old" if moving else "new"


def routed(w, id, say, heard=None, asks=False):
    """Calls a script for one id at its old shard, then at its new one. say(here, floor) gives the script and its arguments;
    heard(index) gives the answer that a shard remembers. asks: the old shard is asked first whether the id has moved.
    Returns (answer, index)."""
    layout = w.layout.value
    step, floor = first_step(layout, id), 0
    while True:
        index = old_place(id, layout) if step == "old" else place(id, layout.shards)
        if asks and step == "old":
            answer, layout = yield from told_to(w, layout, index, ("absent", (id,)), None)
            asks = False
            if isinstance(answer, tuple) and answer[0] == "found":
                continue
        else:
            answer, layout = yield from told_to(w, layout, index, say(step == "old", floor), heard)
        shard, what = w.shards[index], answer[0] if isinstance(answer, tuple) else answer
        if answer is None or what == "again" or what == "EARLIER":
            layout = w.layout.value
            step = "new" if what == "again" and "again is not moved" in w.off else first_step(layout, id)
        elif what == "unknown":
            return answer, index
        elif what == "moved":
            if not (yield from wait(w, shard, "an absence is waited for", shard.connection)):
                continue
            step = "new"
            floor = max(floor, answer[1]) if isinstance(answer, tuple) else 0
        else:
            return answer, index


def told_to(w, layout, index, command, heard):
    """One command to one shard. Returns its answer, None if it was refused and is to be planned anew, and the layout to go on with.

    A copy of the command may lie in a connection that has ended. A shard of an earlier generation refuses the one and executes the other
    once it is turned. So the command goes on unchanged while the layout does; and if the layout has changed meanwhile, what the shard
    remembers says the truth only when its own generation is a later one than that of the command. Where that does not come, because a
    failover has forgotten the layout of the command, the outcome is unknown."""
    name, args = command
    generation = layout.generation
    for _ in range(100):
        answer = yield from call(w, index, name, generation, *args)
        if not isinstance(answer, Refused):
            return answer, layout
        layout = yield from follow(w, layout, index, answer, False)
        if answer.generation < generation and "a refused command stays the same" not in w.off:
            if layout.generation == generation:
                continue
            if (yield from call(w, index, "look")).generation <= generation:
                continue
        known = (yield from heard(index)) if heard else None
        if isinstance(known, tuple) and known[0] in SAYS_ELSEWHERE and "an earlier layout's answer is not followed" not in w.off:
            known = None  # where the id was in the layout of that time
        return known, layout
    return ("unknown", 0, 0), layout


def push(w, client, id, job):
    """A push until its answer. Returns (what, tick, stamp), or None: it is not known whether replicas have it."""
    def say(here, floor):
        client.sequence += 1
        return "push", (client.name, client.sequence, id, job, here, floor)

    def heard(index):
        known = yield from call(w, index, "token", client.name)
        return known[1] if known and known[0] == client.sequence and "a token is asked for" not in w.off else None

    # The old shard of a row may have taken it though its id has left.
    answer, index = yield from routed(w, id, say, heard=heard, asks=not job.number and w.rnd.random() < .5)
    shard = w.shards[index]
    connection = shard.connection
    yield
    return answer if answer[0] != "unknown" and shard.connection == connection and shard.wait() else None


class Client:
    def __init__(self, w, kind):
        w.names += 1
        self.name, self.sequence = "%s%d" % (kind, w.names), 0


def producer(w):
    client = Client(w, "producer")
    while not w.draining:
        id, rnd = w.rnd.choice(w.ids), w.rnd
        w.texts += 1
        text = "%s/%d" % (client.name, w.texts)
        given = rnd.randint(1, 300) + w.texts if rnd.random() < w.shape.given else None
        later = w.time() + rnd.randint(1, 250) if rnd.random() < w.shape.later else 0
        job = Job(text, given, later if rnd.random() < .5 else 0, later, None, None)
        answer = yield from push(w, client, id, job)
        if answer:
            w.acknowledge(id, text, answer)
        for _ in range(rnd.randint(0, w.shape.pause)):
            yield


def relay(w):
    """Pushes the rows of an outbox in the order of their numbers, and deletes them after each two. A relay that dies leaves rows that
    were pushed."""
    client = Client(w, "relay")
    for _ in range(0 if w.draining else w.rnd.choice((0, 10, 100))):
        yield
    while not w.draining or w.rows:
        while len(w.rows) < 3 and w.shape.extras and not w.draining:
            w.texts += 1
            w.row += 1
            w.rows.append((w.row, w.rnd.choice(w.ids), "row/%d" % w.row))
        yield
        batch = w.rows[:2]
        for number, id, text in batch:
            job = Job(text, None, 0, 0, number, batch[0][0])
            answer = None
            while not answer:
                answer = yield from push(w, client, id, job)
            if w.rnd.random() < .08:
                return
            w.acknowledge(id, text, answer)
        w.rows = [row for row in w.rows if row not in batch]


def server(w, k):
    """The owner of shard k, and of others that it takes from the dead."""
    w.names += 1
    name = "node%d" % w.names
    w.alive.add(name)
    if w.has_hook:
        w.hooked_nodes.add(name)
    layout, hook = w.layout.value, None
    while True:
        rnd = w.rnd
        if rnd.random() < .008 and not w.draining:
            w.alive.discard(name)
            return
        owned = [shard.index for shard in w.shards if shard.owner == name]
        index = rnd.choice(owned) if owned and rnd.random() < .9 else k if rnd.random() < .5 else rnd.randrange(len(w.shards))
        shard, what = w.shards[index], rnd.random()
        yield
        if shard.owner != name:
            if shard.owner not in w.alive and not w.is_away(index):
                shard.acquire(name)
            continue
        mine = [(id, run) for kind in (shard.store.running, shard.store.hands) for id, run in kind.items() if run.owner == name]
        if hook and what < .05:
            index, number, notice = hook
            answer = yield from call(w, index, "told", layout.generation, number)
            if not isinstance(answer, Refused):
                w.told.add(notice)
                hook = None
        elif what < .12 and not hook:
            answer = yield from call(w, index, "tell" if name in w.hooked_nodes else "disown", layout.generation, name, echo=False)
            if answer and not isinstance(answer, Refused):
                hook = (index, answer[0], answer[1:])
                w.hooked(answer[1:])
        elif what < (.5 if w.draining else .12 + w.shape.claims):
            answer = yield from call(w, index, "claim", layout.generation, name, echo=False)
        elif mine:
            id, run = rnd.choice(sorted(mine))
            how = "done" if w.draining else rnd.choice(("done", "done", "done", "fail", "fail", "snooze", "release", "checkpoint"))
            answer = yield from call(w, index, "settle", layout.generation, name, id, run.fence, how, shard.now() + rnd.randint(0, 60))
        else:
            continue
        if isinstance(answer, Refused):
            layout = yield from follow(w, layout, index, answer, True)
        elif rnd.random() < (.2 if w.draining else .02):
            layout = w.layout.value


def popper(w):
    client = Client(w, "popper")
    while not w.draining:
        layout, rnd = w.layout.value, w.rnd
        index = rnd.randrange(max(layout.shards, layout.old or 0))
        client.sequence += 1
        taken = yield from call(w, index, "pop", layout.generation, client.name, client.sequence, 150)
        if not taken or isinstance(taken, Refused):
            yield
            continue
        id, fence = taken
        for _ in range(rnd.randint(0, 30)):
            yield
        if rnd.random() < .15:
            continue  # it is never acknowledged
        how = rnd.choice(("done", "done", "fail", "release", "checkpoint", "snooze"))
        yield from report(w, client, id, fence, how)


def report(w, client, id, fence, how):
    """The report of a popper. Its run is in the old shard of the id or in the new one; only if it is in neither, it is stale."""
    client.sequence += 1
    sequence, due = client.sequence, w.time() + 20
    layout, step = w.layout.value, None

    def heard(index):
        known = yield from call(w, index, "token", client.name)
        return known[1] if known and known[0] == sequence and "a report's token is asked for" not in w.off else None

    while True:
        step = "new" if "a report looks in the old shard" in w.off else step or first_step(layout, id)
        index = old_place(id, layout) if step == "old" else place(id, layout.shards)
        command = "popped", (client.name, sequence, id, fence, how, due)
        answer, layout = yield from told_to(w, layout, index, command, heard)
        if answer == "STALE" and step == "old":
            step = "new"
        elif answer == "STALE":
            w.refused_report(id, fence, client.name, sequence)
            return
        elif answer:
            return
        else:
            step = None


def operator(w):
    while not w.draining:
        id, rnd = w.rnd.choice(w.ids), w.rnd
        name = rnd.choice(("park", "park", "unpark", "delete", "requeue", "requeue", "cancel", "forget_score", "bulk"))
        if rnd.random() < .1:
            name = rnd.choice(("delete_dead", "import"))
        if name == "bulk":
            yield from unpark_all(w)
        elif name == "import":
            w.texts += 1
            text = "import/%d" % w.texts
            yield from routed(w, id, lambda here, floor: ("import_dead", (id, text, here, floor)))
        elif name == "cancel" and w.handles:
            id, stamp = rnd.choice(w.handles)
            before = w.is_cancellable(id, stamp)
            answer, _ = yield from routed(w, id, lambda here, _: ("act", ("cancel", id, (stamp,), here)))
            if answer[0] == "done":
                w.cancelled(id, stamp, before, answer[1])
        elif name != "cancel":
            yield from routed(w, id, lambda here, _: ("act", (name, id, (), here)))
        for _ in range(rnd.randint(5, 40)):
            yield


def unpark_all(w):
    """A bulk action. While ids move it goes through the shards twice, the second time when the batches seen open have ended."""
    parked = dict(w.parked)
    layout, again = w.layout.value, True
    while again:
        again, batches = False, []
        passes = 1 if layout.old is None or "a bulk action passes twice" in w.off else 2
        for _ in range(passes):
            for index in range(max(layout.shards, layout.old or 0)):
                answer = (1, 0)
                while not again and answer[0]:
                    answer = yield from call(w, index, "unpark_some", layout.generation, echo=False)
                    if isinstance(answer, Refused):
                        layout, again = (yield from follow(w, layout, index, answer, False)), True
                    elif answer[1]:
                        batches.append((index, answer[1]))
            while batches and not again:
                still = yield from call(w, batches[0][0], "has_batch", layout.generation, batches[0][1], echo=False)
                if not still or isinstance(still, Refused):
                    batches.pop(0)
    w.unparked_all(parked)


def mover(w):
    layout = w.layout.value
    while True:
        yield
        if layout.old is None:
            layout = w.layout.value
            continue
        source = w.rnd.randrange(layout.old)
        batch = yield from depart(w, source, layout.generation, ())
        if not batch:
            connection = w.shards[source].connection
            ids, mark = (yield from scan(w, source, layout.generation))
            if ids is None:
                layout = w.layout.value
                continue
            if ids:
                some = w.rnd.sample(ids, min(len(ids), w.rnd.randint(1, 3)))
                batch = yield from depart(w, source, layout.generation, tuple(some))
            elif (yield from close(w, source, layout, connection, mark)):
                return
        if isinstance(batch, Refused):
            layout = yield from follow(w, layout, source, batch, True)
        elif batch:
            if w.kill("K3"):
                return
            if (yield from bring(w, layout, source, batch)):
                return


def scan(w, source, generation):
    """All foreign ids that the kinds show one after another, or None if the shard was turned; and the mark with which the scan began."""
    found, slow = set(), 0 if w.draining else w.rnd.choice((0, 0, 0, w.shape.slow))
    answer = yield from call(w, source, "begin_scan", generation)
    mark = answer[0]
    for kind in SCANNED:
        if isinstance(answer, Refused):
            return None, 0
        for _ in range(slow):
            yield
        answer = yield from call(w, source, "foreign", generation, kind)
        if not isinstance(answer, Refused):
            found.update(answer)
    return None if isinstance(answer, Refused) else sorted(found), mark


def depart(w, source, generation, ids):
    """Opens a batch, or asks for the open one."""
    answer = yield from call(w, source, "depart", generation, ids)
    if not answer or isinstance(answer, Refused) or is_ordered(w, answer[2]):
        return answer
    return (yield from sure(w, source, "a departure is waited for", "depart", generation, ()))


def bring(w, layout, source, batch):
    """Brings an open batch to its new shards. True: the mover was killed."""
    sequence, tick, parts = batch
    generation, low, connection = layout.generation, w.shards[source].low, w.shards[source].connection
    for target in range(layout.shards):
        mine = {id: part for id, part in parts.items() if place(id, layout.shards) == target}
        if not mine or w.rnd.random() < .1:
            continue  # its master is away
        answer = "SLICES"
        while answer == "SLICES":
            for id, part in mine.items():
                for kind in part["spilled"]:
                    start, entries = 0, True
                    while entries:
                        entries = yield from call(w, source, "slice_out", generation, sequence, id, kind, start)
                        if isinstance(entries, Refused):
                            return False
                        if entries:
                            yield from call(w, target, "slice_in", generation, source, sequence, id, kind, start, entries)
                        start += len(entries or ())
                        if w.kill("K6"):
                            return True
            heads = {id: dict(part, spilled={}) for id, part in mine.items()}
            arrival = "arrive", generation, source, sequence, tick, low, heads
            if is_ordered(w, parts):
                answer = yield from bound(w, target, "an arrival goes over the connection of its departure", connection, *arrival)
            else:
                answer = yield from sure(w, target, "an arrival is waited for", *arrival)
        if answer is None:
            return False  # the next mover asks for the open batch
        if isinstance(answer, Refused):
            yield from follow(w, layout, target, answer, True)
            return False
        if w.kill(w.rnd.choice(("K4", "K5"))):
            return True
        departed = "departed", generation, sequence, tuple(mine)
        if not is_ordered(w, parts):
            yield from call(w, source, *departed)
        elif (yield from bound(w, source, "a batch is removed over the connection of its arrival", connection, *departed)) is None:
            return False
    return False


def close(w, source, layout, connection, mark):
    """Says that nothing foreign is or will be in a shard, unless a failover may have brought something back since the scan. True: the
    mover was killed."""
    answer = yield from call(w, source, "close", layout.generation)
    if isinstance(answer, Refused):
        return False
    for target in range(layout.shards):
        lifted = yield from sure(w, target, "an arrival is waited for", "lift", layout.generation, *answer)
        if isinstance(lifted, Refused):
            yield from follow(w, layout, target, lifted, True)
            return False
    if w.kill("K7"):
        return True
    yield from call(w, source, "leave_no_more", layout.generation, mark, echo=False, connection=connection)
    return False


def turn_all(w, text, point):
    """Turns all shards. True: killed on the way."""
    for index in range(len(w.shards)):
        answer = "OPEN"
        while answer == "OPEN":
            answer = yield from call(w, index, "turn", text)
        if w.kill(point):
            return True
    return False


def starter(w):
    """`seriatim reshard`: begins the moves that are wanted, one after another."""
    while True:
        yield
        layout = w.layout.value
        if layout.old is not None or w.moves == 0 or w.draining:
            continue
        newest, connection = layout, w.layout.connection
        for index in range(len(w.shards)):
            seen = yield from call(w, index, "look")
            newest = max(newest, seen.text)
        if newest.generation > layout.generation:
            w.layout.raise_to(newest)
            continue
        shards = w.rnd.choice([n for n in range(1, len(w.shards) + 1) if n != layout.shards])
        text = Layout(w.next_generation(layout), shards, layout.shards, max(layout.most, shards))
        yield
        if w.layout.connection != connection or not w.layout.replace(layout, text):
            continue
        w.begun += 1
        w.moves -= 1
        if w.kill("K1"):
            return
        if not (yield from wait(w, w.layout, "the layout is waited for", connection)):
            continue
        if (yield from turn_all(w, text, "K2")):
            return


def ender(w):
    """Ends a move when all of its sources say that nothing foreign is in them: a server, or a command that waits."""
    while True:
        yield
        layout = w.layout.value
        if layout.old is None:
            continue
        for source in range(layout.old):
            answer = yield from sure(w, source, "the end is waited for", "is_out", layout.generation)
            if isinstance(answer, Refused):
                yield from follow(w, layout, source, answer, True)
                break
            if not answer:
                break
        else:
            if w.kill("K8"):
                return
            text, connection = Layout(w.next_generation(layout), layout.shards, None, layout.most), w.layout.connection
            if not w.layout.replace(layout, text):
                continue
            w.ended += 1
            if w.kill("K9"):
                return
            if not (yield from wait(w, w.layout, "the layout is waited for", connection)):
                continue
            if (yield from turn_all(w, text, "K9")):
                return
