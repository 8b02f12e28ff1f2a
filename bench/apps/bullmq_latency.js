// bullmq_latency.js [push] - a server that notes how long each job took from just before its push to perform; with `push`
// the process that pushes BENCH_JOBS jobs, 20 ms apart.
"use strict";

const { setTimeout: sleep } = require("timers/promises");
const { Queue, Worker } = require("bullmq");
const count = require("./count");

const connection = { url: process.env.REDIS_URL };

function serve() {
  const concurrency = Number(process.env.BENCH_CONCURRENCY);
  new Worker("latency", async (job) => count.note(job.data.pushed), { connection, concurrency });
}

async function push() {
  const queue = new Queue("latency", { connection });
  await queue.waitUntilReady();
  for (let id = 0; id < count.JOBS; id += 1) {
    await queue.add("latency", { id, pushed: count.now() });
    await sleep(20);
  }
  await queue.close();
}

if (process.argv[2] === "push") push();
else serve();
