/* Classify: an image, a text, a drawing, a sample or a feature vector; the answer and its reasons. */

import { api, SURE } from "./api.js";
import { $, badge, bars, el, number, parseNumbers, say, shortNumber } from "./dom.js";
import { startDraw } from "./draw.js";
import { on, select, state, tellAnswer } from "./state.js";
import { startTabs } from "./tabs.js";
import { teachForm } from "./teach.js";

let last = null; // what was classified last: {ask, teach, truth, label}; asked again when classes change
let tab = null;
const asked = new Map(); // the last question of each tab
let request = 0;

export function startPredict() {
  const { accepts, n_samples: nSamples, n_features: nFeatures, limits } = state.model;
  const tabs = [
    accepts.images && ["image", "Image"],
    accepts.texts && ["text", "Text"],
    accepts.pixels && ["draw", "Draw"],
    nSamples > 0 && ["samples", "Samples"],
    ["vector", "Vector"],
  ].filter(Boolean);
  $("step-classify").textContent = { image: "an image of something", text: "a sentence", draw: "a drawing or a sample",
    samples: "a sample", vector: "a feature vector" }[tabs[0][0]];
  startTabs($("classify-tabs"), tabs, show);
  if (accepts.pixels) startDraw(accepts.pixels, (features) => (features ? classify(features) : clear()));
  if (accepts.images) startImage(limits);
  if (accepts.texts) startText(limits);
  $("features-label").textContent = `Feature vector: ${nFeatures} numbers`;
  $("vector-form").addEventListener("submit", (event) => {
    event.preventDefault();
    try {
      classify(parseNumbers($("features").value, nFeatures, "A feature vector"));
    } catch (error) {
      fail(error);
    }
  });
  on("revision", () => last && ask(last));
}

/** Each tab has its own question and answer. */
function show(name) {
  tab = name;
  say($("classify-error"), "");
  if (asked.has(name)) ask(asked.get(name));
  else clear();
  if (name === "samples") loadSamples();
}

function clear() {
  last = null;
  asked.delete(tab);
  request++;
  say($("classify-error"), "");
  $("result").removeAttribute("aria-busy");
  $("result").replaceChildren(el("p", { class: "empty" }, "The answer and its reasons will stand here."));
  tellAnswer(null);
}

/** Say what went wrong; the answer to an earlier question goes. */
function fail(error) {
  clear();
  say($("classify-error"), error.message);
}

const classify = (features, truth = null) =>
  ask({ ask: () => api.predict(features, state.model), teach: (name) => api.grow(name, features),
    truth, label: null });

async function ask(question) {
  const mine = ++request;
  last = question;
  asked.set(tab, question);
  $("result").setAttribute("aria-busy", true);
  if ($("result").querySelector(".empty")) {
    $("result").replaceChildren(el("p", { class: "empty" }, "Looking at it …"));
  }
  try {
    const answer = await question.ask();
    const prediction = answer.predictions[0];
    const known = await isKnown(question.truth, prediction.top);
    if (mine !== request) return; // something else has been asked meanwhile
    say($("classify-error"), "");
    $("result").removeAttribute("aria-busy");
    render(prediction, question, known);
    const before = question.label;
    const { label } = prediction.top[0];
    question.label = label;
    tellAnswer({ label, before, place: prediction.explanation?.place ?? null,
      revision: answer.revision });
  } catch (error) {
    if (mine === request) fail(error);
  }
}

function render(prediction, question, known) {
  const { truth, label: before } = question;
  const { top, explanation } = prediction;
  const { label, seen } = top[0]; // of a rejected row, the class it looks most like
  const rejected = prediction.label === null;
  const notes = [];
  const note = (kind, text) => notes.push(el("span", { class: `note ${kind}` }, text));
  if (rejected) note("changed", `It looks like none of the known classes. The nearest is “${label}”.`);
  if (truth === label && !rejected) note("right", "That is right.");
  else if (truth !== null) {
    note("wrong", `It is in fact “${truth}”${known ? "" : ", a class the model does not have yet"}.`);
  }
  if (before !== null && before !== label) note("changed", `It was “${before}” before the classes changed.`);
  const best = rejected
    ? el("p", { class: "answer" }, el("span", { class: "big" }, "none of these"))
    : el("p", { class: "answer" },
        el("button", { type: "button", class: "link big", onclick: () => select(label) }, label), badge(seen));
  const parts = [best, el("p", { class: "notes" }, ...notes), ...chances(prediction)];
  const teach = teachForm(question);
  if (teach) parts.push(teach);
  if (explanation) parts.push(why(label, top, explanation));
  $("result").replaceChildren(...parts);
}

/** The best classes with their probabilities and the set; with scores where a model has none. */
function chances({ top, set }) {
  const sure = top[0].probability != null;
  const rows = top.map((item, i) => ({ label: item.label, seen: item.seen, strong: i === 0,
    value: sure ? 100 * item.probability : item.score, digits: sure ? 1 : 3,
    onclick: () => select(item.label) }));
  const parts = [bars(rows, sure ? "Probabilities in percent, best first" : "Scores, best first")];
  if (set?.length) {
    const named = set.slice(0, 8).map((name) => `“${name}”`).join(", ");
    const more = set.length > 8 ? ` and ${set.length - 8} more` : "";
    parts.push(el("p", { class: "hint" },
      `In percent. With ${100 * SURE.coverage} % it is ${set.length === 1 ? "" : "one of "}${named}${more}.`));
  }
  return parts;
}

/** Whether the model has the true class of a sample. */
async function isKnown(name, top) {
  if (name === null || top.some((item) => item.label === name)) return true;
  const found = await api.classes({ query: name, limit: 100 });
  return found.n_matching > 100 || found.classes.some((item) => item.name === name);
}

function why(label, top, { margin, pulls, attributes }) {
  const columns = el("div", { class: "columns" });
  if (pulls.length) {
    const rows = pulls.slice(0, 5).map((pull) => ({ label: pull.label, value: pull.weight,
      onclick: () => select(pull.label) }));
    columns.append(el("div", {}, el("h4", {}, "Seen classes that pull"),
      bars(rows, "Seen classes and what each adds to the score")));
  }
  if (attributes.length) {
    const rows = attributes.map((item) => ({ label: item.name, detail: `= ${shortNumber(item.value)}`,
      value: item.weight }));
    columns.append(el("div", {}, el("h4", {}, "Its attributes, for and against"),
      bars(rows, "Attributes and what each adds to the score")));
  }
  const ahead = top.length > 1 && Number.isFinite(margin)
    ? `Ahead of “${top[1].label}” by ${number(margin, 3)}.` : "";
  return el("details", { open: true, class: "why" }, el("summary", {}, "Why ", el("strong", {}, label)),
    el("p", { class: "hint" }, ahead), columns);
}

/* Texts */

function startText({ text_length: longest }) {
  $("sentence").maxLength = longest;
  const take = () => {
    const text = $("sentence").value.trim();
    if (!text) return fail(new Error("Write a sentence to classify."));
    return ask({ ask: () => api.predictText(text, state.model),
      teach: (name) => api.growByTexts(name, [text]), truth: null, label: null });
  };
  $("sentence-form").addEventListener("submit", (event) => {
    event.preventDefault();
    take();
  });
  $("sentence").addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault(); // as in a chat: Enter sends, Shift+Enter begins a line
    take();
  });
}

/* Images */

function startImage(limits) {
  const mb = limits?.image_bytes ? `up to ${number(limits.image_bytes / 2 ** 20, 0)} MB` : "";
  $("image-hint").textContent = ["JPEG, PNG and other usual formats", mb].filter(Boolean).join(", ");
  const take = (file) => {
    if (!file) return;
    const preview = $("image-preview");
    URL.revokeObjectURL(preview.src);
    preview.onload = () => (preview.hidden = false);
    preview.onerror = () => (preview.hidden = true);
    preview.src = URL.createObjectURL(file);
    ask({ ask: () => api.predictImage(file, state.model), teach: (name) => api.growByImages(name, [file]),
      truth: null, label: null });
  };
  const drop = $("drop");
  $("file").addEventListener("change", () => take($("file").files[0]));
  drop.addEventListener("dragover", (event) => {
    event.preventDefault();
    drop.classList.add("over");
  });
  drop.addEventListener("dragleave", () => drop.classList.remove("over"));
  drop.addEventListener("drop", (event) => {
    event.preventDefault();
    drop.classList.remove("over");
    take(event.dataTransfer.files[0]);
  });
  document.addEventListener("paste", (event) => take([...event.clipboardData.files][0]));
}

/* Samples */

let samples = null;

async function loadSamples() {
  if (samples !== null) return;
  try {
    samples = (await api.samples()).samples;
  } catch (error) {
    fail(error);
    return;
  }
  const labels = [...new Set(samples.map((sample) => sample.label))];
  $("sample-label").replaceChildren(el("option", { value: "" }, "all classes"),
    ...labels.map((label) => el("option", { value: label }, label)));
  $("sample-label").addEventListener("change", () => {
    showSamples();
    clear(); // the sample that was picked is no longer shown as picked
  });
  $("samples").addEventListener("keydown", moveAmongSamples);
  showSamples();
}

function showSamples() {
  const wanted = $("sample-label").value;
  const shown = samples.filter((sample) => !wanted || sample.label === wanted);
  $("samples").replaceChildren(...shown.map((sample) => {
    const picture = sample.thumbnail
      ? el("img", { src: sample.thumbnail, alt: "", width: 48, height: 48 }) : el("span", {}, sample.label);
    return el("button", { type: "button", "aria-pressed": "false", tabindex: -1,
      "aria-label": `Sample ${sample.id}: ${sample.label}`, title: sample.label,
      onclick: (event) => pick(sample, event.currentTarget) }, picture);
  }));
  if (shown.length) $("samples").firstElementChild.tabIndex = 0;
}

/** The samples are one tab stop; arrows go from one to the next. */
function moveAmongSamples(event) {
  const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
  const buttons = [...$("samples").children];
  const from = buttons.indexOf(document.activeElement);
  if (!step || from < 0) return;
  event.preventDefault();
  const to = buttons[(from + step + buttons.length) % buttons.length];
  buttons[from].tabIndex = -1;
  to.tabIndex = 0;
  to.focus();
}

async function pick(sample, button) {
  for (const other of $("samples").children) {
    other.setAttribute("aria-pressed", other === button);
    other.tabIndex = other === button ? 0 : -1;
  }
  try {
    const { features } = await api.sample(sample.id);
    await classify(features, sample.label);
  } catch (error) {
    fail(error);
  }
}
