// What a queue's dead died of, or its retries failed with. The dead go a group at a time, or one first to see whether it goes through now.
import { get, post, queuePath, workerPath } from "../app/api.js";
import { confirm, perform, typable } from "../ui/dialogs.js";
import { h } from "../ui/dom.js";
import { count, encoded, keyOf, oneLine } from "../ui/format.js";
import { attended, inPlace } from "../ui/hold.js";
import { button, figure, icon, idLink, section, seen, time } from "../ui/parts.js";
import { here, note } from "../app/router.js";
import { may } from "../app/session.js";
import { inSlices, toldOf } from "../app/slices.js";
import { t } from "../app/text.js";

const EVERY = 6000; // ms; it reads thousands of records
const FEW = 6; // groups shown before one asks for all

const seenErrors = new Map(); // by part and queue, so that who looks at an id and returns finds trials and groups where they were

/** {answer, askedAt, trials: fingerprint -> {id, wasParked, state, over} of the one that went first, held: the groups as they were shown last} */
function aboutErrors(name) {
  if (!seenErrors.has(name)) seenErrors.set(name, { answer: null, askedAt: 0, trials: new Map(), held: null });
  return seenErrors.get(name);
}

/** part: "dead" or "retrying". linkTo(fingerprint): the address of the list with this group alone, of null: with all. */
export function createErrors({ queue, part, linkTo, draw, again }) {
  const about = aboutErrors(`${part} ${keyOf(queue)}`);
  const { trials } = about;
  let all = here().parameters.groups === "all";

  async function load(signal) {
    await Promise.all([...trials.values()].map((trial) => follow(trial, signal)));
    if (Date.now() - about.askedAt < EVERY) return;
    about.answer = await get(queuePath(queue, "errors"), { part }, signal);
    about.askedAt = Date.now();
  }

  /** What became of the one that went first. */
  async function follow(trial, signal) {
    if (trial.over) return;
    const { job, dead } = await get(queuePath(queue, "id"), { id: trial.id }, signal);
    const alive = job && job.state !== "unknown";
    const died = dead && dead.state === "dead";
    const parked = alive && job.state === "parked";
    trial.wasParked &&= parked; // as long as it stays so, nothing ran, and its error is an older one
    const failing = alive && job.error && job.state !== "running";
    trial.state = parked && (trial.wasParked || !job.error) ? "parked" : failing || (!alive && died) ? "failed" : alive ? "going" : "gone";
    trial.over = !alive;
  }

  const changed = () => {
    about.askedAt = 0;
    again();
  };

  const oneFirst = (group) => perform(async () => {
    const [id] = group.ids;
    const { job } = await get(queuePath(queue, "id"), { id });
    const wasParked = job?.state === "parked"; // it stays parked, with its error
    const { count: n } = await post(workerPath(queue, "morgue_queue_up"), { ids: [id] });
    if (n) trials.set(group.fingerprint, { id, wasParked, state: "going" });
    changed();
    return t("some.morgue_queue_up.done", { n: count(n), count: n });
  });

  const isSample = () => about.answer.seen < about.answer.of;

  /** How many have this error: at least so many where not all records were read. */
  const quantity = (group) => (isSample() ? t("atLeast", { n: count(group.count) }) : count(group.count));

  function whole(group, action) {
    const danger = action === "delete" || action === "kill";
    const values = { n: quantity(group), count: group.count, error: oneLine(group.error, 120), queue: oneLine(queue, 60) };
    confirm({
      title: t(`group.${action}.title`, values),
      text: t(`group.${action}.text`, values),
      label: t(`group.${action}`),
      danger,
      typed: danger ? typable(queue) : null,
      stoppable: true,
      run: async (control) => {
        const result = await inSlices(queuePath(queue, `errors/${encoded(group.fingerprint)}/${action}`), group.count, control);
        trials.delete(group.fingerprint);
        changed();
        return toldOf(result, t(`group.${action}.done`, { n: count(result.done), count: result.done }));
      },
    });
  }

  /** In place of the group's times, so that nothing below moves. */
  function trialView(trial, fingerprint) {
    const symbol = { going: "clock", parked: "pause", failed: "alert", gone: "check" }[trial.state];
    const dismiss = () => {
      trials.delete(fingerprint);
      draw();
    };
    return h("p", { class: `group-facts trial ${trial.state}`, role: "status" }, icon(symbol), h("span", {}, idLink(queue, trial.id, 40), " ", t(`trial.${trial.state}`)),
      trial.state !== "going" && h("button", { type: "button", class: "plain", "aria-label": t("told.dismiss"), title: t("told.dismiss"), on: { click: dismiss } }, icon("cross")));
  }

  const factsView = (group) => h("p", { class: "group-facts" }, part === "dead"
    ? [t("group.last"), " ", time(group.last), " · ", t("group.first"), " ", time(group.first)] : [t("group.next"), " ", time(group.first)]);

  /** The error as a link that shows its ids alone in the list below, and again all of them. */
  function errorLink(group) {
    const chosen = here().parameters.error === group.fingerprint;
    return h("a", { href: linkTo(chosen ? null : group.fingerprint), "aria-current": chosen ? "true" : null, title: t(chosen ? "group.unfilter" : "group.filter") },
      oneLine(group.error, 260) || t("group.noText"));
  }

  function groupView({ row: group, gone }) {
    const trial = trials.get(group.fingerprint);
    const of = (attributes) => ({ ...attributes, disabled: gone || (attributes.symbol === "flask" && trial?.state === "going") });
    return h("li", { key: group.fingerprint, class: gone ? "group gone" : "group", "data-key": group.fingerprint },
      h("div", { class: "group-count" }, !gone && isSample() && "≥ ", figure(gone ? 0 : group.count)),
      h("div", { class: "group-text" },
        h("p", { class: "error-line" }, errorLink(group)),
        trial ? trialView(trial, group.fingerprint) : factsView(group),
        h("p", { class: "group-ids" }, group.ids.slice(0, 5).map((id, place) => h("span", { key: place }, idLink(queue, id, 32))))),
      h("div", { class: "group-actions" }, part === "dead" ? deadActions(group, of) : retryActions(group, of)));
  }

  function showAll() {
    all = true;
    note({ groups: "all" });
    draw();
  }

  const deadActions = (group, of) => [
    may("operator") && button(t("group.one"), () => oneFirst(group), of({ symbol: "flask" })),
    may("operator") && button(t("group.queue_up"), () => whole(group, "queue_up"), of({ symbol: "again" })),
    may("admin") && button(t("group.delete"), () => whole(group, "delete"), of({ symbol: "trash", kind: "danger-text" })),
  ];

  const retryActions = (group, of) => [
    may("operator") && button(t("group.perform_now"), () => whole(group, "perform_now"), of({ symbol: "play" })),
    may("admin") && button(t("group.kill"), () => whole(group, "kill"), of({ symbol: "cross", kind: "danger-text" })),
  ];

  const nameOf = (group) => group.fingerprint;

  /**
   * The groups in their places, [{row, gone}]: each keeps its own while the reader is at the page, and while the outcome of one that went first is not
   * dismissed. What is new waits until the reader is elsewhere, as a list may follow.
   */
  function placed(groups) {
    const reading = attended(document.querySelector("main"));
    const before = about.held ?? [];
    const held = before.length > 0 && (reading || trials.size > 0);
    const known = new Set(before.map(({ row }) => nameOf(row)));
    const rows = held && reading ? groups.filter((group) => known.has(nameOf(group))) : groups;
    about.held = inPlace(rows, held ? before : [], nameOf).map(({ row, gone }) => ({ row, gone }));
    return about.held;
  }

  function view() {
    const { answer } = about;
    if (!answer) return null;
    const { groups } = answer;
    const standing = placed(groups);
    if (!standing.length) return null;
    return section(t(`group.title.${part}`), h("p", { class: "quantity" }, t("group.quantity", { n: groups.length })),
      h("ol", { class: "groups" }, (all ? standing : standing.slice(0, FEW)).map(groupView)),
      standing.length > FEW && !all && button(t("group.all", { n: groups.length }), showAll, { kind: "plain" }),
      seen(answer));
  }

  /** The error of a group, or null where it is not among those that were read. */
  const errorOf = (fingerprint) => about.answer?.groups.find((group) => group.fingerprint === fingerprint)?.error ?? null;

  return { load, view, errorOf };
}
