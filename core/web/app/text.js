// The words of the page in the reader's language: flat files, one a language, each text by its key. index.html names this module before
// app.js, so that the words are on their way while the rest still comes.
import { store, stored } from "./storage.js";

/** Each language by its own name; its texts are in locales/, in the file of its code. Another language is an entry here and that file. */
export const LANGUAGES = { en: "English", de: "Deutsch", es: "Español", fr: "Français", ja: "日本語" };

/** The code of the one in force. */
export let language = null;
let [texts, plural, asked] = [{}, null, null];

/** Speaks it from now on. Rejects when its file does not come: then the page goes on in the one it has. */
async function speak(code) {
  asked = code;
  const { default: loaded } = await import(`../locales/${code}.js`);
  if (asked !== code) return; // another one was asked for meanwhile
  [language, texts, plural] = [code, loaded, new Intl.PluralRules(code)];
  document.documentElement.lang = code;
}

/** The same, from page to page. */
export async function choose(code) {
  await speak(code);
  if (language === code) store("language", code);
}

/** The text of `key` with its {places} filled. A text may have plural forms: then `values.n` (or values.count) chooses; 1 is always `one`, if there is one. */
export function t(key, values = {}) {
  let text = texts[key] ?? key;
  if (typeof text === "object") text = pluralForm(text, values.count ?? values.n);
  return text.replace(/\{(\w+)\}/g, (_, name) => values[name] ?? "");
}

const pluralForm = (forms, n) => forms[n === 1 ? "one" : plural.select(n)] ?? forms.other;

const known = (code) => Object.hasOwn(LANGUAGES, code);
const preferred = (navigator.languages || []).map((tag) => tag.split("-")[0]);
await speak([stored("language"), ...preferred].find(known) ?? "en");
