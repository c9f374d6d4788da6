/* Where to write the names on the map so that they do not cover each other. */

const PLACES = ["top center", "bottom center", "middle right", "middle left",
  "top right", "bottom left", "top left", "bottom right"];
const LETTER = 6.9; // px; a guess at the mean width of a letter at 12 px
const LINE = 15;
const GAP = 9; // from the point to its name

/**
 * Choose a place for each name, one after the other, where it covers least.
 *
 * points: [{x, y, radius, name}] in pixels, the most important first; width, height: of the plot.
 */
export function placeLabels(points, width, height) {
  const dots = points.map(({ x, y, radius: r }) => ({ left: x - r, right: x + r, top: y - r, bottom: y + r }));
  const taken = [];
  return points.map((point, i) => {
    if (!point.name) return PLACES[0];
    let best = null;
    PLACES.forEach((place, order) => {
      const box = boxAt(point, place);
      const others = dots.filter((_, k) => k !== i);
      const cost = 3 * covered(box, taken) + covered(box, others) + 4 * outside(box, width, height) + order;
      if (best === null || cost < best.cost) best = { place, box, cost };
    });
    taken.push(best.box);
    return best.place;
  });
}

function boxAt({ x, y, name }, place) {
  const wide = LETTER * name.length;
  const [down, across] = place.split(" ");
  const left = { left: x - GAP - wide, center: x - wide / 2, right: x + GAP }[across];
  const top = { top: y - GAP - LINE, middle: y - LINE / 2, bottom: y + GAP }[down];
  return { left, right: left + wide, top, bottom: top + LINE };
}

function covered(box, others) {
  return others.reduce((sum, other) => sum
    + Math.max(0, Math.min(box.right, other.right) - Math.max(box.left, other.left))
    * Math.max(0, Math.min(box.bottom, other.bottom) - Math.max(box.top, other.top)), 0);
}

function outside(box, width, height) {
  return LINE * (Math.max(0, -box.left) + Math.max(0, box.right - width))
    + 60 * (Math.max(0, -box.top) + Math.max(0, box.bottom - height));
}
