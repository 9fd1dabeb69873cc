"use strict";
// Only text nodes are made of names and values, never markup.

const $ = (selector) => document.querySelector(selector);

function make(tag, className, ...children) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  element.append(...children);
  return element;
}

function makeButton(text, onClick, className = "") {
  const button = make("button", className, text);
  button.type = "button";
  button.addEventListener("click", onClick);
  return button;
}

function makeField(text, type, value, attributes = {}) {
  // An input element in its label.
  const input = make("input");
  Object.assign(input, { type, ...attributes });
  if (type !== "file") input.value = value;
  return { input, label: make("label", "", text, input) };
}

function makeArea(name, text, rows) {
  const area = make("textarea");
  Object.assign(area, { rows, value: text, spellcheck: false });
  area.setAttribute("aria-label", name);
  return area;
}

function makeSelect(name, options, onChange) {
  const select = make("select");
  select.setAttribute("aria-label", name);
  for (const [value, text] of options) select.append(Object.assign(make("option", "", text), { value }));
  select.addEventListener("change", () => onChange(select.value));
  return select;
}

let groups = 0;

function makeChoice(options, onChange) {
  // Radio buttons in a row; the first one is checked.
  const group = `choice${groups++}`;
  const labels = options.map(([value, text], index) => {
    const { input, label } = makeField("", "radio", value, { name: group, checked: index === 0 });
    label.append(text);
    input.addEventListener("change", () => onChange(value));
    return label;
  });
  return make("div", "tools kinds", ...labels);
}

function showProblem(element, reason, message = "") {
  element.hidden = !reason;
  element.replaceChildren(make("strong", "", reason), ...(message ? [`\n${message}`] : []));
}

async function copyText(text, source) {
  // The clipboard of a page without TLS is out of reach; then the text is selected and copied.
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    getSelection().selectAllChildren(source);
    return document.execCommand("copy");
  }
}

function saveText(text, name) {
  const address = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  Object.assign(make("a"), { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}
