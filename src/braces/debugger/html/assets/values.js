// A value in one run of its block: measures, a chart over all runs, a histogram, numbers.

const CHART = { w: 336, h: 84, left: 44, right: 6, top: 6, below: 6 };
const MOST_POINTS = 400; // of a chart; more runs are joined
const PAGE = 96; // numbers of a value that are shown at once

function figureOf(h, label, ...children) {
  return drawn("svg", { viewBox: `0 0 ${CHART.w} ${h}`, role: "img", "aria-label": label, class: "chart" }, ...children);
}

function axisText(y, text) {
  return drawn("text", { x: CHART.left - 4, y, "text-anchor": "end" }, text);
}

// ---- chart over runs ----

function chartPoints(series) {
  // Range and mean of each run, or of several neighbouring runs: {from, to, low, high, mean, ill}.
  const step = Math.max(1, Math.ceil(series.count / MOST_POINTS));
  const points = [];
  for (let from = 0; from < series.count; from += step) {
    const at = Array.from({ length: Math.min(step, series.count - from) }, (_, i) => from + i);
    const finite = at.filter((i) => Number.isFinite(series.mean[i]));
    points.push({
      from,
      to: from + at.length,
      low: Math.min(...finite.map((i) => series.min[i])),
      high: Math.max(...finite.map((i) => series.max[i])),
      mean: finite.reduce((sum, i) => sum + series.mean[i], 0) / finite.length,
      ill: at.some((i) => series.nans[i] || series.infs[i]),
    });
  }
  return points;
}

function chartOf(series, current, pick) {
  const points = chartPoints(series);
  const finite = points.filter(({ mean }) => Number.isFinite(mean));
  const [low, high] = [Math.min(...finite.map((one) => one.low)), Math.max(...finite.map((one) => one.high))];
  const [width, room] = [CHART.w - CHART.left - CHART.right, CHART.h - CHART.top - CHART.below];
  const x = (at) => round(CHART.left + (width * (at + 0.5)) / series.count);
  const y = (value) => round(CHART.top + (room * (high - value)) / (high - low || 1));
  const children = finite.map((one) => {
    const at = (one.from + one.to - 1) / 2;
    const thick = Math.max(1, (width / points.length) * 0.8);
    return drawn("rect", { class: "range", x: x(at) - thick / 2, width: round(thick), y: y(one.high), height: Math.max(1, y(one.low) - y(one.high)) });
  });
  children.push(drawn("path", { class: "mean", d: finite.map((one, i) => `${i ? "L" : "M"}${x((one.from + one.to - 1) / 2)} ${y(one.mean)}`).join("") }));
  points.filter(({ ill }) => ill).forEach(({ from }) => children.push(drawn("circle", { class: "ill", cx: x(from), cy: CHART.h - 5, r: 3 })));
  children.push(drawn("line", { class: "now", x1: x(current), x2: x(current), y1: 0, y2: CHART.h }));
  if (finite.length) children.push(axisText(CHART.top + 8, formatNumber(high)), axisText(CHART.h - CHART.below, formatNumber(low)));
  const svg = figureOf(CHART.h, "Mean and range in each run", ...children);
  svg.addEventListener("click", (event) => {
    const box = svg.getBoundingClientRect();
    const place = ((event.clientX - box.left) / box.width) * CHART.w - CHART.left;
    pick(Math.max(0, Math.min(series.count - 1, Math.floor((place / width) * series.count))));
  });
  return svg;
}

// ---- histogram ----

function histogramOf(counts, low, high) {
  const most = Math.max(...counts);
  const h = 70;
  const width = (CHART.w - CHART.left - CHART.right) / counts.length;
  const bars = Array.from(counts, (count, i) => {
    const tall = ((h - 22) * count) / (most || 1);
    const at = { x: round(CHART.left + i * width), y: round(h - 16 - tall), width: round(width * 0.9), height: round(tall) };
    const edge = (j) => formatNumber(low + ((high - low) * j) / counts.length);
    return drawn("rect", { class: "bar", ...at }, drawn("title", {}, `${count} from ${edge(i)} to ${edge(i + 1)}`));
  });
  const ends = [
    drawn("text", { x: CHART.left, y: h - 3 }, formatNumber(low)),
    drawn("text", { x: CHART.w - CHART.right, y: h - 3, "text-anchor": "end" }, formatNumber(high)),
  ];
  return figureOf(h, "Histogram", axisText(14, String(most)), ...bars, ...ends);
}

// ---- numbers ----

function numbersOf(key, run, size) {
  // The elements in the order of storage, a page at a time.
  const box = make("div", "numbers");
  const showPage = async (from) => {
    const found = await source.value(key, run, from, PAGE);
    if (!found) return box.replaceChildren(make("p", "hint", "The numbers are not kept."));
    const { shape, texts } = found;
    const width = Math.min(shape.at(-1) || 1, 4);
    const rows = [];
    for (let at = 0; at < texts.length; at += width) {
      rows.push([make("span", "ty", indexOf(from + at, shape)), ...texts.slice(at, at + width)]);
    }
    const parts = [table(rows)];
    if (size > PAGE) parts.push(pager(from, size, showPage));
    box.replaceChildren(...parts);
  };
  showPage(0);
  return box;
}

function indexOf(at, shape) {
  // The index of an element, as "[0,3]".
  const index = [];
  for (const size of [...shape].reverse()) {
    index.unshift(at % size);
    at = Math.floor(at / size);
  }
  return `[${index}]`;
}

function pager(from, size, showPage) {
  const button = (text, label, to) => {
    const one = make("button", "", text);
    one.type = "button";
    one.ariaLabel = label;
    one.disabled = to < 0 || to >= size;
    one.addEventListener("click", () => showPage(to));
    return one;
  };
  const end = Math.min(from + PAGE, size);
  return make("p", "pager", button("‹", "Previous numbers", from - PAGE), ` ${from}–${end - 1} of ${size} `, button("›", "Next numbers", from + PAGE));
}

// ---- one value ----

async function valueParts(recording, key, run, pick) {
  // All about a value; `pick` is told of a run that is chosen in the chart.
  const series = await source.series(key);
  if (!series.count) return [make("p", "hint", "No value: it did not run, or no result needs it.")];
  const at = series.runs.indexOf(run);
  if (at < 0) return [make("p", "hint", "No value in this run.")];
  const [size, nans, infs] = [series.sizes[at], series.nans[at], series.infs[at]];
  const facts_ = Number.isFinite(series.mean[at])
    ? [["mean", formatNumber(series.mean[at])], ["std", formatNumber(series.std[at])], ["min", formatNumber(series.min[at])], ["max", formatNumber(series.max[at])]]
    : [];
  const isList = typeOf(blockOf(key), nameOf(key)).startsWith("list");
  const parts = [table([...facts_, [isList ? "length" : "elements", size.toLocaleString("en")]])];
  if (nans || infs) parts.push(make("p", "ill", `${nans} NaN, ${infs} infinite`));
  if (series.count > 1) parts.push(chartOf(series, at, (i) => pick(series.runs[i])));
  if (isList || !size) return parts;
  const counts = await source.histogram(key, run);
  if (counts && size > 1 && Number.isFinite(series.mean[at])) parts.push(histogramOf(counts, series.min[at], series.max[at]));
  parts.push(numbersOf(key, run, size));
  return parts;
}
