"use strict";
// A form for each input: drawing, numbers or text.

const KIND_NAMES = { draw: "Draw", numbers: "Numbers", text: "Text" };
const MOST_NUMBERS = 200000;
const FIRST_ROWS = 4096; // the largest number of zeros that a form begins with

class NumbersForm {
  constructor(input, start = null) {
    this.input = input;
    this.sizes = input.shape.map((size, axis) =>
      size === -1 ? makeField(`Axis ${axis} `, "number", axis ? 4 : 1, { min: 1, step: 1 }) : null,
    );
    const [random, zeros] = [() => this.fill(Math.random), () => this.fill(null)];
    const labels = this.sizes.filter(Boolean).map(({ label }) => label);
    const tools = make("div", "tools", makeButton("Random", random), makeButton("Zeros", zeros), ...labels);
    this.area = makeArea(`Values of ${input.name}`, "", input.shape.length > 1 ? 6 : 2);
    this.element = make("div", "", tools, this.area);
    if (start) this.area.value = writeNested(nested(start.data, start.shape));
    else if (product(this.shape()) <= FIRST_ROWS) this.fill(null);
  }

  shape() {
    const sizeOf = ({ input }) => Math.max(1, Math.floor(Number(input.value)) || 1);
    return this.input.shape.map((size, axis) => (size === -1 ? sizeOf(this.sizes[axis]) : size));
  }

  fill(random) {
    const shape = this.shape();
    const fits = product(shape) <= MOST_NUMBERS;
    this.area.value = fits ? writeNested(makeValues(this.input, shape, random)) : "";
    this.area.placeholder = fits ? "" : `${shapeText(shape)} has too many numbers for a text field; use curl.`;
  }

  read() {
    return parseValues(this.area.value, this.input);
  }
}

class TextForm {
  constructor(input) {
    this.input = input;
    this.area = makeArea(`Text for ${input.name}`, "", 4);
    this.tokens = makeArea(`Vocabulary of ${input.name}`, "", 4);
    this.tokens.placeholder = 'Tokens in the order of their ids: abc, one on each line, or JSON: ["a", "b"], {"a": 0}';
    this.tokens.hidden = true;
    this.count = make("p", "soft");
    const own = input.vocabulary ? [["model", "vocabulary of the model"]] : [];
    const kinds = [...own, ["bytes", "UTF-8 bytes"], ["codes", "Unicode characters"], ["list", "vocabulary…"]];
    this.kind = makeSelect(`Token ids of ${input.name}`, kinds, () => this.show());
    const tools = make("div", "tools", make("label", "", "Token ids: ", this.kind));
    const isBytes = input.datatype === "BYTES";
    this.element = make("div", "", this.area, ...(isBytes ? [] : [tools, this.tokens, this.count]));
    for (const area of [this.area, this.tokens]) area.addEventListener("input", () => this.show());
  }

  show() {
    this.tokens.hidden = this.kind.value !== "list";
    try {
      const { data } = this.read();
      const more = data.length > 24 ? " …" : "";
      this.count.textContent = `${data.length === 1 ? "id" : `${data.length} ids`}: ${data.slice(0, 24).join(" ")}${more}`;
    } catch (error) {
      this.count.textContent = this.area.value ? error.message : "";
    }
  }

  vocabulary() {
    const tokens = this.kind.value === "model" ? this.input.vocabulary : undefined;
    return new Vocabulary(this.kind.value, this.tokens.value, tokens);
  }

  read() {
    const { shape, datatype } = this.input;
    if (datatype === "BYTES") return { shape: shape.map(() => 1), data: [this.area.value] };
    return fitIds(this.vocabulary().encode(this.area.value), shape);
  }
}

const EDITORS = { draw: Drawing, numbers: NumbersForm, text: TextForm };

class InputForm {
  constructor(input) {
    this.input = input;
    const kinds = kindsOf(input);
    this.holder = make("div");
    this.editors = {};
    this.problem = make("p", "problem");
    this.problem.setAttribute("role", "alert");
    const type = make("span", "type", ` ${input.datatype} ${shapeText(input.shape)}`);
    const choice = kinds.length > 1 ? [makeChoice(kinds.map((kind) => [kind, KIND_NAMES[kind]]), (kind) => this.use(kind))] : [];
    this.element = make("fieldset", "", make("legend", "", input.name, type), ...choice, this.holder, this.problem);
    this.element.dataset.input = input.name;
    this.use(kinds[0]);
  }

  use(kind) {
    const drawn = this.kind === "draw" ? this.editors.draw.read() : null;
    this.kind = kind;
    if (kind === "numbers" && drawn) this.editors.numbers = new NumbersForm(this.input, drawn);
    this.editors[kind] ??= new EDITORS[kind](this.input);
    this.holder.replaceChildren(this.editors[kind].element);
    showProblem(this.problem, "");
  }

  read() {
    // The entry of a request; a mistake is shown below the input.
    showProblem(this.problem, "");
    try {
      const { name, datatype } = this.input;
      const { shape, data } = this.editors[this.kind].read();
      return { name, shape, datatype, data };
    } catch (error) {
      showProblem(this.problem, error.message);
      return null;
    }
  }

  vocabulary() {
    return this.kind === "text" && this.input.datatype !== "BYTES" ? this.editors.text.vocabulary() : null;
  }
}
