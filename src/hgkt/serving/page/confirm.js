/* A question before something is changed that others may miss. */

import { $ } from "./dom.js";

/** Ask; whether the person agrees. `verb` stands on the button that does it. */
export function confirmed(title, text, verb) {
  const dialog = $("confirm");
  $("confirm-title").textContent = title;
  $("confirm-text").textContent = text;
  $("confirm-yes").textContent = verb;
  dialog.returnValue = "cancel";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.onclose = () => resolve(dialog.returnValue === "yes");
  });
}
