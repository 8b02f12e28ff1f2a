"""Schedules for rules whose breach a random schedule hardly ever meets. Each returns whether the promise held."""
import actors
from shard import Job, Layout, Refused
from store import SCANNED


def driven(generator):
    """Runs an actor alone until it returns."""
    try:
        while True:
            next(generator)
    except StopIteration as end:
        return end.value


def moving(world, old, new):
    """Every shard is turned from a quiet layout to a moving one. World.time() stands still unless a schedule moves it."""
    world.layout.value = Layout(world.time(), new, old, max(old, new))
    world.layout.wait()
    for shard in world.shards:
        shard.turn(world.layout.value)
        shard.wait()
    return world.layout.value


def pushed(world, index, layout, id, at=0):
    client = actors.Client(world, "producer")
    world.shards[index].push(layout.generation, client.name, 1, id, Job("payload", None, at, 0, None, None), False, 0)


def a_mark_stops_the_end(world, scans=1):
    """A scheduled payload of a foreign id arrives after the mover has looked through jobs, and before it looks through sched."""
    source = world.shards[0]
    source.turn(Layout(2, 1, None, 1))
    pushed(world, 0, source.text, 1, at=source.now() + 10)
    layout = moving(world, 1, 2)
    source.owner = "node"
    mark, = source.begin_scan(layout.generation)
    found = source.foreign(layout.generation, "jobs")
    world.clock += 20
    source.claim(layout.generation, "node")
    for _ in range(scans - 1):
        source.begin_scan(layout.generation)
    for kind in SCANNED[1:]:
        found += source.foreign(layout.generation, kind)
    return bool(found) or source.leave_no_more(layout.generation, mark) == "NOT YET"


def is_out_behind(world, layout, seen, changes):
    """The mover has looked through the kinds `seen` when the changes are made. Is the source out then, with the id left in it?"""
    source = world.shards[0]
    mark, = source.begin_scan(layout.generation)
    found = [id for kind in seen for id in source.foreign(layout.generation, kind)]
    for name, args in changes:
        getattr(source, name)(layout.generation, *args)
    for kind in SCANNED[len(seen):]:
        found += source.foreign(layout.generation, kind)
    return not found and source.leave_no_more(layout.generation, mark) == "OK"


def a_push_that_only_schedules_stops_the_end(world):
    """A dead record alone holds an id. A push schedules a payload of it when sched was looked through, and the record is deleted."""
    source = world.shards[0]
    source.turn(Layout(2, 1, None, 1))
    source.import_dead(2, 1, "dead", False, 0)
    layout = moving(world, 1, 2)
    job = Job("payload", None, source.now() + 10, 0, None, None)
    changes = ("push", ("producer", 1, 1, job, True, 0)), ("act", ("delete_dead", 1, (), True))
    return not is_out_behind(world, layout, ("jobs", "sched"), changes)


def an_import_of_a_dead_record_stops_the_end(world):
    """A remembered score alone holds an id. A dead record of it is imported when dead was looked through, and the score is forgotten."""
    source = world.shards[0]
    source.turn(Layout(2, 1, None, 1))
    source.push(2, "producer", 1, 1, Job("payload", 5, 0, 0, None, None), False, 0)
    source.owner = "node"
    id, fence = source.claim(2, "node")
    source.settle(2, "node", id, fence, "done", 0)
    layout = moving(world, 1, 2)
    changes = ("import_dead", (1, "dead", True, 0)), ("act", ("forget_score", 1, (), True))
    return not is_out_behind(world, layout, ("jobs", "sched", "dead"), changes)


def each_scan_has_its_own_mark(world):
    """The same, and another mover begins a scan meanwhile."""
    return a_mark_stops_the_end(world, 2)


def a_scan_and_its_end_have_one_connection(world):
    """A scan comes between a departure and the failover that forgets it."""
    source = world.shards[0]
    source.turn(Layout(2, 1, None, 1))
    pushed(world, 0, source.text, 1)
    layout = moving(world, 1, 2)
    source.depart(layout.generation, (1,))
    connection = source.connection
    found, mark = driven(actors.scan(world, 0, layout.generation))
    source.fail_over()
    driven(actors.close(world, 0, layout, connection, mark))
    return bool(found) or source.out is None


def a_generation_is_given_once(world):
    """A producer has read a layout that a failover then forgets, and another move begins."""
    quiet = world.layout.value
    first = Layout(world.next_generation(quiet), 5, 1, 5)
    world.layout.replace(quiet, first)
    read = world.layout.value
    world.layout.fail_over()
    world.clock += 1
    second = Layout(world.next_generation(quiet), 3, 1, 3)
    world.layout.replace(quiet, second)
    world.layout.wait()
    for shard in world.shards:
        shard.turn(second)
    answer = world.shards[actors.place(1, 5)].push(read.generation, "producer", 1, 1, Job("payload", None, 0, 0, None, None), False, 0)
    return isinstance(answer, Refused)


def a_shard_without_a_state_says_nothing_of_ids(world):
    """The old shard of an id was never used, and is not turned yet. One producer has the layout of a move, another one that before it."""
    source, quiet = world.shards[0], world.layout.value
    source.has_state = False
    layout = Layout(2, 2, 1, 2)
    world.shards[1].turn(layout)
    job = Job("payload", None, 0, 0, None, None)
    answer = source.absent(layout.generation, 1)
    if not isinstance(answer, Refused) and answer[0] == "moved":
        world.shards[1].push(layout.generation, "producer", 1, 1, job, False, answer[1])
    source.push(quiet.generation, "other", 1, 1, job._replace(text="other"), False, 0)
    source.turn(layout)
    return source.absent(layout.generation, 1)[0] == "found"


SCHEDULES = {
    "a mark stops the end": a_mark_stops_the_end,
    "a push that only schedules stops the end": a_push_that_only_schedules_stops_the_end,
    "an import of a dead record stops the end": an_import_of_a_dead_record_stops_the_end,
    "each scan has its own mark": each_scan_has_its_own_mark,
    "a scan and its end have one connection": a_scan_and_its_end_have_one_connection,
    "a shard without a state says nothing of ids": a_shard_without_a_state_says_nothing_of_ids,
    "a generation is given once": a_generation_is_given_once,
}
