// bullmq_pop.js SECONDS - what pop.rb does, as BullMQ's manual has it for jobs that a program fetches itself.
"use strict";

const { once } = require("events");
const { Worker } = require("bullmq");
const count = require("./count");

const TOKEN = `token-${process.pid}`;
const worker = new Worker("blank", null, { connection: { url: process.env.REDIS_URL }, autorun: false });

async function popOne() {
  const job = await worker.getNextJob(TOKEN);
  if (!job) throw new Error("nothing is left to pop");
  await job.moveToCompleted("done", TOKEN, false);
}

(async () => {
  await worker.waitUntilReady();
  await popOne();
  console.log("ready");
  await once(process.stdin, "data");
  let popped = 0;
  let seconds = 0;
  for (const start = count.now(); seconds < Number(process.argv[2]); seconds = count.now() - start) {
    await popOne();
    popped += 1;
  }
  console.log(popped, seconds);
  process.exit(0);
})();
