/* Small helpers to build and find elements; text always goes in as text, never as HTML. */

export const $ = (id) => document.getElementById(id);

/** Make an element: el("button", {type: "button", class: "x", onclick: f}, "text", child). */
export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  setAttributes(node, attributes);
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

/** The same for a drawing. */
export function svg(tag, attributes = {}, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  setAttributes(node, attributes);
  node.append(...children);
  return node;
}

function setAttributes(node, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
}

/** Show or clear a sentence in an element that is hidden while it has nothing to say. */
export function say(node, text) {
  node.textContent = text ?? "";
  node.hidden = !text;
}

/** By what a class is known; of one in an answer it is only told whether it was seen. */
export function badge(seen, kind = null) {
  const word = kind === "grown" ? "grown" : seen ? "seen" : "added";
  return el("span", { class: word === "seen" ? "badge" : "badge added" }, word);
}

/** How long ago something was, as people say it. */
export function ago(date) {
  const seconds = Math.max(0, (Date.now() - date) / 1000);
  if (seconds < 60) return "just now";
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  return date.toLocaleDateString() === new Date().toLocaleDateString()
    ? date.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" }) : date.toLocaleDateString();
}

/** Write a number with as many digits as a reader needs; a true minus sign. */
export function number(value, digits = 2) {
  return value.toFixed(digits).replace("-", "−").replace(/^−(0\.0+)$/, "$1");
}

/** The same without zeros at the end: 1, 0.5, −0.25. */
export function shortNumber(value) {
  return number(value).replace(/\.?0+$/, "");
}

/** Bars from a common zero line; rows are {label, detail?, value, seen?, onclick?}. */
export function bars(rows, caption) {
  const low = Math.min(0, ...rows.map((row) => row.value));
  const high = Math.max(0, ...rows.map((row) => row.value));
  const span = high - low || 1;
  const list = el("ul", { class: "bars", "aria-label": caption });
  for (const row of rows) {
    const bar = el("span", { class: row.value < 0 ? "bar negative" : "bar" });
    bar.style.left = `${(100 * (Math.min(row.value, 0) - low)) / span}%`;
    bar.style.width = `${(100 * Math.abs(row.value)) / span}%`;
    const zero = el("span", { class: "zero" });
    zero.style.left = `${(-100 * low) / span}%`;
    const label = row.onclick
      ? el("button", { type: "button", class: "link", onclick: row.onclick }, row.label)
      : el("span", {}, row.label, row.detail ? el("span", { class: "detail" }, ` ${row.detail}`) : null);
    list.append(
      el("li", { class: row.strong ? "strong" : null },
        el("span", { class: "bar-label" }, label, row.seen === false ? badge(false) : null),
        el("span", { class: "track", "aria-hidden": "true" }, bar, zero),
        el("span", { class: "bar-value" }, number(row.value, row.digits ?? 3))),
    );
  }
  return list;
}

/** Read numbers that are separated by commas, spaces, semicolons or lines. */
export function parseNumbers(text, n, what) {
  const parts = text.replace(/[[\]]/g, " ").split(/[\s,;]+/).filter(Boolean);
  const bad = parts.find((part) => !Number.isFinite(Number(part)));
  if (bad !== undefined) throw new Error(`“${bad.slice(0, 30)}” is not a number.`);
  if (parts.length !== n) {
    throw new Error(`${what} has ${n} numbers; ${parts.length} ${parts.length === 1 ? "was" : "were"} given.`);
  }
  return parts.map(Number);
}

/** Call `action` once the calls have paused for `wait` milliseconds. */
export function debounce(action, wait) {
  let timer = 0;
  return (...values) => {
    clearTimeout(timer);
    timer = setTimeout(() => action(...values), wait);
  };
}

export const reducedMotion = () => matchMedia("(prefers-reduced-motion: reduce)").matches;
