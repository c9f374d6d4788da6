/* The map: where the classes lie, and from which seen classes the selected one was made. */

import { api } from "./api.js";
import { $, number, reducedMotion } from "./dom.js";
import { placeLabels } from "./labels.js";
import { caughtUp, detailsOf, on, select, state } from "./state.js";

const LABELLED = 40; // with more classes than this, only added and selected ones carry their name
const CONFIG = { displayModeBar: false, responsive: true, doubleClick: false };

let map = null;
let stale = false; // whether what is in sight was chosen for other places
let sources = []; // of the selected class
let instance = null; // what was classified: {label, place}
let request = 0;
let drawing = Promise.resolve();

export function startMap() {
  on("revision", load);
  on("select", showSources);
  on("answer", showInstance);
  $("zoom-in").addEventListener("click", () => zoom(1 / 1.4));
  $("zoom-out").addEventListener("click", () => zoom(1.4));
  $("zoom-fit").addEventListener("click", () => draw({ fit: true }));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => draw());
}

async function load() {
  const mine = ++request;
  try {
    const answer = await caughtUp(api.map, state.model.revision);
    if (mine !== request) return; // the classes have changed again
    const moved = map !== null && hasMoved(map.points, answer.points);
    stale ||= map === null || moved;
    if (moved && instance?.revision < answer.revision) instance = null; // it lies elsewhere, too
    map = answer;
  } catch (error) {
    $("map-note").textContent = error.message;
    return;
  }
  const [a, b] = map.explained;
  $("map-note").textContent =
    `The two axes hold ${number(100 * (a + b), 0)} % of how the seen classes differ; ` +
    "describing a class moves no other. Click a class to see what it is made of.";
  const added = map.points.filter((point) => !point.seen).map((point) => point.name);
  const n = map.points.length;
  $("plot").setAttribute("aria-label",
    `Map of ${n} classes; added: ${added.slice(0, 10).join(", ") || "none"}. ` +
    "The table of classes selects them by keyboard.");
  // Selecting again brings what is shown of the class up to date.
  if (state.selected === null) await draw();
  else select(map.points.some((point) => point.name === state.selected) ? state.selected : null);
}

/** Whether classes lie elsewhere than before: an example that is learned may change all distances. */
function hasMoved(before, now) {
  const old = new Map(before.map((point) => [point.name, point]));
  const width = Math.max(...before.flatMap(({ x, y }) => [Math.abs(x), Math.abs(y)]));
  return now.some(({ name, x, y }) => old.has(name)
    && Math.hypot(x - old.get(name).x, y - old.get(name).y) > 0.05 * width);
}

async function showSources(name) {
  sources = [];
  if (name) {
    try {
      const details = await detailsOf(name);
      sources = details.sources.filter((source) => source.weight !== 0);
    } catch {
      sources = []; // the panel of details says what went wrong
    }
  }
  if (map === null || name !== state.selected) return;
  const plain = state.fresh !== name;
  const at = name && map.points.find((point) => point.name === name);
  // A class that was just added must be in sight.
  await draw({ fit: !plain && at && !inSight(at) });
  if (at && !plain) {
    state.fresh = null;
    pulse();
  }
}

async function showInstance(answer) {
  instance = answer?.place ? answer : null;
  if (map === null) return;
  await draw({ fit: Boolean(instance) && !inSight({ x: instance.place[0], y: instance.place[1] }) });
}

function colors() {
  const style = getComputedStyle(document.documentElement);
  const read = (name) => style.getPropertyValue(name).trim();
  return { text: read("--text"), soft: read("--soft"), seen: read("--seen"), accent: read("--accent"),
    grid: read("--line"), card: read("--card"), font: read("--font") };
}

/** Places of the names that are shown, by class; the selected class chooses first. */
function places(named, x, y) {
  const box = $("plot").getBoundingClientRect();
  const pixel = (value, [low, high]) => (value - low) / (high - low);
  const points = [...map.points]
    .sort((a, b) => (b.name === state.selected) - (a.name === state.selected) || a.seen - b.seen);
  const found = placeLabels(points.map((point) => ({
    x: box.width * pixel(point.x, x),
    y: box.height * (1 - pixel(point.y, y)),
    radius: point.name === state.selected ? 15 : 7,
    name: named(point) ? point.name : "",
  })), box.width, box.height);
  return new Map(points.map((point, i) => [point, found[i]]));
}

function traces(color, x, y) {
  const at = new Map(map.points.map((point) => [point.name, point]));
  const chosen = at.get(state.selected);
  const linked = new Set(sources.map((source) => source.label));
  const few = map.points.length <= LABELLED;
  const fewAdded = map.points.filter((point) => !point.seen).length <= LABELLED;
  const named = (point) =>
    few || point === chosen || linked.has(point.name) || (fewAdded && !point.seen);
  const placed = places(named, x, y);
  const group = (points, marker) => ({
    type: "scatter", mode: "markers+text", cliponaxis: false,
    textposition: points.map((point) => placed.get(point)),
    x: points.map((point) => point.x), y: points.map((point) => point.y),
    text: points.map((point) => (named(point) ? escape(point.name) : "")),
    customdata: points.map((point) => point.name),
    hovertext: points.map((point) => `${escape(point.name)} (${point.seen ? "seen" : "added"})`),
    hoverinfo: "text", textfont: { size: 12, color: color.text, family: color.font,
      shadow: `0 0 2px ${color.card}, 0 0 3px ${color.card}, 0 0 4px ${color.card}` }, marker,
  });
  const size = (base) => (points) => points.map((point) => (point === chosen ? base + 5 : base));
  const seen = map.points.filter((point) => point.seen);
  const added = map.points.filter((point) => !point.seen);
  const edge = { color: color.card, width: 1.5 };
  return [
    halo(chosen, color),
    ...(chosen ? lines(chosen, at, color) : []),
    group(seen, { symbol: "circle", size: size(10)(seen), color: color.seen, opacity: 1, line: edge }),
    group(added, { symbol: "diamond", size: size(13)(added), color: color.accent, opacity: 1, line: edge }),
    ...(instance ? classified(at.get(instance.label), color) : []),
  ];
}

/** A cross where the classified instance lies, and a dotted line to the class it was given. */
function classified(given, color) {
  const [x, y] = instance.place;
  const line = { type: "scatter", mode: "lines", hoverinfo: "skip", name: "instance line",
    x: given ? [x, given.x] : [], y: given ? [y, given.y] : [],
    line: { color: color.text, width: 1.5, dash: "dot" } };
  const cross = { type: "scatter", mode: "markers", name: "instance", x: [x], y: [y], hoverinfo: "text",
    hovertext: [`what was classified: ${escape(instance.label)}`],
    marker: { symbol: "cross-thin", size: 13, line: { width: 3, color: color.text } } };
  return [line, cross];
}

function halo(chosen, color) {
  return { type: "scatter", mode: "markers", hoverinfo: "skip", x: chosen ? [chosen.x] : [],
    y: chosen ? [chosen.y] : [], marker: { symbol: "circle-open", size: 30, color: color.accent,
      line: { width: 2 } } };
}

function lines(chosen, at, color) {
  const strongest = Math.max(...sources.map((source) => Math.abs(source.weight)), 1e-12);
  // A seen class is made mostly of itself, so that its lines are thin.
  const others = sources.filter((source) => at.has(source.label) && source.label !== chosen.name);
  return others.map((source) => {
    const end = at.get(source.label);
    const share = Math.abs(source.weight) / strongest;
    return { type: "scatter", mode: "lines", hoverinfo: "skip", name: `source ${source.label}`,
      x: [chosen.x, end.x], y: [chosen.y, end.y], opacity: 0.3 + 0.6 * share,
      line: { color: source.weight < 0 ? color.soft : color.accent, width: 0.8 + 5 * share,
        dash: source.weight < 0 ? "dash" : "solid" } };
  });
}

/** Plotly reads a few tags in text; a class name is text and nothing else. */
function escape(name) {
  return name.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}

function ranges() {
  const fit = (values) => {
    const low = Math.min(...values);
    const high = Math.max(...values);
    const room = 0.14 * (high - low || 1);
    return [low - room, high + room];
  };
  const [ownX, ownY] = instance ? [[instance.place[0]], [instance.place[1]]] : [[], []];
  return [fit([...map.points.map((point) => point.x), ...ownX]),
    fit([...map.points.map((point) => point.y), ...ownY])];
}

function inSight(point) {
  const layout = $("plot").layout;
  if (!layout) return false;
  const within = (value, [low, high]) => value > low && value < high;
  return within(point.x, layout.xaxis.range) && within(point.y, layout.yaxis.range);
}

function draw(options = {}) {
  drawing = drawing.then(() => drawNow(options)).catch((error) => console.error(error));
  return drawing;
}

async function drawNow({ fit = false } = {}) {
  if (map === null || !map.points.length) return;
  if (!window.Plotly) {
    $("map-note").textContent = "The map needs the package plotly where the service runs.";
    return;
  }
  const plot = $("plot");
  const color = colors();
  const [x, y] = fit || stale || !plot.layout ? ranges() : [plot.layout.xaxis.range, plot.layout.yaxis.range];
  stale = false;
  const axis = (range) => ({ range: [...range], showticklabels: false, showgrid: false, zeroline: false,
    linecolor: color.grid, mirror: true, ticks: "", showline: true });
  const layout = {
    xaxis: axis(x), yaxis: axis(y), showlegend: false, margin: { l: 1, r: 1, t: 1, b: 1 },
    paper_bgcolor: color.card, plot_bgcolor: color.card, hovermode: "closest", autosize: true,
    // On a touch screen a finger on the map scrolls the page; the buttons zoom.
    dragmode: matchMedia("(pointer: coarse)").matches ? false : "pan",
    hoverlabel: { bgcolor: color.text, bordercolor: color.text,
      font: { color: color.card, family: color.font, size: 13 } },
  };
  const starts = !plot.layout;
  await window.Plotly.react(plot, traces(color, x, y), layout, CONFIG);
  if (starts) plot.on("plotly_click", ({ points }) => {
    if (points[0].customdata) select(points[0].customdata);
  });
}

function zoom(factor) {
  const layout = $("plot").layout;
  if (!layout) return;
  const scaled = ([low, high]) => {
    const middle = (low + high) / 2;
    const half = (factor * (high - low)) / 2;
    return [middle - half, middle + half];
  };
  window.Plotly.relayout($("plot"), { "xaxis.range": scaled(layout.xaxis.range),
    "yaxis.range": scaled(layout.yaxis.range) });
}

/** Two rings run out from the selected class. */
function pulse() {
  if (reducedMotion()) return;
  const start = performance.now();
  const step = (now) => {
    const t = Math.min((now - start) / 1600, 1);
    const phase = (2 * t) % 1;
    const size = t === 1 ? 30 : 18 + 50 * phase;
    window.Plotly.restyle($("plot"), { "marker.size": size, opacity: t === 1 ? 1 : 1 - phase }, [0]);
    if (t < 1) requestAnimationFrame(step);
  };
  requestAnimationFrame(step);
}
