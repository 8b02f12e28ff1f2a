// A queue: its figures, its shards with lag and owner, what is hottest; and the head that all pages of a queue share.
import { address, get, post, queuePath, workerPath } from "../app/api.js";
import { createCharts, latestRuns } from "../ui/charts.js";
import { confirm, perform, typable } from "../ui/dialogs.js";
import { h } from "../ui/dom.js";
import { count, duration, inBytes, keyOf, number, oneLine, setClock, shown } from "../ui/format.js";
import {
  ALARMS, badge, button, empty, figure, icon, idLink, lag, lagLevel, link, name, note, pageHead, queueBadges, section, skeleton, slash, strip,
} from "../ui/parts.js";
import { addTick, may } from "../app/session.js";
import { inSlices, toldOf } from "../app/slices.js";
import { createTable } from "../ui/table.js";
import { t } from "../app/text.js";

let latest = null; // of the queue that was shown last: its next page begins with its figures, so that nothing above the list moves when they come

/** The figures of one queue, kept fresh for all its pages. */
export function createQueue(queue) {
  const about = latest && keyOf(latest.name) === keyOf(queue) ? latest : { name: queue, totals: null, shards: [] };
  latest = about;
  about.load = async (signal) => Object.assign(about, await get(queuePath(queue), {}, signal));
  return about;
}

const TABS = [["queue", null], ["enqueued", "enqueued"], ["scheduled", "scheduled"], ["running", "busy"], ["dead", "dead"], ["parked", "parked"]];

/** On a narrow screen not all tabs fit. */
const showCurrent = (tabs) => tabs.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });

/** Where one is, the queue's name and state, its pages. */
export function queueHead({ name: queue, totals }, here, actions) {
  const to = (page) => address(page, page === "queue" ? { name: queue } : { queue });
  const tab = ([page, field]) => h("a", { key: page, href: to(page), "aria-current": page === here ? "page" : null },
    t(`tab.${page}`), field && totals && h("span", { class: "tab-count" }, figure(totals[field])));
  return h("div", { key: "queue-head", class: "queue-head" },
    pageHead(h("bdi", { class: "name" }, oneLine(queue, 120)), h("div", { class: "actions" }, totals && queueBadges(totals), actions),
      h("p", { class: "trail" }, link("", {}, t("overview.title")), slash(), t("queue.word"))),
    h("nav", { class: "tabs", key: totals ? "tabs" : "tabs without figures", "aria-label": t("tab.label"), made: showCurrent }, TABS.map(tab)));
}

/** An action on all of a queue: asks first, counts afterwards. `of` is how many there seem to be. */
export function askAll(about, action, of, { danger = false, changed }) {
  confirm({
    title: t(`all.${action}.title`, { n: count(of), count: of }),
    text: t(`all.${action}.text`, { queue: oneLine(about.name, 80), n: count(of), count: of }),
    label: t(`all.${action}`),
    danger,
    typed: danger ? typable(about.name) : null,
    stoppable: true,
    run: async (control) => {
      const result = await inSlices(workerPath(about.name, action), of, control);
      changed();
      return toldOf(result, t(`all.${action}.done`, { n: count(result.done), count: result.done }));
    },
  });
}

function pauseButtons(about, changed) {
  if (!may("operator") || !about.totals) return null;
  const { paused, shards } = about.totals;
  const act = (action) => async () => {
    const { count: n } = await post(workerPath(about.name, action));
    changed();
    return t(`all.${action}.done`, { n: count(n), count: n });
  };
  const text = t("all.pause.text", { queue: oneLine(about.name, 80) });
  const pausing = { title: t("all.pause.title"), text, label: t("all.pause"), run: act("pause") };
  return [
    paused > 0 && button(t("all.resume"), () => perform(act("resume")), { symbol: "play", key: "resume" }),
    paused < shards && button(t("all.pause"), () => confirm(pausing), { symbol: "pause", key: "pause" }),
  ];
}

/** Gives the queue another number of shards: asks which, and says what it costs. */
function reshardButton(about, changed) {
  if (!may("admin") || !about.totals || about.totals.resharding) return null;
  const { shards } = about.totals;
  const run = async ({ value }) => {
    const { count: begun } = await post(workerPath(about.name, "reshard"), { shards: Number(value) });
    changed();
    return t(begun ? "reshard.begun" : "reshard.same", { n: count(Number(value)) });
  };
  return button(t("reshard.ask"), () => confirm({
    title: t("reshard.title"), text: t("reshard.text", { queue: oneLine(about.name, 80), n: count(shards) }), label: t("reshard.start"), run,
    field: { type: "number", label: t("reshard.shards"), value: String(shards) },
  }), { symbol: "queue", key: "reshard" });
}

/** How far the servers are with the ids, while the queue is given another number of shards. */
function reshardView({ totals }) {
  const move = totals.resharding;
  if (!move) return null;
  const all = move.ids_moved + move.ids_left;
  const part = all ? move.ids_moved / all : (move.from - move.shards_left) / move.from;
  const figures = { moved: count(move.ids_moved), left: count(move.ids_left), shards: count(move.shards_left), of: count(move.from) };
  return section(t("reshard.heading", { from: count(move.from), to: count(move.to) }), null,
    h("div", { class: "measure", role: "progressbar", "aria-label": t("reshard.bar"), "aria-valuemin": "0", "aria-valuemax": "100", "aria-valuenow": String(Math.floor(100 * part)) },
      h("i", { style: { width: `${100 * part}%` } })),
    h("p", { class: "quantity" }, t("reshard.progress", figures)),
    totals.consumers === 0 && note(t("reshard.idle")));
}

function shardTile(shard, busiest) {
  const owner = shard.owner && shown(shard.owner) !== "" ? shard.owner : null;
  const figures = ["length", "busy", "retries", "parked", "dead"].map((field) => `${t(`shard.${field}`)} ${count(shard[field])}`);
  const master = shard.master ? [shard.master] : []; // of a Redis Cluster
  const title = [t("shard.title", { n: shard.shard }), ...figures, `${t("queue.lag")} ${duration(shard.lag)}`, ...master].join("\n");
  const busy = shard.busy > 0 && h("span", {}, t("shard.running", { n: number(shard.busy) }));
  const owned = owner && [icon(shard.owner_alive ? "node" : "alert"), name(owner, 24), !shard.owner_alive && h("span", {}, t("shard.lost"))];
  const unread = shard.unread && h("p", { class: "tile-line" }, icon("alert"), t(shard.slot === undefined ? "shard.unread" : "shard.moves", { slot: shard.slot }));
  return h("li", { key: shard.shard, class: `tile ${lagLevel(shard.lag)} ${owner && shard.owner_alive ? "" : "orphan"}`, title },
    h("header", {}, h("span", {}, t("shard.title", { n: shard.shard })), Boolean(shard.paused) && badge("warn", "pause", t("badge.paused"))),
    unread || h("p", { class: "tile-lag" }, lag(shard.lag)),
    h("div", { class: "measure", "aria-hidden": "true" }, h("i", { style: { width: `${busiest ? (100 * shard.length) / busiest : 0}%` } })),
    h("p", { class: "tile-line" }, h("span", {}, t("shard.waiting", { n: number(shard.length) })), busy),
    h("p", { class: "tile-owner" }, owned || [icon("alert"), t("shard.free")]),
    shard.master && h("p", { class: "tile-owner" }, icon("queue"), name(shard.master, 24)));
}

/** All shards in their order; of very many the latest ones. */
function tiles(shards) {
  const busiest = shards.reduce((most, shard) => Math.max(most, shard.length), 0);
  const some = shards.length > TILES ? [...shards].sort((a, b) => b.lag - a.lag || b.length - a.length).slice(0, TILES) : shards;
  return [
    h("ol", { class: "tiles" }, some.map((shard) => shardTile(shard, busiest))),
    some.length < shards.length && note(t("shard.cut", { n: some.length, of: count(shards.length) })),
  ];
}

function hottestTable(queue, draw) {
  return createTable({ label: t("hottest.title"), key: (row) => keyOf(row.id), draw, columns: [
    { id: "id", label: t("record.id"), class: "main", show: (row) => idLink(queue, row.id, 60) },
    { id: "payloads", label: t("record.payloads"), hint: t("record.payloads.hint"), number: true, show: (row) => figure(row.payloads) },
    { id: "shard", label: t("record.shard"), hint: t("record.shard.hint"), number: true, show: (row) => String(row.shard) },
  ] });
}

/** The ids with the most payloads of two lists; what the later list says of an id counts. */
function hotter(before, later) {
  const rows = new Map([...before, ...later].map((row) => [keyOf(row.id), row]));
  return [...rows.values()].sort((a, b) => b.payloads - a.payloads).slice(0, HOTTEST);
}

/** Of how many ids this is a sample; nothing where all were read. */
const sampled = (answer, text = "seen.sample") => answer.sample && note(t(text, { n: number(answer.seen), of: number(answer.of) }));

/** How old an age is, in words. */
function ageName({ from, to }) {
  if (from === null) return t("ages.future");
  if (to === null) return t("ages.above", { from: duration(from) });
  return from ? t("ages.between", { from: duration(from), to: duration(to) }) : t("ages.below", { to: duration(to) });
}

function agesTable(draw) {
  const part = (row) => h("div", { class: "measure", "aria-hidden": "true" }, h("i", { style: { width: `${100 * row.part}%` } }));
  return createTable({ label: t("ages.title"), key: (row) => String(row.from), draw, columns: [
    { id: "age", label: t("ages.age"), hint: t("ages.text"), class: "main", show: ageName },
    { id: "count", label: t("ages.count"), number: true, show: (row) => figure(row.count) },
    { id: "part", label: t("ages.part"), hint: t("ages.part.hint"), wide: true, show: part },
  ] });
}

/** Payloads that were pushed for each id that was processed. */
function folded({ points }) {
  const sum = (place) => points.reduce((all, point) => all + (point ? point[place] : 0), 0);
  const [processed, pushed] = [sum(0), sum(2)];
  return processed > 0 ? number(pushed / processed, 1) : "–";
}

function settingsView({ settings, totals }, weight, history) {
  const bytes = weight && weight.bytes !== null ? `${weight.exact ? "" : "≈ "}${inBytes(weight.bytes)}` : "–";
  const facts = [["shards", count(settings.shards)], ["paused", count(settings.paused)], ["generation", String(settings.generation)], ["fold", history ? folded(history) : "–"], ["bytes", bytes],
    ...(totals.removed ? [["removed", count(totals.removed)]] : [])];
  return section(t("settings.title"), null, h("dl", { class: "facts" }, facts.map(([field, value]) =>
    h("div", { key: field, title: ["bytes", "fold", "removed"].includes(field) ? t(`settings.${field}.hint`) : null }, h("dt", {}, t(`settings.${field}`)), h("dd", {}, value)))));
}

const TILES = 200; // shards that are shown one by one
const HOTTEST_EVERY = 10_000; // ms; it reads thousands of records
const HOTTEST = 20; // ids that are shown
const LOOKS = 10; // that follow each other when one looks further, of a tenth of a second each

export default function queuePage({ parameters, draw, again }) {
  const about = createQueue(parameters.name);
  const ticks = [];
  const charts = createCharts({ queue: about.name, ticks: () => ticks, every: 2, draw });
  const hot = hottestTable(about.name, draw);
  const aged = agesTable(draw);
  let [hottest, ages, weight, history, hottestAt] = [null, null, null, null, 0];
  let [further, looking] = [null, false]; // what was read from the first id on, {ids, seen, of, cursor, sample}; whether that goes on now

  async function loadHottest(signal) {
    if (Date.now() - hottestAt < HOTTEST_EVERY) return;
    hottestAt = Date.now();
    const paths = ["hottest", "ages", "bytes"];
    const asked = paths.map((path) => get(queuePath(about.name, path), {}, signal));
    [hottest, ages, weight, history] = await Promise.all([...asked, get("api/v1/history", { queue: about.name, span: "15m" }, signal)]);
    if (!hottest.sample) further = null;
    if (further) further = { ...further, ids: hotter(further.ids, hottest.ids) };
  }

  /** Reads the next ids in their order. What the samples have found is kept. */
  async function lookFurther() {
    for (let look = 0; look < LOOKS && (!further || further.cursor); look += 1) {
      const { ids, seen: read, of, cursor } = await get(queuePath(about.name, "hottest"), { cursor: (further ?? hottest).cursor });
      further = { ids: hotter((further ?? hottest).ids, ids), seen: read, of, cursor, sample: true };
      draw();
    }
  }

  const goOn = () => {
    looking = true;
    draw();
    lookFurther().finally(() => { looking = false; }).then(draw, again);
  };

  async function load(signal) {
    await Promise.all([about.load(signal), charts.load(signal), loadHottest(signal)]);
    const time = about.now ?? Date.now() / 1000;
    if (about.now) setClock(about.now);
    addTick(ticks, { ...about.totals, time, runs: latestRuns(history) });
  }

  function figures({ totals }) {
    const of = (field, page, more) => {
      const href = page && address(page, { queue: about.name, ...more });
      return [t(`queue.${field}`), figure(totals[field], 0, ALARMS[field]), href, t(`queue.${field}.hint`)];
    };
    return strip([
      [t("queue.lag"), lag(totals.lag), null, t("queue.lag.hint")],
      of("enqueued", "enqueued"),
      of("fresh", "enqueued", { by: "retry_count", order: "desc", from: -1 }),
      of("retries", "enqueued", { by: "retry_count", order: "asc", from: 0 }),
      of("delayed", "enqueued", { by: "time", order: "desc" }),
      of("scheduled", "scheduled"),
      of("busy", "running"), of("parked", "parked"), of("dead", "dead"), of("processed"), of("failed"),
    ]);
  }

  function hottestView() {
    if (!hottest) return skeleton(4);
    if (!hottest.ids.length) return empty(t("hottest.empty"), t("hottest.empty.text"), "check");
    const found = further ?? hottest;
    return [
      hot.view(found.ids), sampled(found, further ? "hottest.further" : "seen.sample"),
      found.cursor && button(t("search.goOn"), goOn, { disabled: looking }),
    ];
  }

  function agesView() {
    if (!ages) return skeleton(4);
    const most = Math.max(...ages.ages.map((age) => age.count));
    if (!most) return empty(t("ages.empty"), t("ages.empty.text"), "check");
    return [aged.view(ages.ages.map((age) => ({ ...age, part: age.count / most }))), sampled(ages)];
  }

  function shardsView({ shards }) {
    const owned = t("shard.owned", { n: shards.filter((shard) => shard.owner_alive).length, of: shards.length });
    return section(t("shard.heading"), h("p", { class: "quantity" }, owned),
      shards.length ? tiles(shards) : empty(t("shard.none"), t("shard.none.text"), "queue"));
  }

  return {
    title: () => oneLine(about.name, 60),
    every: 2000,
    load,
    view() {
      if (!about.totals) return [queueHead(about, "queue"), skeleton(12)];
      return [
        queueHead(about, "queue", [pauseButtons(about, again), reshardButton(about, again)]),
        reshardView(about),
        h("div", { key: "figures", class: "hero many" }, figures(about)),
        charts.view(),
        shardsView(about),
        h("div", { key: "closer", class: "side-by-side" },
          section(t(hottest?.cursor && (further ?? hottest).cursor ? "hottest.sample" : "hottest.title"), null, h("p", { class: "hint" }, t("hottest.text")), hottestView()),
          section(t(ages?.sample ? "ages.sample" : "ages.title"), null, h("p", { class: "hint" }, t("ages.text")), agesView())),
        about.settings && settingsView(about, weight, history),
      ];
    },
  };
}
