// What all pages share: the dashboard's answer, what its reader may do, rates over the last ticks, and the reader's settings.
import { get } from "./api.js";
import { keyOf, setClock } from "../ui/format.js";
import { store, stored } from "./storage.js";

// definitions: roles, written by script/embed from core/definitions/operations.json

const ROLES = ["nobody", "viewer", "operator", "admin", "consumer"];

// end of definitions
const LATE = 60; // seconds
const WINDOW = 100; // ticks of the live chart
const AT_LEAST = 0.5; // seconds between two ticks: a rate over less says nothing
const RATE_TICKS = 15; // ticks that a rate is taken over
const GAP = 14; // seconds after which ticks begin anew: less than the 15 s after which pages that show no ticks ask for the figures (ABOUT_EVERY in app.js)

export const session = { dashboard: null, ticks: [], paused: false, absolute: stored("times") === "absolute" };

/** Whether what is due in a queue waits for a minute or more, or nobody takes it. */
export const late = (queue) => queue.lag >= LATE || (queue.consumers === 0 && queue.lag > 0);

const samples = new Map(); // queue -> its last figures, the newest last

/** Whether the reader may do what asks for `role`. */
export function may(role) {
  const { dashboard } = session;
  return Boolean(dashboard) && !dashboard.read_only && rank(dashboard.role) >= rank(role);
}

const rank = (role) => (typeof role === "number" ? role : ROLES.indexOf(role));

export async function loadDashboard(signal) {
  const answer = await get("api/web/dashboard", {}, signal);
  setClock(answer.now);
  session.dashboard = answer;
  for (const queue of answer.queues) remember(queue, answer.now);
  addTick(session.ticks, { ...totals(answer.queues), time: answer.now });
  return answer;
}

const SUMS = ["pushed", "processed", "failed", "busy", "enqueued", "fresh", "retries", "delayed", "scheduled", "parked", "dead"];

/** Of all queues: the sums, and the largest lag. */
export function totals(queues) {
  const all = Object.fromEntries(SUMS.map((name) => [name, 0]));
  for (const queue of queues) for (const name of SUMS) all[name] += queue[name] || 0;
  return { ...all, lag: queues.reduce((largest, queue) => Math.max(largest, queue.lag), 0) };
}

/** Adds figures to a live chart's ticks, with what was pushed, processed and failed a second since the tick before. A chart has one place a tick, so none before a gap stays. */
export function addTick(ticks, figures) {
  if (isGap(ticks, figures.time)) ticks.length = 0;
  const last = ticks.at(-1);
  const seconds = last ? figures.time - last.time : 0;
  if (last && seconds < AT_LEAST) return;
  const rate = (name) => (last ? Math.max(0, figures[name] - last[name]) / seconds : null);
  ticks.push({ ...figures, rates: { enqueued: rate("pushed"), processed: rate("processed"), failed: rate("failed") } });
  if (ticks.length > WINDOW) ticks.shift();
}

const isGap = (ticks, time) => ticks.length > 0 && time - ticks.at(-1).time >= GAP;

function remember(queue, time) {
  const key = keyOf(queue.name);
  const known = samples.get(key) || [];
  const last = isGap(known, time) ? [] : known;
  const { pushed, processed, failed } = queue;
  if (last.length && time - last.at(-1).time < AT_LEAST) return;
  last.push({ time, pushed, processed, failed });
  if (last.length > RATE_TICKS) last.shift();
  samples.set(key, last);
}

/** {in, out, failing, folded}: jobs a second that came, ids that were processed, which part failed, jobs a run; null: not known. */
export function ratesOf(queue) {
  const last = samples.get(keyOf(queue.name)) || [];
  const [first, final] = [last[0], last.at(-1)];
  const seconds = last.length > 1 ? final.time - first.time : 0;
  if (!(seconds > 0)) return { in: null, out: null, failing: null, folded: null };
  const processed = Math.max(0, final.processed - first.processed);
  const failed = Math.max(0, final.failed - first.failed);
  const pushed = Math.max(0, final.pushed - first.pushed);
  return { in: pushed / seconds, out: processed / seconds, failing: processed + failed ? failed / (processed + failed) : null,
    folded: processed ? pushed / processed : null };
}

export function toggleTimes() {
  session.absolute = !session.absolute;
  store("times", session.absolute ? "absolute" : "relative");
}

export function toggleTheme() {
  const root = document.documentElement;
  const dark = root.dataset.theme === "system" ? matchMedia("(prefers-color-scheme: dark)").matches : root.dataset.theme === "dark";
  root.dataset.theme = dark ? "light" : "dark";
  store("theme", root.dataset.theme);
}
