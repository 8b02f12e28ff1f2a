// One id: why it runs or does not, what is stored of it, and what can be done.
import { get, post, queuePath, workerPath } from "../app/api.js";
import { confirm, tell } from "../ui/dialogs.js";
import { h } from "../ui/dom.js";
import { absoluteTime, count, indented, isoTime, number, oneLine, relative, sentence, setClock, shown } from "../ui/format.js";
import { block, button, empty, link, name, note, pageHead, section, skeleton, slash, state } from "../ui/parts.js";
import { actOn, actionButton } from "./records.js";
import { createScheduled } from "./scheduled.js";
import { may } from "../app/session.js";
import { t } from "../app/text.js";

const both = (seconds) => (seconds ? h("span", {}, absoluteTime(seconds), h("span", { class: "aside" }, relative(seconds))) : "–");

const facts = (entries) => h("dl", { class: "facts" }, entries.filter(Boolean).map(([label, value]) =>
  h("div", { key: label }, h("dt", {}, label), h("dd", {}, value))));

const there = (record) => record && record.state && record.state !== "unknown";

/** Scores are times unless the pusher gave others. */
const scoreText = (score) => (score > 1e9 && score < 1e11 ? absoluteTime(score) : String(score));

const copy = (text) => navigator.clipboard.writeText(text).then(() => tell(t("copied")), () => tell(t("copied.not"), "bad"));

/** Copies the text as it is stored, where the browser lets a page do so (https, or this machine). */
const copyButton = (text) => typeof text === "string" && Boolean(navigator.clipboard) && button(t("id.copy"), () => copy(text), { symbol: "copy" });

const laidOut = (text) => indented(text).map((part, place) => (place % 2 ? h("bdi", {}, part) : part));

const CUT = 1000; // characters from which on a text may be one of 4 KiB that was cut

/** drop(place): what may be done with those that have keys; or false. whole(place, text): the whole of a text that was cut, or false; read(place): asks for it. */
function payloadList(record, drop, whole, read) {
  const { payloads = [], keys = [], payload_total: total } = record;
  return h("div", { class: "payloads" },
    h("h3", {}, t("id.payloads", { n: number(total ?? payloads.length), count: total ?? payloads.length })),
    h("ol", {}, payloads.map(([text, score, context], place) => h("li", { key: keys[place] ?? place },
      h("div", { class: "payload-head" }, h("span", {}, place + 1), h("span", { title: t("id.score.hint") }, t("id.score", { score: scoreText(score) })),
        record.truncated && typeof text === "string" && text.length > CUT && !whole(place, text) && button(t("id.whole"), () => read(place)),
        copyButton(whole(place, text) || text), drop && keys[place] && button(t("id.drop"), () => drop(place), { symbol: "trash", kind: "danger-text" })),
      block(t("record.payloads"), laidOut(whole(place, text) || text)),
      context !== undefined && context !== "" && [h("p", { class: "context-head" }, t("id.context")), block(t("id.context"), laidOut(context), "context")]))),
    (record.truncated || total > payloads.length) && note(t("id.cut", { n: number(payloads.length), of: number(total) })));
}

function errorView(error) {
  const [first, ...rest] = shown(error).split("\n");
  return h("div", { class: "error" },
    h("h3", {}, t("record.error")), h("p", { class: "error-text" }, first), rest.length > 0 && block(t("record.error"), rest.join("\n")));
}

/** The last events of the id, the latest last; their errors as they are stored, through the redaction. */
const historyView = (entries) => section(t("id.history"), null, h("ol", { class: "history" }, entries.map((entry, place) =>
  h("li", { key: `${entry.at} ${place}` },
    h("time", { datetime: isoTime(entry.at), title: relative(entry.at) }, absoluteTime(entry.at)),
    h("span", { class: "event" }, t(`event.${entry.event}`)),
    entry.payloads_count && h("span", { class: "aside" }, t("id.history.payloads", { n: number(entry.payloads_count), count: entry.payloads_count })),
    entry.due && h("span", { class: "aside" }, t("id.history.due", { time: absoluteTime(entry.due) })),
    entry.node && h("span", { class: "aside" }, t("id.history.node", { node: oneLine(entry.node, 60) })),
    entry.fence && h("span", { class: "aside" }, t("id.history.fence", { fence: String(entry.fence) })),
    entry.error && h("span", { class: "error-text" }, oneLine(entry.error, 1000))))));

export default function idPage({ parameters, draw, again }) {
  const { queue, id } = parameters;
  const scheduled = createScheduled({ queue, draw, again });
  const wholes = new Map(); // "kind place" -> all of a payload
  let answer = null;

  async function load(signal) {
    answer = await get(queuePath(queue, "id"), { id }, signal);
    if (answer.now) setClock(answer.now);
  }

  /** That was asked for, while what is shown of it is its beginning. */
  function wholeOf(kind, place, text) {
    const known = wholes.get(`${kind} ${place}`);
    return typeof text === "string" && known?.startsWith(text) && known;
  }

  /** Asks for all of a payload of which 4 KiB are shown: up to 1 MiB. */
  const readWhole = (kind, place) => get(queuePath(queue, "id"), { id, whole: place + 1 }).then((fresh) => {
    const text = fresh[kind]?.payloads[place]?.[0];
    if (typeof text === "string") wholes.set(`${kind} ${place}`, text);
    draw();
  }, (error) => tell(t("action.failed", { error: error.message }), "bad"));

  const act = (action, role) => may(role) && actionButton(action, () => actOn(queue, action, [{ id }], again));

  /** What can be done with what waits or runs; of the dead it stands beside them. */
  function actions({ job, behind }) {
    const runs = there(job) && job.state === "running";
    const waits = there(job) && !runs;
    return h("div", { class: "actions" },
      waits && ["delayed", "retrying"].includes(job.state) && act("perform_now", "operator"),
      waits && (job.state === "parked" ? act("unpark", "operator") : act("park", "operator")),
      runs && act("park_run", "operator"),
      runs ? act("delete_run", "admin") : (waits || there(behind)) && act("delete", "admin"));
  }

  const deadActions = () => h("div", { class: "actions" }, act("morgue_queue_up", "operator"), act("morgue_delete", "admin"));

  function dropPayload(kind, { keys, payloads, payload_total: total }, place) {
    const path = workerPath(queue, kind === "dead" ? "morgue_drop_payload" : "drop_payload");
    confirm({
      title: t("id.drop.title"),
      text: t(total > 1 ? "id.drop.text" : "id.drop.last", { id: oneLine(id, 60), queue: oneLine(queue, 60) }),
      quote: shown(payloads[place][0]),
      label: t("id.drop"),
      danger: true,
      run: async () => {
        const { count: n } = await post(path, { id, key: keys[place] });
        again();
        return n ? t("id.drop.done", { n: count(n), count: n }) : t("id.drop.none");
      },
    });
  }

  function recordView(kind, record) {
    const { state: word } = record;
    const drop = may("admin") && ((place) => dropPayload(kind, record, place));
    return section(t(`id.${kind}`), [state(word), kind === "dead" && deadActions()], facts([
      word === "dead" ? [t("record.updated_at"), both(record.updated_at)] : [t("record.perform_in"), both(record.perform_in)],
      word === "running" && [t("record.since"), both(record.since)],
      word !== "dead" && [t("record.retries"), record.retry_count < 0 ? t("record.fresh") : String(record.retry_count)],
      record.fence > 0 && [t("id.runFence"), String(record.fence)],
    ]), record.error && errorView(record.error), payloadList(record, drop, (place, text) => wholeOf(kind, place, text), (place) => readWhole(kind, place)));
  }

  /** What explains the id in a terminal. Another namespace than the one without a name of its own is the application's to tell. */
  function command({ cli: text, namespace }) {
    if (!text) return note(t("id.command.none"));
    return [
      h("div", { class: "command" }, h("code", {}, shown(text)), copyButton(text)),
      namespace !== "seriatim" && note(t("id.command.namespace", { namespace: oneLine(namespace, 60) })),
    ];
  }

  function shardFacts(of) {
    const owner = of.owner ? [name(of.owner, 60), h("span", { class: "aside" }, of.owner_alive ? t("id.ownerAlive") : t("id.ownerGone"))] : t("shard.free");
    return section(t("id.where"), null, facts([
      [t("record.shard"), String(of.shard)],
      [t("id.owner"), owner],
      [t("id.paused"), of.paused ? t("yes") : t("no")],
      [t("id.lease"), String(of.lease)],
      [t("id.fence"), String(of.fence)],
    ]), command(of));
  }

  /** The first of them; the queue's page has all. */
  const scheduledView = ({ count: all, payloads }) => section(t("records.scheduled"), null, scheduled.view(payloads),
    all > payloads.length && link("scheduled", { queue, id }, t("scheduled.all", { n: count(all) })));

  function head(of) {
    const trail = h("p", { class: "trail" },
      link("", {}, t("overview.title")), slash(), link("queue", { name: queue }, name(queue, 60)), slash(), t("id.word"));
    return pageHead(h("bdi", { class: "name id" }, shown(id)), of && actions(of), trail);
  }

  return {
    title: () => oneLine(id, 60),
    every: 2000,
    load,
    view() {
      if (!answer) return [head(null), skeleton(8)];
      const kinds = ["job", "behind", "dead"].filter((kind) => there(answer[kind]));
      return [
        head(answer),
        h("p", { class: "sentence", key: "sentence", lang: "en" }, sentence(answer.text)),
        kinds.length ? kinds.map((kind) => recordView(kind, answer[kind])) : !answer.scheduled.count && empty(t("id.none"), t("id.none.text"), "search"),
        answer.scheduled.count > 0 && scheduledView(answer.scheduled),
        answer.history.length > 0 && historyView(answer.history),
        shardFacts(answer),
      ];
    },
  };
}
