"""A Celery server that notes how long each job took from just before its push to its task."""

import os

import celery
import count

app = celery.Celery("bench", broker=os.environ["REDIS_URL"])
app.conf.task_ignore_result = True


@app.task
def note(pushed: float) -> None:
    count.note(pushed)


def timed(_id: int) -> None:
    note.delay(count.now())
