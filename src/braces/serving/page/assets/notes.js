"use strict";
// Metadata of a model: names of classes, vocabularies, ranges. It may come from strangers: what
// is not as expected is ignored. Nothing here uses the browser.

const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

function noteOf(notes, key) {
  return isObject(notes) && Object.hasOwn(notes, key) ? notes[key] : null;
}

function noteFor(notes, key, name) {
  // An entry that holds for all inputs or outputs, or that of this one by its name.
  const value = noteOf(notes, key);
  const isByName = isObject(value) && Object.values(value).every((each) => typeof each === "object");
  return isByName ? noteOf(value, name) : value;
}

function classesFor(notes, { name, datatype }) {
  // The names of classes of an output; null if there are none. Indices need those of their name.
  if (Array.isArray(noteOf(notes, "classes")) && !isFloat(datatype)) return null;
  const names = noteFor(notes, "classes", name);
  return Array.isArray(names) && names.every((each) => typeof each === "string") ? names : null;
}

function vocabularyFor(notes, name) {
  // The tokens of an input with their ids; null if there are none.
  try {
    const tokens = tokensOf(noteFor(notes, "vocabulary", name));
    return tokens.size ? tokens : null;
  } catch {
    return null;
  }
}

function rangeFor(notes, name) {
  // The values of black and white pixels of an input; null if there are none.
  const range = noteFor(notes, "ranges", name);
  return Array.isArray(range) && range.length === 2 && range.every(Number.isFinite) ? range : null;
}

function withNotes(input, notes) {
  return { ...input, vocabulary: vocabularyFor(notes, input.name), range: rangeFor(notes, input.name) };
}
