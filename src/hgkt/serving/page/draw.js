/* Drawing by hand, made into the kind of image that the digits data set holds.

The data set was made from bitmaps of 32 × 32, in which the pixels of each block of 4 × 4 were counted.
How a digit was put into its bitmap is read off the data: it fills the height and about 20 columns in
the middle, and the average ink is 303 to 329 of 1024 pixels for every digit, a one as much as an
eight, so that the pen must have been made as thick as that takes. */

import { $, debounce } from "./dom.js";

const BLOCK = 4;
const INK = 313 / 1024;
const WIDEST = 20 / 32;
const STRETCH = 2; // a nearly straight stroke is not drawn out to the full width

let strokes = [];
let size = null;

/** Prepare the canvas; `onDrawn(features)` is called after each stroke, with null when it is empty. */
export function startDraw(pixels, onDrawn) {
  size = pixels;
  $("preview").width = size.width;
  $("preview").height = size.height;
  $("preview-size").textContent = `${size.height} × ${size.width}`;
  const canvas = $("canvas");
  const tell = debounce(() => onDrawn(strokes.length ? features() : null), 60);
  const changed = () => {
    paint();
    tell();
  };
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    event.preventDefault();
    canvas.setPointerCapture(event.pointerId);
    strokes.push([point(canvas, event)]);
    paint();
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!canvas.hasPointerCapture(event.pointerId)) return;
    const events = event.getCoalescedEvents?.() ?? [];
    for (const each of events.length ? events : [event]) strokes.at(-1).push(point(canvas, each));
    paint();
  });
  canvas.addEventListener("pointerup", changed);
  canvas.addEventListener("pointercancel", changed);
  $("draw-undo").addEventListener("click", () => {
    strokes.pop();
    changed();
  });
  $("draw-clear").addEventListener("click", () => {
    strokes = [];
    changed();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", paint);
  paint();
}

function point(canvas, event) {
  const box = canvas.getBoundingClientRect();
  return [((event.clientX - box.left) / box.width) * canvas.width,
    ((event.clientY - box.top) / box.height) * canvas.height];
}

function trace(context, lines, place) {
  for (const line of lines) {
    context.beginPath();
    line.forEach((at, i) => (i ? context.lineTo(...place(at)) : context.moveTo(...place(at))));
    // A tap is a line of no length, which a round pen draws as a dot.
    if (line.length === 1) context.lineTo(...place(line[0]));
    context.stroke();
  }
}

function paint() {
  const canvas = $("canvas");
  const context = canvas.getContext("2d");
  const style = getComputedStyle(canvas);
  context.clearRect(0, 0, canvas.width, canvas.height);
  if (!strokes.length) {
    context.fillStyle = style.getPropertyValue("--soft");
    context.font = `26px ${style.fontFamily}`;
    context.textAlign = "center";
    context.fillText("draw here", canvas.width / 2, canvas.height / 2);
  }
  context.strokeStyle = style.getPropertyValue("--text");
  Object.assign(context, { lineWidth: 30, lineCap: "round", lineJoin: "round" });
  trace(context, strokes, (at) => at);
  preview(strokes.length ? features() : new Array(size.height * size.width).fill(0));
}

function preview(values) {
  const context = $("preview").getContext("2d");
  const image = context.createImageData(size.width, size.height);
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  values.forEach((value, i) => {
    const share = value / size.maximum;
    const level = Math.round(255 * (dark ? 0.1 + 0.9 * share : 1 - share));
    image.data.set([level, level, level, 255], 4 * i);
  });
  context.putImageData(image, 0, 0);
}

/** Counts of ink by block, row by row. */
function features() {
  const bitmap = thickened();
  const width = size.width * BLOCK;
  const values = [];
  for (let row = 0; row < size.height; row++) {
    for (let column = 0; column < size.width; column++) {
      let on = 0;
      for (let i = 0; i < BLOCK * BLOCK; i++) {
        on += bitmap[(row * BLOCK + Math.floor(i / BLOCK)) * width + column * BLOCK + (i % BLOCK)];
      }
      values.push((on * size.maximum) / (BLOCK * BLOCK));
    }
  }
  return values;
}

/** The strokes as a bitmap, with the pen at the width that gives the usual share of ink. */
function thickened() {
  let [low, high] = [0.04 * size.height * BLOCK, 0.36 * size.height * BLOCK];
  let best = { bitmap: null, error: Infinity };
  for (let i = 0; i < 8; i++) {
    const pen = (low + high) / 2;
    const bitmap = rendered(pen);
    const error = bitmap.reduce((sum, on) => sum + on, 0) / bitmap.length - INK;
    if (Math.abs(error) < Math.abs(best.error)) best = { bitmap, error };
    if (error < 0) low = pen;
    else high = pen;
  }
  return best.bitmap;
}

const scratch = document.createElement("canvas");

function rendered(pen) {
  const [width, height] = [size.width * BLOCK, size.height * BLOCK];
  if (scratch.width !== width || scratch.height !== height) Object.assign(scratch, { width, height });
  const context = scratch.getContext("2d", { willReadFrequently: true });
  context.clearRect(0, 0, width, height);
  Object.assign(context, { lineWidth: pen, lineCap: "round", lineJoin: "round" });
  trace(context, strokes, placing(width, height, pen));
  const { data } = context.getImageData(0, 0, width, height);
  return Uint8Array.from({ length: width * height }, (_, i) => (data[4 * i + 3] > 127 ? 1 : 0));
}

/** Move the box of the drawing to the middle and scale it, the two directions on their own. */
function placing(width, height, pen) {
  const xs = strokes.flat().map((at) => at[0]);
  const ys = strokes.flat().map((at) => at[1]);
  const [left, right, top, bottom] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
  let across = Math.max(WIDEST * width - pen, 1) / Math.max(right - left, 1);
  let down = (height - pen) / Math.max(bottom - top, 1);
  [across, down] = [Math.min(across, STRETCH * down), Math.min(down, STRETCH * across)];
  return ([x, y]) => [width / 2 + across * (x - (left + right) / 2),
    height / 2 + down * (y - (top + bottom) / 2)];
}
