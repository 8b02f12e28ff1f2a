"""
Gives a queue another number of shards, and shows how far its servers are with its ids. Nothing depends on this process: it
may be killed at any moment and run again.
"""

from __future__ import annotations

import json
import time
from typing import Any, Final

from .. import _log
from .._client.metrics import nodes
from .._worker import Worker
from .exit_codes import STOPPED

LOOK_SECONDS: Final = 0.5  # between two looks; after one that took long, ten times as long
SHOW_SECONDS: Final = 5  # between two lines that differ
ALIVE_SECONDS: Final = 60  # after which a line that has not changed is shown again


class ReshardCommand:
    def __init__(self, worker: type[Worker], options: dict[str, Any]) -> None:
        """The worker's queue is there. options: no_wait, status, json."""
        self._worker = worker
        self._options = options
        self._name = _log.utf8(worker.queue_name)
        self._quoted = json.dumps(self._name, ensure_ascii=False)
        self._took = 0.0

    def run(self, shards: int | None = None) -> int:
        """The exit code. Without a number it only says how far it is."""
        begun = shards is not None and self._worker.actions.reshard(shards) > 0
        self._look()
        if shards is not None:
            self._say_begun(shards, begun)
        if shards is None or "no_wait" in self._options or self._watch(shards):
            self._report()
        return STOPPED

    def _look(self) -> None:
        """Also tells whether a living node owns one of the shards that ids leave."""
        self._metrics = self._worker.metrics
        self._move = self._metrics["resharding"]
        if self._move is not None:
            owners = {shard["owner"] for shard in self._metrics["shards"][: self._move["from"]]}
            self._served = any(node["name"] in owners for node in nodes())

    def _goes_on(self, shards: int) -> bool:
        return self._move is not None and self._move["to"] == shards

    def _say_begun(self, shards: int, begun: bool) -> None:
        if begun:
            self._say(f"the queue {self._quoted} is given {shards} shards")
        elif self._goes_on(shards):
            self._say(f"the ids of the queue {self._quoted} are on their way to {shards} shards already")

    def _watch(self, shards: int) -> bool:
        """Until the ids have moved. False: it was interrupted before."""
        shown, at = "", -float(ALIVE_SECONDS)
        try:
            while self._goes_on(shards):
                line, age = self._progress(), time.monotonic() - at
                if not shown or age >= ALIVE_SECONDS or (age >= SHOW_SECONDS and line != shown):
                    self._say(line)
                    shown, at = line, time.monotonic()
                self._look_again()
        except KeyboardInterrupt:
            self._say(f"the servers go on with the ids of the queue {self._quoted}")
            return False
        return True

    def _look_again(self) -> None:
        time.sleep(max(LOOK_SECONDS, 10 * self._took))
        began = time.monotonic()
        self._look()
        self._took = time.monotonic() - began

    def _progress(self) -> str:
        move = self._move
        assert move is not None
        line = f"{move['ids_moved']} ids moved, about {move['ids_left']} left; ids leave {move['shards_left']} of {move['from']} shards"
        return line if self._served else f"{line}; no living server owns one of them: ids move when one does"

    def _report(self) -> None:
        move, count = self._move, len(self._metrics["shards"])
        if "json" in self._options:
            answer = {"queue": self._name, "shards": move["to"] if move else count, "resharding": move}
            print(_log.printable(json.dumps(answer, ensure_ascii=False, separators=(",", ":"))))
            return
        if move is None:
            self._say(f"the queue {self._quoted} has {count} shards")
            return
        if "status" in self._options:
            self._say(f"the queue {self._quoted} is given {move['to']} shards instead of {move['from']}")
        self._say(self._progress())

    def _say(self, text: str) -> None:
        """With --json there is one line, at the end."""
        if "json" not in self._options:
            print(_log.printable(text), flush=True)
