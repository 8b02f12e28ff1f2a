// Small pieces that several pages are made of.
import { ASSETS, address } from "../app/api.js";
import { h } from "./dom.js";
import { absoluteTime, count, duration, isoTime, number, oneLine, relative, shown } from "./format.js";
import { session } from "../app/session.js";
import { t } from "../app/text.js";

export const icon = (name) => h("svg", { class: "icon", "aria-hidden": "true" }, h("use", { href: `${ASSETS}static/icons.svg#${name}` }));

export const link = (path, parameters, ...content) => h("a", { href: address(path, parameters) }, ...content);

/** An id, a name: isolated, so that its direction does not spill over. */
export const name = (text, limit = 80) => h("bdi", { class: "name", title: shown(text).length > limit ? shown(text) : null }, oneLine(text, limit));

export const idLink = (queue, id, limit) => link("id", { queue, id }, name(id, limit));

/** A number in short, exact in its title; zero is quiet, and what should be zero has a colour when it is not. */
export function figure(value, digits, alarm = "") {
  const short = number(value, digits);
  const title = Number.isFinite(value) && value >= 1000 ? count(Math.round(value)) : null;
  return h("span", { class: value ? `figure ${alarm}`.trimEnd() : "figure zero", title }, short);
}

/** Of the figures of a queue, those that should be zero. */
export const ALARMS = { dead: "bad", retries: "warn" };

/** The time as the reader wants it; the other way in the title. */
export function time(seconds) {
  if (!seconds) return dash();
  const [text, title] = session.absolute ? [absoluteTime(seconds), relative(seconds)] : [relative(seconds), absoluteTime(seconds)];
  return h("time", { datetime: isoTime(seconds), title }, text);
}

/** How late a queue is, in three steps that also differ in shape. */
export const lagLevel = (seconds) => (seconds >= 900 ? "bad" : seconds >= 60 ? "warn" : "fine");

export function lag(seconds) {
  const level = lagLevel(seconds);
  const mark = level !== "fine" && icon(level === "bad" ? "alert" : "clock");
  return h("span", { class: `lag ${level} ${seconds ? "" : "zero"}`, title: t(`lag.${level}`) }, mark, duration(seconds));
}

export const badge = (kind, symbol, text, title) => h("span", { class: `badge ${kind}`, title }, symbol && icon(symbol), text);

const STATES = {
  waiting: ["plain", "dot"], delayed: ["quiet", "clock"], running: ["good", "play"], parked: ["quiet", "pause"], dead: ["bad", "cross"],
  retrying: ["warn", "again"], unproven: ["warn", "again"], suspect: ["bad", "alert"], scheduled: ["quiet", "clock"], unknown: ["quiet", "help"],
};

export function state(word) {
  const [kind, symbol] = STATES[word] || ["plain", "dot"];
  return badge(kind, symbol, t(`state.${word}`), t(`state.${word}.hint`));
}

export function queueBadges(queue) {
  const paused = queue.paused >= queue.shards ? t("badge.paused") : t("badge.partly", { n: queue.paused, of: queue.shards });
  return [
    queue.paused > 0 && badge("warn", "pause", paused, t("badge.paused.hint")),
    queue.consumers === 0 && badge("bad", "alert", t("badge.idle"), t("badge.idle.hint")),
    queue.refused > 0 && badge("warn", "alert", t("badge.refused", { n: number(queue.refused) }), t("badge.refused.hint")),
  ];
}

/** Figures side by side: [label, what is shown, hint or address]. */
export function strip(entries) {
  return h("dl", { class: "strip" }, entries.map(([label, value, href, hint]) =>
    h("div", { key: label, title: hint }, h("dt", {}, href ? h("a", { href }, label) : label), h("dd", {}, value))));
}

/** `symbol` stands before the label, `after` behind it. */
export const button = (label, action, { symbol, after, kind = "", ...attributes } = {}) =>
  h("button", { type: "button", class: `button ${kind}`, on: { click: action }, ...attributes }, symbol && icon(symbol), h("span", {}, label), after && icon(after));

export const section = (title, extra, ...content) =>
  h("section", { class: "section", key: title }, h("header", { class: "section-head" }, h("h2", {}, title), extra), ...content);

export const empty = (title, text, symbol = "check", ...more) =>
  h("div", { class: "empty" }, icon(symbol), title && h("p", { class: "empty-title" }, title), text && h("p", {}, text), ...more);

/** A text that scrolls in its place: with the keyboard, too. */
export const block = (label, text, look = null) => h("pre", { class: look, tabindex: "0", role: "group", "aria-label": label }, text);

/** Nothing to show in a cell. */
export const dash = (title) => h("span", { class: "zero", title }, "–");

export const note = (text) => h("p", { class: "note" }, icon("info"), text);

export const slash = () => h("span", { "aria-hidden": "true" }, "/");

/** What stands where a page will be: of about its height, so that nothing jumps. */
export const skeleton = (rows = 8) =>
  h("div", { class: "skeleton", "aria-busy": "true", "aria-label": t("loading") }, Array.from({ length: rows }, (_, key) => h("div", { key })));

/** Choice of one among few, as buttons. */
export const choice = (label, options, chosen, choose) =>
  h("div", { class: "choice", role: "group", "aria-label": label }, options.map(([value, text]) =>
    h("button", { type: "button", key: value, "aria-pressed": String(value === chosen), on: { click: () => choose(value) } }, text)));

export const pageHead = (title, extra, above) =>
  h("header", { class: "page-head" }, above, h("div", { class: "page-title" }, h("h1", { tabindex: "-1" }, title), extra));

/** "41.2K of 1M seen": what a bounded reading did not reach is said, never hidden. */
export const seen = ({ seen: n, of }) => n < of && note(t("seen", { n: number(n), of: number(of) }));
