// What the program says, as look-ups; nothing here knows a browser.

const blocks = content.blocks;
const owners = new Map(); // number of a block -> {block, op, label}: the operator that owns it
const uses = new Map(); // key of a variable -> {made: place, read: [{block, op, slot}]}
const has = (object, name) => Object.prototype.hasOwnProperty.call(object, name);
const named = (slots) => Object.entries(slots).flatMap(([slot, names]) => names.map((name) => [slot, name]));

function binderOf(block, name) {
  // The block that binds the name that `block` reads, or undefined.
  for (let at = block; at !== undefined; at = owners.get(at)?.block) {
    if (has(blocks[at].vars, name)) return at;
  }
  return undefined;
}

const keyOf = (block, name) => `${binderOf(block, name) ?? "?"}:${name}`;
const typeOf = (block, name) => blocks[binderOf(block, name)]?.vars[name][0] ?? "";

function useOf(key) {
  if (!uses.has(key)) uses.set(key, { made: null, read: [] });
  return uses.get(key);
}

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
  // The outer names that a block reads, those that its own blocks read included.
  const block = blocks[number];
  const inner = block.ops.flatMap((op) => op.b.flatMap(([, b]) => capturesOf(b)));
  const read = block.ops.flatMap((op) => named(op.i).map(([, name]) => name));
  return [...new Set([...inner, ...read, ...block.results])].filter((name) => !has(block.vars, name));
}

function countOps(number) {
  return blocks[number].ops.reduce((sum, op) => sum + 1 + op.b.reduce((n, [, b]) => n + countOps(b), 0), 0);
}

const counted = (count) => `${count.toLocaleString("en")} operator${count === 1 ? "" : "s"}`;

function pathOf(number) {
  const owner = owners.get(number);
  if (!owner) return [{ text: programOf(number)?.name ?? "", block: number }];
  const op = blocks[owner.block].ops[owner.op];
  return [...pathOf(owner.block), { text: op.n, ...owner }, { text: owner.label, block: number }];
}

function pathText(number, name) {
  // The path that Python takes: prog["loop_0/body/act"].
  const owner = owners.get(number);
  if (!owner) return name;
  const path = pathText(owner.block, `${blocks[owner.block].ops[owner.op].n}/${owner.label}`);
  return name ? `${path}/${name}` : path;
}

function highlighted() {
  // The operators and variables that a search selected, in program order.
  return blocks.flatMap((block, number) => [
    ...Object.keys(block.m ?? {}).filter((name) => block.m[name] === "highlighted").map((name) => ({ block: number, name })),
    ...block.ops.flatMap((op, index) => (op.m === "highlighted" ? [{ block: number, op: index, name: op.n }] : [])),
  ]);
}

const programOf = (number) => content.programs.find((program) => program.block === number);

connect();
