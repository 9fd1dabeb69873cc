"use strict";
// Only text nodes are made of what a program says, never markup.

const content = JSON.parse(document.getElementById("content").textContent);
const $ = (selector) => document.querySelector(selector);

function make(tag, className, ...children) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  element.append(...children);
  return element;
}

const picture = $(".picture");

function drawn(tag, attributes, ...children) {
  // An element of the picture.
  const element = document.createElementNS(picture.namespaceURI, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

const pen = document.createElement("canvas").getContext("2d");
pen.font = getComputedStyle(document.body).getPropertyValue("--code");
const widths = new Map(); // text that was measured -> its width in pixels

function measure(text) {
  if (!widths.has(text)) widths.set(text, pen.measureText(text).width);
  return widths.get(text);
}
