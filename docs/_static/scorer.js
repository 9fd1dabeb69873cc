/* How the search ranks: an exact match first, names and titles, guides, and then the rest. */
const LATER = [/^tables\//, /^about\//, /^guides\/features$/, /^gallery\//];
const EARLIER = [/^first_hour\//, /^coming_from\//, /^guides\//, /^concepts$/];

const searched = () => {
  const query = new URLSearchParams(location.search).get("q") ?? "";
  return query.trim().toLowerCase().replace(/^br\./, "braces.").replace(/\(\)?$/, "");
};

/* Excerpts of the results are read from their pages, which browsers refuse for files. */
if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;

var Scorer = {
  score: ([docname, title, , , score, , kind]) => {
    const [name, query] = [title.toLowerCase(), searched()];
    if (name === query || name === `braces.${query}`) return score + 50;
    if (kind !== "text") return score;
    if (LATER.some((pattern) => pattern.test(docname))) return score - 2;
    return EARLIER.some((pattern) => pattern.test(docname)) ? score + 1 : score;
  },
  objNameMatch: 30,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 9, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
