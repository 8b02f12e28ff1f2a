// count.js - what every job calls: measures from the first job begun to the last one, or notes when each was performed; and the schedule
// of a pusher.
"use strict";

const fs = require("fs");

const JOBS = Number(process.env.BENCH_JOBS || 0);
const GRACE = 0.5; // seconds that a pusher may be late at the end
const notes = [];
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

// Notes that a job which counts from `pushed` is performed now; all are written when the process is asked to end.
function note(pushed) {
  if (notes.length === 0) process.once("SIGTERM", writeNotes);
  notes.push(`${now()} ${pushed}`);
}

function writeNotes() {
  fs.writeFileSync(`${process.env.BENCH_RESULT}.notes`, notes.join("\n"));
  process.exit(0);
}

// Calls push(number, pushed) at each time of the schedule, and waits for it; BENCH_PACE and rules are those of count.rb.
async function pace(push) {
  const [rate, start, seconds, turn, of] = process.env.BENCH_PACE.split(" ").map(Number);
  let awake = start;
  for (let number = turn; number < Math.round(rate * seconds); number += of) {
    const due = start + number / rate;
    if (now() > start + seconds + GRACE) return;
    while (now() < due) awake = nap(due - now());
    await push(number, Math.max(due, awake));
  }
}

// A timer would be a millisecond late.
function nap(seconds) {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, seconds * 1000);
  return now();
}

function report(text) {
  const path = process.env.BENCH_RESULT;
  fs.writeFileSync(`${path}.new`, String(text));
  fs.renameSync(`${path}.new`, path);
}

module.exports = { now, up, note, pace };
