// The columns of a drawing: each node stands to the right of those that lead to it, as far as there is no circle.

/**
 * Nodes with their levels, ordered so that arrows cross little; and the edges.
 * @param {Array<{id: string}>} nodes
 * @param {Array<{from: string, to: string}>} edges
 */
export function leveled(nodes, edges) {
  const out = new Map(nodes.map(({ id }) => [id, []]));
  const into = new Map(nodes.map(({ id }) => [id, []]));
  for (const edge of edges) {
    out.get(edge.from).push(edge.to);
    into.get(edge.to).push(edge.from);
  }
  const { order, back } = visited(nodes, out);
  const levels = new Map(order.map((id) => [id, 0]));
  for (const id of order) {
    for (const next of out.get(id)) {
      if (!back.has(`${id} ${next}`)) levels.set(next, Math.max(levels.get(next), levels.get(id) + 1));
    }
  }
  const placed = nodes.map((node) => ({ ...node, level: levels.get(node.id) }));
  return { nodes: ordered(placed, into), edges };
}

/** Every node after all that lead to it, and the edges that lead back: a circle has no begin. */
function visited(nodes, out) {
  const order = [];
  const back = new Set();
  const open = new Set();
  const done = new Set();

  function visit(id) {
    open.add(id);
    for (const next of out.get(id)) {
      if (open.has(next)) back.add(`${id} ${next}`);
      else if (!done.has(next)) visit(next);
    }
    open.delete(id);
    done.add(id);
    order.unshift(id);
  }

  for (const { id } of nodes) if (!done.has(id)) visit(id);
  return { order, back };
}

/** Column by column, each node at the height of those that lead to it. */
function ordered(nodes, into) {
  const places = new Map();
  const found = [];
  for (const level of [...new Set(nodes.map((node) => node.level))].sort((first, second) => first - second)) {
    const column = nodes.filter((node) => node.level === level);
    const height = ({ id }) => {
      const known = into.get(id).filter((each) => places.has(each));
      return known.length ? known.reduce((sum, each) => sum + places.get(each), 0) / known.length : Infinity;
    };
    const heights = new Map(column.map((node) => [node.id, height(node)]));
    column.sort((first, second) => {
      const [one, other] = [heights.get(first.id), heights.get(second.id)];
      return one === other ? (first.id < second.id ? -1 : 1) : one - other;
    });
    for (const [index, node] of column.entries()) places.set(node.id, index / Math.max(1, column.length - 1));
    found.push(...column);
  }
  return found;
}
