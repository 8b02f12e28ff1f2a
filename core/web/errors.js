// What a queue's dead died of, or its retries failed with. The dead go a group at a time, or one first to see whether it goes through now.
import { get, post, queuePath, workerPath } from "./api.js";
import { confirm, perform, typable } from "./dialogs.js";
import { h } from "./dom.js";
import { count, encoded, oneLine } from "./format.js";
import { button, figure, icon, idLink, section, seen, time } from "./parts.js";
import { here, note } from "./router.js";
import { may } from "./session.js";
import { t } from "./text.js";

const EVERY = 6000; // ms; it reads thousands of records
const FEW = 6; // groups shown before one asks for all

/** part: "dead" or "retrying". */
export function createErrors({ queue, part, draw, again }) {
  let [answer, askedAt, all] = [null, 0, here().parameters.groups === "all"];
  const trials = new Map(); // fingerprint -> {id, state, text} of the one that goes first

  async function load(signal) {
    await Promise.all([...trials.values()].map((trial) => follow(trial, signal)));
    if (Date.now() - askedAt < EVERY) return;
    answer = await get(queuePath(queue, "errors"), { part }, signal);
    askedAt = Date.now();
  }

  /** What became of the one that went first. */
  async function follow(trial, signal) {
    if (trial.over) return;
    const { job, dead } = await get(queuePath(queue, "id"), { id: trial.id }, signal);
    const alive = job && job.state !== "unknown";
    const died = dead && dead.state === "dead";
    const failing = alive && job.error && job.state !== "running";
    trial.state = failing || (!alive && died) ? "failed" : alive ? "going" : "through";
    trial.over = !alive;
  }

  const changed = () => {
    askedAt = 0;
    again();
  };

  const oneFirst = (group) => perform(async () => {
    const [id] = group.ids;
    const { count: n } = await post(workerPath(queue, "morgue_queue_up"), { ids: [id] });
    if (n) trials.set(group.fingerprint, { id, state: "going" });
    changed();
    return t("some.morgue_queue_up.done", { n: count(n), count: n });
  });

  /** A group goes in slices: as many requests as it takes. */
  function whole(group, action) {
    const danger = action === "delete";
    const values = { n: count(group.count), count: group.count, error: oneLine(group.error, 120), queue: oneLine(queue, 60) };
    confirm({
      title: t(`group.${action}.title`, values),
      text: t(`group.${action}.text`, values),
      label: t(`group.${action}`),
      danger,
      typed: danger ? typable(queue) : null,
      run: async (progress) => {
        let [done, answer] = [0, { more: true }];
        while (answer.more) {
          answer = await post(queuePath(queue, `errors/${encoded(group.fingerprint)}/${action}`));
          done += answer.count;
          progress(t("group.progress", { n: count(done) }));
          if (!answer.count) break;
        }
        trials.delete(group.fingerprint);
        changed();
        return t(`group.${action}.done`, { n: count(done), count: done });
      },
    });
  }

  function trialView(trial) {
    const symbol = { going: "clock", failed: "alert", through: "check" }[trial.state];
    return h("p", { class: `trial ${trial.state}`, role: "status" }, icon(symbol), idLink(queue, trial.id, 40), " ", t(`trial.${trial.state}`));
  }

  function groupView(group) {
    const trial = trials.get(group.fingerprint);
    return h("li", { key: group.fingerprint, class: "group", "data-key": group.fingerprint },
      h("div", { class: "group-count" }, figure(group.count)),
      h("div", { class: "group-text" },
        h("p", { class: "error-line" }, oneLine(group.error, 260) || t("group.noText")),
        h("p", { class: "group-facts" }, part === "dead" ? [t("group.last"), " ", time(group.last), " · ", t("group.first"), " ", time(group.first)] : [t("group.next"), " ", time(group.first)]),
        h("p", { class: "group-ids" }, group.ids.slice(0, 5).map((id, place) => h("span", { key: place }, idLink(queue, id, 32)))),
        trial && trialView(trial)),
      part === "dead" && h("div", { class: "group-actions" },
        may("operator") && button(t("group.one"), () => oneFirst(group), { symbol: "flask", disabled: trial?.state === "going" }),
        may("operator") && button(t("group.queue_up"), () => whole(group, "queue_up"), { symbol: "again" }),
        may("admin") && button(t("group.delete"), () => whole(group, "delete"), { symbol: "trash", kind: "danger-text" })));
  }

  function showAll() {
    all = true;
    note({ groups: "all" });
    draw();
  }

  function view() {
    if (!answer?.groups.length) return null;
    const { groups } = answer;
    return section(t(`group.title.${part}`), h("p", { class: "quantity" }, t("group.quantity", { n: groups.length })),
      h("ol", { class: "groups" }, (all ? groups : groups.slice(0, FEW)).map(groupView)),
      groups.length > FEW && !all && button(t("group.all", { n: groups.length }), showAll, { kind: "plain" }),
      seen(answer));
  }

  return { load, view };
}
