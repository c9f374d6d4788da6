/* What would become of the class that is being described, said before it is added. */

import { api } from "./api.js";
import { $, el } from "./dom.js";

const PAUSE = 500; // milliseconds without a change before the service is asked

let timer = null;
let asked = 0; // only the answer to the latest question is shown

/** Ask whenever the form changes; `description` makes what the form says, or throws. */
export function startCheck(description) {
  const later = () => {
    clearCheck();
    timer = setTimeout(() => check(description), PAUSE);
  };
  $("add-form").addEventListener("input", later);
  $("add-form").addEventListener("change", later);
  $("segments-field").addEventListener("click", later);
}

/** Forget what was said, and what is on its way. */
export function clearCheck() {
  clearTimeout(timer);
  asked += 1;
  $("add-check").replaceChildren();
  $("add-check").hidden = true;
}

async function check(description) {
  const own = asked;
  try {
    const described = description();
    show(["Looking at what would become of it …"], true); // the first look may load an encoder
    const answer = await api.check(described);
    if (own === asked) show(answer.classes[0].sentences);
  } catch {
    // The form is not complete yet, or the service will say what is wrong when the class is added.
    if (own === asked) clearCheck();
  }
}

function show(sentences, busy = false) {
  $("add-check").replaceChildren(...sentences.map((text) => el("li", {}, text)));
  $("add-check").setAttribute("aria-busy", busy);
  $("add-check").hidden = false;
}
