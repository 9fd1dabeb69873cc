"use strict";
// Texts as token ids and back, server-sent events, commands to copy. Nothing here uses the browser.

class Vocabulary {
  // bytes: UTF-8; codes: Unicode; list: the tokens of a text, as `abc`, lines, or JSON;
  // model: the given tokens.
  constructor(kind, text = "", tokens = new Map()) {
    this.kind = kind;
    this.ids = kind === "list" ? readTokens(text) : tokens;
    this.tokens = new Map([...this.ids].map(([token, id]) => [id, token]));
    this.longest = [...this.ids.keys()].reduce((most, token) => Math.max(most, token.length), 0);
    this.decoder = new TextDecoder();
  }

  encode(text) {
    if (this.kind === "bytes") return [...new TextEncoder().encode(text)];
    if (this.kind === "codes") return [...text].map((character) => character.codePointAt(0));
    const ids = [];
    for (let at = 0; at < text.length; ) {
      const token = this.tokenAt(text, at);
      ids.push(this.ids.get(token));
      at += token.length;
    }
    return ids;
  }

  tokenAt(text, at) {
    // The longest token that begins here.
    for (let length = this.longest; length > 0; length--) {
      const token = text.slice(at, at + length);
      if (token.length === length && this.ids.has(token)) return token;
    }
    const [character] = text.slice(at);
    throw new Error(`The vocabulary has no token for "${character}" (character ${at + 1}).`);
  }

  decode(id) {
    // The text of the next id of a stream.
    if (this.kind === "bytes") return this.decoder.decode(Uint8Array.of(id), { stream: true });
    if (this.kind === "codes") return id >= 0 && id < 0x110000 ? String.fromCodePoint(id) : `<${id}>`;
    return this.tokens.get(id) ?? `<${id}>`;
  }
}

function readTokens(text) {
  // Tokens with their ids: a JSON list or object, a token on each line, or one line of characters.
  if (/^\s*[[{]/.test(text)) {
    const value = readJson(text);
    if (value !== null) return tokensOf(value);
  }
  const lines = text.split(/\r?\n/).filter((line) => line !== "");
  const tokens = lines.length > 1 ? lines : [...(lines[0] ?? "")];
  if (!tokens.length) throw new Error("The vocabulary is empty.");
  return new Map(tokens.map((token, id) => [token, id]));
}

function readJson(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

function tokensOf(value) {
  const pairs = Array.isArray(value) ? value.map((token, id) => [token, id]) : Object.entries(value ?? {});
  if (!pairs.every(([token, id]) => typeof token === "string" && Number.isInteger(id))) {
    throw new Error('Expected a vocabulary such as ["a", "b"] or {"a": 0, "b": 1}.');
  }
  return new Map(pairs);
}

function fitIds(ids, shape) {
  // The shape of the ids of a text; a fixed length is filled with zeros.
  const length = shape[shape.length - 1];
  if (!ids.length) throw new Error("The text is empty.");
  if (length !== -1 && ids.length > length) {
    throw new Error(`The text has ${ids.length} tokens; the input has room for ${length}.`);
  }
  const data = length === -1 ? ids : [...ids, ...Array(length - ids.length).fill(0)];
  return { shape: shape.length === 1 ? [data.length] : [1, data.length], data };
}

class EventReader {
  // The objects of server-sent events, from pieces of the stream.
  rest = "";

  read(text) {
    const events = (this.rest + text).split(/\r?\n\r?\n/);
    this.rest = events.pop();
    const dataOf = (event) =>
      event.split(/\r?\n/).filter((line) => line.startsWith("data:")).map((line) => line.slice(5)).join("\n");
    return events.map(dataOf).filter((data) => data !== "").map((data) => JSON.parse(data));
  }
}

const quoted = (text) => `'${text.replaceAll("'", String.raw`'\''`)}'`;

function curlCommand(url, body, { token = false, stream = false, file = "" } = {}) {
  // The token is a variable of the shell, so that it is in no history.
  const lines = [
    `curl ${stream ? "-N " : ""}${quoted(url)}`,
    "-H 'Content-Type: application/json'",
    ...(token ? ['-H "Authorization: Bearer $TOKEN"'] : []),
    `-d ${file ? `@${file}` : quoted(body)}`,
  ];
  return lines.join(" \\\n  ");
}
