// Where boxes and edges lie, from the library or simply below each other; both give
// {boxes: [{box, x, y, w, h, depth}], edges: [{edge, points: [[x, y]…]}], w, h}, outer boxes first.

const GAP = 4;
const CHIPS = 760; // pixels of declared variables beside each other

function simpleLayout({ root }) {
  const boxes = [];
  const place = (box, x, y, depth) => {
    const at = { box, x, y, w: box.w, h: box.h, depth };
    boxes.push(at);
    if (!box.children.length) return at;
    let [left, top, line, right] = [x + 14, y + box.head, 0, x + box.w];
    for (const child of box.children) {
      const beside = child.kind.startsWith("var") && line && left + child.w < x + CHIPS;
      if (!beside) [left, top, line] = [x + 14, top + line + (line ? GAP : 0), 0];
      const inner = place(child, left, top, depth + 1);
      right = Math.max(right, left + inner.w + 10);
      line = Math.max(line, inner.h);
      left = child.kind.startsWith("var") ? left + inner.w + GAP : Infinity;
    }
    return Object.assign(at, { w: right - x, h: top + line + 10 - y });
  };
  const whole = place(root, 0, 0, 0);
  return { boxes, edges: [], w: whole.w, h: whole.h };
}

// ---- the library's graph, and what it answers ----

const ELK_OPTIONS = {
  "elk.algorithm": "layered",
  "elk.direction": "DOWN",
  "elk.hierarchyHandling": "INCLUDE_CHILDREN",
  "elk.edgeRouting": "ORTHOGONAL",
  "elk.layered.nodePlacement.strategy": "LINEAR_SEGMENTS", // narrower than others in the same time
  "elk.layered.spacing.nodeNodeBetweenLayers": "24",
  "elk.layered.spacing.edgeNodeBetweenLayers": "12",
  "elk.spacing.nodeNode": "16",
  "elk.spacing.edgeNode": "12",
  "elk.spacing.edgeEdge": "8",
};

function elkGraph({ root, edges }) {
  const nodeOf = (box) => {
    const list = box.isList && simpleLayout({ root: box });
    if (list || !box.children.length) return { id: box.id, width: (list || box).w, height: (list || box).h };
    const layoutOptions = {
      ...ELK_OPTIONS,
      "elk.padding": `[top=${box.head + 10},left=14,bottom=14,right=14]`,
      "elk.nodeSize.constraints": "MINIMUM_SIZE",
      "elk.nodeSize.minimum": `(${box.h},${box.w})`, // turned, as the library turns what flows down
    };
    return { id: box.id, children: box.children.map(nodeOf), layoutOptions };
  };
  const layoutOptions = { ...ELK_OPTIONS, "elk.padding": "[top=0,left=0,bottom=0,right=0]" };
  const lines = edges.map(({ id, from, to }) => ({ id, sources: [from], targets: [to] }));
  return { id: "all", layoutOptions, children: [nodeOf(root)], edges: lines };
}

function elkLayout({ root, edges }, answer) {
  const boxes = [];
  const corners = new Map([["all", [0, 0]]]); // id of a box -> where it lies
  const read = (box, node, x, y, depth) => {
    const down = (one) => ({ ...one, x: one.x + x + node.x, y: one.y + y + node.y, depth: one.depth + depth });
    if (box.isList) return boxes.push(...simpleLayout({ root: box }).boxes.map(down));
    boxes.push({ box, x: x + node.x, y: y + node.y, w: node.width, h: node.height, depth });
    corners.set(box.id, [x + node.x, y + node.y]);
    box.children.forEach((child, i) => read(child, node.children[i], x + node.x, y + node.y, depth + 1));
  };
  read(root, answer.children[0], 0, 0, 0);
  const lines = edges.map((edge, i) => ({ edge, points: pointsOf(answer.edges[i], corners) }));
  const far = lines.flatMap(({ points }) => points);
  const w = far.reduce((most, [x]) => Math.max(most, x), answer.width);
  const h = far.reduce((most, [, y]) => Math.max(most, y), answer.height);
  return { boxes, edges: lines.filter(({ points }) => points.length > 1), w, h };
}

function pointsOf({ sections = [], container }, corners) {
  // The library counts from the corner of the box that holds both ends.
  const [left, top] = corners.get(container) ?? [0, 0];
  return sections.flatMap(({ startPoint, bendPoints = [], endPoint }) =>
    [startPoint, ...bendPoints, endPoint].map(({ x, y }) => [left + x, top + y]),
  );
}
