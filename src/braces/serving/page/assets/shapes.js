"use strict";
// Shapes and datatypes of inputs, and the values of requests. Nothing here uses the browser.

const [LEAST_SIDE, MOST_SIDE] = [8, 512];
const CHANNELS = [1, 3];
const WHOLE_RANGE = { UINT8: [0, 255] };
const isFloat = (datatype) => /^(FP|BF)/.test(datatype);
const isInteger = (datatype) => /^U?INT/.test(datatype);
const product = (sizes) => sizes.reduce((all, size) => all * size, 1);
const shapeText = (shape) => `[${shape.map((size) => (size === -1 ? "?" : size)).join(", ")}]`;

function makePicture(height, width, channels = 1, channelsFirst = false) {
  const fits = [height, width].every((size) => size >= LEAST_SIDE && size <= MOST_SIDE);
  return fits ? { height, width, channels, channelsFirst } : null;
}

function pictureOf({ shape, datatype }) {
  // The size of the picture that an input may be; null if it is none.
  if (datatype === "BOOL" || datatype === "BYTES") return null;
  const hasBatch = shape.length > 1 && (shape[0] === -1 || shape[0] === 1);
  const sizes = hasBatch ? shape.slice(1) : shape;
  if (sizes.length === 1) {
    const side = Math.sqrt(sizes[0]);
    const isPlain = hasBatch && (isFloat(datatype) || datatype === "UINT8");
    return isPlain && Number.isInteger(side) ? makePicture(side, side) : null;
  }
  const [first, second, third] = sizes;
  if (sizes.length === 2) return first === second ? makePicture(first, second) : null;
  if (sizes.length !== 3) return null;
  if (CHANNELS.includes(third)) return makePicture(first, second, third);
  return CHANNELS.includes(first) ? makePicture(second, third, first, true) : null;
}

function kindsOf(input) {
  // The kinds of form that an input may have; the first one is shown.
  if (input.datatype === "BYTES") return ["text"];
  const kinds = pictureOf(input) ? ["draw", "numbers"] : ["numbers"];
  const isList = input.shape.length === 1 || input.shape.length === 2;
  if (!isInteger(input.datatype) || !isList) return kinds;
  return input.vocabulary ? ["text", ...kinds] : [...kinds, "text"];
}

function pictureValues(pixels, { height, width, channels, channelsFirst }, [low, high], datatype) {
  // Red, green and blue from 0 to 1, row by row, as the values of an input.
  const scaled = (value) => {
    const number = low + (high - low) * value;
    return isFloat(datatype) ? Math.round(number * 1e4) / 1e4 : Math.round(number);
  };
  const grey = ([red, green, blue]) => [0.299 * red + 0.587 * green + 0.114 * blue];
  const rows = pixels.map(channels === 1 ? grey : (pixel) => pixel);
  const at = (index, channel) => scaled(rows[index][channel]);
  const [area, count] = [height * width, height * width * channels];
  if (channelsFirst) return Array.from({ length: count }, (_, i) => at(i % area, Math.floor(i / area)));
  return Array.from({ length: count }, (_, i) => at(Math.floor(i / channels), i % channels));
}

function sizesOf(value) {
  // The shape of nested lists.
  if (!Array.isArray(value)) return [];
  const inner = value.length ? sizesOf(value[0]) : [];
  for (const each of value) {
    if (String(sizesOf(each)) !== String(inner)) throw new Error("The lists have different lengths.");
  }
  return [value.length, ...inner];
}

function fitShape(given, declared) {
  // The shape of values that were written without a batch axis, or as a flat list.
  const fits = (shape) =>
    shape.length === declared.length && declared.every((size, i) => size === -1 || size === shape[i]);
  if (fits(given)) return given;
  if (fits([1, ...given])) return [1, ...given];
  const count = product(given);
  if (declared.length === 0 && count === 1) return [];
  const known = product(declared.filter((size) => size !== -1));
  const isFlat = given.length === 1 && declared.filter((size) => size === -1).length < 2;
  const filled = declared.map((size) => (size === -1 ? count / known : size));
  return isFlat && filled.every(Number.isInteger) && product(filled) === count ? filled : given;
}

function parseJson(text) {
  try {
    return JSON.parse(text);
  } catch {
    const words = text.trim().split(/[\s,;]+/);
    if (words.every((word) => word !== "" && Number.isFinite(Number(word)))) return words.map(Number);
    throw new Error("Expected JSON, such as [[0.5, 1], [2, 3]], or numbers with spaces between them.");
  }
}

function parseValues(text, { shape, datatype }) {
  // The shape and the flat values of a text; the server compares them with the declaration.
  if (text.trim() === "") throw new Error("The input is empty.");
  const value = parseJson(text);
  const flat = [value].flat(Infinity);
  const isExact = (number) => typeof number !== "number" || Number.isSafeInteger(number);
  if (isInteger(datatype) && !flat.every((each) => isExact(each) || !Number.isInteger(each))) {
    throw new Error("An integer beyond 2^53 is not exact in a browser; use curl.");
  }
  return { shape: fitShape(sizesOf(value), shape), data: flat };
}

function nested(data, shape) {
  if (shape.length === 0) return data[0];
  const [size, ...inner] = shape;
  const step = product(inner);
  return Array.from({ length: size }, (_, i) => nested(data.slice(i * step, (i + 1) * step), inner));
}

function writeNested(value) {
  // Nested lists as JSON, with a line for each innermost list.
  if (!Array.isArray(value) || !value.some(Array.isArray)) return JSON.stringify(value).replaceAll(",", ", ");
  return `[${value.map(writeNested).join(",\n")}]`;
}

function makeValues({ datatype }, shape, random) {
  // Values of a shape as nested lists: zeros, or numbers that `random` draws from 0 to 1.
  const one = () => {
    if (datatype === "BOOL") return random ? random() < 0.5 : false;
    if (!random) return 0;
    return isInteger(datatype) ? Math.floor(2 * random()) : Math.round(random() * 1000) / 1000;
  };
  return nested(Array.from({ length: product(shape) }, one), shape);
}
