// The run on the page: toolbar, iterations, slices, breakpoints.

let source = null; // Live or Saved
let recording = new Recording();
let state = facts.state;
let time = -1; // the event that is shown
const selected = new Map(); // number of a block -> the run that is shown
let slice = null; // {key, keys, isBackward} of the slice that is highlighted
const isLive = !facts.saved;

// ---- which run is shown ----

function runFor(block) {
  // The run of a block that is shown: the chosen one, or the last one in the blocks around.
  const chosenRun = selected.get(block);
  if (chosenRun !== undefined) return chosenRun;
  const owner = owners.get(block);
  const outer = owner && runFor(owner.block);
  return (outer === undefined ? undefined : recording.innerRuns(outer, block).at(-1)) ?? recording.runsOf(block).at(-1);
}

function selectRun(run) {
  // Show a run, the runs around it, and of other blocks those inside of these.
  selected.clear();
  recording.around(run).forEach((one) => selected.set(recording.block(one), one));
  refresh();
}

function showTime(at) {
  // Show an event: its operator and the run of its block.
  if (!recording.events.count) return;
  time = Math.max(0, Math.min(recording.events.count - 1, at));
  const { run, block, op } = recording.event(time);
  selectRun(run);
  if (op !== ENTRY) go(block, op);
  else if (owners.has(block)) go(owners.get(block).block, owners.get(block).op);
  showBar();
}

function showValue(key, run) {
  selectRun(run);
  const made = useOf(key).made;
  if (made) go(made.block, made.op);
  else chooseVar(key);
}

// ---- toolbar ----

const bar = make("div", "debugger");
const failure = make("pre", "failure");
const stateText = make("span", "state");
const whereText = make("span", "where");
const slider = make("input", "time");

function button(name, text, title, action) {
  const one = make("button", name, text);
  one.type = "button";
  one.title = title;
  one.addEventListener("click", action);
  return one;
}

const command = (fields) => () => send(fields);
const steps = isLive
  ? [
      button("go", "Continue", "To the next breakpoint, or the end (c)", command({ command: "continue" })),
      button("step", "Step", "The next operator (s)", command({ command: "step" })),
      button("over", "Over", "The next operator outside of the blocks of this one (n)", command({ command: "over" })),
      button("leave", "Out", "The end of the loop or branch (o)", command({ command: "out" })),
      button("until", "Run to", "The next run of the chosen operator", () => placeChosen() && send({ command: "run_to", ...placeChosen() })),
    ]
  : [];
const pause = button("pause", "Pause", "Stop after the operator that runs now", command({ command: "pause" }));
const restart = button("restart", "Restart", "Run again with the same inputs", command({ command: "restart", paused: true }));
const nanButton = button("first-nan", "First NaN", "The first value with a NaN", () => state.firstNaN && showTime(state.firstNaN[3]));
const overview = button("overview", "Breakpoints", "All breakpoints", () => (showProgram(), choose(null)));

function buildBar() {
  slider.type = "range";
  slider.min = "0";
  slider.ariaLabel = "Time";
  slider.addEventListener("input", () => showTime(Number(slider.value)));
  const past = [button("back", "◀", "The event before (←)", () => showTime(time - 1)), slider, button("forth", "▶", "The event after (→)", () => showTime(time + 1))];
  const save = make("a", "save-run", "Save");
  save.href = "saved";
  bar.append(...(isLive ? [...steps, pause, restart] : []), ...past, nanButton, ...(isLive ? [overview, save] : []), stateText, whereText, failure);
  $("header").append(bar);
}

function showBar() {
  const isPaused = state.state === "paused";
  steps.forEach((one) => (one.disabled = !isPaused));
  pause.disabled = state.state !== "running";
  nanButton.disabled = !state.firstNaN;
  stateText.textContent = state.reason ? `${state.state}: ${state.reason}` : state.state;
  stateText.className = `state ${state.state}`;
  slider.max = String(Math.max(0, recording.events.count - 1));
  slider.value = String(time);
  const shown = time < 0 ? "" : `event ${time + 1} of ${recording.events.count}: ${recording.label(recording.event(time).run)}`;
  whereText.textContent = shown + (state.full ? " – too many values; later ones are not recorded" : "");
  failure.textContent = state.error;
  failure.hidden = !state.error;
}

async function send(fields) {
  try {
    const answer = await source.command(fields);
    if (answer.error) say(answer.error);
    else {
      say("");
      await apply(answer);
    }
  } catch (error) {
    say(`The command failed: ${error.message}`);
  }
}

// ---- marks of boxes ----

const siteOf = (place) => place && opId(place[0], place[1]);

function markBoxes() {
  const stopped = new Set((state.breakpoints ?? []).filter(([, block]) => block !== "").map(([, block, op]) => opId(block, op)));
  const shown = time >= 0 && recording.event(time).op !== ENTRY ? opId(recording.event(time).block, recording.event(time).op) : "";
  const nan = state.firstNaN && useOf(`${state.firstNaN[0]}:${state.firstNaN[1]}`).made;
  const sliced = new Set([...(slice?.keys ?? [])].flatMap(boxesOf));
  picture.querySelectorAll(".box[data-id]").forEach((box) => {
    const { id } = box.dataset;
    const place = places.get(id)?.box.place;
    box.classList.toggle("current", id === shown);
    box.classList.toggle("failed", id === siteOf(state.failed));
    box.classList.toggle("nan", !!nan && id === opId(nan.block, nan.op));
    box.classList.toggle("breakpoint", stopped.has(id));
    box.classList.toggle("slice", sliced.has(id));
    box.classList.toggle("idle", !!place && !recording.seen.has(`${place.block}.${place.op}`));
  });
}

function boxesOf(key) {
  // The boxes of a variable: the operator that binds it, or its own.
  const made = useOf(key).made;
  return made ? [opId(made.block, made.op)] : [`v${blockOf(key)}.${nameOf(key)}`];
}

// ---- the panel ----

let place = null; // what the panel shows: {block, op}, {key} or {}
let valuesBox = make("div");
let drawing = 0; // how often values were drawn; older drawings are dropped
const placeChosen = () => (place && place.op !== undefined ? { block: place.block, op: place.op } : null);

function panelParts(shown) {
  place = shown;
  valuesBox = make("div", "values-now");
  const parts = [];
  if (shown.op !== undefined) {
    const line = facts.lines[`${shown.block}.${shown.op}`];
    if (line) parts.push(make("pre", "code", line));
    if (isLive) parts.push(breakControls(shown));
  }
  if (shown.op === undefined && shown.key === undefined) return isLive ? [breakpointList()] : [];
  refresh();
  return [...parts, valuesBox];
}

function keysShown() {
  if (place?.key !== undefined) return [place.key];
  if (place?.op === undefined) return [];
  const op = blocks[place.block].ops[place.op];
  return [...new Set(named(op.o).map(([, name]) => keyOf(place.block, name)))];
}

async function refresh() {
  // Draw the values of what the panel shows, in the run that is shown.
  markBoxes();
  if (!source) return;
  const [mine, box] = [++drawing, valuesBox];
  const parts = [];
  for (const key of keysShown()) {
    const run = runFor(blockOf(key));
    if (!parts.length) parts.push(...iterationParts(blockOf(key), run));
    const found = run === undefined ? [make("p", "hint", "No value: it did not run.")] : await valueParts(recording, key, run, selectRun);
    parts.push(section(nameOf(key), ...found, ...(await rowsOf(run)), ...flowParts(key, run)));
  }
  if (mine === drawing && box === valuesBox) box.replaceChildren(...parts);
}

function iterationParts(block, run) {
  // The slider over the runs of a block.
  const runs = recording.runsOf(block);
  if (run === undefined || runs.length < 2) return run === undefined ? [] : [make("p", "sub", recording.label(run))];
  const input = make("input", "iteration");
  const text = make("span", "sub", recording.label(run));
  input.type = "range";
  input.min = "0";
  input.max = String(runs.length - 1);
  input.value = String(runs.indexOf(run));
  input.ariaLabel = "Iteration";
  input.addEventListener("input", () => (text.textContent = recording.label(runs[Number(input.value)])));
  input.addEventListener("change", () => selectRun(runs[Number(input.value)]));
  return [make("p", "sub", text), make("div", "iterations", input, `${runs.indexOf(run) + 1} of ${runs.length}`)];
}

async function rowsOf(run) {
  if (run === undefined) return [];
  const rows = await source.rows(run);
  if (!rows.length) return [];
  const shown = [...rows.subarray(0, 40)].join(", ") + (rows.length > 40 ? ", …" : "");
  return [make("p", "sub rows", `batch elements of this case: ${shown}`)];
}

const KINDS = ["", "from outside", "initial value", "preceding iteration", "result of a block", "control"];

function flowParts(key, run) {
  // Where a value comes from, one step back, and the slices through it.
  const origins = run === undefined ? [] : originsOf(recording, run, key);
  const rows = origins.slice(0, 30).map((one) => {
    const jump = button("link origin", pathText(blockOf(one.key), nameOf(one.key)), "Show this value", () => showValue(one.key, one.run));
    return [jump, one.run === run ? "" : recording.label(one.run), KINDS[one.kind]];
  });
  const mark = (isBackward) => () => {
    slice = { key, keys: sliceOf(key, isBackward), isBackward };
    say(`${slice.keys.size.toLocaleString("en")} variables ${isBackward ? "contribute to" : "depend on"} ${nameOf(key)}.`);
    markBoxes();
  };
  const buttons = [
    button("backward", "Comes from…", "Highlight all that it depends on", mark(true)),
    button("forward", "Goes to…", "Highlight all that depends on it", mark(false)),
    button("clear", "No slice", "Remove the highlights", () => ((slice = null), say(""), markBoxes())),
  ];
  return [...(rows.length ? [make("p", "sub", "Comes from"), table(rows)] : []), make("p", "actions", ...buttons)];
}

// ---- breakpoints ----

function breakControls(shown) {
  const here = (state.breakpoints ?? []).filter(([, block, op]) => block === shown.block && op === shown.op);
  const path = pathText(shown.block, blocks[shown.block].ops[shown.op].n);
  const field = make("input", "condition");
  field.placeholder = "condition, such as max > 10";
  field.ariaLabel = "Condition";
  const add = async () => {
    const condition = field.value.trim();
    await send(condition ? { command: "break", text: `${path} if ${condition}` } : { command: "break", block: shown.block, op: shown.op });
    if (place?.block === shown.block && place?.op === shown.op) chooseOp(shown.block, shown.op);
  };
  field.addEventListener("keydown", ({ key }) => key === "Enter" && add());
  const rows = here.map(removal);
  return make("div", "", make("p", "actions", field, button("break", "Break here", "Stop after this operator", add)), ...rows);
}

function removal([number, , , , hits, text]) {
  const drop = button("link unbreak", "remove", "Remove the breakpoint", async () => {
    await send({ command: "unbreak", number });
    if (placeChosen()) chooseOp(place.block, place.op);
    else showProgram();
  });
  return make("p", "breakpoint", `${number}: ${text || "everywhere"} (${hits}) `, drop);
}

function breakpointList() {
  const field = make("input", "everywhere");
  field.placeholder = "if nan, or PATH if max > 10";
  field.ariaLabel = "Breakpoint";
  const add = async () => {
    await send({ command: "break", text: field.value });
    showProgram();
  };
  field.addEventListener("keydown", ({ key }) => key === "Enter" && add());
  return section("Breakpoints", ...(state.breakpoints ?? []).map(removal), make("p", "actions", field, button("add-break", "Add", "Add the breakpoint", add)));
}

// ---- the session ----

async function apply(next) {
  // Take over a state, with the runs and events that are new in it.
  const isOther = next.generation !== state.generation;
  if (isOther) [recording, time, slice] = [new Recording(), -1, null], selected.clear();
  if (!isOther && next.version < state.version) return;
  const stopped = isOther || next.version !== state.version || time < 0;
  state = next;
  source.forget();
  await load();
  if (stopped && state.state !== "running") showTime(state.state === "failed" && state.failed ? lastOf(state.failed) : recording.events.count - 1);
  else refresh();
  showBar();
}

function lastOf([block, op, run]) {
  // The last event in the run of the operator that failed.
  for (let at = recording.events.count - 1; at >= 0; at--) if (recording.event(at).run === run) return at;
  return recording.events.count - 1;
}

let loading = Promise.resolve();

function load() {
  loading = loading.then(loadTables);
  return loading;
}

async function loadTables() {
  const mine = recording;
  while (mine === recording && mine.events.count < state.events) {
    const events = await source.table("events", mine.events.count);
    const last = events.reduce((most, run, i) => (i % 2 ? most : Math.max(most, run)), -1);
    while (mine === recording && mine.runs.count <= last) mine.addRuns(await source.table("runs", mine.runs.count));
    if (mine === recording) mine.addEvents(events);
    if (!events.length) return;
  }
}

async function follow() {
  // Ask for the state again and again, until the server is gone.
  for (let failures = 0; failures < 4; ) {
    try {
      await apply(await source.state(state.version, state.generation));
      failures = 0;
    } catch (error) {
      failures++;
      await wait(500 * failures);
    }
  }
  stateText.textContent = "the session has ended";
  [...bar.querySelectorAll("button")].filter((one) => steps.includes(one) || [pause, restart].includes(one)).forEach((one) => (one.disabled = true));
}

const KEYS = { c: ".go", s: ".step", n: ".over", o: ".leave", ArrowLeft: ".back", ArrowRight: ".forth" };

function onStepKey({ key, target, ctrlKey, metaKey, altKey }) {
  if (ctrlKey || metaKey || altKey || target.closest("input, textarea, select") || !KEYS[key]) return;
  bar.querySelector(KEYS[key])?.click();
}

async function beginDebugger() {
  source = isLive ? new Live() : await Saved.open(facts.saved);
  buildBar();
  await begun;
  afterDrawing.push(markBoxes);
  extras.push(panelParts);
  document.addEventListener("keydown", onStepKey);
  await load();
  showProgram();
  showTime(state.firstNaN && !isLive ? state.firstNaN[3] : recording.events.count - 1);
  showBar();
  document.body.dataset.ready = "true";
  if (isLive) follow();
}

beginDebugger();
