// Line charts in SVG: one time axis for several panels, one crosshair, gaps where nothing was measured.
import { get } from "../app/api.js";
import { h } from "./dom.js";
import { clockTime, duration, number } from "./format.js";
import { choice, lagLevel } from "./parts.js";
import { here, note } from "../app/router.js";
import { t } from "../app/text.js";

const WIDTH = 1000; // of the drawing's own units; the browser stretches it to what is there
const HEIGHT = 200;
const LIVE = 100; // places of the live chart
const SPANS = { live: null, "15m": 900, "1h": 3600, "1d": 86400, "7d": 604800 };

const perSecond = (value) => t("chart.perSecond", { n: number(value, 1) });
const PANELS = [
  { id: "flow", series: ["processed", "failed"], show: perSecond },
  { id: "enqueued", series: ["enqueued"], show: perSecond },
  { id: "lag", series: ["lag"], show: duration, alarm: true },
];
const PARTS = ["p50", "p95", "p99"]; // of the run times, of one queue
const RUNS = { id: "runs", series: [...PARTS].reverse(), show: duration };

/** The charts of a queue, with its run times, or of all; ticks() gives what the page itself saw every `every` seconds. */
export function createCharts({ queue, ticks, every, draw }) {
  const asked = here().parameters.span;
  const panels = queue === undefined ? PANELS : [...PANELS, RUNS];
  const charts = { span: Object.hasOwn(SPANS, asked) ? asked : "live", answer: null, loaded: 0, hover: null };

  const choose = (span) => {
    Object.assign(charts, { span, answer: null, loaded: 0, hover: null });
    charts.load().then(draw, draw);
    note({ span: span === "live" ? null : span });
    draw();
  };

  charts.load = async (signal) => {
    const { span, answer } = charts;
    const due = Math.min(30, Math.max(4, (answer?.step || 0) / 2)) * 1000;
    if (span === "live" && !charts.seed) charts.seed = await get("api/v1/history", { queue, span: "15m" }, signal);
    if (span === "live" || Date.now() - charts.loaded < due) return;
    const fresh = await get("api/v1/history", { queue, span }, signal);
    if (charts.span === span) Object.assign(charts, { answer: fresh, loaded: Date.now() });
  };

  charts.view = () => {
    const points = charts.span === "live" ? livePoints(ticks(), every, historyPoints(charts.seed)) : historyPoints(charts.answer);
    const under = charts.hover !== null && points[charts.hover];
    const seconds = SPANS[charts.span] ?? LIVE * every;
    const loading = charts.answer === null && charts.span !== "live";
    const move = (place) => {
      charts.hover = place;
      draw();
    };
    return h("section", { class: "section charts", key: "charts", "aria-label": t("chart.title") },
      h("header", { class: "section-head" }, h("h2", {}, t("chart.title")),
        h("p", { class: "chart-when" }, under ? clockTime(under.time, seconds) : t(`chart.span.${charts.span}.long`)),
        choice(t("chart.span"), Object.keys(SPANS).map((span) => [span, t(`chart.span.${span}`)]), charts.span, choose)),
      h("div", { class: panels.length > PANELS.length ? "panels with-runs" : "panels" }, panels.map((panel) => panelView(panel, points, charts.hover, move, seconds, loading))));
  };
  return charts;
}

/**
 * {time, processed, failed, enqueued, lag, p50, p95, p99} of each place, null where nothing is known; the newest at the right end. What was before the
 * page was opened is what the history says of that time.
 */
function livePoints(ticks, every, past) {
  const points = Array(Math.max(0, LIVE - ticks.length)).fill(null);
  const before = ticks.length ? points.map((_, place) => pointAt(past, ticks[0].time - (points.length - place) * every)) : points;
  return [...before, ...ticks.map(({ time, rates, lag, runs }) => ({ time, ...rates, lag, ...(runs ?? NO_RUNS) }))];
}

/** Of the step of the history that holds the time; null in a gap, and in the last step, which was not at its end when it was read. */
function pointAt(past, time) {
  const step = past.slice(0, -1).find((point) => point && time >= point.time && time < point.time + point.length);
  return step ? { ...step, time } : null;
}

function historyPoints(answer) {
  if (!answer) return [];
  return answer.points.map((point, place) => point && {
    time: answer.from + place * answer.step, length: answer.step, processed: point[0] / answer.step, failed: point[1] / answer.step, enqueued: point[2] / answer.step, lag: point[3],
    ...runsAt(answer.run_times, answer.from + place * answer.step),
  });
}

const NO_RUNS = Object.fromEntries(PARTS.map((part) => [part, null]));

/** The run times in the step that holds the time: {p50, p95, p99} in seconds; null of each: nothing ran then. */
function runsAt(runs, time) {
  const point = runs?.points[Math.floor((time - runs.from) / runs.step)];
  return point ? Object.fromEntries(PARTS.map((part, place) => [part, point[place]])) : NO_RUNS;
}

/** The run times now: of the present step, or of the one before it. */
export function latestRuns(answer) {
  const time = answer ? answer.from + (answer.points.length - 1) * answer.step : 0;
  const present = runsAt(answer?.run_times, time);
  return present.p50 === null && answer?.run_times ? runsAt(answer.run_times, time - answer.run_times.step) : present;
}

function panelView(panel, points, hover, move, span, loading) {
  const known = points.filter((point) => point && point[panel.series[0]] !== null);
  const top = niceTop(Math.max(0, ...known.flatMap((point) => panel.series.map((name) => point[name] || 0))), panel.id);
  const at = (hover !== null && points[hover]) || known.at(-1);
  const crosses = hover !== null && points.length > 1 ? [x(hover, points.length)] : [];
  const label = `${t(`chart.${panel.id}`)}: ${panel.series.map((name) => `${t(`chart.${name}`)} ${at ? panel.show(at[name]) : "–"}`).join(", ")}`;
  return h("figure", { class: `panel ${panel.id}`, key: panel.id, title: panel.id === "runs" ? t("chart.runs.hint") : null },
    h("figcaption", {}, panel.series.map((name) => h("span", { class: `legend ${name}`, key: name },
      h("svg", { class: "stroke", viewBox: "0 0 18 4", "aria-hidden": "true" }, h("line", { class: `line ${name}`, x1: 0, y1: 2, x2: 18, y2: 2 })),
      t(`chart.${name}`), h("b", { class: panel.alarm && at ? lagLevel(at[name]) : null }, at && at[name] !== null ? panel.show(at[name]) : "–")))),
    h("div", { class: "plot", tabindex: "0", role: "img", "aria-label": label, on: handlers(points.length, hover, move) },
      h("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true" },
        [1, HEIGHT / 2].map((height) => h("line", { class: "grid", x1: 0, x2: WIDTH, y1: height, y2: height })),
        h("line", { class: "ground", x1: 0, x2: WIDTH, y1: HEIGHT - 1, y2: HEIGHT - 1 }),
        h("path", { class: `area ${panel.series[0]}`, d: area(points, panel.series[0], top) }),
        panel.series.map((name) => h("path", { key: name, class: `line ${name}`, d: path(points, name, top) })),
        crosses.map((place) => h("line", { class: "cross", x1: place, x2: place, y1: 0, y2: HEIGHT }))),
      h("span", { class: "scale top" }, top ? panel.show(top) : ""),
      h("span", { class: "scale middle" }, top ? panel.show(top / 2) : ""),
      !known.length && h("span", { class: "plot-empty" }, t(loading ? "loading" : "chart.empty"))),
    h("div", { class: "axis" }, h("span", {}, t("time.ago", { duration: duration(span) })), h("span", {}, t("time.now"))));
}

function handlers(length, hover, move) {
  return {
    pointermove: ({ clientX, currentTarget }) => {
      const { left, width } = currentTarget.getBoundingClientRect();
      const place = Math.round(((clientX - left) / width) * (length - 1));
      if (place !== hover && place >= 0 && place < length) move(place);
    },
    pointerleave: () => move(null),
    blur: () => move(null),
    keydown: (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!step || !length) return;
      event.preventDefault();
      move(Math.min(length - 1, Math.max(0, (hover ?? length - 1) + step)));
    },
  };
}

const x = (place, length) => (place / Math.max(1, length - 1)) * WIDTH;
const y = (value, top) => HEIGHT - 1 - (top ? value / top : 0) * (HEIGHT - 6);

/** Runs of known places, each a list of "x,y". */
function runs(points, name, top) {
  const all = [[]];
  points.forEach((point, place) => {
    if (!point || point[name] === null) all.push([]);
    else all.at(-1).push(`${x(place, points.length).toFixed(1)},${y(point[name], top).toFixed(1)}`);
  });
  return all.filter((run) => run.length);
}

const path = (points, name, top) => runs(points, name, top).map((run) => `M${run.length > 1 ? run.join("L") : `${run[0]}l0.1,0`}`).join("");

const down = (place) => `${place.split(",")[0]},${HEIGHT}`;

const area = (points, name, top) =>
  runs(points, name, top).filter((run) => run.length > 1).map((run) => `M${down(run[0])}L${run.join("L")}L${down(run.at(-1))}Z`).join("");

const TIMES = [1, 2, 4, 10, 20, 60, 120, 240, 600, 1200, 3600, 7200, 14400, 43200, 86400];

/** The end of the scale: the next round figure; of lags, and of run times above a second, a round time. */
function niceTop(largest, id) {
  if (!largest) return 0;
  if ((id === "lag" || (id === "runs" && largest > 1)) && largest <= 86400) return TIMES.find((time) => time >= largest);
  const power = 10 ** Math.floor(Math.log10(largest));
  return [1, 2, 4, 6, 8, 10].map((step) => step * power).find((step) => step >= largest);
}
