/* Sliders for attributes; searchable where there are many. */

import { debounce, el, number } from "./dom.js";

const SEARCHED = 30; // from here on a search field
const SHOWN = 40; // rows at once

/** A list of sliders over `indices` of the attributes; `onInput(index, value)` when one is moved. */
export function makeSliders(box, names, ranges, indices, onInput) {
  const bounds = indices.map((j) => usable(ranges[j]));
  const values = new Map(indices.map((j, i) => [j, (bounds[i][0] + bounds[i][1]) / 2]));
  const notes = new Map();
  const list = el("div", { class: "sliders" });
  const more = el("p", { class: "hint" });
  const query = el("input", { type: "search", id: "attribute-query", autocomplete: "off",
    placeholder: `Search ${indices.length} attributes`, "aria-label": "Search attributes" });
  if (indices.length > SEARCHED) box.append(query);
  box.append(list, more);
  query.addEventListener("input", debounce(render, 120));

  function render() {
    const wanted = query.value.trim().toLowerCase();
    const matching = indices.filter((j) => names[j].toLowerCase().includes(wanted));
    list.replaceChildren(...matching.slice(0, SHOWN).map(slider));
    more.textContent = matching.length > SHOWN
      ? `${SHOWN} of ${matching.length} are shown; search for the others.`
      : matching.length ? "" : `No attribute has “${query.value.trim()}” in its name.`;
  }

  function slider(j) {
    const [low, high] = boundsOf(j);
    const shown = el("output", { for: `slider-${j}` }, number(values.get(j)));
    const tag = el("span", { class: "tag" }, notes.get(j) ?? "");
    const input = el("input", { type: "range", id: `slider-${j}`, min: low, max: high,
      step: (high - low) / 100, oninput: () => {
        values.set(j, Number(input.value));
        notes.delete(j);
        shown.value = number(values.get(j));
        tag.textContent = "";
        onInput?.(j, values.get(j));
      } });
    // Arrow keys should cross the range in twenty steps, the mouse may go finer.
    input.addEventListener("keydown", (event) => {
      const way = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 }[event.key];
      if (!way) return;
      event.preventDefault();
      input.value = Number(input.value) + (way * (high - low)) / 20;
      input.dispatchEvent(new Event("input"));
    });
    input.value = values.get(j);
    return el("div", { class: "slider" }, el("label", { for: `slider-${j}` }, names[j], tag), input, shown);
  }

  function boundsOf(j) {
    const [low, high] = bounds[indices.indexOf(j)];
    return [Math.min(low, values.get(j)), Math.max(high, values.get(j))];
  }

  render();
  return {
    get: (j) => values.get(j),
    /** Set many at once: entries are [index, value]; `note` is shown until the slider is moved. */
    set(entries, note = "") {
      for (const [j, value] of entries) {
        if (!values.has(j)) continue;
        values.set(j, value);
        if (note) notes.set(j, note);
        else notes.delete(j);
      }
      render();
    },
  };
}

function usable([low, high]) {
  return high > low ? [low, high] : [Math.min(0, low), Math.max(1, high)];
}
