// The drawing of where the messages of an exchange go: through other exchanges, to queues.

import { management, segment } from "../../api.js";
import { h } from "../../dom.js";
import { graphOf } from "../../graph.js";
import { leveled } from "../../levels.js";
import { to } from "../../router.js";
import { hrefOf } from "./bindings.js";

export const BINDINGS_MAX = 100; // of one exchange
const EXCHANGES_MAX = 12;
const NODES_MAX = 40;

/** @param {{vhost: string, name: string, signal: AbortSignal}} subject */
export function routing(subject) {
  const element = h("div");
  let drawn = null;
  let told = "";
  let hits = new Set();

  function draw() {
    if (drawn.nodes.length < 2) return element.replaceChildren(h("p", { class: "soft" }, "Nothing is bound."));
    const graph = graphOf({
      ...drawn,
      start: idOf("exchange", subject.name),
      label: `Routing of ${subject.name}`,
      hits,
    });
    const rest = drawn.left ? h("p", { class: "soft" }, `The drawing ends at ${drawn.nodes.length} names.`) : "";
    element.replaceChildren(graph, rest);
  }

  /** Draw it again only if something is different: who looks at it may have scrolled. */
  async function update(rows) {
    const fresh = await collect(subject, rows);
    const text = JSON.stringify(fresh);
    if (text === told) return;
    told = text;
    drawn = fresh;
    draw();
  }

  function highlight({ queues, bindings, alternates }) {
    const taken = bindings.map(
      (row) => `${idOf("exchange", row.source)} ${idOf(row.destination_type, row.destination)}`,
    );
    const others = alternates.map((each) => `${idOf("exchange", each.exchange)} ${idOf("exchange", each.alternate)}`);
    hits = new Set([...queues.map((name) => idOf("queue", name)), ...taken, ...others]);
    if (drawn) draw();
  }

  return { element, update, highlight };
}

function idOf(kind, name) {
  return `${kind}:${name}`;
}

/** Nodes and edges from an exchange on, some levels deep; of the first exchange the bindings are known. */
async function collect({ vhost, name, row, signal }, first) {
  const start = { id: idOf("exchange", name), name, kind: "exchange", href: to("exchanges", vhost, name) };
  const nodes = new Map([[start.id, start]]);
  const edges = new Map();
  const pending = [{ node: start, rows: first, alternate: row.arguments["alternate-exchange"] }];
  let left = false;

  function reach(node, each, kind = "binding") {
    const id = idOf(each.destination_type, each.destination);
    if (!nodes.has(id) && nodes.size >= NODES_MAX) {
      left = true;
      return null;
    }
    const fresh = !nodes.has(id);
    const { destination, destination_type: type } = each;
    if (fresh) nodes.set(id, { id, name: destination, kind: type, href: hrefOf(each) });
    const edge = edges.get(`${node.id} ${id}`) ?? { from: node.id, to: id, keys: [], kind };
    edges.set(`${node.id} ${id}`, { ...edge, keys: [...edge.keys, each.routing_key] });
    return fresh && type === "exchange" ? nodes.get(id) : null;
  }

  for (const { node, rows, alternate } of pending) {
    const other = { vhost, destination: alternate, destination_type: "exchange", routing_key: "" };
    const found = rows.map((each) => reach(node, each));
    if (alternate) found.push(reach(node, other, "alternate"));
    for (const next of found.filter(Boolean)) {
      if (pending.length < EXCHANGES_MAX) pending.push(await asked(vhost, next, signal));
      else left = true;
    }
  }
  return { ...leveled([...nodes.values()], [...edges.values()]), left };
}

/** An exchange on the way; one that is named as an alternate need not be there. */
async function asked(vhost, node, signal) {
  const path = `/exchanges/${segment(vhost)}/${segment(node.name)}`;
  try {
    const [row, told] = await Promise.all([
      management.get(path, signal),
      management.get(`${path}/bindings/source?page=1&page_size=${BINDINGS_MAX}`, signal),
    ]);
    return { node, rows: told.items, alternate: row.arguments["alternate-exchange"] };
  } catch (error) {
    if (error.status !== 404) throw error;
    return { node, rows: [], alternate: undefined };
  }
}
