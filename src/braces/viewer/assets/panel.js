// The panel beside: all about the operator, the variable or the program that was clicked.

const panel = $("aside");
const extras = []; // functions of other scripts: {block, op}, {key} or {} -> elements for the panel

const extrasOf = (shown) => extras.flatMap((extra) => extra(shown));

function nameSpan(block, name) {
  const span = make("span", "name", name);
  const key = keyOf(block, name);
  span.dataset.key = key;
  span.title = typeOf(block, name);
  if (key.startsWith("?")) span.classList.add("unknown");
  return span;
}

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
  const parts = [breadcrumb(number), make("h2", "", op.t), make("p", "sub", pathText(number, op.n))];
  if (op.s) parts.push(make("p", "source", op.s));
  parts.push(...extrasOf({ block: number, op: index }));
  if (named(op.i).length) parts.push(section("Inputs", slotTable(number, op.i)));
  if (named(op.o).length) parts.push(section("Outputs", slotTable(number, op.o)));
  if (Object.keys(op.a).length) parts.push(section("Attributes", table(Object.entries(op.a))));
  if (op.b.length) parts.push(section("Blocks", table(op.b.map(([label, b]) => [link({ block: b }, label), counted(countOps(b))]))));
  const doc = has(content.docs, op.t) ? content.docs[op.t] : "";
  if (doc) parts.push(section("Description", make("pre", "doc", doc)));
  panel.replaceChildren(...parts);
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
  if (owner !== "?") parts.push(...extrasOf({ key }));
  parts.push(section("Made by", made ? make("p", "", ...describe(made)) : make("p", "hint", "the enclosing block")));
  parts.push(section(`Read by ${read.length}`, table(read.slice(0, 200).map((place) => [describe(place), place.slot]))));
  panel.replaceChildren(...parts);
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
  const parts = [make("p", "hint", "Click an operator or a name."), ...extrasOf({})];
  const marked = highlighted();
  if (marked.length) {
    const rows = marked.slice(0, 200).map((found) => [link(found, pathText(found.block, found.name))]);
    parts.push(section(`Highlighted (${marked.length.toLocaleString("en")})`, table(rows)));
  }
  if (parameters.length) {
    const number = content.programs[0].block;
    parts.push(section("Parameters", table(parameters.slice(0, 200).map((n) => [nameSpan(number, n), make("span", "ty", main.vars[n][0])]))));
  }
  parts.push(section("Operators", table(common.map(([type, n]) => [type, String(n)]))));
  panel.replaceChildren(...parts);
}
