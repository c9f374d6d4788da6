/* Attributes that the seen classes suggest for a class of which only some attributes are known. */

const RIDGE = 1e-6; // next to nothing: the least-squares answer of smallest norm

/** Mean over rows. */
export function mean(rows) {
  return rows[0].map((_, j) => rows.reduce((sum, row) => sum + row[j], 0) / rows.length);
}

/**
 * Least squares from known to unknown attributes over the seen classes, at one new class.
 *
 * rows: attribute vectors of the seen classes; known, unknown: positions; values: the new class at
 * the known ones. Returns its values at the unknown ones, inside what the seen classes span.
 */
export function estimate(rows, known, unknown, values) {
  const inputs = rows.map((row) => known.map((j) => row[j]));
  const middle = mean(inputs);
  const centred = inputs.map((row) => row.map((value, j) => value - middle[j]));
  const at = values.map((value, j) => value - middle[j]);
  const gram = centred.map((a, i) => centred.map((b, k) => dot(a, b) + (i === k ? RIDGE : 0)));
  const weights = solve(gram, centred.map((row) => dot(row, at)));
  return unknown.map((j) => {
    const column = rows.map((row) => row[j]);
    const average = column.reduce((sum, value) => sum + value, 0) / column.length;
    const value = average + dot(weights, column.map((each) => each - average));
    return Math.min(Math.max(value, Math.min(...column)), Math.max(...column));
  });
}

function dot(a, b) {
  return a.reduce((sum, value, i) => sum + value * b[i], 0);
}

/** Gaussian elimination with pivots; the matrix is small and positive definite. */
function solve(matrix, right) {
  const rows = matrix.map((row, i) => [...row, right[i]]);
  const n = rows.length;
  for (let i = 0; i < n; i++) {
    let pivot = i;
    for (let k = i + 1; k < n; k++) if (Math.abs(rows[k][i]) > Math.abs(rows[pivot][i])) pivot = k;
    [rows[i], rows[pivot]] = [rows[pivot], rows[i]];
    for (let k = i + 1; k < n; k++) {
      const factor = rows[k][i] / rows[i][i];
      for (let j = i; j <= n; j++) rows[k][j] -= factor * rows[i][j];
    }
  }
  const solution = new Array(n).fill(0);
  for (let i = n - 1; i >= 0; i--) {
    const rest = rows[i].slice(i + 1, n).reduce((sum, value, k) => sum + value * solution[i + 1 + k], 0);
    solution[i] = (rows[i][n] - rest) / rows[i][i];
  }
  return solution;
}
