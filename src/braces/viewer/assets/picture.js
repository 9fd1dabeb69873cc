// Draws what a layout says, as SVG, and saves it.

const CORNER = 6; // radius where an edge turns
const SHAPE = ["fill", "stroke", "stroke-width", "stroke-dasharray"];
const TEXT = ["fill", "font-family", "font-size", "font-weight"];
const INLINED = { rect: SHAPE, path: SHAPE, text: TEXT, tspan: TEXT }; // what each needs written into it

function drawScene({ boxes, edges, w, h }, zoom) {
  const outer = boxes.filter(({ box }) => box.children.length);
  const inner = boxes.filter(({ box }) => !box.children.length);
  const all = drawn("g", {}, ...outer.map(drawBox), ...edges.map(drawEdge), ...inner.map(drawBox));
  picture.replaceChildren(tips(), all);
  picture.setAttribute("viewBox", `-2 -2 ${w + 4} ${h + 4}`);
  resize(w, h, zoom);
}

function resize(w, h, zoom) {
  picture.setAttribute("width", Math.ceil((w + 4) * zoom));
  picture.setAttribute("height", Math.ceil((h + 4) * zoom));
}

function tips() {
  // The heads of edges, one for each kind.
  const tip = (kind) => {
    const size = { viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 8, markerHeight: 8, markerUnits: "userSpaceOnUse", orient: "auto" };
    return drawn("marker", { id: `tip-${kind}`, ...size }, drawn("path", { class: `tip ${kind}`, d: "M0 0L8 4L0 8Z" }));
  };
  return drawn("defs", {}, tip("flow"), tip("capture"));
}

function drawBox({ box, x, y, w, h, depth }) {
  const shade = box.children.length ? ` holder ${depth % 2 ? "odd" : "even"}` : "";
  const group = drawn("g", { class: `box ${box.kind}${shade}`, "data-id": box.id, transform: `translate(${round(x)} ${round(y)})` });
  const radius = box.kind.startsWith("var") ? 11 : 7;
  group.append(drawn("rect", { class: "frame", width: round(w), height: round(h), rx: Math.min(radius, h / 2) }));
  box.lines.forEach((line, i) => {
    const spans = line.map(([text, style]) => drawn("tspan", { class: style }, text));
    const at = { class: "line", x: PAD + 2, y: PAD / 2 + LINE * i + 13, "xml:space": "preserve" };
    group.append(drawn("text", at, ...spans));
  });
  if (box.toggle) group.append(drawToggle(box, w));
  if (box.place || box.key) group.setAttribute("tabindex", "0");
  return group;
}

function drawToggle(box, w) {
  const at = { x: 2, y: PAD / 2 + LINE * box.line, width: round(w - 4), height: LINE, rx: 4 };
  const name = box.lines[box.line].map(([text]) => text).join("").slice(2);
  const says = { role: "button", tabindex: "0", "aria-expanded": String(box.open), "aria-label": name };
  return drawn("rect", { class: "toggle", "data-toggle": box.toggle, ...at, ...says });
}

function drawEdge({ edge, points }) {
  const d = curved(points);
  const names = [...edge.keys].map((key) => key.slice(key.indexOf(":") + 1));
  const said = names.length > 12 ? [...names.slice(0, 12), `… and ${names.length - 12} more`] : names;
  const line = drawn("path", { class: "wire", d, "marker-end": `url(#tip-${edge.kind})` });
  const title = drawn("title", {}, `${edge.kind === "capture" ? "captured: " : ""}${said.join(", ")}`);
  return drawn("g", { class: `edge ${edge.kind}`, "data-edge": edge.id }, title, drawn("path", { class: "hit", d }), line);
}

const round = (number) => Math.round(number * 10) / 10;

function curved(points) {
  // A line through all points, with its corners rounded.
  const parts = [`M${points[0].map(round)}`];
  for (let i = 1; i < points.length - 1; i++) {
    const near = (other) => {
      const [dx, dy] = [other[0] - points[i][0], other[1] - points[i][1]];
      const far = Math.hypot(dx, dy) || 1;
      const share = Math.min(CORNER, far / 2) / far;
      return [round(points[i][0] + dx * share), round(points[i][1] + dy * share)];
    };
    parts.push(`L${near(points[i - 1])}Q${points[i].map(round)} ${near(points[i + 1])}`);
  }
  return `${parts.join("")}L${points.at(-1).map(round)}`;
}

// ---- saving ----

function standalone() {
  // The picture as it is seen now, with the styles that the page gives it written into it.
  const copy = picture.cloneNode(true);
  const copies = [...copy.querySelectorAll("*")];
  const known = new Map();
  [...picture.querySelectorAll("*")].forEach((one, i) => {
    const style = styleOf(one, known);
    if (style === null || one.matches(".toggle, .hit")) copies[i].remove();
    else for (const [name, value] of style) copies[i].setAttribute(name, value);
    copies[i].removeAttribute("tabindex");
  });
  const [x, y, width, height] = picture.getAttribute("viewBox").split(" ");
  const fill = getComputedStyle(document.body).backgroundColor;
  copy.prepend(drawn("rect", { x, y, width, height, fill }));
  copy.setAttribute("width", width);
  copy.setAttribute("height", height);
  return new XMLSerializer().serializeToString(copy);
}

function styleOf(element, known) {
  // The attributes that an element needs by itself; null where it is not seen.
  const around = element.closest("g")?.getAttribute("class") ?? "";
  const id = `${around} ${element.tagName} ${element.getAttribute("class") ?? ""}`;
  if (!known.has(id)) {
    const style = getComputedStyle(element);
    const pairs = (INLINED[element.tagName] ?? []).map((name) => [name, style.getPropertyValue(name)]);
    known.set(id, style.display === "none" && element.tagName === "g" ? null : pairs);
  }
  return known.get(id);
}

function savePicture() {
  const link = make("a");
  link.href = URL.createObjectURL(new Blob([standalone()], { type: "image/svg+xml" }));
  link.download = `${content.title.replace(/[^\p{L}\p{N}]+/gu, "-").slice(0, 60) || "program"}.svg`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
