// Texts for people: numbers, durations, times, and bytes that nobody should trust.
import { language, t } from "../app/text.js";

let made = null; // what writes numbers and times, of the language that it was made for

function intl() {
  if (made?.language !== language) {
    const figures = (least, most) => new Intl.NumberFormat(language, { minimumFractionDigits: least, maximumFractionDigits: most, signDisplay: "negative" });
    const times = (options) => new Intl.DateTimeFormat(language, options);
    made = {
      language, count: new Intl.NumberFormat(language), upTo: [0, 1, 2].map((digits) => figures(0, digits)), fixed: [0, 1, 2].map((digits) => figures(digits, digits)),
      absolute: times({ dateStyle: "medium", timeStyle: "medium" }), clock: times({ timeStyle: "medium" }),
      day: times({ month: "short", day: "numeric", hour: "2-digit", minute: "2-digit" }),
    };
  }
  return made;
}

const POWERS = 4; // of a thousand, which have a suffix

/** 999, 1.23K, 12.3M: three digits from a thousand on. Below, at most `digits` behind the point. */
export function number(value, digits = 0) {
  if (!Number.isFinite(value)) return "–";
  let power = 0;
  let rest = value;
  while (Math.abs(rest) >= 999.5 && power < POWERS) {
    rest /= 1000;
    power += 1;
  }
  const size = Math.abs(rest);
  if (power === 0) return intl().upTo[size >= 99.5 ? 0 : digits].format(rest);
  return t(`number.${power}`, { n: intl().fixed[size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2].format(rest) });
}

/** Bytes in a unit that fits. */
export function inBytes(bytes) {
  const power = Math.min(4, Math.floor(Math.log2(Math.max(1, bytes)) / 10));
  return `${number(bytes / 1024 ** power, 1)} ${["B", "KiB", "MiB", "GiB", "TiB"][power]}`;
}

export const count = (value) => intl().count.format(value);

const UNITS = [["y", 31_536_000], ["d", 86400], ["h", 3600], ["m", 60], ["s", 1]];
const unit = (name, n) => t(`unit.${name}`, { n });

/** Two units: "3 d 4 h", "12 m 5 s"; below a minute one is enough. */
export function duration(seconds) {
  if (!Number.isFinite(seconds)) return "–";
  if (seconds <= 0) return unit("s", 0);
  if (seconds < 0.9995) return unit("ms", Math.max(1, Math.round(seconds * 1000)));
  const whole = Math.round(seconds);
  const first = UNITS.findIndex(([, size]) => whole >= size);
  const [large, size] = UNITS[first];
  const [small, smallSize] = UNITS[first + 1] || [];
  const rest = small ? Math.floor((whole % size) / smallSize) : 0;
  return unit(large, Math.floor(whole / size)) + (rest ? ` ${unit(small, rest)}` : "");
}

const TIME = /\b(is due in|became due|its last death was) (\d+\.\d) s\b/; // once, as the core writes it; a node's name, which may follow, stays as it is

/** What the core says of an id, as a sentence with its time as a duration. */
export function sentence(words) {
  const text = shown(words).replace(TIME, (_, due, seconds) => `${due} ${duration(Number(seconds))}`);
  return text && text[0].toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".");
}

let skew = 0; // of the browser's clock against Redis'

export const setClock = (serverNow) => (skew = serverNow - Date.now() / 1000);
export const now = () => Date.now() / 1000 + skew;

/** "5 m 3 s ago", "in 12 s". */
export function relative(time) {
  const seconds = time - now();
  if (Math.abs(seconds) < 1) return t("time.now");
  return t(seconds > 0 ? "time.in" : "time.ago", { duration: duration(Math.abs(seconds)) });
}

export const absoluteTime = (time) => intl().absolute.format(time * 1000);
export const clockTime = (time, span) => (span > 86400 ? intl().day : intl().clock).format(time * 1000);
export const isoTime = (time) => new Date(time * 1000).toISOString();

/** Control characters but the newline, what turns the direction of writing, and what has no width. */
const DECEIVING = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;

/** Letters that joiners without a width belong between: of Arabic and the writings of India, where they change how a word looks and reads. */
const JOINED = "[\\p{sc=Arab}\\p{sc=Syrc}\\p{sc=Deva}\\p{sc=Beng}\\p{sc=Guru}\\p{sc=Gujr}\\p{sc=Orya}\\p{sc=Taml}\\p{sc=Telu}\\p{sc=Knda}\\p{sc=Mlym}\\p{sc=Sinh}]";
const AFTER = { "\u200c": new RegExp(`^${JOINED}`, "u"), "\u200d": new RegExp(`^(?:${JOINED}|\\p{Extended_Pictographic})`, "u") };
const LETTER = new RegExp(`${JOINED}$`, "u");
const EMOJI = /\p{Extended_Pictographic}\ufe0f?\p{Emoji_Modifier}?$/u;

/** Whether the joiner there is writing and hides nothing: between two such letters, or one that makes one emoji of two. */
function joins(text, place) {
  const [before, after] = [text.slice(Math.max(0, place - 6), place), text.slice(place + 1, place + 3)];
  const letters = LETTER.test(before) && !/^\p{Extended_Pictographic}/u.test(after);
  return Boolean(AFTER[text[place]]?.test(after)) && (letters || EMOJI.test(before));
}

/** A text of the API: a string, or {"base64"} for bytes that are no UTF-8. Shown with all that could deceive made visible. */
export function shown(text) {
  if (text && text.base64 !== undefined) return `base64:${text.base64}`;
  return String(text ?? "").replace(DECEIVING, (c, place, whole) => (joins(whole, place)) ? c : `\\u{${c.charCodeAt(0).toString(16)}}`);
}

const TOKEN = /"(?:[^"\\]|\\.)*"?|[[\]{}:,]|[^\s"[\]{}:,]+/gs; // of JSON: strings, also one that was cut; signs; numbers and words
const STEP = "  ";

const CUT = 4000; // characters from which on a text may have been cut

function isJson(text) {
  try {
    return typeof JSON.parse(text) === "object";
  } catch {
    return text.length >= CUT && /^[[{]/.test(text);
  }
}

const LEFTWARD = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefe\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u; // letters that are written from right to left

/**
 * A JSON object or array with a line for each member, also where it was cut; its numbers and texts as they are written. Of another text: shown(text).
 * In parts: every second one is a text with letters that are written from right to left, which is to be isolated. Else they would swap what stands around them.
 */
export function indented(text) {
  if (typeof text !== "string" || !isJson(text)) return [shown(text)];
  const parts = [""];
  let [depth, before] = [0, ""];
  const add = (some) => { parts[parts.length - 1] += some; };
  const line = () => `\n${STEP.repeat(depth)}`;
  for (const [token] of text.matchAll(TOKEN)) {
    const opened = before === "{" || before === "[";
    if (token === "}" || token === "]") {
      depth = Math.max(0, depth - 1);
      add(opened ? token : line() + token);
    } else if (token === "," || token === ":") add(token === "," ? token : ": ");
    else {
      if (opened || before === ",") add(line());
      if (LEFTWARD.test(token)) parts.push(token, "");
      else add(token);
      if (token === "{" || token === "[") depth += 1;
    }
    before = token;
  }
  return parts.map(shown);
}

/** The first `limit` units of a string, or one less: a character of two units, such as an emoji, is not cut. */
export const beginning = (text, limit) => text.slice(0, limit).replace(/[\ud800-\udbff]$/, "");

/** shown(text) on one line, cut to `limit` characters. */
export function oneLine(text, limit = 160) {
  const line = shown(text).split("\n");
  const cut = line[0].length > limit ? `${beginning(line[0], limit)}…` : line[0];
  return line.length > 1 && cut === line[0] ? `${cut} ↵ …` : cut;
}

/** Percent-encoded for a path or a query, bytes included. */
export function encoded(text) {
  if (text && text.base64 !== undefined) {
    return [...atob(text.base64)].map((c) => `%${c.charCodeAt(0).toString(16).padStart(2, "0")}`).join("");
  }
  return encodeURIComponent(String(text).replace(/[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g, "\ufffd"));
}

/** The other way round; what is no UTF-8 comes as {"base64"}. */
export function decoded(text) {
  const plain = text.replace(/\+/g, " ");
  try {
    return decodeURIComponent(plain);
  } catch {
    return { base64: btoa(plain.replace(/%([0-9a-f]{2})/gi, (_, hex) => String.fromCharCode(parseInt(hex, 16)))) };
  }
}

/** A text as a key of maps and of rows. */
export const keyOf = (text) => (text && text.base64 !== undefined ? `b${text.base64}` : `t${text}`);
