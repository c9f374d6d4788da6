/* The table of classes: search, pages, removal after a question. */

import { api } from "./api.js";
import { confirmed } from "./confirm.js";
import { $, ago, badge, debounce, el, say } from "./dom.js";
import { on, refresh, select, state } from "./state.js";

const ROWS = 10;
const view = { query: "", kind: "all", offset: 0 };
let request = 0;

export function startClasses() {
  on("revision", load);
  on("select", mark);
  on("select", () => say($("classes-error"), ""));
  $("query").addEventListener("input", debounce(() => show({ query: $("query").value.trim() }), 150));
  $("kind").addEventListener("change", () => show({ kind: $("kind").value }));
  $("previous").addEventListener("click", () => show({ offset: Math.max(0, view.offset - ROWS) }));
  $("next").addEventListener("click", () => show({ offset: view.offset + ROWS }));
}

function show(change) {
  Object.assign(view, { offset: 0 }, change);
  load();
}

async function load() {
  const mine = ++request;
  try {
    const page = await api.classes({ ...view, limit: ROWS });
    if (mine !== request) return; // a later search has been asked for
    if (!page.classes.length && view.offset > 0) {
      show({ offset: Math.max(0, ROWS * (Math.ceil(page.n_matching / ROWS) - 1)) });
      return;
    }
    say($("classes-error"), "");
    render(page);
  } catch (error) {
    if (mine === request) say($("classes-error"), error.message);
  }
}

function render(page) {
  $("rows").replaceChildren(...page.classes.map(row));
  mark();
  const last = view.offset + page.classes.length;
  $("page-note").textContent = page.n_matching
    ? `${view.offset + 1}–${last} of ${page.n_matching}` : "";
  say($("no-rows"), page.n_matching ? "" : emptySentence());
  $("previous").disabled = view.offset === 0;
  $("next").disabled = last >= page.n_matching;
  $("previous").parentElement.classList.toggle("single", page.n_matching <= ROWS);
}

function emptySentence() {
  if (view.query) return `No class has “${view.query}” in its name.`;
  if (view.kind === "added") return "No class has been added yet. Describe one under “Add a class”.";
  return "There are no classes to show.";
}

function row(item) {
  const added = item.added_at ? new Date(item.added_at) : null;
  const when = added && !Number.isNaN(added.getTime())
    ? el("time", { class: "hint when", datetime: item.added_at, title: added.toLocaleString() }, ago(added))
    : null;
  const remove = item.kind === "learned" ? ""
    : el("button", { type: "button", "aria-label": `Remove ${item.name}`,
      onclick: () => askToRemove(item.name) }, "Remove");
  const name = el("button", { type: "button", class: "link", title: item.name,
    onclick: () => select(item.name) }, item.name);
  return el("tr", { "data-name": item.name },
    el("th", { scope: "row" }, name, item.text ? el("span", { class: "hint clip" }, item.text) : null),
    el("td", {}, badge(item.seen, item.kind), when),
    el("td", { class: "end" }, remove));
}

function mark() {
  for (const line of $("rows").children) {
    const chosen = line.dataset.name === state.selected;
    line.classList.toggle("chosen", chosen);
    line.querySelector("button.link").setAttribute("aria-pressed", chosen);
  }
}

/** Ask, then remove an added class; what went wrong stands below the table. */
export async function askToRemove(name) {
  const agreed = await confirmed(`Remove “${name}”?`,
    "The model will no longer predict it. Nothing else changes, and it can be added again.", "Remove");
  if (!agreed) return;
  try {
    const { revision } = await api.remove(name);
    say($("classes-error"), "");
    if (state.selected === name) select(null);
    await refresh({ atLeast: revision });
    $("query").focus({ preventScroll: true }); // the button that was pressed is gone
  } catch (error) {
    say($("classes-error"), error.message);
  }
}
