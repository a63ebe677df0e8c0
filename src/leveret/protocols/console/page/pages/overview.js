// The whole broker at a glance: what is in it, how fast it goes, and whether it has what it needs.

import { management } from "../api.js";
import { chartOf, history, rowsOf } from "../chart.js";
import { fill, h } from "../dom.js";
import { figures, heading, panel } from "../figures.js";
import { firingLines } from "../firing.js";
import { brief, count, rate, span } from "../format.js";
import { live } from "../live.js";
import { to } from "../router.js";
import { hasTag } from "../session.js";
import { gauges } from "./node.js";
import { stateOf } from "./nodes.js";

const HOUR = "lengths_age=3600&lengths_incr=15&msg_rates_age=3600&msg_rates_incr=15";
const NEWEST = "lengths_age=15&lengths_incr=5&msg_rates_age=15&msg_rates_incr=5";
const RATES = [
  ["publish", "Publish", "--line-1"],
  ["deliver_get", "Deliver", "--line-2"],
  ["ack", "Acknowledge", "--line-3"],
  ["redeliver", "Redeliver", "--line-4"],
];
const DEPTHS = [
  ["messages_ready", "Ready", "--line-1"],
  ["messages_unacknowledged", "Unacked", "--line-2"],
  ["messages", "All", "--line-3"],
];

/** Show the page. */
export async function show({ root, signal }) {
  const depth = chartOf({ title: "Messages", lines: linesOf(DEPTHS), format: brief, signal });
  const speed = chartOf({ title: "Messages per second", lines: linesOf(RATES), format: rate, signal });
  const alarms = h("div", { role: "alert" });
  const now = h("div");
  const objects = h("div");
  const node = h("div", { class: "columns" });
  let samples = HOUR; // once; after that what is new
  const depths = history();
  const rates = history();
  const charts = h(
    "div",
    { class: "columns" },
    panel("Messages", depth.element),
    panel("Messages per second", speed.element),
  );
  root.append(heading("Overview"), alarms, now, objects, charts, node);

  await live(async () => {
    const [told, nodes] = await Promise.all([
      management.get(`/overview?${samples}`, signal),
      hasTag("monitoring") ? management.get("/nodes", signal) : [],
    ]);
    samples = NEWEST;
    const { queue_totals: totals, message_stats: stats } = told;
    fill(now, figures(currentFigures(totals, stats)));
    fill(objects, figures(objectFigures(told.object_totals)));
    depth.set(depths.add(rowsOf(DEPTHS.map(([name]) => totals[`${name}_details`]?.samples))));
    speed.set(
      rates.add(
        rowsOf(
          RATES.map(([name]) => stats[`${name}_details`]?.samples),
          true,
        ),
      ),
    );
    fill(alarms, nodes.flatMap(alarmsOf), firingLines());
    fill(node, nodes.map(resources), panel("Listening", listeners(told.listeners)));
  }, signal);
}

function linesOf(rows) {
  return rows.map(([, label, colour]) => ({ label, colour }));
}

function currentFigures(totals, stats) {
  return [
    ["Ready", count(totals.messages_ready)],
    ["Unacked", count(totals.messages_unacknowledged)],
    ["All messages", count(totals.messages)],
    ["Publish", rate(stats.publish_details.rate)],
    ["Deliver", rate(stats.deliver_get_details.rate)],
    ["Acknowledge", rate(stats.ack_details.rate)],
  ];
}

function objectFigures(totals) {
  return [
    ["Queues", h("a", { href: to("queues") }, count(totals.queues))],
    ["Exchanges", count(totals.exchanges)],
    ["Connections", count(totals.connections)],
    ["Channels", count(totals.channels)],
    ["Consumers", count(totals.consumers)],
  ];
}

function alarmsOf(node) {
  const found = [];
  if (node.mem_alarm) found.push("Memory is short: publishers wait until messages are consumed.");
  if (node.disk_free_alarm) found.push("Disk space is short: publishers wait until there is more.");
  return found.map((text) => h("p", { class: "alarm" }, text));
}

function resources(node) {
  const name = h("a", { href: to("nodes", node.name) }, node.name);
  if (!node.running) return panel("Resources", h("p", {}, stateOf(node), " ", name));
  return panel("Resources", h("p", {}, stateOf(node), " ", name, `, up ${span(node.uptime / 1000)}`), gauges(node));
}

function listeners(rows) {
  const items = rows.map((row) =>
    h("li", {}, h("b", {}, row.protocol), ` ${row.ip_address}:${row.port}`, row.tls ? " (TLS)" : ""),
  );
  return h("ul", { class: "plain" }, items);
}
