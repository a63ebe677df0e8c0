// The figures of a queue: charts, depth by priority, what happened since the start, settings and policy.

import { chartOf, history, rowsOf } from "../../chart.js";
import { fill, h } from "../../dom.js";
import { bar, pairs, panel } from "../../figures.js";
import { brief, bytes, count, plain, rate } from "../../format.js";

const DEPTHS = [
  ["messages_ready", "Ready", "--line-1"],
  ["messages_unacknowledged", "Unacked", "--line-2"],
];
const RATES = [
  ["publish", "Publish", "--line-1"],
  ["deliver_get", "Deliver", "--line-2"],
  ["ack", "Acknowledge", "--line-3"],
  ["redeliver", "Redeliver", "--line-4"],
];
const COUNTED = {
  published: "Published",
  delivered: "Delivered",
  redelivered: "Delivered again",
  acked: "Acknowledged",
  nacked: "Given back",
  timed_out: "Lease ended",
  refused: "Refused",
  moved: "Moved away",
  dropped: "Dropped",
};
const DEATHS = {
  rejected: "Rejected",
  expired: "Expired",
  maxlen: "Over the length limit",
  delivery_limit: "Delivered too often",
};

/** @param {import("../queue.js").Subject} subject */
export function factsTab({ signal, isStream }) {
  const lines = (rows) => rows.map(([, label, colour]) => ({ label, colour }));
  const depth = chartOf({ title: "Messages", lines: lines(DEPTHS), format: brief, signal });
  const speed = chartOf({ title: "Messages per second", lines: lines(RATES), format: rate, signal });
  const depths = history();
  const rates = history();
  const details = h("div", { class: "columns" });
  const charts = h(
    "div",
    { class: "columns" },
    panel("Messages", depth.element),
    panel("Messages per second", speed.element),
  );
  const element = h("div", { class: "page" }, charts, details);

  async function update({ row, stats }) {
    depth.set(depths.add(levels(row)));
    speed.set(rates.add(speeds(row)));
    fill(
      details,
      stats && !isStream && panel("By priority", priorities(stats)),
      stats && panel("Since the start", since(stats)),
      panel("Settings", settings(row)),
    );
  }

  return { element, update };
}

/** Samples of the depth; a queue in which nothing happens has none, and its figures are of now. */
function levels(row) {
  const told = rowsOf(DEPTHS.map(([name]) => row[`${name}_details`]?.samples));
  return told.length ? told : [[Date.now() / 1000, ...DEPTHS.map(([name]) => row[name])]];
}

function speeds(row) {
  const told = rowsOf(
    RATES.map(([name]) => row.message_stats[`${name}_details`]?.samples),
    true,
  );
  return told.length ? told : [[Date.now() / 1000, ...RATES.map(() => 0)]];
}

function priorities({ depth_by_priority: depths }) {
  const rows = Object.entries(depths).sort(([first], [second]) => second - first);
  const most = Math.max(1, ...rows.map(([, depth]) => depth));
  if (!rows.length) return h("p", { class: "soft" }, "Nothing is ready.");
  return rows.map(([priority, depth]) =>
    bar({ label: `Priority ${priority}`, part: depth / most, text: count(depth), brief: true }),
  );
}

function since(stats) {
  const happened = Object.entries(COUNTED).map(([name, label]) => [label, count(stats[name])]);
  const came = Object.entries(stats.published_by_priority ?? {}).sort(([first], [second]) => second - first);
  const byPriority = came.some(([priority]) => priority !== "0")
    ? came.map(([priority, number]) => [`Published, priority ${priority}`, count(number)])
    : [];
  const dead = Object.entries(DEATHS).map(([name, label]) => [`Dead: ${label.toLowerCase()}`, count(stats.dead[name])]);
  return pairs([...happened, ...byPriority, ...dead]);
}

function settings(row) {
  const own = Object.entries(row.arguments).map(([name, value]) => [name, plain(value)]);
  const byPolicy = Object.entries(row.effective_policy_definition ?? {}).map(([name, value]) => [
    `${name} (by policy)`,
    plain(value),
  ]);
  return pairs([
    ["Survives a restart", row.durable ? "yes" : "no"],
    ["Deleted when unused", row.auto_delete ? "yes" : "no"],
    ["Exclusive", row.exclusive ? "yes" : "no"],
    ["Policy", row.policy ?? "none"],
    ["Policy of operators", row.operator_policy ?? "none"],
    ["Bytes that wait", bytes(row.message_bytes)],
    ["Memory, about", bytes(row.memory)],
    ...own,
    ...byPolicy,
  ]);
}
