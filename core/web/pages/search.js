// Search: an exact id is found at once in every queue, and queues by their names; a beginning is looked for in one queue or, one after another, in
// all, and says how far it looked.
import { get } from "../app/api.js";
import { h } from "../ui/dom.js";
import { keyOf, oneLine, shown } from "../ui/format.js";
import { button, empty, icon, idLink, link, name, pageHead, section, seen, skeleton, state } from "../ui/parts.js";
import { go } from "../app/router.js";
import { loadDashboard, session } from "../app/session.js";
import { createTable } from "../ui/table.js";
import { t } from "../app/text.js";

const AT_ONCE = 10; // queues that are read for one look
const NAMED = 30; // queues that are shown by their names

const columns = (q) => [
  { id: "id", label: t("record.id"), class: "main", show: (hit) => idLink(hit.queue, q, 80) },
  { id: "queue", label: t("queue.word"), show: (hit) => link("queue", { name: hit.queue }, name(hit.queue, 60)) },
  { id: "state", label: t("record.state"), show: (hit) => state(hit.state) },
];

export default function search({ parameters, draw, again }) {
  const { q = "", queue = null } = parameters;
  const hits = createTable({ label: t("search.exact"), columns: columns(q), key: (hit) => `${keyOf(hit.queue)} ${hit.state}`, draw });
  let [exact, begun, more] = [null, null, false];

  /** Those to look in: the one that is asked for, or all that hold anything, the fullest first. */
  const queuesToRead = () => (queue !== null ? [queue] : session.dashboard.queues.filter((each) => each.enqueued + each.parked + each.busy + each.dead > 0)
    .sort((a, b) => b.enqueued - a.enqueued).map((each) => each.name));

  /** Looks in the next queues, or further in the only one: {hits: [{queue, id}], seen, of, cursor, rest: queues that come next}. */
  async function loadBeginning(signal) {
    const found = begun ?? { hits: [], seen: 0, of: 0, cursor: null, rest: queuesToRead() };
    const names = found.cursor ? [queue] : found.rest.slice(0, AT_ONCE);
    const next = { ...found, cursor: null, rest: found.rest.slice(AT_ONCE) };
    for (const name of names) {
      const answer = await get("api/v1/search", { q, prefix: 1, queue: name, cursor: found.cursor }, signal);
      next.hits = [...next.hits, ...answer.ids.map((id) => ({ queue: name, id }))].slice(-1000);
      next.seen = found.cursor ? answer.seen : next.seen + answer.seen;
      next.of = found.cursor ? answer.of : next.of + answer.of;
      if (queue !== null) next.cursor = answer.cursor;
    }
    begun = next;
  }

  async function load(signal) {
    if (!session.dashboard) await loadDashboard(signal);
    if (q === "") return;
    exact = await get("api/v1/search", { q }, signal);
    if (!begun) await loadBeginning(signal);
  }

  const goOn = () => {
    more = true;
    draw();
    loadBeginning(null).catch(again).finally(() => {
      more = false;
      draw();
    });
  };

  function form() {
    const submit = (event) => {
      event.preventDefault();
      const place = event.target.elements.queue.value;
      go("search", { q, queue: session.dashboard.queues[place]?.name });
    };
    const queues = session.dashboard?.queues || [];
    return h("form", { class: "filters", on: { submit } }, h("label", { class: "select" }, h("select", { name: "queue", "aria-label": t("search.queue") },
      h("option", { key: "all", value: "", selected: queue === null }, t("overview.only.all")), queues.map((entry, place) => h("option", { key: place, value: place, selected: keyOf(entry.name) === keyOf(queue) }, oneLine(entry.name, 60))))),
      h("button", { type: "submit", class: "button", disabled: !queues.length }, icon("search"), h("span", {}, t("search.look"))));
  }

  function beginning() {
    if (!begun) return skeleton(4);
    const where = (hit) => queue === null && h("span", { class: "aside" }, name(hit.queue, 40));
    const list = () => h("ul", { class: "ids" }, begun.hits.map((hit) => h("li", { key: `${keyOf(hit.queue)} ${keyOf(hit.id)}` }, idLink(hit.queue, hit.id, 80), where(hit))));
    const places = queue === null ? t("overview.only.all") : oneLine(queue, 60);
    const none = () => empty(t("search.noPrefix"), t("search.noPrefix.text", { queue: places }), "search");
    return [
      begun.hits.length ? list() : none(),
      seen(begun), (begun.cursor || begun.rest.length > 0) && button(t("search.goOn"), goOn, { disabled: more }),
    ];
  }

  function results() {
    if (!exact) return skeleton(3);
    const named = session.dashboard.queues.filter((each) => shown(each.name).toLowerCase().includes(shown(q).toLowerCase())).slice(0, NAMED);
    return [
      named.length > 0 && section(t("overview.queues"), null, h("ul", { class: "ids queue-names" }, named.map((each) =>
        h("li", { key: keyOf(each.name) }, link("queue", { name: each.name }, name(each.name, 80)))))),
      section(t("search.exact"), null, exact.hits.length ? hits.view(exact.hits) : empty(t("search.none"), t("search.none.text"), "search")),
      section(t("search.prefix"), form(), beginning()),
    ];
  }

  return {
    title: () => t("search.title"),
    every: 2000,
    load,
    view: () => [
      pageHead(q === "" ? t("search.title") : [t("search.for"), " ", h("bdi", { class: "name" }, oneLine(q, 80))]),
      q === "" ? empty(t("search.ask"), t("search.ask.text"), "search") : results(),
    ],
  };
}

