"use strict";
// Models, the form of the chosen one, and its requests. The token stays in memory.

const LONGEST_NOTE = 2000;
const state = { token: "", models: [], chosen: "", choices: 0, request: null };

class AnswerError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

async function ask(path, { body, signal } = {}) {
  // Ask the server; an error of the server is thrown with its message.
  const headers = state.token ? { Authorization: `Bearer ${state.token}` } : {};
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const options = { method: body === undefined ? "GET" : "POST", headers, body, signal };
  const answer = await fetch(path, { ...options, cache: "no-store", credentials: "omit", redirect: "error" });
  if (!answer.ok) throw new AnswerError(answer.status, messageOf(await answer.text()));
  return answer;
}

function messageOf(text) {
  try {
    return String(JSON.parse(text).error ?? text);
  } catch {
    return text.slice(0, 1000);
  }
}

function explain(error, element) {
  // Show in words why a request has no answer.
  if (error.name === "AbortError") return showProblem(element, "The request was stopped.");
  if (error instanceof AnswerError) {
    if (error.status === 401) askForToken();
    return showProblem(element, reasonOf(error.status), error.message);
  }
  if (error instanceof TypeError) return showProblem(element, "The server does not answer.", "Is it still running?");
  return showProblem(element, "The answer of the server cannot be shown.", error.message);
}

function askForToken() {
  $(".token").setAttribute("aria-invalid", "true");
  $(".token").focus();
}

const pathOf = (name, version) => `v2/models/${encodeURIComponent(name)}/versions/${encodeURIComponent(version)}`;

// ---- models ----

async function loadModels() {
  const problem = $(".page-problem");
  try {
    const [server, models] = await Promise.all(["v2", "v2/models"].map(async (path) => (await ask(path)).json()));
    showProblem(problem, "");
    $(".token").removeAttribute("aria-invalid");
    $(".facts").textContent = `${server.name} ${server.version}`;
    showModels(models);
    if (models.some((model) => model.state === "LOADING")) setTimeout(loadModels, 1000);
  } catch (error) {
    explain(error, problem);
  }
}

function showModels(models) {
  state.models = models;
  const names = [...new Set(models.map((model) => model.name))];
  const items = names.map((name) => make("li", "", makeModelButton(name, models.filter((model) => model.name === name))));
  const focused = document.activeElement?.dataset?.model;
  $(".models").replaceChildren(...items);
  if (focused) [...document.querySelectorAll(".models button")].find((each) => each.dataset.model === focused)?.focus();
  if (!names.includes(state.chosen) && names.length) chooseModel(names[0]);
  else markChosen();
}

function makeModelButton(name, versions) {
  const states = [...new Set(versions.map((version) => version.state))];
  const words = { READY: "ready", LOADING: "is being compiled", UNAVAILABLE: "failed" };
  const count = versions.length > 1 ? `${versions.length} versions, ` : "";
  const text = count + states.map((each) => words[each] ?? each).join(", ");
  const button = makeButton(name, () => chooseModel(name));
  button.append(make("span", "state", text));
  button.dataset.model = name;
  return button;
}

function markChosen() {
  for (const button of document.querySelectorAll(".models button")) {
    button.setAttribute("aria-current", String(button.dataset.model === state.chosen));
  }
}

function versionsOf(name) {
  return state.models.filter((model) => model.name === name).map((model) => model.version);
}

async function chooseModel(name, version = versionsOf(name).at(-1)) {
  const choice = ++state.choices;
  state.chosen = name;
  state.request?.abort();
  markChosen();
  const section = $(".model");
  try {
    const metadata = await (await ask(pathOf(name, version))).json();
    if (state.choices !== choice) return;
    showProblem($(".page-problem"), "");
    section.replaceChildren(...new ModelForm(metadata, version).parts());
    section.hidden = false;
  } catch (error) {
    section.hidden = true;
    explain(error, $(".page-problem"));
  }
}

// ---- a model ----

class ModelForm {
  constructor(metadata, version) {
    this.metadata = metadata;
    this.notes = metadata.parameters ?? {};
    this.version = version;
    this.path = pathOf(metadata.name, version);
    this.holder = make("div", "columns");
  }

  parts() {
    const { generate } = this.metadata;
    this.use(generate ? "generate" : "infer");
    const modes = [["generate", "Generate"], ["infer", "Single run"]];
    const choice = generate ? [makeChoice(modes, (mode) => this.use(mode))] : [];
    return [this.title(), ...this.about(), this.types(), ...choice, this.holder];
  }

  about() {
    // What the file says about the model, as text.
    const lines = [["description", ""], ["license", "License: "]].flatMap(([key, title]) => {
      const text = noteOf(this.notes, key);
      return typeof text === "string" ? [make("p", "note", title + text.slice(0, LONGEST_NOTE))] : [];
    });
    const all = JSON.stringify(this.notes, null, 1);
    const shown = all.length > MOST_TEXT ? `${all.slice(0, MOST_TEXT)} …` : all;
    const parts = [make("summary", "", "Metadata"), make("pre", "", shown)];
    return Object.keys(this.notes).length ? [...lines, make("details", "", ...parts)] : lines;
  }

  title() {
    const { name, versions, platform } = this.metadata;
    const select = makeSelect("Version", versions.map((each) => [each, `version ${each}`]), (each) => chooseModel(name, each));
    select.value = this.version;
    return make("div", "title", make("h2", "", name), select, make("span", "soft", platform ?? ""));
  }

  types() {
    const row = (role, each) => {
      const type = `${each.datatype} ${shapeText(each.shape)}`;
      return make("tr", "", make("th", "", role), make("td", "", each.name), make("td", "type", type));
    };
    const { inputs, outputs } = this.metadata;
    const rows = [...inputs.map((each) => row("input", each)), ...outputs.map((each) => row("output", each))];
    const note = make("p", "soft", "? stands for a symbolic size.");
    return make("details", "", make("summary", "", "Inputs and outputs"), make("table", "types", ...rows), note);
  }

  use(mode) {
    state.request?.abort();
    this.mode = mode;
    const inputs = mode === "infer" ? this.metadata.inputs : this.metadata.generate.inputs;
    this.forms = inputs.map((input) => new InputForm(withNotes(input, this.notes)));
    this.result = make("section", "result");
    this.result.setAttribute("aria-label", "Result");
    this.result.append(make("h3", "", "Result"), make("p", "soft", "Send a request to see the outputs."));
    this.holder.replaceChildren(this.form(), this.result);
  }

  form() {
    const form = make("form", "request", ...this.forms.map((each) => each.element));
    if (this.mode === "generate") form.append(this.parameters());
    this.send = Object.assign(make("button", "send", this.mode === "infer" ? "Send" : "Generate"), { type: "submit" });
    this.stop = makeButton("Stop", () => state.request?.abort());
    this.stop.disabled = true;
    this.status = make("span", "soft status");
    this.status.setAttribute("role", "status");
    form.append(make("div", "tools", this.send, this.stop, this.status));
    form.addEventListener("submit", (event) => (event.preventDefault(), this.submit()));
    form.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) this.submit();
    });
    return form;
  }

  parameters() {
    this.most = makeField("Most tokens ", "number", 64, { min: 1, step: 1 });
    this.ends = makeField("Stop at ids ", "text", "", { placeholder: "none", size: 10 });
    return make("div", "tools", this.most.label, this.ends.label);
  }

  body(entries) {
    if (this.mode === "infer") return JSON.stringify({ inputs: entries });
    const values = entries.map(({ name, data, shape }) => [name, nested(data, shape)]);
    const ends = this.ends.input.value.trim();
    const stop = ends ? { stop: ends.split(/[\s,]+/).map(Number) } : {};
    const parameters = { max_tokens: Number(this.most.input.value), ...stop };
    return JSON.stringify({ ...Object.fromEntries(values), parameters });
  }

  async submit() {
    if (!this.stop.disabled) return;
    const entries = this.forms.map((form) => form.read());
    if (entries.includes(null)) return;
    const body = this.body(entries);
    const path = `${this.path}/${this.mode === "infer" ? "infer" : "generate_stream"}`;
    const options = { token: state.token !== "", stream: this.mode !== "infer" };
    this.command = makeCommand(new URL(path, document.baseURI).href, body, options);
    const request = (state.request = new AbortController());
    this.busy(true);
    try {
      await (this.mode === "infer" ? this.infer : this.generate).call(this, path, { body, signal: request.signal });
    } catch (error) {
      this.fail(error);
    } finally {
      this.busy(false);
    }
  }

  busy(isBusy) {
    this.send.disabled = isBusy;
    this.stop.disabled = !isBusy;
    this.status.textContent = isBusy ? "waiting for the server …" : "";
  }

  fail(error) {
    const problem = make("p", "problem");
    problem.setAttribute("role", "alert");
    const stream = this.stream?.element.isConnected ? [this.stream.element] : [];
    this.show(problem, ...stream, this.command);
    explain(error, problem);
  }

  show(...parts) {
    this.result.replaceChildren(make("h3", "", "Result"), ...parts);
    // On a narrow screen the result is below the form.
    if (this.result.getBoundingClientRect().top > 0.8 * innerHeight) this.result.scrollIntoView();
  }

  async infer(path, options) {
    const started = performance.now();
    const text = await (await ask(path, options)).text();
    const time = timeText(performance.now() - started);
    const answer = JSON.parse(text);
    const declared = new Map(this.metadata.outputs.map((output) => [output.name, this.noted(output)]));
    const outputs = answer.outputs.map((output) => makeOutput(output, declared.get(output.name)));
    const note = make("p", "soft time", `Answered in ${time}, measured in the browser.`);
    this.show(note, ...outputs, makeResponse(text), this.command);
  }

  noted(output) {
    return { ...output, classes: classesFor(this.notes, output) };
  }

  vocabulary() {
    // That of a text input; else that of the model for the first output.
    const given = this.forms.map((form) => form.vocabulary()).find(Boolean);
    const tokens = vocabularyFor(this.notes, this.metadata.generate.outputs[0]);
    return given ?? (tokens && new Vocabulary("model", "", tokens));
  }

  async generate(path, options) {
    const stream = (this.stream = new StreamView(this.metadata.generate.outputs, this.vocabulary()));
    const note = make("p", "soft time");
    const started = performance.now();
    const answer = await ask(path, options);
    this.show(note, stream.element, this.command);
    const [reader, decoder, events] = [answer.body.getReader(), new TextDecoder(), new EventReader()];
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      for (const event of events.read(decoder.decode(value, { stream: true }))) {
        if (event.error) throw new AnswerError(500, event.error);
        stream.add(event);
      }
      note.textContent = describeRate(stream.count, performance.now() - started);
    }
    if (stream.count === 0) note.textContent = "The stream was empty.";
  }
}

function describeRate(count, ms) {
  return `${count} tokens in ${timeText(ms)}: ${Math.round((1000 * count) / ms)} per second.`;
}

$(".access").addEventListener("submit", (event) => {
  event.preventDefault();
  state.token = $(".token").value.trim();
  loadModels();
});
loadModels();
