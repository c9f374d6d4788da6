/* What happened to the classes, the latest first, and the way back. */

import { api } from "./api.js";
import { confirmed } from "./confirm.js";
import { $, ago, el, say } from "./dom.js";
import { on, refresh, select, state } from "./state.js";
import { examples } from "./teach.js";

const SHOWN = 8; // changes
let request = 0;

export function startHistory() {
  on("revision", load);
}

async function load() {
  const mine = ++request;
  try {
    const log = await api.events(Math.max(0, state.model.revision - SHOWN));
    if (mine !== request) return;
    say($("history-error"), "");
    render(log);
  } catch (error) {
    if (mine === request) say($("history-error"), error.message);
  }
}

function render({ events }) {
  const changes = new Map(); // lines of one change belong together
  for (const line of events) changes.set(line.revision, [...(changes.get(line.revision) ?? []), line]);
  const rows = [...changes.values()].reverse().slice(0, SHOWN);
  $("history").replaceChildren(...rows.map((lines) => row(lines)));
  say($("no-history"), rows.length ? "" : "Nothing has been changed yet.");
}

function row(lines) {
  const { revision, created_at: time, who, reason } = lines[0];
  const date = new Date(time);
  const by = who ? `, by key ${who}` : "";
  const undo = el("button", { type: "button", "aria-label": `Undo change ${revision} and all later ones`,
    onclick: () => goBack(revision - 1) }, "Undo");
  return el("li", { "data-revision": revision },
    el("div", {}, sentence(lines), reason ? el("span", { class: "hint clip" }, reason) : null,
      el("span", { class: "hint" }, el("time", { datetime: time, title: date.toLocaleString() }, ago(date)), by)),
    undo);
}

function sentence(lines) {
  const [{ kind, before, after, target }] = lines;
  if (kind === "rollback") return `went back to change ${target}`;
  const names = lines.map((line) => `“${(line.after ?? line.before).name}”`);
  const some = names.slice(0, 3).join(", ") + (names.length > 3 ? ` and ${names.length - 3} more` : "");
  if (kind === "rename") return `“${before.name}” was renamed “${after.name}”`;
  if (kind === "grow") return `${some} learned from ${examples(after.n_examples - before.n_examples)}`;
  const done = { add: "added", remove: "removed", edit: "described anew" }[kind] ?? kind;
  return `${some} ${names.length === 1 ? "was" : "were"} ${done}`;
}

async function goBack(revision) {
  const agreed = await confirmed("Undo?",
    "This change and all later ones are taken back, whoever made them. That can be undone as well.", "Undo");
  if (!agreed) return;
  try {
    const answer = await api.rollback(revision);
    if (answer.names.includes(state.selected)) select(null);
    await refresh({ atLeast: answer.revision });
  } catch (error) {
    say($("history-error"), error.message);
  }
}
