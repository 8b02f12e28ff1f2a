// Questions before something happens, the token, the keys, and what came of an action.
import { ApiError, setToken } from "../app/api.js";
import { h } from "./dom.js";
import { count, shown } from "./format.js";
import { block, button, icon } from "./parts.js";
import { t } from "../app/text.js";

const TOLD_FOR = 9000; // ms that a result stays

let open = null; // the dialog in front
let shows = 0; // dialogs that were shown
let told = null; // the last result
let draw = () => {};
let resume = () => {};
let node = null;

/** draw() shows a change; resume() is called when the page may go on. */
export const startDialogs = (whenChanged, whenClosed) => ([draw, resume] = [whenChanged, whenClosed]);
export const dialogOpen = () => open !== null;

/** When (ms) the change of the dialog in front was asked for, or its slice under way; null: none is under way. */
export const changeAskedAt = () => (open?.running ? open.askedAt : null);

/** Each has a key of its own, so that one that opens before the end of another is drawn does not take over its closed element. */
function show(dialog) {
  shows += 1;
  open = Object.assign(dialog, { key: `dialog ${shows}` });
  draw();
}

/** An action that runs goes on to the end of what was asked; what came of it is told when its answer is there. */
function close() {
  node?.close();
  if (open) open.left = true;
  open = null;
  draw();
  resume();
}

/** Says what came of an action: calmly, and to those who listen instead of looking. */
export function tell(text, kind = "good") {
  told = { text, kind };
  const mine = told;
  setTimeout(() => told === mine && dismiss(), kind === "bad" ? TOLD_FOR * 3 : TOLD_FOR);
  draw();
}

function dismiss() {
  told = null;
  draw();
}

/**
 * Asks, then runs. question: {title, text, quote: what it is about, if that is longer, label, danger, typed: the text to type or null,
 * field: {label, type, value} of something to enter, which run is given as value, or null,
 * stoppable: it runs in parts, and closing the dialog stops it, run: async ({progress(text), stopped(), value}) => a text for tell}. Whatever fails stays
 * in the dialog, to be read and tried again; the dialog can be closed at any time.
 */
export const confirm = (question) => show({ kind: "confirm", ...question, value: question.field?.value, word: "", running: false, error: null, done: null });

/** Without a question: for what is easily undone. */
export async function perform(run) {
  try {
    tell(await run());
  } catch (error) {
    tell(refused(error) ? t("action.failed", { error: error.message }) : failureOf(error), "bad");
  }
}

async function runOpen(dialog) {
  dialog.running = true;
  dialog.askedAt = Date.now();
  dialog.error = dialog.progress = null;
  draw();
  const progress = (text) => { // a slice has its answer, and the next one is asked for
    Object.assign(dialog, { progress: text, askedAt: Date.now() });
    draw();
  };
  try {
    const result = await dialog.run({ progress, stopped: () => dialog.left, value: dialog.value });
    if (open === dialog) close();
    tell(result);
  } catch (error) {
    dialog.running = false;
    dialog.error = failureOf(error);
    if (open === dialog) draw();
    else tell(dialog.error, "bad");
  }
}

/** Whether the server refused the action before it did anything. */
const refused = (error) => error.status >= 400 && error.status < 500;

/** What is known of an action that failed. Without an answer of the server it is not known whether it happened. */
function failureOf(error) {
  const text = error instanceof ApiError ? error.message : t("action.unanswered", { error: error.message });
  return error.soFar ? t("slices.failed", { n: count(error.soFar), text }) : text;
}

/** A name that can be typed as it is, on one line; of others the confirmation is a word. */
export function typable(name) {
  const plain = typeof name === "string" && name && name.length <= 80 && shown(name) === name && name.trim() === name && !name.includes("\n");
  return plain ? name : t("confirm.word");
}

function confirmView(dialog) {
  const ready = !dialog.running && (!dialog.typed || dialog.word === dialog.typed);
  const submit = (event) => {
    event.preventDefault();
    if (ready) runOpen(dialog);
  };
  return h("form", { on: { submit } },
    h("h2", { id: "dialog-title" }, dialog.title),
    h("p", {}, dialog.text),
    dialog.quote !== undefined && block(dialog.label, dialog.quote),
    dialog.field && h("label", { class: "field" }, h("span", {}, dialog.field.label),
      h("input", { type: dialog.field.type, step: "1", required: true, autofocus: true, value: dialog.value, disabled: dialog.running,
        on: { input: (event) => { dialog.value = event.target.value; draw(); } } })),
    dialog.typed && h("label", { class: "field" },
      h("span", {}, t("confirm.type"), " ", h("bdi", { class: "typed" }, dialog.typed)),
      h("input", { type: "text", autocomplete: "off", spellcheck: "false", autocapitalize: "off", autofocus: true, disabled: dialog.running,
        on: { input: (event) => { dialog.word = event.target.value; draw(); } } })),
    dialog.error && h("p", { class: "message bad", role: "alert" }, icon("alert"), dialog.error),
    dialog.running && h("p", { class: "message", role: "status" }, h("span", { class: "spinner" }), dialog.progress || t("confirm.running")),
    h("footer", {},
      button(t(!dialog.running ? "confirm.cancel" : dialog.stoppable ? "confirm.stop" : "confirm.leave"), close, { autofocus: !dialog.typed && !dialog.field }),
      h("button", { type: "submit", class: `button ${dialog.danger ? "danger" : "primary"}`, disabled: !ready }, dialog.label)));
}

export function askToken(wrong, again) {
  if (open?.kind !== "token") show({ kind: "token", wrong, again, word: "" });
}

function tokenView(dialog) {
  const submit = (event) => {
    event.preventDefault();
    setToken(event.target.elements.token.value.trim());
    close();
    dialog.again();
  };
  return h("form", { on: { submit } },
    h("h2", { id: "dialog-title" }, t("token.title")),
    h("p", {}, t("token.text")),
    h("label", { class: "field" }, h("span", {}, t("token.label")),
      h("input", { type: "password", name: "token", autocomplete: "current-password", autofocus: true, required: true })),
    dialog.wrong && h("p", { class: "message bad", role: "alert" }, icon("alert"), t("token.wrong")),
    h("footer", {}, h("button", { type: "submit", class: "button primary" }, t("token.send"))));
}

const KEYS = [["/", "keys.search"], ["g o", "keys.overview"], ["g r", "keys.running"], ["g n", "keys.nodes"], ["↑ ↓", "keys.rows"], ["↵", "keys.open"],
  ["x", "keys.select"], ["p", "keys.pause"], ["t", "keys.times"], ["?", "keys.help"]];

/** The figures of a queue: what each says stands in titles, too, which neither a finger nor a keyboard reaches. */
const WORDS = ["lag", "enqueued", "fresh", "retries", "delayed", "scheduled", "busy", "parked", "dead", "in", "out", "failing", "folded", "processed", "failed"];

export const showKeys = () => show({ kind: "keys" });

const keysView = () => h("div", {},
  h("h2", { id: "dialog-title" }, t("keys.title")),
  h("dl", { class: "keys" }, KEYS.map(([keys, text]) =>
    h("div", { key: text }, h("dt", {}, keys.split(" ").map((key) => h("kbd", {}, key))), h("dd", {}, t(text))))),
  h("h3", {}, t("keys.words")),
  h("dl", { class: "words" }, WORDS.map((word) => h("div", { key: word }, h("dt", {}, t(`queue.${word}`)), h("dd", {}, t(`queue.${word}.hint`))))),
  h("footer", {}, button(t("keys.close"), close, { autofocus: true })));

const VIEWS = { confirm: confirmView, token: tokenView, keys: keysView };

function made(dialog) {
  node = dialog;
  dialog.showModal();
  dialog.querySelector("[autofocus]")?.focus();
}

/** The dialog in front and the last result, to be drawn after everything else. */
export function dialogsView() {
  const cancel = (event) => {
    event.preventDefault();
    if (open?.kind !== "token") close();
  };
  const closed = ({ target }) => { // a browser lets no page prevent a second Escape
    if (open?.kind === "token" && target === node && !target.open) target.showModal();
  };
  return [
    h("div", { key: "told", class: "told", role: "status", "aria-live": "polite" }, told && h("div", { class: `toast ${told.kind}` },
      icon(told.kind === "bad" ? "alert" : "check"), h("p", {}, told.text),
      h("button", { type: "button", class: "plain", "aria-label": t("told.dismiss"), on: { click: dismiss } }, icon("cross")))),
    open && h("dialog", { key: open.key, "aria-labelledby": "dialog-title", made, on: { cancel, close: closed } }, VIEWS[open.kind](open)),
  ];
}
