/* What the parts of the page share: the model's description, the selected class, and news of both. */

import { api } from "./api.js";

const news = new EventTarget();

export const state = { model: null, selected: null, fresh: null };

/**
 * Be told of "revision" (classes changed), "select" (another class is selected) or "answer":
 * {label, before, place, revision} of what was classified, or null where nothing is.
 */
export function on(name, action) {
  news.addEventListener(name, (event) => action(event.detail));
}

/** Select a class everywhere; `fresh` marks one that was just added. */
export function select(name, { fresh = false } = {}) {
  state.selected = name;
  if (fresh) state.fresh = name;
  news.dispatchEvent(new CustomEvent("select", { detail: name }));
}

/** Tell what was classified, or that nothing is any more. */
export function tellAnswer(answer) {
  news.dispatchEvent(new CustomEvent("answer", { detail: answer }));
}

/** Whether classes are described by sentences alone, so that "attributes" would mean nothing. */
export function isDescribedByText() {
  return state.model.accepts.text && !state.model.attribute_names;
}

/**
 * Read the model's description again and tell everyone where its classes have changed.
 *
 * Of several server processes one may be behind the others for a moment: `atLeast` waits for it.
 */
export async function refresh({ always = false, atLeast = 0 } = {}) {
  const before = state.model?.revision;
  state.model = await caughtUp(api.model, atLeast);
  if (always || state.model.revision !== before) {
    news.dispatchEvent(new CustomEvent("revision", { detail: state.model.revision }));
  }
}

/** Ask until the answer is of the wanted revision, for two seconds at most. */
export async function caughtUp(ask, revision) {
  for (let tries = 0; ; tries++) {
    const answer = await ask();
    if (answer.revision >= revision || tries === 10) return answer;
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
}

const details = new Map();

/** Details of a class, kept until the classes change: what it was made from moves with nothing else. */
export function detailsOf(name) {
  const at = `${state.model.revision} ${name}`;
  if (!details.has(at)) {
    if (details.size > 2000) details.clear();
    const answer = api.class(name);
    answer.catch(() => details.delete(at));
    details.set(at, answer);
  }
  return details.get(at);
}

let seenDetails = null;

/** Details of all classes of the training, six requests at a time; they stay as long as the service runs. */
export function detailsOfSeen() {
  seenDetails ??= fetchSeen().catch((error) => {
    seenDetails = null;
    throw error;
  });
  return seenDetails;
}

async function fetchSeen() {
  const names = await seenNames();
  const found = new Array(names.length);
  let next = 0;
  const worker = async () => {
    for (let i = next++; i < names.length; i = next++) found[i] = await api.class(names[i]);
  };
  await Promise.all(Array.from({ length: 6 }, worker));
  return found;
}

/** Names of the classes that the model was trained on, up to about `most`. */
export async function seenNames(most = Infinity) {
  return (await listed("seen", most)).filter((item) => item.kind === "learned").map((item) => item.name);
}

/** Names of all classes, up to about `most`. */
export async function classNames(most) {
  return (await listed("all", most)).map((item) => item.name);
}

/** Classes of a kind, page by page. */
async function listed(kind, most) {
  const found = [];
  for (;;) {
    const page = await api.classes({ kind, offset: found.length, limit: 100 });
    found.push(...page.classes);
    if (!page.classes.length || found.length >= Math.min(most, page.n_matching)) return found;
  }
}
