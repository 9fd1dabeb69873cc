"use strict";
// Outputs as bar charts and tables, streams of tokens, and the command of a request.

const [FIRST_CLASSES, MOST_ROWS, MOST_COLUMNS, LONGEST_BODY, MOST_TEXT] = [10, 50, 32, 100000, 100000];

function makeBars(values, title, names) {
  const { given, classes } = rankClasses(values);
  const list = make("ol", "bars");
  const show = (count) => list.replaceChildren(...classes.slice(0, count).map((each) => makeBar(each, given, names)));
  show(FIRST_CLASSES);
  const note = given ? "The values are probabilities." : "Softmax of the values, and the values.";
  const more = makeButton(`All ${classes.length} classes`, () => (show(classes.length), more.remove()));
  const parts = [make("p", "soft", title ? `${title}: ${note}` : note), list];
  return make("div", "scores", ...parts, ...(classes.length > FIRST_CLASSES ? [more] : []));
}

const classText = (index, names) => names?.[index] ?? `class ${index}`;

function makeBar({ index, value, part }, given, names) {
  const bar = make("div", "bar");
  bar.style.width = percent(part).replace(" ", "");
  const shown = given ? "" : numberText(value);
  return make(
    "li", "", make("span", "class", classText(index, names)), make("div", "track", bar),
    make("span", "part", percent(part)), make("span", "value", shown),
  );
}

function makeTable(output, names = null) {
  // Integers are indices of classes, if these have names.
  const rows = rowsOf(output);
  const isIndex = names !== null && isInteger(output.datatype);
  const textOf = (value) => numberText(value) + (isIndex && names[value] !== undefined ? ` ${names[value]}` : "");
  const table = make("table");
  for (const [i, row] of rows.slice(0, MOST_ROWS).entries()) {
    const cells = row.slice(0, MOST_COLUMNS).map((value) => make("td", "", textOf(value)));
    const head = output.shape.length > 1 ? [make("th", "", indexText(i, output.shape))] : [];
    table.append(make("tr", "", ...head, ...cells, ...(row.length > MOST_COLUMNS ? [make("td", "", "…")] : [])));
  }
  const left = rows.length - MOST_ROWS;
  const note = left > 0 ? [make("p", "soft", `… and ${left} more rows`)] : [];
  return make("div", "scroll", table, ...note);
}

function makeOutput(output, declared) {
  const type = make("span", "type", ` ${output.datatype} ${shapeText(output.shape)}`);
  const section = make("section", "output", make("h3", "", output.name, type));
  section.dataset.output = output.name;
  const vectors = vectorsOf(output, declared?.shape);
  const names = declared?.classes ?? null;
  if (output.data.length === 0) section.append(make("p", "soft", "The array is empty."));
  else if (vectors === null) section.append(makeTable(output, names));
  else {
    const bars = vectors.map((values, i) => makeBars(values, vectors.length > 1 ? `Element ${i}` : "", names));
    section.append(...bars, make("details", "", make("summary", "", "Values as a table"), makeTable(output)));
  }
  return section;
}

function makeResponse(text) {
  const long = text.length > MOST_TEXT;
  const shown = long ? `${text.slice(0, MOST_TEXT)} …` : text;
  return make("details", "", make("summary", "", "Response as JSON"), make("pre", "", shown));
}

function makeCommand(url, body, options) {
  // The command of a request; a long body is a file.
  const isLong = body.length > LONGEST_BODY;
  const command = curlCommand(url, body, { ...options, file: isLong ? "request.json" : "" });
  const source = make("pre", "curl", command);
  const done = make("span", "soft");
  done.setAttribute("role", "status");
  const copy = makeButton("Copy", async () => {
    done.textContent = (await copyText(command, source)) ? "copied" : "select the text and copy it";
  });
  const save = isLong ? [makeButton("Save request.json", () => saveText(body, "request.json"))] : [];
  return make("div", "", make("h3", "", "The same request with curl"), source, make("div", "tools", copy, ...save, done));
}

class StreamView {
  // The outputs of a generation, as they arrive: text if a vocabulary is known, else numbers.
  constructor(names, vocabulary) {
    this.vocabulary = vocabulary;
    this.texts = new Map(names.map((name) => [name, make("pre", "stream")]));
    const parts = [...this.texts].flatMap(([name, text]) => [make("h3", "", name), text]);
    this.element = make("div", "", ...parts);
    this.count = 0;
  }

  add(event) {
    this.count++;
    for (const [index, [name, text]] of [...this.texts].entries()) {
      if (name in event) text.append(this.write(event[name], index === 0));
      text.scrollTop = text.scrollHeight;
    }
  }

  write(value, isFirst) {
    const only = Array.isArray(value) && value.length === 1 ? value[0] : value;
    if (isFirst && this.vocabulary && Number.isInteger(only)) return this.vocabulary.decode(only);
    return `${Array.isArray(only) ? JSON.stringify(only) : numberText(only)} `;
  }
}
