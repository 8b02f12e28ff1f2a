// bullmq_push.js single|bulk|fill|wait COUNT - pushes and prints the seconds that it took: as push.rb does.
"use strict";

const { Queue } = require("bullmq");
const count = require("./count");

const BULK = 10000;
const PAYLOAD = "x".repeat(28); // 30 bytes as JSON

const [mode, jobs] = [process.argv[2], Number(process.argv[3])];
const queue = new Queue("blank", { connection: { url: process.env.REDIS_URL } });

const single = (id) => queue.add("blank", { id });
const bulk = (ids) => queue.addBulk(ids.map((id) => ({ name: "blank", data: mode === "wait" ? { id, payload: PAYLOAD } : { id } })));

async function push() {
  if (mode === "single") {
    for (let id = 1; id <= jobs; id += 1) await single(id);
    return;
  }
  for (let id = 1; id <= jobs; id += BULK) {
    await bulk(Array.from({ length: Math.min(BULK, jobs + 1 - id) }, (_, index) => id + index));
  }
}

(async () => {
  await queue.waitUntilReady();
  if (mode === "single" || mode === "bulk") await single(0); // connects
  const start = count.now();
  await push();
  console.log(count.now() - start);
  await queue.close();
})();
