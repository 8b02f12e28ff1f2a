// bullmq_worker.js - BullMQ's server, BENCH_CONCURRENCY jobs at a time.
"use strict";

const { Worker } = require("bullmq");
const count = require("./count");

new Worker("blank", async () => count.up(), {
  connection: { url: process.env.REDIS_URL },
  concurrency: Number(process.env.BENCH_CONCURRENCY),
});
