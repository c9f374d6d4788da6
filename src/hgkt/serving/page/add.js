/* Add a class: a name and a description by attributes, by a sentence, or by both. */

import { api, key } from "./api.js";
import { clearCheck, startCheck } from "./check.js";
import { $, el, parseNumbers, say } from "./dom.js";
import { estimate, mean } from "./estimate.js";
import { makeDisplay, segmentPositions, SEGMENTS } from "./segments.js";
import { makeSliders } from "./sliders.js";
import { detailsOf, detailsOfSeen, on, refresh, seenNames, select, state } from "./state.js";

const AVERAGED = 300; // with more seen classes than this, sliders start in the middle of their range
const LISTED = 500; // classes to copy from

let added = null; // the class that was added last, while the page speaks of it: {name, revision}
let editing = null; // the class whose description is being changed
let form = null; // {positions, sliders, display, own}: own are sliders that the person has set

export function startAdd() {
  const { accepts, attribute_names: names, needs_key: needsKey, n_attributes: nAttributes } = state.model;
  if (!accepts.vector) {
    $("add-form").replaceChildren(el("p", { class: "empty" },
      "This method cannot take classes that it was not trained on."));
    return;
  }
  $("key-field").hidden = !needsKey;
  $("key").value = key.get();
  $("key").addEventListener("input", () => key.set($("key").value.trim()));
  $("text-field").hidden = !accepts.text;
  if (accepts.texts) $("text").placeholder = "What do people mean by it?";
  if (accepts.name_alone) $("text-label").textContent = "In a sentence, if the name does not say it all";
  const sliders = accepts.attributes && names;
  $("attributes-field").hidden = !sliders;
  $("class-vector-field").hidden = Boolean(sliders || accepts.text);
  $("class-vector-label").textContent = `Attribute vector: ${nAttributes} numbers`;
  if (sliders) startAttributes(names);
  // What was said of the last class or the last mistake goes once the next one is described.
  $("add-form").addEventListener("input", forget);
  $("segments-field").addEventListener("click", forget);
  startCheck(description);
  on("answer", showChange);
  on("revision", forgetRemoved);
  on("revision", () => editing && leaveIfGone());
  $("edit-cancel").addEventListener("click", stopEditing);
  $("add-form").addEventListener("submit", (event) => {
    event.preventDefault();
    submit();
  });
}

/** Have the form describe a class that is there already. */
export function edit(details) {
  forget();
  editing = details.name;
  showMode();
  $("name").value = details.name;
  $("text").value = details.text ?? "";
  if (form) copy(vectorOf(details));
  else $("class-vector").value = details.vector.join(", ");
  clearCheck();
  $("name").focus();
}

/** Have the form describe a class that is not there yet. */
export function startAdding(name) {
  if (editing) stopEditing();
  forget();
  $("name").value = name;
  const first = ["text", "class-vector", "name"].map($).find((field) => field.checkVisibility());
  $("add").scrollIntoView({ block: "nearest" });
  first.focus({ preventScroll: true });
}

function stopEditing() {
  editing = null;
  $("name").value = $("text").value = $("class-vector").value = "";
  forget();
  showMode();
}

async function leaveIfGone() {
  const name = editing;
  const gone = await detailsOf(name).then(() => false, (error) => error.status === 404);
  if (gone && name === editing) stopEditing();
}

function showMode() {
  $("add-title").textContent = editing ? `Edit “${editing}”` : "Add a class";
  $("add-button").textContent = editing ? "Save" : "Add class";
  $("edit-cancel").hidden = !editing;
}

function startAttributes(names) {
  const positions = segmentPositions(names);
  const shown = names.map((_, j) => j)
    .filter((j) => !positions || ![...positions.lit, ...positions.dark].includes(j));
  form = { positions, shown, own: new Set(), display: null, sliders: null };
  if (positions) {
    $("segments-field").hidden = false;
    form.display = makeDisplay($("segments-field"), () => suggest());
    // The shapes follow the segments, so few will want to set them.
    $("shapes").open = false;
    $("shapes").firstElementChild.hidden = false;
  }
  const ranges = namedColumns().map((column) => state.model.attribute_ranges?.[column] ?? [0, 1]);
  form.sliders = makeSliders($("sliders"), names, ranges, shown, (j) => form.own.add(j));
  $("start").addEventListener("change", begin);
  on("revision", listClasses);
  begin();
}

/** Offer every class to copy from. */
async function listClasses() {
  const chosen = $("start").value;
  const first = form.positions ? "a dark display"
    : state.model.n_seen_classes <= AVERAGED ? "the mean of the seen classes" : "the middle of each range";
  const options = [el("option", { value: "" }, first)];
  try {
    const seen = await seenNames(LISTED);
    const added = (await api.classes({ kind: "added", limit: 100 })).classes.map((item) => item.name);
    for (const name of [...seen, ...added]) options.push(el("option", { value: `=${name}` }, `a copy of ${name}`));
  } catch {
    return; // the list stays as it was; the banner tells that the service is away
  }
  $("start").replaceChildren(...options);
  if (options.some((option) => option.value === chosen)) $("start").value = chosen;
}

/** Set all attributes from where the person wants to start. */
async function begin() {
  const chosen = $("start").value;
  say($("add-error"), "");
  form.own.clear();
  try {
    if (chosen) return copy(vectorOf(await detailsOf(chosen.slice(1))));
    form.display?.set([]);
    if (form.positions) return await suggest();
    if (state.model.n_seen_classes > AVERAGED) return;
    const middle = mean((await detailsOfSeen()).map(vectorOf));
    form.sliders.set(form.shown.filter((j) => !form.own.has(j)).map((j) => [j, middle[j]]));
  } catch (error) {
    say($("add-error"), error.message);
  }
}

function copy(vector) {
  form.display?.set(SEGMENTS.filter((_, i) => vector[form.positions.lit[i]] >= 0.5));
  form.sliders.set(form.shown.map((j) => [j, vector[j]]));
  form.own = new Set(form.shown);
}

/** Columns of the attribute vector that have a name: those that were not made of text. */
function namedColumns() {
  const { about, attribute_blocks: blocks, n_attributes: n } = state.model;
  const kinds = about?.attribute_kinds;
  if (!kinds || kinds.length !== blocks?.length) return Array.from({ length: n }, (_, column) => column);
  const kindOf = blocks.flatMap((width, block) => new Array(width).fill(kinds[block]));
  return kindOf.flatMap((kind, column) => (kind === "text" ? [] : [column]));
}

function vectorOf(details) {
  const columns = namedColumns();
  return state.model.attribute_names.map((name, j) => details.attributes?.[name] ?? details.vector[columns[j]]);
}

/** Values of the segments: each is lit or not, and says so twice. */
function segmentValues() {
  const values = new Map();
  SEGMENTS.forEach((letter, i) => {
    const lit = form.display.lit.has(letter) ? 1 : 0;
    values.set(form.positions.lit[i], lit);
    if (form.positions.dark.length) values.set(form.positions.dark[i], 1 - lit);
  });
  return values;
}

/** Let the shapes follow the lit segments where the person has not set them. */
async function suggest() {
  const rows = (await detailsOfSeen()).map(vectorOf);
  const values = segmentValues();
  const free = form.shown.filter((j) => !form.own.has(j));
  const found = estimate(rows, [...values.keys()], free, [...values.values()]);
  form.sliders.set(free.map((j, i) => [j, found[i]]), "estimated");
}

function description() {
  const { accepts } = state.model;
  const made = { name: $("name").value.trim() };
  if (!made.name) throw fieldError("name", "Give the class a name.");
  if (accepts.text) {
    made.text = $("text").value.trim();
    if (!made.text && !accepts.name_alone) throw fieldError("text", "Describe the class in a sentence.");
  }
  return { ...made, ...attributes() };
}

/** What the form says of a class beside its name and its sentence. */
export function attributes() {
  const { accepts, n_attributes: nAttributes } = state.model;
  if (form) {
    if (form.display && !form.display.lit.size) throw new Error("Light at least one segment.");
    const values = form.display ? segmentValues() : new Map();
    for (const j of form.shown) values.set(j, form.sliders.get(j));
    return { attributes: Object.fromEntries(state.model.attribute_names.map((name, j) => [name, values.get(j)])) };
  }
  if (accepts.text) return {};
  return { vector: parseNumbers($("class-vector").value, nAttributes, "An attribute vector") };
}

function fieldError(id, message) {
  return Object.assign(new Error(message), { field: id });
}

function forget() {
  added = null;
  say($("add-error"), "");
  say($("add-change"), "");
  $("add-done").textContent = "";
}

/** Once the class is gone again, the page no longer says that it is there. */
async function forgetRemoved() {
  if (!added) return;
  const { name } = added;
  const found = await api.classes({ kind: "added", query: name, limit: 100 }).catch(() => null);
  if (found && name === added?.name && !found.classes.some((item) => item.name === name)) forget();
}

/** Show beside the button what adding the class has done to the answer. */
function showChange(answer) {
  if (!added || !answer || answer.before === null) return say($("add-change"), "");
  if (answer.revision < added.revision) return undefined;
  const changed = answer.label !== answer.before;
  say($("add-change"), " ");
  $("add-change").replaceChildren(...(changed
    ? [el("s", {}, answer.before), " → ", el("strong", {}, answer.label)]
    : ["still read as ", el("strong", {}, answer.label)]));
  return undefined;
}

async function submit() {
  forget();
  clearCheck();
  const button = $("add-button");
  try {
    const made = description();
    button.disabled = true;
    const answer = editing ? await saved(made) : await api.add(made);
    const done = editing ? `“${made.name}” was changed.`
      : `“${made.name}” is in the model, which now has ${answer.n_classes} classes.`;
    if (editing) stopEditing();
    const costs = answer.costs ? ` On average, ${answer.costs.sentence}.` : "";
    $("add-done").textContent = done + costs + answer.warnings.map((sentence) => ` Note: ${sentence}.`).join("");
    $("name").value = "";
    added = { name: made.name, revision: answer.revision };
    await refresh({ atLeast: answer.revision });
    select(made.name, { fresh: true });
  } catch (error) {
    say($("add-error"), error.message);
    if (error.field) $(error.field).focus();
    if (error.status === 401) $("key").focus();
    if (error.status === 409) $("name").focus();
  } finally {
    button.disabled = false;
  }
}

/** Send what the form says of the class that is edited; its name only where that is new. */
function saved({ name, ...described }) {
  return api.edit(editing, name === editing ? described : { name, ...described });
}
