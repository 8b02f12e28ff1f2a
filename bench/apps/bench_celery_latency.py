"""A Celery server that notes when each task is run."""

import os

import celery
import count

app = celery.Celery("bench", broker=os.environ["REDIS_URL"])
app.conf.task_ignore_result = True


@app.task
def note(pushed: float) -> None:
    count.note(pushed)


def timed(_id: int, pushed: float) -> None:
    note.delay(pushed)
