// The words of the page in the reader's language: flat files, one a language, each text by its key.
import en from "./en.js";

const languages = { en };
const wanted = (navigator.languages || ["en"]).map((language) => language.slice(0, 2)).find((language) => languages[language]) || "en";
const plural = new Intl.PluralRules(wanted);
document.documentElement.lang = wanted;

/** The text of `key` with its {places} filled. A text may be {one, other}: then `values.n` (or values.count) chooses. */
export function t(key, values = {}) {
  let text = languages[wanted][key] ?? en[key] ?? key;
  if (typeof text === "object") text = text[plural.select(values.count ?? values.n)] ?? text.other;
  return text.replace(/\{(\w+)\}/g, (_, name) => values[name] ?? "");
}
