/* What is known of the selected class: what it was made from, its relatives, its attributes. */

import { $, badge, bars, el, number } from "./dom.js";
import { detailsOf, isDescribedByText, on, select, state } from "./state.js";
import { edit } from "./add.js";
import { askToRemove } from "./classes.js";
import { examples, imageDrop } from "./teach.js";

const SHOWN = 8;

export function startDetails() {
  on("select", show);
}

async function show(name) {
  const panel = $("details");
  if (!name) {
    panel.replaceChildren(el("p", { class: "empty" },
      "No class is selected. Click one on the map, or its name in the table."));
    return;
  }
  try {
    const details = await detailsOf(name);
    if (name === state.selected) panel.replaceChildren(...parts(details));
  } catch (error) {
    if (name === state.selected) panel.replaceChildren(el("p", { class: "error" }, error.message));
  }
}

function parts(details) {
  const close = el("button", { type: "button", "aria-label": "Close details", onclick: () => select(null) }, "Close");
  const own = details.kind !== "learned";
  const remove = own
    ? el("button", { type: "button", onclick: () => askToRemove(details.name) }, "Remove") : null;
  const change = own ? el("button", { type: "button", onclick: () => edit(details) }, "Edit") : null;
  const columns = el("div", { class: "columns" });
  const sources = details.sources.filter((source) => Math.abs(source.weight) >= 0.005);
  if (sources.length) {
    const rows = sources.map((source) => ({ label: source.label, value: source.weight, digits: 2,
      onclick: () => select(source.label) }));
    columns.append(el("div", {}, el("h4", {}, "Made from"), bars(rows, "Seen classes and their weights")));
  }
  const values = details.attributes ? withoutComplements(details.attributes) : [];
  if (values.length) columns.append(attributes(values));
  const relatives = details.relatives.map((relative) =>
    el("button", { type: "button", class: "chip", title: `similarity ${number(relative.similarity)}`,
      onclick: () => select(relative.label) }, `${relative.label} ${number(relative.similarity)}`));
  return [
    el("div", { class: "head" },
      el("h3", {}, details.name, " ", badge(details.seen, details.kind)),
      el("div", { class: "row" }, change, remove, close)),
    details.n_examples ? el("p", { class: "hint" }, `It has learned from ${examples(details.n_examples)} here.`)
      : null,
    details.text ? el("blockquote", {}, details.text) : null,
    relatives.length ? el("p", { class: "chips" },
      el("span", { class: "hint" }, `Most alike by ${isDescribedByText() ? "description" : "attributes"}`),
      ...relatives) : null,
    columns,
    imageDrop(details.name),
  ].filter(Boolean);
}

/** Entries of the attributes; "no tail" goes where "tail" says the same. */
function withoutComplements(values) {
  return Object.entries(values).filter(([name, value]) => {
    const other = name.startsWith("no ") ? values[name.slice(3)] : undefined;
    return other === undefined || Math.abs(value + other - 1) > 1e-6;
  });
}

function attributes(values) {
  const rows = values.map(([label, value]) => ({ label, value, digits: 2 }))
    .sort((a, b) => b.value - a.value);
  const box = el("div", {}, el("h4", {}, "Attributes"), bars(rows.slice(0, SHOWN), "Attributes"));
  if (rows.length > SHOWN) {
    const more = el("details", {}, el("summary", {}, `All ${rows.length}`));
    more.addEventListener("toggle", () => {
      if (more.open && more.children.length === 1) more.append(bars(rows, "All attributes"));
    });
    box.append(more);
  }
  return box;
}
