// A drawing of how messages flow, from left to right.

import { h, svg } from "./dom.js";

const NODE_WIDTH = 150;
const NODE_HEIGHT = 30;
const SLOT = 18; // between two arrows that end at the same node
const GAP_X = 140;
const GAP_Y = 14;
const MARGIN = 8;
const NAME_CHARS = 19;
const KEY_CHARS = 20;
const SHRINK = 0.8; // a drawing that is a little too wide is drawn smaller; much too wide, it scrolls

/**
 * @typedef {{id: string, name: string, kind: "exchange" | "queue", level: number, href: string,
 *   type?: string}} Node
 * @typedef {{from: string, to: string, keys: string[], kind?: "binding" | "alternate" | "dead letters"}} Edge
 */

/** Arrows that are no bindings: how they look, and what is written there. */
const KINDS = {
  alternate: ["alternate", "if nothing matches"],
  "dead letters": ["dead", "dead letters"],
};

/**
 * Draw it; `hits` are the nodes, and the edges as "from to", that are shown as taken.
 * @param {{nodes: Node[], edges: Edge[], start?: string, label: string, hits?: Set<string>}} options
 */
export function graphOf({ nodes, edges, start = "", label, hits = new Set() }) {
  const places = placed(nodes, edges);
  const arrived = new Map();
  const lines = edges.map((edge) => {
    const slot = arrived.get(edge.to) ?? 0;
    arrived.set(edge.to, slot + 1);
    return arrow(edge, places, slot, hits.has(`${edge.from} ${edge.to}`));
  });
  const boxes = nodes.map((node) => box(node, places.get(node.id), node.id === start, hits.has(node.id)));
  const all = [...places.values()];
  const width = Math.max(...all.map(({ x }) => x + NODE_WIDTH)) + MARGIN;
  const height = Math.max(...all.map(({ y, height: own }) => y + own)) + MARGIN;
  const drawing = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": label });
  drawing.append(...lines, ...boxes);
  drawing.style.setProperty("min-width", `${Math.round(width * SHRINK)}px`);
  return h("div", { class: "graph", tabindex: "0", role: "region", "aria-label": `${label}, drawing` }, drawing);
}

/** Where each node stands; the more arrows end there, the taller it is. */
function placed(nodes, edges) {
  const levels = [...new Set(nodes.map((node) => node.level))].sort((first, second) => first - second);
  const places = new Map();
  for (const [column, level] of levels.entries()) {
    let y = MARGIN;
    for (const node of nodes.filter((each) => each.level === level)) {
      const arrows = edges.filter((edge) => edge.to === node.id).length;
      const height = Math.max(NODE_HEIGHT, arrows * SLOT + 6);
      places.set(node.id, { x: MARGIN + column * (NODE_WIDTH + GAP_X), y, height, arrows });
      y += height + GAP_Y;
    }
  }
  const lowest = Math.max(...[...places.values()].map(({ y, height }) => y + height));
  for (const level of levels)
    center(
      nodes.filter((each) => each.level === level).map(({ id }) => places.get(id)),
      lowest,
    );
  return places;
}

/** Move a column to the middle of the height. */
function center(column, lowest) {
  const { y, height } = column.at(-1);
  const down = (lowest - y - height) / 2;
  for (const place of column) place.y += down;
}

function arrow({ from, to, keys, kind = "binding" }, places, slot, hit) {
  const source = places.get(from);
  const target = places.get(to);
  const startX = source.x + NODE_WIDTH;
  const startY = source.y + source.height / 2;
  const endY = target.y + ((slot + 1) * target.height) / (target.arrows + 1);
  const bend = GAP_X / 2;
  const [look, words] = KINDS[kind] ?? ["", null];
  const text = words ?? keys.map((key) => key || "(empty)").join(", ");
  return svg(
    "g",
    { class: ["edge", look, hit ? "hit" : ""].join(" ") },
    svg("path", {
      d: `M ${startX} ${startY} C ${startX + bend} ${startY} ${target.x - bend * 1.4} ${endY} ${target.x} ${endY}`,
    }),
    svg("path", { d: `M ${target.x - 7} ${endY - 4} L ${target.x} ${endY} L ${target.x - 7} ${endY + 4}` }),
    svg("text", { class: "key", x: target.x - 12, y: endY - 4, "text-anchor": "end" }, cut(text, KEY_CHARS)),
    svg("title", {}, text),
  );
}

function box({ name, kind, type, href }, { x, y, height }, isStart, hit) {
  const shape = { x, y, width: NODE_WIDTH, height, rx: kind === "exchange" ? 15 : 4 };
  return svg(
    "a",
    { href, class: [kind, isStart ? "start" : "", hit ? "hit" : ""].join(" "), "aria-label": `${kind} ${name}` },
    svg("title", {}, `${type ? `${type} ` : ""}${kind} ${name}`),
    svg("rect", shape),
    svg("text", { x: x + 12, y: y + height / 2 + 4 }, cut(name, NAME_CHARS)),
  );
}

function cut(text, charsMax) {
  return text.length > charsMax ? `${text.slice(0, charsMax - 1)}…` : text;
}
