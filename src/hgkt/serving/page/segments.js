/* A seven-segment display whose segments are lit by click or key. */

import { el, svg } from "./dom.js";

export const SEGMENTS = [..."abcdefg"];

const SHAPES = {
  a: "22,10 30,2 70,2 78,10 70,18 30,18",
  b: "80,12 88,20 88,64 80,72 72,64 72,20",
  c: "80,76 88,84 88,128 80,136 72,128 72,84",
  d: "22,138 30,130 70,130 78,138 70,146 30,146",
  e: "20,76 28,84 28,128 20,136 12,128 12,84",
  f: "20,12 28,20 28,64 20,72 12,64 12,20",
  g: "22,74 30,66 70,66 78,74 70,82 30,82",
};

const LETTERS = { a: [50, 14], b: [80, 46], c: [80, 110], d: [50, 142], e: [20, 110], f: [20, 46], g: [50, 78] };

/** Positions of "segment a".."segment g" and "no segment a".. among the names, or null. */
export function segmentPositions(names) {
  if (!names) return null;
  const lit = SEGMENTS.map((letter) => names.indexOf(`segment ${letter}`));
  const dark = SEGMENTS.map((letter) => names.indexOf(`no segment ${letter}`));
  return lit.includes(-1) ? null : { lit, dark: dark.includes(-1) ? [] : dark };
}

/** Draw the display into `box`; `onChange(lit)` gets the lit letters after each change. */
export function makeDisplay(box, onChange) {
  const lit = new Set();
  const parts = new Map();
  const toggle = (letter) => {
    if (!lit.delete(letter)) lit.add(letter);
    show();
    onChange(lit);
  };
  const press = (event) => {
    const letter = event.key.toLowerCase();
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (parts.has(letter)) toggle(letter);
    else if (event.key === " " || event.key === "Enter") toggle(event.target.dataset.segment);
    else return;
    event.preventDefault();
  };
  const picture = svg("svg", { viewBox: "4 -4 92 156", role: "group", class: "display",
    "aria-label": "Seven-segment display: press a segment, or the keys a to g" });
  for (const letter of SEGMENTS) {
    const [x, y] = LETTERS[letter];
    const name = svg("text", { x, y, "aria-hidden": "true" }, letter);
    const part = svg("g", { role: "checkbox", tabindex: 0, "data-segment": letter,
      "aria-label": `segment ${letter}`, onclick: () => toggle(letter), onkeydown: press },
    svg("polygon", { points: SHAPES[letter] }), name);
    parts.set(letter, part);
    picture.append(part);
  }
  const clear = el("button", { type: "button", onclick: () => {
    lit.clear();
    show();
    onChange(lit);
  } }, "All dark");
  box.append(picture, el("div", {}, el("p", { class: "hint" },
    "Light the digit as a seven-segment display would; the keys a to g work too. Its shapes follow ",
    "as the seen digits suggest (least squares), until you set them."), clear));

  function show() {
    for (const [letter, part] of parts) part.setAttribute("aria-checked", lit.has(letter));
  }
  show();
  return {
    lit,
    set(letters) {
      lit.clear();
      for (const letter of letters) lit.add(letter);
      show();
    },
  };
}
