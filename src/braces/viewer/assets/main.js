// What clicks and keys do, and the beginning.

let chosen = null; // {id} of a box or {key} of a variable

function highlight() {
  picture.querySelectorAll(".chosen, .same, .near").forEach((one) => one.classList.remove("chosen", "same", "near"));
  panel.querySelectorAll(".name").forEach((one) => one.classList.toggle("same", one.dataset.key === chosen?.key));
  if (!chosen || !scene) return;
  const boxAt = (id) => picture.querySelector(`.box[data-id="${CSS.escape(id)}"]`);
  if (chosen.id) boxAt(chosen.id)?.classList.add("chosen");
  picture.querySelectorAll(".edge").forEach((element, i) => {
    const { from, to, keys } = scene.edges[i].edge;
    if (chosen.key ? keys.has(chosen.key) : from === chosen.id || to === chosen.id) element.classList.add("near");
    if (chosen.key && keys.has(chosen.key)) [from, to].forEach((id) => boxAt(id)?.classList.add("same"));
  });
}

function choose(what) {
  chosen = what;
  highlight();
}

function chooseOp(number, index) {
  showOp(number, index);
  choose({ id: opId(number, index) });
  history.replaceState(null, "", `#${number}.${index}`);
}

function chooseVar(key) {
  showVar(key);
  choose({ key });
}

async function go(number, index) {
  if (index !== undefined) chooseOp(number, index);
  await reveal(number, index);
}

function clickBox(id) {
  const { place, key } = places.get(id).box;
  if (place) chooseOp(place.block, place.op);
  else if (key) chooseVar(key);
}

function onClick({ target }) {
  if (dragged) return;
  const name = target.closest(".name[data-key]");
  if (name) return void chooseVar(name.dataset.key);
  if (!picture.contains(target)) return;
  const handle = target.closest("[data-toggle]");
  if (handle) return void toggle(handle.dataset.toggle);
  const edge = target.closest(".edge");
  if (edge) return void chooseVar([...scene.edges.find((one) => one.edge.id === edge.dataset.edge).edge.keys][0]);
  const box = target.closest(".box");
  if (box) clickBox(box.dataset.id);
  else choose(null);
}

function onKey(event) {
  const { key, target } = event;
  if (key === "/" && !target.closest("input")) event.preventDefault(), field.focus();
  if ((key !== "Enter" && key !== " ") || !picture.contains(target)) return;
  event.preventDefault();
  if (target.dataset.toggle) toggle(target.dataset.toggle).then(() => focusOn(target.dataset.toggle));
  else if (target.dataset.id) clickBox(target.dataset.id);
}

function focusOn(id) {
  picture.querySelector(`[data-toggle="${CSS.escape(id)}"]`)?.focus({ preventScroll: true });
}

// ---- moving the picture ----

let dragged = false; // whether the pointer has moved the picture since it was pressed

function onPress(event) {
  dragged = false;
  if (event.button || event.pointerType === "touch" || !picture.contains(event.target)) return;
  const [x, y, left, top] = [event.clientX, event.clientY, stage.scrollLeft, stage.scrollTop];
  const move = ({ clientX, clientY }) => {
    if (!dragged && Math.hypot(clientX - x, clientY - y) < 4) return;
    dragged = true;
    stage.scrollTo(left + x - clientX, top + y - clientY);
  };
  document.addEventListener("pointermove", move);
  document.addEventListener("pointerup", () => document.removeEventListener("pointermove", move), { once: true });
}

function onWheel(event) {
  if (!event.ctrlKey && !event.metaKey) return;
  event.preventDefault();
  const { left, top } = stage.getBoundingClientRect();
  enlarge(Math.exp(-event.deltaY / 300), event.clientX - left, event.clientY - top);
}

// ---- begin ----

async function begin() {
  $("h1").textContent = content.title;
  $(".facts").textContent = content.facts;
  showProgram();
  openAtFirst();
  const place = /^#(\d+)\.(\d+)$/.exec(location.hash);
  engine = await Engine.start();
  $(".captures").disabled = !engine;
  await show();
  middle(opId(content.programs[0].block, 0));
  const [first] = highlighted();
  if (first && !place) await reveal(first.block, first.op);
  stage.ariaBusy = "false";
  isOpening = false;
  if (!engine) say(content.hint);
  if (place && blocks[place[1]]?.ops[place[2]]) await go(Number(place[1]), Number(place[2]));
}

document.addEventListener("click", onClick);
document.addEventListener("keydown", onKey);
document.addEventListener("pointerdown", onPress);
stage.addEventListener("wheel", onWheel, { passive: false });
$(".captures").addEventListener("change", ({ target }) => picture.classList.toggle("plain", !target.checked));
$(".open").addEventListener("click", () => setAll(true));
$(".close").addEventListener("click", () => setAll(false));
$(".save").addEventListener("click", savePicture);
$(".in").addEventListener("click", () => enlarge(1.25));
$(".out").addEventListener("click", () => enlarge(0.8));
$(".fit").addEventListener("click", fit);
const begun = begin();
