"use strict";
// Outputs as scores or tables. Nothing here uses the browser.

const [MOST_CLASSES, MOST_VECTORS] = [2000, 8];

function softmax(values) {
  const most = Math.max(...values);
  const powers = values.map((value) => Math.exp(value - most));
  const total = powers.reduce((sum, power) => sum + power, 0);
  return powers.map((power) => power / total);
}

function isDistribution(values) {
  const total = values.reduce((sum, value) => sum + value, 0);
  return values.every((value) => value >= 0 && value <= 1.0001) && Math.abs(total - 1) < 0.01;
}

function vectorsOf({ shape, datatype, data }, declared) {
  // The vectors of class scores of an output; null if it has none.
  const classes = shape[shape.length - 1];
  const isVector = isFloat(datatype) && (shape.length === 1 || shape.length === 2);
  const isFixed = declared === undefined || declared[declared.length - 1] !== -1;
  if (!isVector || !isFixed || classes < 2 || classes > MOST_CLASSES) return null;
  if (!data.every((value) => typeof value === "number")) return null;
  const count = data.length / classes;
  if (count < 1 || count > MOST_VECTORS) return null;
  return Array.from({ length: count }, (_, i) => data.slice(i * classes, (i + 1) * classes));
}

function rankClasses(values) {
  // Classes by falling probability, and whether the values were probabilities.
  const given = isDistribution(values);
  const parts = given ? values : softmax(values);
  const classes = values.map((value, index) => ({ index, value, part: parts[index] }));
  classes.sort((a, b) => b.part - a.part || b.value - a.value || a.index - b.index);
  return { given, classes };
}

function rowsOf({ shape, data }) {
  // The rows of a table; of a higher rank, all axes but the last one make the rows.
  const width = shape.length ? shape[shape.length - 1] : 1;
  const count = width ? data.length / width : 0;
  return Array.from({ length: count }, (_, i) => data.slice(i * width, (i + 1) * width));
}

function indexText(row, shape) {
  // The index of a row of the table, as `[1, 0]`.
  const outer = shape.slice(0, -1);
  const index = [];
  for (const size of outer.toReversed()) {
    index.unshift(row % size);
    row = Math.floor(row / size);
  }
  return `[${index.join(", ")}]`;
}

const numberText = (value) =>
  typeof value !== "number" || Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(6)));
const percent = (part) => `${(100 * part).toFixed(1)} %`;
const timeText = (ms) => (ms < 1000 ? `${ms.toFixed(1)} ms` : `${(ms / 1000).toFixed(2)} s`);

const REASONS = {
  400: "The server refused the request.",
  401: "The server needs its token.",
  403: "The server does not accept requests from this address.",
  404: "The server does not have this model.",
  408: "The request took too long to arrive.",
  413: "The request is too large.",
  500: "The model failed.",
  503: "The server cannot accept the request now.",
  504: "The model took too long.",
};
const reasonOf = (status) => REASONS[status] ?? `The server answered with status ${status}.`;
