// A recorded run as tables, and the data flow of its program; nothing here knows a browser.

const facts = content.debugger;
const ENTRY = -1; // in place of the index of an operator: the beginning of a run of a block
const [SAME, OPERAND, INITIAL, CARRY, RESULT, CONTROL] = [0, 1, 2, 3, 4, 5];
const loops = new Set(facts.loops); // numbers of the blocks of loops

class Table {
  // Rows of integers, which grows.
  constructor(width) {
    this.width = width;
    this.numbers = new Int32Array(64 * width);
    this.count = 0;
  }

  append(more) {
    const used = this.count * this.width;
    if (used + more.length > this.numbers.length) {
      const larger = new Int32Array(Math.max(2 * this.numbers.length, used + more.length));
      larger.set(this.numbers.subarray(0, used));
      this.numbers = larger;
    }
    this.numbers.set(more, used);
    this.count += more.length / this.width;
  }

  at(row, column) {
    return this.numbers[row * this.width + column];
  }
}

class Recording {
  constructor() {
    this.runs = new Table(4); // block, run of the enclosing block, index of the owner, iteration
    this.events = new Table(2); // run, index of the operator
    this.ofBlock = new Map(); // number of a block -> its runs
    this.inside = new Map(); // run -> "block.iteration" -> run
    this.seen = new Set(); // "block.op" of operators that have run
  }

  addRuns(numbers) {
    let run = this.runs.count;
    this.runs.append(numbers);
    for (; run < this.runs.count; run++) {
      const block = this.block(run);
      if (!this.ofBlock.has(block)) this.ofBlock.set(block, []);
      this.ofBlock.get(block).push(run);
      const outer = this.outer(run);
      if (!this.inside.has(outer)) this.inside.set(outer, new Map());
      this.inside.get(outer).set(`${block}.${this.iteration(run)}`, run);
    }
  }

  addEvents(numbers) {
    let time = this.events.count;
    this.events.append(numbers);
    for (; time < this.events.count; time++) {
      const { block, op } = this.event(time);
      if (op !== ENTRY) this.seen.add(`${block}.${op}`);
    }
  }

  block(run) {
    return this.runs.at(run, 0);
  }

  outer(run) {
    return this.runs.at(run, 1);
  }

  iteration(run) {
    return this.runs.at(run, 3);
  }

  event(time) {
    const run = this.events.at(time, 0);
    return { run, block: this.block(run), op: this.events.at(time, 1), time };
  }

  runsOf(block) {
    return this.ofBlock.get(block) ?? [];
  }

  around(run) {
    // A run and the runs of the blocks around it, the innermost first.
    const runs = [];
    for (let at = run; at >= 0 && at < this.runs.count; at = this.outer(at)) runs.push(at);
    return runs;
  }

  in(run, block) {
    // The run of a block around a run; undefined if there is none.
    return this.around(run).find((one) => this.block(one) === block);
  }

  innerRuns(run, block) {
    const all = [...(this.inside.get(run) ?? new Map()).values()];
    return all.filter((one) => this.block(one) === block);
  }

  label(run) {
    // The iterations and branches around, as "loop_0 [3] › partition_0 cases[1]".
    const steps = this.around(run).slice(0, -1).reverse().map((one) => {
      const { block, op, label } = owners.get(this.block(one));
      const name = blocks[block].ops[op].n;
      if (!loops.has(this.block(one))) return label === "body" ? name : `${name} ${label}`;
      return `${name} ${label === "body" ? "" : label}[${this.iteration(one)}]`;
    });
    return steps.join(" › ") || "main block";
  }
}

// ---- series ----

const ROW = 4 * 8 + 5 * 4; // bytes of the measures of a value

function readSeries(buffer, bins = 0) {
  // The measures of a variable: parallel arrays, one entry for each run of its block.
  const count = buffer.byteLength / (ROW + 4 * bins);
  const moments = new Float64Array(buffer, 0, 4 * count);
  const numbers = new Int32Array(buffer, 32 * count, 5 * count);
  const column = (table, width, at) => Array.from({ length: count }, (_, i) => table[width * i + at]);
  const [min, max, mean, std] = [0, 1, 2, 3].map((at) => column(moments, 4, at));
  const [runs, times, nans, infs, sizes] = [0, 1, 2, 3, 4].map((at) => column(numbers, 5, at));
  const counts = bins ? new Uint32Array(buffer, ROW * count, bins * count) : null;
  return { count, min, max, mean, std, runs, times, nans, infs, sizes, counts, bins };
}

const ARRAYS = {
  b1: Uint8Array, i1: Int8Array, u1: Uint8Array, i2: Int16Array, u2: Uint16Array, i4: Int32Array, u4: Uint32Array,
  i8: BigInt64Array, u8: BigUint64Array, f4: Float32Array, f8: Float64Array,
};

function readNumbers(code, buffer) {
  // Elements as texts; those of complex numbers are pairs.
  const numbers = new ARRAYS[code.slice(0, 2)](buffer);
  if (code === "b1") return Array.from(numbers, (one) => (one ? "true" : "false"));
  if (!code.endsWith("c")) return Array.from(numbers, formatNumber);
  return Array.from({ length: numbers.length / 2 }, (_, i) => `${formatNumber(numbers[2 * i])} + ${formatNumber(numbers[2 * i + 1])}i`);
}

function formatNumber(number) {
  if (typeof number === "bigint" || Number.isInteger(number)) return String(number);
  if (!Number.isFinite(number)) return Number.isNaN(number) ? "NaN" : number > 0 ? "∞" : "−∞";
  return String(Number(number.toPrecision(5)));
}

// ---- data flow ----

const sources = new Map(); // key of a variable -> [{key, kind}]: what it is computed from
const targets = new Map();

for (const [fromBlock, fromName, toBlock, toName, kind] of facts.edges) {
  const [from, to] = [`${fromBlock}:${fromName}`, `${toBlock}:${toName}`];
  if (!sources.has(to)) sources.set(to, []);
  if (!targets.has(from)) targets.set(from, []);
  sources.get(to).push({ key: from, kind });
  targets.get(from).push({ key: to, kind });
}

function sliceOf(key, isBackward) {
  // The keys of all variables that a variable depends on, or that depend on it, itself included.
  const edges = isBackward ? sources : targets;
  const found = new Set([key]);
  for (const one of found) for (const next of edges.get(one) ?? []) found.add(next.key);
  return found;
}

const blockOf = (key) => Number(key.slice(0, key.indexOf(":")));
const nameOf = (key) => key.slice(key.indexOf(":") + 1);

function originsOf(recording, run, key) {
  // Where the value of a variable in a run comes from: [{key, run, kind}], one step back.
  const found = [];
  for (const { key: source, kind } of sources.get(key) ?? []) {
    const at = originRun(recording, run, key, source, kind);
    if (at !== undefined) found.push({ key: source, run: at, kind });
  }
  return found;
}

function originRun(recording, run, key, source, kind) {
  const [from, to] = [blockOf(source), blockOf(key)];
  if (kind === CARRY) {
    const iteration = recording.iteration(run) - 1;
    if (iteration < 0) return undefined;
    return recording.inside.get(recording.outer(run))?.get(`${from}.${iteration}`) ?? recording.in(run, from);
  }
  if (kind === INITIAL && from !== to && recording.iteration(run) > 0) return undefined;
  if (kind === INITIAL && from === to && hasInner(recording, run, key)) return undefined;
  if (kind === RESULT || (kind === CONTROL && recording.in(run, from) === undefined)) {
    return recording.innerRuns(run, from).at(-1);
  }
  return recording.in(run, from);
}

function hasInner(recording, run, key) {
  const made = useOf(key).made;
  if (!made) return false;
  return blocks[made.block].ops[made.op].b.some(([, inner]) => recording.innerRuns(run, inner).length > 0);
}
