// The frame around all pages: where one is, search, the pulse that keeps the page fresh, what went wrong.
import { ASSETS, address, forgetMoving, movingSlots, tokenOf } from "./api.js";
import { askToken, changeAskedAt, dialogOpen, dialogsView, showKeys, startDialogs, tell } from "../ui/dialogs.js";
import { h, render } from "../ui/dom.js";
import { duration, shown } from "../ui/format.js";
import idPage from "../pages/id.js";
import masters from "../pages/masters.js";
import nodes from "../pages/nodes.js";
import overview from "../pages/overview.js";
import { button, empty, icon, link, pageHead } from "../ui/parts.js";
import { returnTo } from "./place.js";
import queuePage from "../pages/queue.js";
import recordsPage from "../pages/records.js";
import { go, here, startRouter } from "./router.js";
import running from "../pages/running.js";
import scheduledPage from "../pages/scheduled.js";
import search from "../pages/search.js";
import { late, loadDashboard, session, toggleTheme, toggleTimes } from "./session.js";
import { LANGUAGES, choose, language, t } from "./text.js";

const ABOUT_EVERY = 15_000; // ms between looks at the role and the queues from pages that do not ask anyway
const OVERDUE = 2000; // ms that an answer may take before the page says that there is none
// askedAt: when (ms) the page began to ask without an answer since then; null: it has its answer, or asks nothing. answered: whether the pulse may say
// Live, as there was an answer before. ticking: the timer that draws the seconds without an answer. returning: the place that the reader left on this
// page: it is gone to when the page has its content, unless the reader moves first. wasShown: some page had its content since this
// document was loaded.
const app = { page: null, path: "", failure: null, freshAt: 0, aboutAt: 0, asking: null, timer: null, returning: null,
  askedAt: null, answered: false, wasShown: false, ticking: null };

/** The page of an address, or null. */
function pageOf(path, parameters) {
  if (path === "queue") return parameters.name !== undefined ? queuePage : null;
  if (path === "id") return parameters.queue !== undefined && parameters.id !== undefined ? idPage : null;
  if (path === "scheduled") return parameters.queue !== undefined ? scheduledPage : null;
  if (path === "running" && parameters.queue === undefined) return running;
  if (["enqueued", "dead", "parked", "running"].includes(path)) return parameters.queue !== undefined ? recordsPage : null;
  return { "": overview, masters, nodes, search, __proto__: null }[path] ?? null;
}

/** how: "moved" by a link, "returned" by Back or a reload, to `place` if that is known, or "anew" for the same page in another language. */
function open(how, place = null) {
  const { path, parameters } = here();
  const page = pageOf(path, parameters);
  const samePlace = app.path === `${path} ${parameters.queue ?? ""}`;
  app.asking?.abort();
  Object.assign(app, { path: `${path} ${parameters.queue ?? ""}`, failure: null, freshAt: 0, asking: null, returning: place,
    answered: app.answered && unansweredSince() === null });
  forgetMoving();
  app.page = page ? page({ path, parameters, draw, again }) : lost();
  const elsewhere = how === "moved" && !samePlace;
  if (elsewhere) scrollTo(0, 0);
  drawNow();
  if (elsewhere) document.querySelector("h1")?.focus({ preventScroll: true });
  again();
}

const lost = () => ({
  title: () => t("lost.title"),
  every: ABOUT_EVERY,
  load: async () => {},
  view: () => [pageHead(t("lost.title")), empty(null, t("lost.text"), "search", link("", {}, t("lost.back")))],
});

/** Asks again now: the pulse goes on from here. */
function again() {
  app.asking?.abort();
  app.asking = null;
  beat();
}

async function beat() {
  clearTimeout(app.timer);
  if (app.asking) return;
  const resting = document.hidden || heldStill() || (dialogOpen() && !outage());
  const { page } = app;
  if (resting) app.askedAt = null; // what is not asked is not unanswered
  else await ask(page);
  if (page === app.page && page.every && !app.asking) app.timer = setTimeout(beat, app.failure ? 3000 : page.every);
}

async function ask(page) {
  const asking = new AbortController();
  app.asking = asking;
  app.askedAt = unansweredSince() ?? Date.now();
  tick();
  try {
    await aboutFirst(asking.signal);
    await page.load(asking.signal);
    if (app.asking === asking) Object.assign(app, { failure: null, freshAt: Date.now(), askedAt: null, answered: true, wasShown: true });
  } catch (error) {
    if (app.asking === asking) failed(error);
  }
  if (app.asking !== asking) return;
  app.asking = null;
  if (app.returning && !app.failure) goBack();
  else draw();
}

function goBack() {
  drawNow();
  returnTo(app.returning, drawNow);
  app.returning = null;
}

/** Who reads, and the queues: before the first page, and now and then. */
async function aboutFirst(signal) {
  const known = session.dashboard && Date.now() - app.aboutAt < ABOUT_EVERY;
  if (app.path === " " || (known && unansweredSince() === null)) return; // a page that asks nothing itself must not end an outage
  await loadDashboard(signal);
  app.aboutAt = Date.now();
}

function failed(error) {
  app.failure = error;
  if (refused(error)) Object.assign(app, { askedAt: null, answered: true });
  if (error.status !== 401) return;
  if (app.wasShown && tokenOf() === null) location.reload(); // was signed in, and is no more: the server's page says where to do so
  else askToken(tokenOf() !== null, again);
}

/** Whether the error is an answer: the server works, and refuses. */
const refused = (error) => error.status >= 400 && error.status < 500;

/** Whether the reader holds still what the page shows: then it asks nothing. */
const heldStill = () => session.paused && app.freshAt > 0;

/**
 * Since when (ms) an answer is missing that should be there: to a question of the page that failed or is overdue, or to an overdue change.
 * null: none is.
 */
function unansweredSince() {
  const since = waitingSince();
  return !heldStill() && since < Infinity && (failing() || Date.now() - since >= OVERDUE) ? since : null;
}

const failing = () => app.failure !== null && !refused(app.failure);

/** Whether the page asks on behind a dialog, so that it sees when answers come again. */
const outage = () => failing() || unansweredSince() !== null;

/** When the oldest question was asked, of the page or a change, that has no answer yet; Infinity: there is none. */
const waitingSince = () => Math.min(app.askedAt ?? Infinity, changeAskedAt() ?? Infinity);

/** Draws when the next answer becomes overdue, and from then on at each whole second without an answer. */
function tick() {
  clearTimeout(app.ticking);
  const waited = Date.now() - waitingSince();
  if (waited < 0) return; // for nothing
  app.ticking = setTimeout(draw, waited < OVERDUE ? OVERDUE - waited : 1000 - (waited % 1000));
}

let drawing = 0;

function draw() {
  drawing ||= requestAnimationFrame(drawNow);
}

function drawNow() {
  cancelAnimationFrame(drawing);
  drawing = 0;
  const inTrouble = session.dashboard?.queues.filter(late).length ?? 0; // a reader of another tab sees that
  document.title = `${inTrouble ? `(${inTrouble}) ` : ""}${app.page.title()} · ${session.dashboard?.title ?? t("brand")}`;
  render(document.body, frame());
  tick();
}

const places = () => [["", "overview"], ["running", "running"], ["nodes", "nodes"], ...(session.dashboard?.masters ? [["masters", "masters"]] : [])];

const navigation = () => places().map(([path, text]) =>
  h("a", { key: text, href: address(path), "aria-current": app.path === `${path} ` ? "page" : null }, t(`${text}.title`)));

function find(event) {
  event.preventDefault();
  const field = event.target.elements.q;
  const q = field.value.trim(); // what is pasted often has a space or a newline around it
  if (q === "") return;
  go("search", { q });
  field.blur();
}

function header() {
  const title = session.dashboard?.title ?? t("brand");
  return h("header", { class: "bar", key: "bar" }, h("div", { class: "bar-inner" },
    h("a", { class: "brand", href: address("") }, h("img", { src: `${ASSETS}static/logo.svg`, alt: "", width: "22", height: "22" }), h("span", {}, shown(title))),
    h("nav", { class: "places", "aria-label": t("nav.label") }, navigation()),
    h("form", { class: "search", role: "search", on: { submit: find } }, icon("search"),
      h("input", { id: "search", type: "search", name: "q", placeholder: t("search.placeholder"), "aria-label": t("search.title"),
        autocomplete: "off", spellcheck: "false" }),
      h("kbd", { "aria-hidden": "true" }, "/")),
    pulse(), h("div", { class: "switches" },
      tool("clock", t(session.absolute ? "times.relative" : "times.absolute"), changeTimes, session.absolute),
      tool("theme", t("theme.switch"), () => { toggleTheme(); draw(); }), languageMenu(),
      tool("help", t("keys.title"), showKeys))));
}

const tool = (symbol, label, action, pressed) =>
  h("button", { type: "button", key: symbol, class: "tool", title: label, "aria-label": label,
    "aria-pressed": pressed === undefined ? null : String(pressed), on: { click: action } }, icon(symbol));

/** A menu of the browser's own behind a symbol; each language says its name itself. */
const languageMenu = () => h("label", { class: "tool", key: "language", title: t("language") }, icon("language"),
  h("select", { "aria-label": t("language"), on: { change: changeLanguage } },
    Object.entries(LANGUAGES).map(([code, name]) => h("option", { key: code, value: code, lang: code, selected: code === language }, name))));

/** The page is made anew: its tables know their headings. */
function changeLanguage({ target }) {
  choose(target.value).then(() => open("anew"), (error) => {
    target.value = language;
    tell(t("action.failed", { error: error.message }), "bad");
  });
}

function togglePause() {
  session.paused = !session.paused;
  draw();
  if (!session.paused) again();
}

function pulse() {
  const since = unansweredSince();
  const word = since !== null ? "lost" : session.paused ? "paused" : app.answered ? "live" : "asking";
  const attributes = { title: t(`pulse.${word}.hint`), "aria-pressed": String(session.paused), on: { click: togglePause } };
  return h("button", { type: "button", class: `pulse ${word}`, ...attributes },
    icon({ lost: "alert", paused: "pause", live: "live", asking: "clock" }[word]), h("span", {}, t(`pulse.${word}`, { duration: since && age(since) })));
}

/** In whole seconds, at least one: it is drawn anew each second. */
const age = (since) => duration(Math.max(1, Math.floor((Date.now() - since) / 1000)));

/** Why there is no answer, and how old what is shown is. The age is no part of the alert: a screen reader would read it out each second. */
function banner() {
  const { failure, freshAt } = app;
  if (!failure || heldStill() || failure.status === 401 || (freshAt === 0 && failure.status)) return null;
  const text = failure.status ? t(refused(failure) ? "failure.refused" : "failure.answer", { error: failure.message }) : t("failure.unreachable");
  return h("div", { class: "banner", key: "banner" }, icon("alert"),
    h("p", {}, h("span", { role: "alert" }, text), " ", freshAt > 0 && t("failure.since", { duration: age(freshAt) })));
}

/** What the page lacks, because Redis is moving slots of its cluster. */
function movingNote() {
  const slots = movingSlots();
  return slots.length > 0 && h("p", { class: "message warn", key: "moving slots", role: "status" }, icon("alert"),
    h("span", {}, t("moving.slots", { slots: slots.join(", "), count: slots.length }), " ", link("masters", {}, t("masters.title"))));
}

/** The page, or, when it never came, why. */
function content() {
  const { failure, freshAt, page } = app;
  if (!failure || freshAt > 0 || !failure.status) return page.view();
  const known = [401, 403, 404, 503].includes(failure.status) ? failure.status : "other";
  const [title, text] = [t(`failure.${known}.title`), t(`failure.${known}.text`, { error: shown(failure.message) })];
  return [pageHead(title), empty(null, text, "alert", button(t("failure.again"), again), link("", {}, t("lost.back")))];
}

function footer() {
  const { dashboard } = session;
  if (!dashboard) return null;
  const role = dashboard.read_only ? t("role.readOnly") : t(`role.${dashboard.role}`);
  return h("footer", { class: "foot", key: "foot" }, h("p", {}, `Seriatim ${shown(dashboard.version)}`), h("p", {}, role));
}

const frame = () => [
  h("a", { class: "skip", key: "skip", href: "#content" }, t("skip")),
  header(), banner(),
  h("main", { id: "content", key: "main", tabindex: "-1", class: app.failure && app.freshAt && !session.paused ? "stale" : null },
    movingNote(), h("div", { key: `${language} ${app.path}` }, content())),
  footer(), dialogsView(),
];

const changeTimes = () => {
  toggleTimes();
  draw();
};

const PLACES = { o: () => go(""), r: () => go("running"), n: () => go("nodes") }; // after "g"
const KEYS = { "/": () => document.getElementById("search").focus(), "?": showKeys, p: togglePause, t: changeTimes };
let prefix = 0; // when "g" was pressed

function onKey(event) {
  if (dialogOpen() || event.altKey || event.ctrlKey || event.metaKey) return;
  if (event.target.closest?.("input, select, textarea")) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const after = Date.now() - prefix < 1200;
  prefix = event.key === "g" ? Date.now() : 0;
  const action = (after ? PLACES : KEYS)[event.key];
  if (!action) return;
  event.preventDefault();
  action();
}

startDialogs(draw, again);
addEventListener("keydown", onKey);
for (const own of ["keydown", "pointerdown", "wheel", "touchmove"]) addEventListener(own, () => { app.returning = null; }, { passive: true });
addEventListener("scroll", draw, { passive: true });
addEventListener("resize", draw, { passive: true });
document.addEventListener("visibilitychange", () => !document.hidden && again());
startRouter(open);
