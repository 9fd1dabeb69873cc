// What is visible, as boxes in boxes, and edges between them; nothing here knows a browser.
//
// box  := id, kind, lines: [[text, class]…]*, w, h (the least), children: box*, head: height above
//         the children, place: {block, op} of an operator, key of a variable,
//         toggle: id of what the line numbered `line` opens and closes, open: whether it is,
//         isList: whether its children lie in rows, and edges end at the box itself
// edge := id, from, to: ids of boxes, kind: "flow" | "capture", keys of variables

const LINE = 17; // pixels from one line of a box to the next
const PAD = 8;
const LONGEST = 44; // characters of a text in a box; the panel shows all of it
const MANY = 150; // a block with more operators is drawn in parts that open and close
const PART = 100;
const VARIABLES = { data: "data", parameter: "parameters", state: "states", argument: "arguments" };
const MANY_VARIABLES = 16; // of one kind, which are then a list
const HUB = 10; // readers above which what binds a variable is named beside each instead

const short = (text) => (text.length > LONGEST ? `${text.slice(0, LONGEST - 1)}…` : text);
const blockId = (number) => `b${number}`;
const partId = (number, what) => `p${number}.${what}`;
const opId = (number, index) => `o${number}.${index}`;

function partsOf(id, from, to, many = MANY) {
  // The parts of a long row of things, each {id, from, to}; none where the row is short.
  if (to - from <= many) return [];
  const size = Math.max(PART, Math.ceil((to - from) / PART));
  const parts = [];
  for (let at = from; at < to; at += size) {
    const end = Math.min(to, at + size);
    parts.push({ id: `${id}:${at}-${end}`, from: at, to: end });
  }
  return parts;
}

const PHASES = ["metrics", "gradient", "optimizer", "update"]; // of a main block, each a part that is closed at first

function phased(number, phase) {
  // The operators of a phase of a block, each {op, index}; the forward part is the phase "".
  return blocks[number].ops.map((op, index) => ({ op, index })).filter(({ op }) => (op.p ?? "") === phase);
}

function homeOf(number, name) {
  // The phase whose operators alone read a declared variable, or "".
  const readers = useOf(keyOf(number, name)).read.filter(({ block }) => block === number);
  const homes = new Set(readers.map(({ op }) => blocks[number].ops[op].p ?? ""));
  return homes.size === 1 ? [...homes][0] : "";
}

function aroundOp(number, index) {
  // The ids of all that must be open for an operator to be seen, outermost first.
  const owner = owners.get(number);
  const ids = owner ? aroundOp(owner.block, owner.op) : [];
  ids.push(blockId(number));
  if (index === undefined) return ids;
  const phase = blocks[number].ops[index].p ?? "";
  const row = phased(number, phase);
  const position = row.findIndex((one) => one.index === index);
  if (phase) ids.push(partId(number, phase));
  const inside = (id, from, to) => {
    const part = partsOf(id, from, to).find((one) => one.from <= position && position < one.to);
    if (part) ids.push(part.id), inside(part.id, part.from, part.to);
  };
  inside(partId(number, `${phase} operators`.trim()), 0, row.length);
  return ids;
}

function ownInputs(op) {
  // What an operator reads itself; what its blocks capture, they read.
  return named(op.i).filter(([slot]) => slot !== "captures" || !op.b.length).map(([, name]) => name);
}

function common(ops) {
  // The types of operators that are most, as "tanh ×40, add ×3, …".
  const counts = new Map();
  for (const { t } of ops) counts.set(t, (counts.get(t) ?? 0) + 1);
  const most = [...counts].sort((a, b) => b[1] - a[1]);
  return most.slice(0, 3).map(([type, n]) => `${type} ×${n}`).join(", ") + (most.length > 3 ? ", …" : "");
}

function boxOf(id, kind, lines, more = {}) {
  const cut = lines.map((line) => line.map(([text, style]) => [short(text), style]));
  const widest = Math.max(0, ...cut.map((line) => measure(line.map(([text]) => text).join(""))));
  const h = cut.length * LINE + PAD;
  return { id, kind, lines: cut, w: Math.ceil(widest) + 2 * PAD + 4, h, head: h, children: [], ...more };
}

class Graph {
  // Blocks and parts that `isOpen` are drawn with what is in them; without edges, each operator
  // is one row that names its inputs.
  constructor(isOpen, withEdges) {
    this.isOpen = isOpen;
    this.withEdges = withEdges;
    this.sources = new Map(); // number of an open block -> Map of name -> id of the box that binds it
    this.readers = []; // {block, name, to}: what boxes read, until all boxes are known
    this.around = new Map(); // id of a box -> id of the box it lies in
    this.boxes = new Map(); // id of a box that holds others -> the box
  }

  program({ block, updates, name }) {
    this.updates = new Map(updates.map(([to, from]) => [from, to]));
    this.main = block;
    const root = this.block(block, name);
    return { root, edges: this.withEdges ? this.edges() : [] };
  }

  hold(box, children) {
    box.children.push(...children);
    this.boxes.set(box.id, box);
    for (const child of children) this.around.set(child.id, box.id);
  }

  // ---- blocks and their parts ----

  toggleLine(id, label, said) {
    return [[this.isOpen(id) ? "▾ " : "▸ ", "mark"], [label, "label"], [`  ${said}`, "soft"]];
  }

  block(number, label) {
    const id = blockId(number);
    const line = this.toggleLine(id, label, counted(countOps(number)));
    const box = boxOf(id, "block", [line], { toggle: id, line: 0, open: this.isOpen(id) });
    this.fill(box, number);
    return box;
  }

  fill(box, number) {
    // What lies in a block, if it is open; what it captures, if it is closed.
    if (!this.isOpen(blockId(number))) return this.read(number, capturesOf(number), box);
    const { results } = blocks[number];
    this.sources.set(number, new Map());
    for (const phase of ["", ...PHASES]) this.phase(box, number, phase);
    const isResult = (name) => ["return", name, name];
    this.row(box, number, this.words(number, "results", results.map(isResult)));
    this.row(box, number, this.words(number, "updates", this.updatesOf(number)));
  }

  phase(outer, number, phase) {
    // The declared variables and the operators of a phase: in the block, or in a part of it.
    const things = phased(number, phase);
    if (phase && !things.length) return;
    const operators = {
      what: `${phase} operators`.trim(),
      things,
      draw: ({ index }) => this.op(number, index),
      binds: ({ op }) => named(op.o).map(([, name]) => name),
      reads: ({ op }) => [...ownInputs(op), ...op.b.flatMap(([, inner]) => capturesOf(inner))],
      says: (part) => common(things.slice(part.from, part.to).map(({ op }) => op)),
    };
    const count = things.reduce((sum, { op }) => sum + 1 + op.b.reduce((n, [, b]) => n + countOps(b), 0), 0);
    const box = phase ? this.part(partId(number, phase), phase, counted(count), false) : outer;
    if (phase) this.hold(outer, [box]);
    for (const row of this.declarations(number, phase)) {
      if (box === outer || box.open) this.row(box, number, row);
      else this.stand(number, box, undefined, row.things, row.binds, () => []);
    }
    if (box === outer || box.open) this.row(box, number, operators);
    else this.stand(number, box, undefined, things, operators.binds, operators.reads);
  }

  declarations(number, phase) {
    // A row for each kind of declared variables; states of the optimizer lie in its part.
    const { vars } = blocks[number];
    return Object.entries(VARIABLES).map(([kind, what]) => {
      const home = (name) => (kind === "state" ? homeOf(number, name) : "");
      const things = Object.keys(vars).filter((name) => vars[name][1] === kind && home(name) === phase);
      const draw = (name) => this.declared(number, name);
      const called = `${phase} ${what}`.trim();
      return { what: called, things, draw, binds: (name) => [name], many: MANY_VARIABLES, isList: true };
    });
  }

  read(number, names, { id }) {
    for (const name of names) this.readers.push({ block: number, name, to: id });
  }

  row(outer, number, row) {
    // Boxes for things of one sort, in parts where they are many; a closed part binds and reads
    // what the things in it do.
    const { what, things, draw, binds = () => [], reads = () => [], isList = false } = row;
    const binders = this.sources.get(number);
    const inside = (box, id, from, to, list, many) => {
      const parts = partsOf(id, from, to, many);
      for (let at = from; !parts.length && at < to; at++) {
        const made = draw(things[at], at);
        for (const name of binds(things[at])) binders.set(name, list ?? made.id);
        this.hold(box, [made]);
      }
      for (const part of parts) {
        const label = parts.length > 1 ? `${what} ${part.from + 1}–${part.to}` : `${things.length} ${what}`;
        const one = this.part(part.id, label, row.says?.(part) ?? "", isList);
        this.hold(box, [one]);
        if (!one.open) this.stand(number, one, list, things.slice(part.from, part.to), binds, reads);
        else inside(one, part.id, part.from, part.to, isList ? (list ?? one.id) : undefined);
      }
    };
    inside(outer, partId(number, what), 0, things.length, undefined, row.many);
  }

  part(id, label, said, isList) {
    const line = this.toggleLine(id, label, said);
    return boxOf(id, "part", [line], { toggle: id, line: 0, open: this.isOpen(id), isList });
  }

  stand(number, part, list, things, binds, reads) {
    for (const thing of things) {
      for (const name of binds(thing)) this.sources.get(number).set(name, list ?? part.id);
      this.read(number, reads(thing), part);
    }
  }

  // ---- what lies in a block ----

  declared(number, name) {
    const [type, kind, trainable] = blocks[number].vars[name];
    const frozen = kind === "parameter" && !trainable ? " frozen" : "";
    const lines = [[[name, "name"]], [[`${kind + frozen} ${type}`, "soft"]]];
    const mark = blocks[number].m?.[name];
    return boxOf(`v${number}.${name}`, `var ${kind}${mark ? ` ${mark}` : ""}`, lines, { key: keyOf(number, name) });
  }

  words(number, what, said) {
    // Results and updates: a word, the name that is shown, the name that is read.
    const draw = ([word, shown, from], i) => {
      const line = [[`${word} `, "soft"], [shown, "name"]];
      const box = boxOf(`w${number}.${what}.${i}`, "var result", [line], { key: keyOf(number, shown) });
      this.read(number, [from], box);
      return box;
    };
    return { what, things: said, draw, reads: ([, , from]) => [from] };
  }

  updatesOf(number) {
    // Those that no operator of the block can show beside its output.
    if (number !== this.main) return [];
    const rest = [...this.updates].filter(([from]) => useOf(keyOf(number, from)).made?.block !== number);
    return rest.map(([from, to]) => ["update", to, from]);
  }

  op(number, index) {
    const op = blocks[number].ops[index];
    const lines = this.withEdges ? this.card(number, op) : [this.line(number, op)];
    const more = { place: { block: number, op: index } };
    const [[label, inner]] = op.b.length === 1 ? op.b : [[]];
    if (inner !== undefined) {
      const id = blockId(inner);
      lines.push(this.toggleLine(id, label, counted(countOps(inner))));
      Object.assign(more, { toggle: id, line: lines.length - 1, open: this.isOpen(id) });
    }
    const box = boxOf(opId(number, index), `op ${op.k}${op.m ? ` ${op.m}` : ""}`, lines, more);
    this.read(number, ownInputs(op), box);
    if (inner !== undefined) this.fill(box, inner);
    else this.hold(box, op.b.map(([name, block]) => this.block(block, name)));
    return box;
  }

  title(op) {
    // The type, and the name of what owns blocks where no output tells it.
    const told = named(op.o).some(([, name]) => `${name}.`.startsWith(`${op.n}.`));
    return [[op.t, "type"], ...(op.b.length && !told ? [[` ${op.n}`, "label"]] : [])];
  }

  committed(number, name) {
    // What takes on a value at the end of a run; a plain block gives it out under its own name.
    if (number === this.main) return this.updates.get(name);
    const { block, op } = owners.get(number);
    const owner = blocks[block].ops[op];
    const given = owner.t === "block" && named(owner.o).some(([, one]) => one === name);
    return given ? this.committed(block, name) : undefined;
  }

  output(number, name) {
    const to = this.committed(number, name);
    return [[name, "name"], [` ${typeOf(number, name)}`, "soft"], ...(to ? [[` ⇒ ${to}`, "update"]] : [])];
  }

  card(number, op) {
    const names = named(op.o).map(([, name]) => name);
    const shown = names.length > 3 ? names.slice(0, 2) : names;
    const rest = names.length - shown.length;
    const lines = shown.map((name) => this.output(number, name));
    return [this.title(op), ...lines, ...(rest ? [[[`… and ${rest} more`, "soft"]]] : [])];
  }

  line(number, op) {
    const names = named(op.o).map(([, name]) => name);
    const outs = names.length === 1 ? this.output(number, names[0]) : [[names.join(", "), "name"]];
    const ins = named(op.i).map(([, name]) => name).join(", ");
    return [...outs, [names.length ? " = " : "", "soft"], ...this.title(op), [`(${short(ins)})`, ""]];
  }

  // ---- edges ----

  edges() {
    const found = new Map();
    for (const { block, name, to } of this.readers) {
      const binder = binderOf(block, name);
      const from = this.sources.get(binder)?.get(name);
      if (from === undefined || this.holds(from, to) || this.holds(to, from)) continue;
      const id = `${from}>${to}`;
      const kind = binder === block ? "flow" : "capture";
      if (!found.has(id)) found.set(id, { id, from, to, kind, keys: new Set() });
      if (kind === "flow") found.get(id).kind = kind;
      found.get(id).keys.add(`${binder}:${name}`);
    }
    return this.echoed([...found.values()]);
  }

  echoed(edges) {
    // A box that very many read is named again beside each reader, so that edges stay short.
    const counts = new Map();
    for (const { from } of edges) counts.set(from, (counts.get(from) ?? 0) + 1);
    return edges.map((edge) => (counts.get(edge.from) > HUB ? { ...edge, from: this.echo(edge) } : edge));
  }

  echo({ id, to, keys }) {
    const names = [...keys].map((key) => key.slice(key.indexOf(":") + 1));
    const more = names.length > 1 ? ` and ${names.length - 1} more` : "";
    const box = boxOf(`e${id}`, "var echo", [[["↑ ", "mark"], [names[0], "name"], [more, "soft"]]], { key: [...keys][0] });
    this.hold(this.boxes.get(this.around.get(to)), [box]);
    return box.id;
  }

  holds(outer, inner) {
    for (let at = inner; at !== undefined; at = this.around.get(at)) if (at === outer) return true;
    return false;
  }
}
