// count.js - what every job calls: measures from the first job begun to the last one, or how long each was under way.
"use strict";

const fs = require("fs");

const JOBS = Number(process.env.BENCH_JOBS || 0);
const seconds = [];
let first = 0;
let count = 0;

// Seconds of the machine's monotonic clock, the same in all processes.
const now = () => Number(process.hrtime.bigint()) / 1e9;

// Counts one blank job.
function up() {
  if (count === 0) first = now();
  count += 1;
  if (count === JOBS) report(now() - first);
}

// Notes how long ago a job was pushed.
function note(pushed) {
  seconds.push(now() - pushed);
  if (seconds.length === JOBS) report(seconds.join(" "));
}

function report(text) {
  const path = process.env.BENCH_RESULT;
  fs.writeFileSync(`${path}.new`, String(text));
  fs.renameSync(`${path}.new`, path);
}

module.exports = { JOBS, now, up, note };
