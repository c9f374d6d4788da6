/* Teach: what was classified, or images that are dropped on a class, become its examples. */

import { startAdding } from "./add.js";
import { api } from "./api.js";
import { el, say } from "./dom.js";
import { classNames, refresh, select, state } from "./state.js";

const LIST = "teach-names";

/** A form below an answer that makes what was classified an example; null where that cannot be. */
export function teachForm(question) {
  if (!state.model.can_grow || !question.teach) return null;
  if (question.taught) return el("p", { class: "hint", id: "taught", role: "status" }, question.taught);
  const name = el("input", { id: "teach-name", list: LIST, autocomplete: "off", maxlength: 200,
    "aria-label": "Its class" });
  name.value = question.wanted ?? question.truth ?? "";
  // Stays in the field when the answer is shown anew, as it is when classes change.
  name.addEventListener("input", () => (question.wanted = name.value));
  const names = el("datalist", { id: LIST });
  name.addEventListener("focus", () => listNames(names), { once: true });
  const button = el("button", { type: "submit" }, "Teach");
  const error = el("p", { class: "error", role: "alert", hidden: true });
  const offer = el("button", { type: "button", hidden: true, onclick: () => startAdding(name.value.trim()) });
  const form = el("form", { class: "teach row", id: "teach" },
    el("label", { for: "teach-name", class: "hint" }, "It is a"), name, names, button, error, offer);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const wanted = name.value.trim();
    offer.hidden = true;
    if (!wanted) return say(error, "Say which class it is an example of.");
    button.disabled = true;
    try {
      const answer = await question.teach(wanted);
      question.taught = `“${answer.names[0]}” has learned from it: ${examples(answer.n_examples)} so far.`;
      await refresh({ atLeast: answer.revision }); // the answer is asked for again, and says so
    } catch (problem) {
      button.disabled = false;
      if (problem.status !== 404 || !state.model.accepts.vector) return say(error, problem.message);
      say(error, `The model has no class “${wanted}” yet. Describe it first, then teach it this.`);
      offer.textContent = `Add “${wanted}”`;
      offer.hidden = false;
    }
    return undefined;
  });
  return form;
}

/** A place for images of a class; null where the model cannot read or learn from them. */
export function imageDrop(name) {
  if (!state.model.can_grow || !state.model.accepts.images) return null;
  const told = el("span", { class: "hint", role: "status" }, "It learns from them; they are not kept.");
  const files = el("input", { type: "file", accept: "image/*", multiple: true });
  const drop = el("label", { class: "drop small" },
    el("span", {}, el("strong", {}, "Choose images"), ` of “${name}” or drop them here`), told, files);
  const take = async (chosen) => {
    if (!chosen.length) return;
    told.textContent = `Reading ${chosen.length === 1 ? "an image" : `${chosen.length} images`}`;
    try {
      const answer = await api.growByImages(name, chosen);
      await refresh({ atLeast: answer.revision });
      select(name); // what stands here is said anew
    } catch (problem) {
      told.textContent = problem.message;
    }
  };
  files.addEventListener("change", () => take([...files.files]));
  drop.addEventListener("dragover", (event) => {
    event.preventDefault();
    drop.classList.add("over");
  });
  drop.addEventListener("dragleave", () => drop.classList.remove("over"));
  drop.addEventListener("drop", (event) => {
    event.preventDefault();
    drop.classList.remove("over");
    take([...event.dataTransfer.files]);
  });
  return drop;
}

export function examples(n) {
  return n === 1 ? "one example" : `${n} examples`;
}

async function listNames(list) {
  const names = await classNames(500).catch(() => []);
  list.replaceChildren(...names.map((name) => el("option", { value: name })));
}
