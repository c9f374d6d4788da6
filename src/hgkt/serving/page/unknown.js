/* Unknown: kept items that look like no known class, groups among them, and classes made of groups. */

import { attributes } from "./add.js";
import { api } from "./api.js";
import { confirmed } from "./confirm.js";
import { $, el, number, say } from "./dom.js";
import { on, refresh, select, state } from "./state.js";
import { examples } from "./teach.js";

const SHOWN = 10; // groups
let pictures = [];

export function startUnknown() {
  $("unknown").hidden = !state.model.keeps_unknown;
  if (!state.model.keeps_unknown) return;
  $("unknown-find").addEventListener("click", find);
  $("unknown-forget").addEventListener("click", forget);
  on("revision", count);
  on("answer", count);
}

/** Say how many items wait, and what is kept of them. */
async function count() {
  try {
    const { n_items: n, keeps_items: items, days, max_items: most } = await api.unknown();
    const own = state.model.accepts.texts ? "words" : "images";
    const what = items ? `They are kept with their ${own}` : "Their features are kept, not they themselves";
    say($("unknown-note"), `${n} ${n === 1 ? "item looks" : "items look"} like no known class. ` +
      `${what}: ${number(days, 0)} days at most, and at most ${most.toLocaleString("en")}.`);
    $("unknown-find").disabled = $("unknown-forget").disabled = n === 0;
    say($("unknown-error"), "");
  } catch (error) {
    say($("unknown-error"), error.message);
  }
}

async function find() {
  $("unknown-find").disabled = true;
  try {
    show(await api.unknownGroups());
    say($("unknown-error"), "");
  } catch (error) {
    say($("unknown-error"), error.message);
  }
  $("unknown-find").disabled = false;
}

function show({ groups, n_items: n }) {
  pictures.forEach(URL.revokeObjectURL);
  pictures = [];
  const inside = groups.reduce((sum, group) => sum + group.items.length, 0);
  say($("unknown-done"), groups.length ? `${inside} of ${n} items are in groups.`
    : `No five of the ${n} items lie close enough together to be a class.`);
  $("unknown-groups").replaceChildren(...groups.slice(0, SHOWN).map(card));
}

function card(group) {
  const near = group.neighbours.map((one) => `“${one.label}” ${number(100 * one.probability, 0)} %`).join(", ");
  const own = el("div", {},
    el("strong", {}, `${group.items.length} items`), `, ${number(100 * group.sureness, 0)} % apart from the rest`,
    el("p", { class: "hint" }, `Near to ${near}`));
  if (group.example.kind === "image") addPicture(own, group.example.id);
  if (group.example.kind === "text") addText(own, group.example.id);
  own.append(form(group));
  return el("li", {}, own);
}

async function addPicture(place, id) {
  try {
    const address = await api.unknownImage(id);
    pictures.push(address);
    place.prepend(el("img", { src: address, alt: "An example", width: 96, height: 96 }));
  } catch {
    // It was forgotten meanwhile; the group says so when a class is to be made of it.
  }
}

async function addText(place, id) {
  try {
    place.prepend(el("p", {}, `“${await api.unknownText(id)}”`));
  } catch {
    // As with a picture.
  }
}

/** Asks for a name and a sentence; attributes that are numbers are those of the form that adds a class. */
function form(group) {
  const name = el("input", { autocomplete: "off", maxlength: 200, "aria-label": "Its name", placeholder: "Name" });
  const text = state.model.accepts.text ? el("input", { autocomplete: "off", maxlength: 2000,
    "aria-label": "Its description", placeholder: "In a sentence" }) : null;
  const button = el("button", { type: "submit" }, "Make a class");
  const error = el("p", { class: "error", role: "alert", hidden: true });
  const hint = state.model.attribute_names || !text
    ? el("span", { class: "hint" }, "Its attributes are those under “Add a class”.") : null;
  const node = el("form", { class: "row" }, name, text, button, hint, error);
  node.addEventListener("submit", async (event) => {
    event.preventDefault();
    const wanted = { name: name.value.trim() };
    if (!wanted.name) return say(error, "Give it a name.");
    if (text) wanted.text = text.value.trim();
    button.disabled = true;
    try {
      await make(wanted, group);
    } catch (problem) {
      say(error, problem.message);
    }
    button.disabled = false;
    return undefined;
  });
  return node;
}

async function make(wanted, group) {
  const known = await exists(wanted.name);
  if (!known) {
    Object.assign(wanted, attributes());
    const { classes: [found] } = await api.check(wanted);
    const agreed = await confirmed(`Make “${wanted.name}”?`, found.sentences.join(" "), "Make a class");
    if (!agreed) return;
  }
  const said = known ? { name: wanted.name } : wanted;
  const made = await api.unknownClass({ ...said, items: group.items, reason: "made of unknown items" });
  await refresh({ atLeast: made.revision });
  select(made.names[0], { fresh: !known });
  show(await api.unknownGroups());
  say($("unknown-done"), `“${made.names[0]}” has learned from ${examples(made.n_examples)}. ` +
    ["To undo it, go back in “What was changed”.", ...made.warnings].join(" "));
}

async function exists(name) {
  const found = await api.classes({ query: name, limit: 100 });
  return found.classes.some((item) => item.name === name);
}

async function forget() {
  const agreed = await confirmed("Forget all?", "All unknown items are deleted. That cannot be undone.", "Forget");
  if (!agreed) return;
  try {
    await api.forgetUnknown();
    $("unknown-groups").replaceChildren();
    say($("unknown-done"), "");
    await count();
  } catch (error) {
    say($("unknown-error"), error.message);
  }
}
