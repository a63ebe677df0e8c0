// The processes that make up the broker, each with what it uses; in a cluster, its databases, and who has which shard.

import { management } from "../api.js";
import { fill, h } from "../dom.js";
import { badge, button, figures, heading, panel } from "../figures.js";
import { bytes, count, span } from "../format.js";
import { live } from "../live.js";
import { to } from "../router.js";
import { hasTag } from "../session.js";
import { tableOf } from "../table.js";
import { groupsOf, membersOf, rebalance, shardsOf, troublesOf } from "./nodes/cluster.js";

const COLUMNS = [
  { label: "Name", show: (row) => h("a", { href: to("nodes", row.name) }, row.name) },
  { label: "State", show: stateOf },
  { label: "Up", numeric: true, show: (row) => (row.running ? span(row.uptime / 1000) : "") },
  {
    label: "Memory",
    numeric: true,
    show: (row) => (row.running ? `${bytes(row.mem_used)} of ${bytes(row.mem_limit)}` : ""),
  },
  { label: "Disk free", numeric: true, optional: true, show: (row) => bytes(row.disk_free) },
  {
    label: "Files",
    numeric: true,
    optional: true,
    show: (row) => (row.running ? `${count(row.fd_used)} of ${count(row.fd_total)}` : ""),
  },
  { label: "Connections", numeric: true, optional: true, show: (row) => count(row.sockets_used) },
  { label: "Version", optional: true, show: (row) => row.applications?.[0].version ?? "" },
];

/** Whether a node is well. */
export function stateOf(row) {
  if (!row.running) return badge("down", "bad");
  if (row.mem_alarm) return badge("memory is short", "bad");
  if (row.disk_free_alarm) return badge("disk is short", "bad");
  return row.being_drained ? badge("drained", "warn") : badge("healthy", "good");
}

/** Show the page. */
export async function show({ root, signal }) {
  const cluster = await management.get("/cluster", signal);
  const clustered = cluster.cluster !== null;
  const columns = clustered ? membersOf(COLUMNS) : COLUMNS;
  const table = tableOf({ caption: "Nodes", columns, key: (row) => row.name, empty: "There are none." });
  const [groups, shards] = [groupsOf(), shardsOf()];
  const alarms = h("div", { role: "alert" });
  const now = h("div");
  const actions = clustered && hasTag("administrator") ? [button("Rebalance…", rebalance)] : [];
  root.append(heading("Nodes", ...actions), alarms, now, table.element);
  if (clustered) root.append(panel("PostgreSQL", groups.element), panel("Shards", shards.element));

  await live(async () => {
    const [rows, { cluster_name: name }, told] = await Promise.all([
      management.get("/nodes", signal),
      management.get("/overview?columns=cluster_name", signal),
      management.get("/cluster", signal),
    ]);
    const members = new Map(told.members.map((each) => [each.node, each]));
    table.update(rows.map((row) => ({ ...row, member: members.get(row.name) })));
    groups.update(told.groups);
    shards.update(told.shards);
    fill(alarms, troublesOf(told));
    fill(now, figures([["Cluster", name], ...currentFigures(rows, told)]));
  }, signal);
}

function currentFigures(rows, { shards, definitions }) {
  const sum = (field) => rows.reduce((total, row) => total + (row[field] ?? 0), 0);
  const served = shards.filter((row) => row.state === "active").length;
  return [
    ["Nodes running", `${rows.filter((row) => row.running).length} of ${rows.length}`],
    shards.length ? ["Shards served", `${served} of ${shards.length}`] : null,
    shards.length ? ["Definitions", `version ${count(definitions)}`] : null,
    ["Memory", bytes(sum("mem_used"))],
    ["Connections", count(sum("sockets_used"))],
  ];
}
