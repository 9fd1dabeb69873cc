// What is open, and the picture of it.

const AT_FIRST = 40; // operators of a program that is wholly open when the page opens
const ALL = 400; // boxes at which "open all" stops
const MOST_OPEN = 50; // highlighted operators whose blocks are open when the page opens
const LEAST = 0.5; // the smallest zoom at which the page opens
const SOON = 400; // milliseconds to wait for edges before showing the program without them
const BETWEEN = 24; // pixels from one program to the next

const stage = $("main");
const open = new Set(); // ids of blocks and parts
let engine = null;
let scene = null; // the layout that is drawn, and its graphs' edges
let places = new Map(); // id of a box -> where it lies
let zoom = 1;
let isFitted = true; // until somebody zooms, a picture is as large as fits the stage
let isOpening = true; // until the page has opened
let asked = 0; // how often a picture was wanted; an answer to an old wish is dropped

const afterDrawing = []; // functions of other scripts that mark boxes

const isOpen = (id) => open.has(id);
const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

function below(layouts) {
  // One layout from that of each program.
  const whole = { boxes: [], edges: [], w: 0, h: -BETWEEN };
  for (const { boxes, edges, w, h } of layouts) {
    const down = whole.h + BETWEEN;
    whole.boxes.push(...boxes.map((one) => ({ ...one, y: one.y + down })));
    whole.edges.push(...edges.map(({ edge, points }) => ({ edge, points: points.map(([x, y]) => [x, y + down]) })));
    whole.w = Math.max(whole.w, w);
    whole.h = down + h;
  }
  return whole;
}

function beside(layouts) {
  // Two programs side by side, to be compared.
  const whole = { boxes: [], edges: [], w: -BETWEEN, h: 0 };
  for (const { boxes, edges, w, h } of layouts) {
    const right = whole.w + BETWEEN;
    whole.boxes.push(...boxes.map((one) => ({ ...one, x: one.x + right })));
    whole.edges.push(...edges.map(({ edge, points }) => ({ edge, points: points.map(([x, y]) => [x + right, y]) })));
    whole.w = right + w;
    whole.h = Math.max(whole.h, h);
  }
  return whole;
}

const together = (layouts) => (content.beside ? beside : below)(layouts);
const graphs = (withEdges) => content.programs.map((program) => new Graph(isOpen, withEdges).program(program));
const simple = () => together(graphs(false).map(simpleLayout));

async function arranged() {
  const all = graphs(true);
  if (engine.waiting.size) engine.stop("superseded by a later request");
  const answers = await Promise.all(all.map((graph) => engine.layout(elkGraph(graph))));
  return together(all.map((graph, i) => elkLayout(graph, answers[i])));
}

async function show(anchor) {
  // Draw what is open; the box `anchor` stays where it is on the screen.
  const mine = ++asked;
  if (!engine) return put(simple(), anchor);
  const best = arranged().catch((error) => ({ error }));
  busy(true);
  const first = await Promise.race([best, wait(SOON)]);
  if (!first && mine === asked && (!scene || !shows(anchor))) put(simple(), anchor);
  const layout = await best;
  if (mine !== asked) return;
  busy(false);
  if (layout.error) put(simple(), anchor);
  else put(layout, anchor);
  if (layout.error) say(`Shown without edges: ${layout.error.message}. Close some blocks to see them.`);
}

function busy(isBusy) {
  stage.ariaBusy = String(isBusy);
  say(isBusy ? "Arranging…" : "");
}

const shows = (id) => id === undefined || places.has(id);

function put(layout, anchor) {
  const before = places.get(anchor);
  const [left, top] = before ? [before.x * zoom - stage.scrollLeft, before.y * zoom - stage.scrollTop] : [0, 0];
  scene = layout;
  places = new Map(layout.boxes.map((one) => [one.box.id, one]));
  if (isFitted) zoom = fitted(layout);
  drawScene(layout, zoom);
  const after = places.get(anchor);
  if (before && after) stage.scrollTo(after.x * zoom - left, after.y * zoom - top);
  highlight();
  afterDrawing.forEach((mark) => mark());
}

function fitted({ w, h }) {
  // The whole program as the page opens, if it stays readable; later the width, without jumps.
  const [wide, tall] = [(stage.clientWidth - 40) / w, (stage.clientHeight - 40) / h];
  return isOpening ? Math.max(LEAST, Math.min(1, wide, tall)) : Math.max(Math.min(0.75, zoom), Math.min(zoom, wide));
}

function say(text) {
  $(".note").textContent = text;
}

function enlarge(factor, x = stage.clientWidth / 2, y = stage.clientHeight / 2) {
  // Zoom so that what lies at a point of the stage stays there.
  const before = zoom;
  isFitted = false;
  zoom = Math.max(0.05, Math.min(2.5, zoom * factor));
  const [left, top] = [stage.scrollLeft + x, stage.scrollTop + y];
  resize(scene.w, scene.h, zoom);
  stage.scrollTo((left * zoom) / before - x, (top * zoom) / before - y);
}

function fit() {
  enlarge(Math.min(1.5, (stage.clientWidth - 40) / scene.w, (stage.clientHeight - 40) / scene.h) / zoom);
  stage.scrollTo(0, 0);
}

// ---- opening and closing ----

function toggle(id) {
  if (!open.delete(id)) open.add(id);
  return show(id);
}

function openAtFirst() {
  // The main block, and where the program is small, the blocks in it.
  const [{ block }, startup] = content.programs;
  open.add(blockId(block));
  if (content.beside) open.add(blockId(startup.block));
  if (phased(block, "").reduce((sum, { op }) => sum + weightOf(op), 0) > AT_FIRST) return;
  for (let number = 0; number < (content.beside ? blocks.length : (startup?.block ?? blocks.length)); number++) open.add(blockId(number));
}

const weightOf = (op) => op.b.reduce((sum, [, inner]) => sum + countOps(inner), 1);

function setAll(all) {
  // Opening goes from the outside in, and stops where a picture would become too large.
  open.clear();
  open.add(blockId(content.programs[0].block));
  let room = ALL;
  for (let closed = all ? togglesOf() : []; closed.length && room > 0; closed = togglesOf()) {
    for (const id of closed) if ((room -= weight(id)) > 0) open.add(id);
  }
  return show().then(() => room > 0 || say("The other blocks stay closed, because the picture would be too large."));
}

function togglesOf() {
  const inside = (box) => [box.toggle, ...box.children.flatMap(inside)];
  return graphs(true).flatMap(({ root }) => inside(root)).filter((id) => id && !isOpen(id));
}

function weight(id) {
  // About how many boxes opening something adds.
  const part = /:(\d+)-(\d+)$/.exec(id);
  if (part) return part[2] - part[1];
  const phase = /^p(\d+)\.([a-z]+)$/.exec(id);
  if (phase) return phased(phase[1], phase[2]).length;
  const { ops, vars } = blocks[id.slice(1)];
  return [ops.length, Object.keys(vars).length].reduce((sum, n) => sum + (n > MANY ? n / PART : n), 1);
}

async function reveal(number, index) {
  // Open all around an operator, or a block, and bring it into sight.
  const wanted = aroundOp(number, index);
  const id = index === undefined ? blockId(number) : opId(number, index);
  if (wanted.some((one) => !isOpen(one))) {
    wanted.forEach((one) => open.add(one));
    await show(id);
  }
  const place = places.get(id) ?? places.get(ownerId(number));
  if (!place) return;
  const y = picture.getBoundingClientRect().top + (place.y + Math.min(place.h, 200) / 2) * zoom;
  const seen = stage.getBoundingClientRect();
  stage.scrollBy(0, y - seen.top - stage.clientHeight / 2);
  middle(place.box.id);
}

function middle(id) {
  // Bring a box into the middle from left to right.
  const place = places.get(id);
  if (!place) return;
  const x = picture.getBoundingClientRect().left + (place.x + Math.min(place.w, 300) / 2) * zoom;
  stage.scrollBy(x - stage.getBoundingClientRect().left - stage.clientWidth / 2, 0);
}

function ownerId(number) {
  // A block that is its owner's only one is drawn in the owner's box.
  const owner = owners.get(number);
  return owner && opId(owner.block, owner.op);
}
