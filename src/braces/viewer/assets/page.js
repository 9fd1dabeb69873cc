"use strict";
// Draws the program in #content. Only text nodes are made of what is in it, never markup.

const content = JSON.parse(document.getElementById("content").textContent);
const blocks = content.blocks;
const CHUNK = 250; // rows that are drawn at once; more come when they are near the screen
const AT_FIRST = 120; // operators that are open when the page opens
const MOST_FOUND = 100;

const $ = (selector) => document.querySelector(selector);

function make(tag, className, ...children) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  element.append(...children);
  return element;
}

// ---- what the program says ----------------------------------------------------------------

const owners = new Map(); // number of a block -> {block, op, label}: the operator that owns it
const uses = new Map(); // key of a variable -> {made: place, read: [{place, slot}]}
const blockElements = new Map(); // number of a block -> its box, as soon as it is drawn
const has = (object, name) => Object.prototype.hasOwnProperty.call(object, name);

function ownerOf(block, name) {
  // The block that binds the name that `block` reads, or undefined.
  for (let at = block; at !== undefined; at = owners.get(at)?.block) {
    if (has(blocks[at].vars, name)) return at;
  }
  return undefined;
}

const keyOf = (block, name) => `${ownerOf(block, name) ?? "?"}:${name}`;
const typeOf = (block, name) => blocks[ownerOf(block, name)]?.vars[name][0] ?? "";

function useOf(key) {
  if (!uses.has(key)) uses.set(key, { made: null, read: [] });
  return uses.get(key);
}

const named = (slots) => Object.entries(slots).flatMap(([slot, names]) => names.map((n) => [slot, n]));

function connect() {
  blocks.forEach((block, number) =>
    block.ops.forEach((op, index) => op.b.forEach(([label, inner]) => owners.set(inner, { block: number, op: index, label }))),
  );
  blocks.forEach((block, number) =>
    block.ops.forEach((op, index) => {
      const place = { block: number, op: index };
      for (const [slot, name] of named(op.i)) useOf(keyOf(number, name)).read.push({ ...place, slot });
      for (const [, name] of named(op.o)) useOf(keyOf(number, name)).made = place;
    }),
  );
}

function capturesOf(number) {
  // The outer names that this block reads.
  const block = blocks[number];
  const read = block.ops.flatMap((op) => named(op.i).map(([, name]) => name)).concat(block.results);
  return [...new Set(read.filter((name) => !has(block.vars, name)))];
}

function countOps(number) {
  return blocks[number].ops.reduce((sum, op) => sum + 1 + op.b.reduce((n, [, b]) => n + countOps(b), 0), 0);
}

function pathOf(number) {
  const owner = owners.get(number);
  if (!owner) return [{ text: content.programs.find((p) => p.block === number)?.name ?? "", block: number }];
  const op = blocks[owner.block].ops[owner.op];
  return [...pathOf(owner.block), { text: op.n, ...owner }, { text: owner.label, block: number }];
}

// ---- rows -----------------------------------------------------------------------------------

function nameSpan(block, name, withType = false) {
  const span = make("span", "name", name);
  const key = keyOf(block, name);
  span.dataset.key = key;
  span.title = typeOf(block, name);
  if (key.startsWith("?")) span.classList.add("unknown");
  return withType ? make("span", "typed", span, make("span", "ty", typeOf(block, name))) : span;
}

function separated(parts) {
  return parts.flatMap((part, i) => (i ? [", ", part] : [part]));
}

function inputs(block, op) {
  const shown = Object.entries(op.i).filter(([slot]) => slot !== "captures" || !op.b.length);
  const plain = shown.length === 1 && shown[0][1].length === 1;
  return separated(
    shown.map(([slot, names]) => {
      const list = separated(names.map((name) => nameSpan(block, name)));
      const value = names.length === 1 ? list : ["[", ...list, "]"];
      return make("span", "", ...(plain ? [] : [make("span", "slot", `${slot}=`)]), ...value);
    }),
  );
}

function attributes(op) {
  const said = Object.entries(op.a).filter(([name]) => !op.d.includes(name));
  return said.map(([name, value]) => {
    const text = value.length > 40 ? `${value.slice(0, 40)}…` : value;
    return make("span", "attr", `${name}=${text}`);
  });
}

function opRow(number, index) {
  const op = blocks[number].ops[index];
  const outs = separated(named(op.o).map(([, name]) => nameSpan(number, name, true)));
  const row = make("div", `row op ${op.k}`);
  const code = make("span", "code", ...outs, outs.length ? " = " : "", make("b", "type", op.t), "(", ...inputs(number, op), ")");
  code.append(...attributes(op));
  row.append(code, make("span", "source", op.s));
  row.dataset.place = `${number}.${index}`;
  row.tabIndex = 0;
  if (!op.b.length) return row;
  const boxes = op.b.map(([label, inner]) => blockBox(inner, label));
  return make("div", "owner", row, ...boxes);
}

function declarationRow(number, kind, names) {
  const chips = names.map((name) => {
    const [, , trainable] = blocks[number].vars[name];
    const frozen = kind === "parameter" && !trainable ? [make("span", "ty", "frozen")] : [];
    return make("span", "chip", nameSpan(number, name, true), ...frozen);
  });
  return make("div", "row declaration", make("b", "kind", kind), make("span", "chips", ...chips));
}

function declarationRows(number) {
  // One row for each kind; a hundred names at most, so that large programs come bit by bit.
  const { vars } = blocks[number];
  return ["data", "parameter", "state"].flatMap((kind) => {
    const names = Object.keys(vars).filter((name) => vars[name][1] === kind);
    const rows = [];
    for (let at = 0; at < names.length; at += 100) {
      rows.push(() => declarationRow(number, kind, names.slice(at, at + 100)));
    }
    return rows;
  });
}

function itemsOf(number) {
  // What lies in a block, each as a function that draws it.
  const block = blocks[number];
  const program = content.programs.find((one) => one.block === number);
  const items = declarationRows(number);
  const firstOp = items.length;
  block.ops.forEach((_, index) => items.push(() => opRow(number, index)));
  if (block.results.length) items.push(() => wordRow(number, "return", separated(block.results.map((n) => nameSpan(number, n)))));
  for (const [name, value] of program?.updates ?? []) {
    items.push(() => wordRow(number, "update", [nameSpan(number, name), " ← ", nameSpan(number, value)]));
  }
  return { items, firstOp };
}

function wordRow(number, word, parts) {
  return make("div", "row word", make("span", "code", make("b", "kind", word), " ", ...parts));
}

// ---- blocks ---------------------------------------------------------------------------------

function blockBox(number, label) {
  const box = make("div", "block closed");
  box.dataset.block = number;
  blockElements.set(number, box);
  const count = countOps(number);
  const toggle = make("button", "toggle", make("span", "label", label), make("span", "count", `${count} op${count === 1 ? "" : "s"}`));
  toggle.type = "button";
  toggle.setAttribute("aria-expanded", "false");
  toggle.addEventListener("click", () => setOpen(number, box.classList.contains("closed")));
  const bar = make("div", "bar", toggle);
  const params = blocks[number].params.map((name) => make("span", "chip", nameSpan(number, name, true)));
  const captured = owners.has(number) ? capturesOf(number).map((name) => make("span", "chip captured", nameSpan(number, name))) : [];
  if (params.length) bar.append(make("span", "chips", ...params));
  if (captured.length) bar.append(make("span", "chips", make("span", "hint", "captures"), ...captured));
  box.append(bar);
  return box;
}

function setOpen(number, open) {
  const box = blockElements.get(number);
  box.classList.toggle("closed", !open);
  box.querySelector(".toggle").setAttribute("aria-expanded", String(open));
  if (open && !box.rows) draw(number, box);
}

function draw(number, box) {
  box.rows = make("div", "rows");
  box.append(box.rows);
  box.drawn = 0;
  box.content = itemsOf(number);
  drawMore(box, CHUNK);
}

const near = new IntersectionObserver(
  (entries) => entries.filter((e) => e.isIntersecting).forEach((e) => e.target.click()),
  { rootMargin: "600px" },
);

function drawMore(box, least) {
  box.more?.remove();
  const { items } = box.content;
  const end = Math.min(items.length, box.drawn + least);
  box.rows.append(...items.slice(box.drawn, end).map((item) => item()));
  box.drawn = end;
  if (end === items.length) return;
  box.more = make("button", "more", `${items.length - end} more rows`);
  box.more.type = "button";
  box.more.addEventListener("click", () => drawMore(box, CHUNK));
  box.rows.append(box.more);
  near.observe(box.more);
}

function reveal(number, index) {
  // Open everything around an operator and return its row.
  const owner = owners.get(number);
  if (owner) reveal(owner.block, owner.op);
  setOpen(number, true);
  if (index === undefined) return blockElements.get(number);
  const box = blockElements.get(number);
  const needed = box.content.firstOp + index + 1 - box.drawn;
  if (needed > 0) drawMore(box, needed + CHUNK);
  return box.rows.querySelector(`[data-place="${number}.${index}"]`);
}

function setAll(open) {
  // Opening goes from the outside in, and stops where a page would become slow.
  let room = 2000;
  for (let number = 0; number < blocks.length; number++) {
    const box = blockElements.get(number);
    if (!box) continue;
    if (open && (room -= Math.min(blocks[number].ops.length, CHUNK)) < 0) break;
    if (open || owners.has(number)) setOpen(number, open);
  }
}

// ---- the panel beside -----------------------------------------------------------------------

const panel = $("aside");

function table(rows) {
  return make("table", "", ...rows.map((cells) => make("tr", "", ...cells.map((cell) => make("td", "", ...[cell].flat())))));
}

function section(title, ...children) {
  return make("section", "", make("h3", "", title), ...children);
}

function link(place, text) {
  const button = make("button", "link", text);
  button.type = "button";
  button.addEventListener("click", () => go(place.block, place.op));
  return button;
}

function breadcrumb(number) {
  const parts = pathOf(number).map((step) => link(step, step.text));
  return make("p", "path", ...parts.flatMap((part, i) => (i ? [" › ", part] : [part])));
}

function slotTable(number, slots) {
  return table(named(slots).map(([slot, name]) => [slot, nameSpan(number, name), make("span", "ty", typeOf(number, name))]));
}

function showOp(number, index) {
  const op = blocks[number].ops[index];
  const parts = [breadcrumb(number), make("h2", "", op.t), make("p", "sub", op.n)];
  if (op.s) parts.push(make("p", "source", op.s));
  if (named(op.i).length) parts.push(section("Inputs", slotTable(number, op.i)));
  if (named(op.o).length) parts.push(section("Outputs", slotTable(number, op.o)));
  if (Object.keys(op.a).length) parts.push(section("Attributes", table(Object.entries(op.a))));
  if (op.b.length) parts.push(section("Blocks", table(op.b.map(([label, b]) => [link({ block: b }, label), `${countOps(b)} ops`]))));
  const doc = has(content.docs, op.t) ? content.docs[op.t] : "";
  if (doc) parts.push(section("What it does", make("pre", "doc", doc)));
  panel.replaceChildren(...parts);
  mark(null);
}

function showVar(key) {
  const [owner, ...rest] = key.split(":");
  const name = rest.join(":");
  const declared = owner === "?" ? ["unknown", "", false] : blocks[owner].vars[name];
  const { made, read } = useOf(key);
  const describe = (place) => {
    const op = blocks[place.block].ops[place.op];
    return [link(place, op.n), make("span", "ty", ` ${op.t}`)];
  };
  const parts = [owner === "?" ? "" : breadcrumb(Number(owner)), make("h2", "", name), make("p", "sub", declared[0])];
  parts.push(make("p", "", declared[1] + (declared[2] ? ", trainable" : "")));
  parts.push(section("Made by", made ? make("p", "", ...describe(made)) : make("p", "hint", "what is around the block")));
  parts.push(section(`Read by ${read.length}`, table(read.slice(0, 200).map((place) => [describe(place), place.slot]))));
  panel.replaceChildren(...parts);
  mark(key);
}

function showProgram() {
  const main = blocks[content.programs[0].block];
  const counts = new Map();
  const count = (number) =>
    blocks[number].ops.forEach((op) => {
      counts.set(op.t, (counts.get(op.t) ?? 0) + 1);
      op.b.forEach(([, inner]) => count(inner));
    });
  count(content.programs[0].block);
  const common = [...counts].sort((a, b) => b[1] - a[1]).slice(0, 30);
  const parameters = Object.keys(main.vars).filter((name) => main.vars[name][1] === "parameter");
  const parts = [make("p", "hint", "Click an operator or a name.")];
  if (parameters.length) {
    const number = content.programs[0].block;
    parts.push(section("Parameters", table(parameters.slice(0, 200).map((n) => [nameSpan(number, n), make("span", "ty", main.vars[n][0])]))));
  }
  parts.push(section("Operators", table(common.map(([type, n]) => [type, String(n)]))));
  panel.replaceChildren(...parts);
}

function mark(key) {
  document.querySelectorAll(".name.same").forEach((one) => one.classList.remove("same"));
  if (key === null) return;
  document.querySelectorAll(".name").forEach((one) => one.dataset.key === key && one.classList.add("same"));
}

function choose(row) {
  document.querySelectorAll(".chosen").forEach((one) => one.classList.remove("chosen"));
  row?.classList.add("chosen");
}

function go(number, index) {
  const element = reveal(number, index);
  const row = index === undefined ? element.querySelector(".bar") : element;
  choose(row);
  row.scrollIntoView({ block: "center" });
  if (index !== undefined) {
    showOp(number, index);
    history.replaceState(null, "", `#${number}.${index}`);
  }
}

// ---- search ---------------------------------------------------------------------------------

const field = $(".search input");
const found = $(".found");
let haystack = null;

function texts() {
  if (haystack) return haystack;
  haystack = [];
  blocks.forEach((block, number) =>
    block.ops.forEach((op, index) => {
      const names = [...named(op.o), ...named(op.i)].map(([, name]) => name);
      const attrs = Object.entries(op.a).map(([name, value]) => `${name}=${value}`);
      haystack.push({ number, index, text: [op.n, op.t, ...names, ...attrs, op.s].join(" ").toLowerCase() });
    }),
  );
  return haystack;
}

function search() {
  const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
  found.hidden = !words.length;
  if (!words.length) return;
  const hits = texts().filter(({ text }) => words.every((word) => text.includes(word)));
  const rows = hits.slice(0, MOST_FOUND).map(({ number, index }, i) => {
    const op = blocks[number].ops[index];
    const path = pathOf(number).map((step) => step.text).join(" › ");
    const row = make("li", i ? "" : "first", make("b", "", op.n), ` ${op.t} `, make("span", "hint", path));
    row.addEventListener("mousedown", (event) => (event.preventDefault(), pick(number, index)));
    row.pick = () => pick(number, index);
    return row;
  });
  const rest = hits.length > MOST_FOUND ? `… and ${hits.length - MOST_FOUND} more` : hits.length ? "" : "Nothing found";
  found.replaceChildren(...rows, ...(rest ? [make("li", "hint", rest)] : []));
}

function pick(number, index) {
  found.hidden = true;
  go(number, index);
}

function moveFirst(step) {
  const rows = [...found.children].filter((row) => row.pick);
  const at = rows.findIndex((row) => row.classList.contains("first"));
  const next = rows[Math.max(0, Math.min(rows.length - 1, at + step))];
  rows[at]?.classList.remove("first");
  next?.classList.add("first");
  next?.scrollIntoView({ block: "nearest" });
}

field.addEventListener("input", search);
field.addEventListener("focus", search);
field.addEventListener("blur", () => (found.hidden = true));
field.addEventListener("keydown", (event) => {
  const moves = { ArrowDown: 1, ArrowUp: -1 };
  if (event.key in moves) event.preventDefault(), moveFirst(moves[event.key]);
  if (event.key === "Enter") found.querySelector(".first")?.pick?.();
  if (event.key === "Escape") field.blur();
});

// ---- begin ----------------------------------------------------------------------------------

function onClick(event) {
  const name = event.target.closest(".name");
  if (name) return void showVar(name.dataset.key);
  const row = event.target.closest(".row.op");
  if (!row) return;
  const [number, index] = row.dataset.place.split(".").map(Number);
  choose(row);
  showOp(number, index);
  history.replaceState(null, "", `#${row.dataset.place}`);
}

function begin() {
  connect();
  $("h1").textContent = content.title;
  $(".facts").textContent = content.facts;
  for (const { name, block } of content.programs) $(".programs").append(blockBox(block, name));
  let room = AT_FIRST;
  setOpen(content.programs[0].block, true);
  const last = content.programs[1]?.block ?? blocks.length;
  for (let number = 1; number < last && blockElements.has(number); number++) {
    room -= blocks[number].ops.length;
    if (room >= 0) setOpen(number, true);
  }
  showProgram();
  const place = /^#(\d+)\.(\d+)$/.exec(location.hash);
  if (place && blocks[place[1]]?.ops[place[2]]) go(Number(place[1]), Number(place[2]));
}

document.addEventListener("click", onClick);
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && event.target !== field) event.preventDefault(), field.focus();
  if (event.key === "Enter" && event.target.matches?.(".row.op")) event.target.click();
});
$(".open").addEventListener("click", () => setAll(true));
$(".close").addEventListener("click", () => setAll(false));
begin();
