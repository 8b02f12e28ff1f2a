// Asks the server: JSON in and out, the token if one is needed, errors with their status.
import { encoded } from "../ui/format.js";

/** Where the dashboard is mounted, with the last slash. ASSETS is MOUNT/assets/VERSION/, under which files lie as in core/web. */
export const MOUNT = import.meta.url.slice(0, import.meta.url.lastIndexOf("/assets/") + 1);
export const ASSETS = new URL("..", import.meta.url).href;

const TOKEN = "seriatim.token";
const PATIENCE = 20_000; // ms until a question counts as unanswered

/** An answer that says no. done: of a change that Redis left alone in the middle, how much of it was done before. */
export class ApiError extends Error {
  constructor(status, message, done = 0) {
    super(message);
    this.status = status;
    this.done = done;
  }
}

let given = null; // the token, where the browser keeps nothing

/** That of this tab, or null. */
export function tokenOf() {
  try {
    return sessionStorage.getItem(TOKEN) ?? given;
  } catch {
    return given;
  }
}

export function setToken(token) {
  given = token;
  try {
    sessionStorage.setItem(TOKEN, token);
  } catch {
    // It lasts as long as the page.
  }
}

/** MOUNT-relative address of a page or a route; parameters that are null are left away. */
export function address(path, parameters = {}) {
  const query = Object.entries(parameters).filter(([, value]) => value != null);
  return MOUNT + path + (query.length ? `?${query.map(([name, value]) => `${name}=${encoded(value)}`).join("&")}` : "");
}

export const get = (path, parameters, signal) => ask(address(path, parameters), { signal: withPatience(signal) });

/** A change. What grows with the queue is asked for in slices (slices.js), so that each answer comes soon. */
export const post = (path, body = {}) =>
  ask(address(path), { method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" }, signal: withPatience() });

/** The path of a route of a queue: the API's own, or the one with Lowkiq's names. */
export const queuePath = (queue, rest) => `api/v1/queues/${encoded(queue)}${rest ? `/${rest}` : ""}`;
export const nodePath = (node, order) => `api/v1/nodes/${encoded(node)}/${order}`;
export const workerPath = (queue, action) => `api/web/${encoded(queue)}/${action}`;

function withPatience(signal) {
  const patience = AbortSignal.timeout(PATIENCE);
  return signal ? AbortSignal.any([signal, patience]) : patience;
}

const moving = new Map(); // path -> slots of a Redis Cluster without which its last answer was made

/** Slots that Redis is moving, so that the answers since the last forgetMoving lack what lies in them. */
export const movingSlots = () => [...new Set([...moving.values()].flat())];
export const forgetMoving = () => moving.clear();

function noteMoving(path, slots) {
  if (slots) moving.set(path, slots.split(", "));
  else moving.delete(path);
}

/** As the value of a field, of which fetch sends each character as one byte: the server compares the token's bytes of UTF-8. */
const bytes = (text) => String.fromCharCode(...new TextEncoder().encode(text));

async function ask(url, options) {
  const token = tokenOf();
  const headers = { ...options.headers, ...(token ? { Authorization: `Bearer ${bytes(token)}` } : {}) };
  const response = await fetch(url, { ...options, headers, cache: "no-store", credentials: "same-origin" });
  const answer = await response.json().catch(() => null);
  noteMoving(url.split("?")[0], response.headers.get("Seriatim-Moving-Slots"));
  if (!response.ok || answer === null) throw new ApiError(response.status, answer?.error || `HTTP ${response.status}`, answer?.done);
  return answer;
}
