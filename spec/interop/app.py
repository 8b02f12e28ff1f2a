"""app.py - the application that the servers load with -r."""

from workload import SETTINGS, worker

import seriatim

for name, value in SETTINGS.get("seriatim", {}).items():
    setattr(seriatim, name, value)
seriatim.workers = [worker(queue, fields, SETTINGS["tasks"]) for queue, fields in SETTINGS["workers"].items()]
