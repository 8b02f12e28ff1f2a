"""bench_pop.py SECONDS - what pop.rb does."""

import sys

import count
import seriatim


def pop_one() -> None:
    delivery = seriatim.pop("BlankWorker", wait=0)
    if delivery is None:
        sys.exit("nothing is left to pop")
    delivery.ack()


pop_one()
print("ready", flush=True)
sys.stdin.readline()
popped = 0
start = count.now()
while (seconds := count.now() - start) < float(sys.argv[1]):
    pop_one()
    popped += 1
print(popped, seconds)
