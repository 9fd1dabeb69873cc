// Search in every operator of every block, however deep and however closed.

const MOST_FOUND = 100;
const field = $(".search input");
const found = $(".found");
let haystack = null;

function texts() {
  if (haystack) return haystack;
  haystack = [];
  blocks.forEach((block, number) =>
    block.ops.forEach((op, index) => {
      const names = [...named(op.o), ...named(op.i)].map(([, name]) => name);
      const attrs = Object.entries(op.a).map(([name, value]) => `${name}=${value}`);
      const own = [op.n, ...named(op.o).map(([, name]) => name), op.t].map((word) => word.toLowerCase());
      haystack.push({ number, index, own, text: [...own, ...names, ...attrs, op.s].join(" ").toLowerCase() });
    }),
  );
  return haystack;
}

function rank({ own }, words) {
  // Operators that are called so come before those that make it, are of that type, or mention it.
  const exact = own.indexOf(words.join(" "));
  if (exact >= 0) return exact;
  return own.some((one) => words.some((word) => one.includes(word))) ? 1000 : 2000;
}

function search() {
  const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
  found.hidden = !words.length;
  if (!words.length) return;
  const hits = texts().filter(({ text }) => words.every((word) => text.includes(word)));
  hits.sort((a, b) => rank(a, words) - rank(b, words));
  const rows = hits.slice(0, MOST_FOUND).map(({ number, index }, i) => {
    const op = blocks[number].ops[index];
    const path = pathText(number, "") || programOf(number)?.name || "";
    const row = make("li", i ? "" : "first", make("b", "", op.n), ` ${op.t} `, make("span", "hint", path));
    row.addEventListener("mousedown", (event) => (event.preventDefault(), pick(number, index)));
    row.pick = () => pick(number, index);
    return row;
  });
  const rest = hits.length > MOST_FOUND ? `… and ${hits.length - MOST_FOUND} more` : hits.length ? "" : "Nothing found";
  found.replaceChildren(...rows, ...(rest ? [make("li", "hint", rest)] : []));
}

function pick(number, index) {
  found.hidden = true;
  go(number, index);
}

function moveFirst(step) {
  const rows = [...found.children].filter((row) => row.pick);
  const at = rows.findIndex((row) => row.classList.contains("first"));
  const next = rows[Math.max(0, Math.min(rows.length - 1, at + step))];
  rows[at]?.classList.remove("first");
  next?.classList.add("first");
  next?.scrollIntoView({ block: "nearest" });
}

field.addEventListener("input", search);
field.addEventListener("focus", search);
field.addEventListener("blur", () => (found.hidden = true));
field.addEventListener("keydown", (event) => {
  const moves = { ArrowDown: 1, ArrowUp: -1 };
  if (event.key in moves) event.preventDefault(), moveFirst(moves[event.key]);
  if (event.key === "Enter") found.querySelector(".first")?.pick?.();
  if (event.key === "Escape") field.blur();
});
