/* Tabs after the pattern of the ARIA guide: arrows move, one tab stop. */

import { $, el } from "./dom.js";

/** Fill `list` with tabs [[name, title], ...] for the panels `panel-<name>`; the first is shown. */
export function startTabs(list, tabs, onShow) {
  const show = (chosen, focus) => {
    for (const [name] of tabs) {
      const tab = $(`tab-${name}`);
      tab.setAttribute("aria-selected", name === chosen);
      tab.tabIndex = name === chosen ? 0 : -1;
      $(`panel-${name}`).hidden = name !== chosen;
      if (name === chosen && focus) tab.focus();
    }
    onShow(chosen);
  };
  const steps = { ArrowRight: 1, ArrowLeft: -1 };
  tabs.forEach(([name, title], i) => {
    list.append(el("button", { type: "button", role: "tab", id: `tab-${name}`,
      "aria-controls": `panel-${name}`, onclick: () => show(name, false),
      onkeydown: (event) => {
        if (!(event.key in steps)) return;
        event.preventDefault();
        show(tabs[(i + steps[event.key] + tabs.length) % tabs.length][0], true);
      } }, title));
  });
  list.hidden = tabs.length < 2;
  show(tabs[0][0], false);
}
