// The search of the site and the menu on a phone. INDEX, mkdocs' index of the site, stands in front. All of it works in pages that are opened as
// files.
"use strict";

const LIMIT = 30; // results
const SHOWN = 200; // characters of a result's text

/** How well an entry fits all words: 0 when one is missing; a word in the title counts ten times. */
function fit(entry, words) {
  const title = entry.title.toLowerCase();
  const text = entry.text.toLowerCase();
  let sum = 0;
  for (const word of words) {
    const found = (title.includes(word) ? 10 : 0) + (text.includes(word) ? 1 : 0);
    if (!found) return 0;
    sum += found;
  }
  return sum;
}

/** The part of the text around the first word, without the index's HTML. */
function summary(entry, words) {
  const text = new DOMParser().parseFromString(entry.text, "text/html").body.textContent.replace(/\s+/g, " ");
  const at = Math.max(0, text.toLowerCase().indexOf(words[0]) - SHOWN / 4);
  return (at > 0 ? "… " : "") + text.slice(at, at + SHOWN);
}

function results(query) {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return [];
  return INDEX.docs.map(entry => ({ entry, fits: fit(entry, words) })).filter(each => each.fits)
    .sort((one, other) => other.fits - one.fits).slice(0, LIMIT)
    .map(({ entry }) => ({ location: entry.location, title: entry.title, text: summary(entry, words) }));
}

function show(query) {
  const list = document.getElementById("mkdocs-search-results");
  list.replaceChildren(...results(query).map(result => {
    const link = document.createElement("a");
    link.href = `${base_url}/${result.location}`;
    link.textContent = result.title;
    const heading = document.createElement("h3");
    heading.append(link);
    const text = document.createElement("p");
    text.textContent = result.text;
    const article = document.createElement("article");
    article.append(heading, text);
    return article;
  }));
  if (!list.firstChild) list.textContent = query ? list.dataset.noResultsText : "";
}

const field = document.getElementById("mkdocs-search-query");
if (field && document.getElementById("mkdocs-search-results")) {
  field.value = new URLSearchParams(location.search).get("q") ?? "";
  field.addEventListener("input", () => show(field.value));
  show(field.value);
}

document.querySelector("[data-toggle=wy-nav-top]")?.addEventListener("click", () => {
  for (const part of document.querySelectorAll("[data-toggle=wy-nav-shift]")) part.classList.toggle("shift");
});
