"""app.py - the application that the servers load with -r."""

from workload import SETTINGS, worker

import seriatim

for name, value in SETTINGS.get("seriatim", {}).items():
    setattr(seriatim, name, value)
if SETTINGS.get("nodes"):
    seriatim.build_splitter = lambda: seriatim.build_by_node_splitter(SETTINGS["nodes"], SETTINGS["node"])
seriatim.workers = [worker(queue, fields, SETTINGS["tasks"]) for queue, fields in SETTINGS["workers"].items()]
