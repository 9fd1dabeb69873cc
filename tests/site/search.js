// Sphinx's own search on the built index, without a browser: queries to ranked results.
const fs = require("node:fs");
const vm = require("node:vm");
const { site, queries } = JSON.parse(fs.readFileSync(0, "utf8"));
const files = ["documentation_options", "doctools", "sphinx_highlight", "searchtools", "language_data"];
const element = { lastChild: null, addEventListener() {}, classList: { add() {} } };
const document = {
  readyState: "loading",
  addEventListener() {},
  getElementById: () => element,
  querySelector: () => element,
};
const storage = { setItem() {}, getItem: () => null, removeItem() {} };
const context = vm.createContext({ document, localStorage: storage, console, URLSearchParams });
context.window = context;
context.location = { protocol: "https:", search: "" };
const source = files.map((name) => fs.readFileSync(`${site}/_static/${name}.js`, "utf8"));
const index = fs.readFileSync(`${site}/searchindex.js`, "utf8");
const run = `(queries) => queries.map((query) => {
  location.search = "?q=" + encodeURIComponent(query);
  const results = Search._performSearch(...Search._parseQuery(query)).reverse();
  return results.slice(0, 10).map(([page, title, anchor]) => [page, title, anchor]);
})`;
for (const script of [...source, index]) vm.runInContext(script, context);
console.log(JSON.stringify(vm.runInContext(run, context)(queries)));
