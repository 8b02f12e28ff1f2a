// bullmq_latency.js [both|fill COUNT|push] - a server that notes when each job is performed; `both` with a second queue, whose jobs take a
// millisecond and count from 0. `fill` gives that one jobs; `push` is the process that pushes by the schedule of count.pace.
"use strict";

const { setTimeout: sleep } = require("timers/promises");
const { Queue, Worker } = require("bullmq");
const count = require("./count");

const SLICE = 10000;
const connection = { url: process.env.REDIS_URL };
const concurrency = Number(process.env.BENCH_CONCURRENCY);

const serve = () => new Worker("latency", async (job) => count.note(job.data.pushed), { connection, concurrency });

function serveBoth() {
  serve();
  new Worker("backlog", async () => { await sleep(1); count.note(0); }, { connection, concurrency });
}

async function fill(jobs) {
  const queue = new Queue("backlog", { connection });
  for (let id = 1; id <= jobs; id += SLICE) {
    await queue.addBulk(Array.from({ length: Math.min(SLICE, jobs + 1 - id) }, (_, index) => ({ name: "backlog", data: { id: id + index } })));
  }
  await queue.close();
}

async function push() {
  const queue = new Queue("latency", { connection });
  await queue.waitUntilReady();
  await count.pace((id, pushed) => queue.add("latency", { id, pushed }));
  await queue.close();
}

({ both: serveBoth, fill: () => fill(Number(process.argv[3])), push }[process.argv[2]] || serve)();
