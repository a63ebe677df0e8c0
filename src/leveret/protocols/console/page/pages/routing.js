// The routing of a whole virtual host as a drawing: exchanges, bindings, queues, and the ways of dead letters.

import { management, query as queryOf, segment } from "../api.js";
import { h } from "../dom.js";
import { heading, panel } from "../figures.js";
import { fieldRow } from "../form.js";
import { graphOf } from "../graph.js";
import { homeField, homeless, homeOf } from "../home.js";
import { leveled } from "../levels.js";
import { live } from "../live.js";
import { setQuery, to } from "../router.js";

const NODES_MAX = 80; // more cannot be read
const EVERY_MS = 15_000;
const FOLDERS = { exchange: "exchanges", queue: "queues" };

/** Show the page. */
export async function show({ root, query, signal }) {
  const vhost = homeOf(query);
  if (vhost === null) return homeless(root, "Routing");
  const state = { name: "", ...query, vhost };
  const place = h("div");
  const told = h("p", { class: "soft", role: "status" });
  let drawn = "";
  const name = fieldRow({ name: "name", label: "Search", type: "search", value: state.name });
  const filters = h(
    "form",
    { class: "filters", role: "search", onsubmit: (event) => event.preventDefault() },
    name,
    homeField(vhost),
  );
  name.querySelector("input").addEventListener("change", (event) => change({ name: event.target.value }));
  root.append(heading("Routing"), filters, panel("Who hands messages to whom", place, told));

  function change(values) {
    Object.assign(state, values);
    setQuery(state);
    return refresh();
  }

  /** Draw it again only if something is different: who looks at it may have scrolled. */
  function draw(found) {
    const text = JSON.stringify(found);
    if (text === drawn) return;
    drawn = text;
    const { nodes, edges, complete } = graphFrom(vhost, found);
    const label = `Routing of ${vhost}`;
    place.replaceChildren(
      nodes.length ? graphOf({ nodes, edges, label }) : h("p", { class: "soft" }, "Nothing is bound to an exchange."),
    );
    told.textContent = complete ? "" : `The drawing ends at ${nodes.length} names: search for a part of it.`;
  }

  const refresh = await live(
    async () => draw(await management.get(`/routing/${segment(vhost)}${queryOf({ name: state.name })}`, signal)),
    signal,
    EVERY_MS,
  );
}

/** Nodes and edges as drawings have them, as many as can be read. */
function graphFrom(vhost, { edges: rows, exchanges, complete }) {
  const types = new Map(exchanges.map((row) => [row.name, row.type]));
  const nodes = new Map();
  const edges = [];

  function node(kind, name) {
    const id = `${kind}:${name}`;
    if (!nodes.has(id) && nodes.size < NODES_MAX) {
      const shown = kind === "exchange" ? types.get(name) : null;
      nodes.set(id, { id, name, kind, type: shown, href: to(FOLDERS[kind], vhost, name) });
    }
    return nodes.has(id) ? id : null;
  }

  for (const row of rows) {
    const from = node(row.source_type, row.source);
    const into = from && node(row.destination_type, row.destination);
    if (!into) return { ...leveled([...nodes.values()], edges), complete: false };
    const rest = row.bindings - row.routing_keys.length;
    const keys = rest > 0 ? [...row.routing_keys, `${rest} more`] : row.routing_keys;
    edges.push({ from, to: into, keys, kind: row.kind });
  }
  return { ...leveled([...nodes.values()], edges), complete };
}
