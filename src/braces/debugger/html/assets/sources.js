// Where the tables of a recording come from: the server of a session, or the file itself.

class Live {
  // The server of a session. Answers are kept until the run has gone on.
  constructor() {
    this.answers = new Map();
  }

  forget() {
    this.answers.clear();
  }

  async ask(path, query) {
    const answer = await fetch(`${path}?${new URLSearchParams(query)}`);
    if (!answer.ok) throw new Error((await answer.text()).trim() || `status ${answer.status}`);
    return answer;
  }

  bytes(path, query) {
    const id = JSON.stringify([path, query]);
    if (!this.answers.has(id)) this.answers.set(id, this.ask(path, query).then((answer) => answer.arrayBuffer()));
    return this.answers.get(id);
  }

  async state(version, generation) {
    return (await this.ask("state", { version, generation })).json();
  }

  async table(name, from) {
    return new Int32Array(await (await this.ask(name, { from })).arrayBuffer());
  }

  async series(key) {
    return readSeries(await this.bytes("series", { block: blockOf(key), name: nameOf(key) }));
  }

  async histogram(key, run) {
    const counts = await this.bytes("histogram", { block: blockOf(key), name: nameOf(key), run });
    return counts.byteLength ? new Uint32Array(counts) : null;
  }

  async value(key, run, from, count) {
    const query = { block: blockOf(key), name: nameOf(key), run, from, count };
    const answer = await fetch(`value?${new URLSearchParams(query)}`);
    if (answer.status !== 200) return null; // it is no longer kept
    const shape = answer.headers.get("X-Shape");
    const texts = readNumbers(answer.headers.get("X-Dtype"), await answer.arrayBuffer());
    return { texts, shape: shape ? shape.split(",").map(Number) : [] };
  }

  async rows(run) {
    return new Int32Array(await this.bytes("rows", { run }));
  }

  async command(fields) {
    const headers = { "Content-Type": "application/json" };
    const answer = await fetch("do", { method: "POST", headers, body: JSON.stringify(fields) });
    if (!answer.ok) throw new Error((await answer.text()).trim());
    return answer.json();
  }
}

class Saved {
  // The tables in the page itself.
  constructor(saved, buffer) {
    this.buffer = buffer;
    this.index = saved;
    this.places = new Map(saved.series.map(([block, name, start, length]) => [`${block}:${name}`, [start, length]]));
    this.values = new Map(saved.values.map(([block, name, run, ...rest]) => [JSON.stringify([`${block}:${name}`, run]), rest]));
    this.cases = new Map(saved.rows.map(([run, start, length]) => [run, [start, length]]));
  }

  static async open(saved) {
    const bytes = Uint8Array.from(atob(saved.bytes), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Saved(saved, await new Response(stream).arrayBuffer());
  }

  forget() {}

  part([start, length]) {
    return this.buffer.slice(start, start + length);
  }

  async table(name, from) {
    const width = name === "runs" ? 4 : 2;
    return new Int32Array(this.part(this.index[name])).subarray(width * from);
  }

  async series(key) {
    return readSeries(this.part(this.places.get(key) ?? [0, 0]), facts.bins);
  }

  async histogram(key, run) {
    const { runs, counts, bins } = await this.series(key);
    const at = runs.indexOf(run);
    return at < 0 ? null : counts.subarray(bins * at, bins * (at + 1));
  }

  async value(key, run, from, count) {
    const found = this.values.get(JSON.stringify([key, run]));
    if (!found) return null;
    const [code, shape, ...place] = found;
    return { texts: readNumbers(code, this.part(place)).slice(from, from + count), shape };
  }

  async rows(run) {
    return new Int32Array(this.cases.has(run) ? this.part(this.cases.get(run)) : 0);
  }
}
