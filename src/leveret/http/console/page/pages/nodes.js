// The processes that make up the broker, each with what it uses.

import { management } from "../api.js";
import { fill, h } from "../dom.js";
import { badge, figures, heading } from "../figures.js";
import { bytes, count, span } from "../format.js";
import { live } from "../live.js";
import { to } from "../router.js";
import { tableOf } from "../table.js";

const COLUMNS = [
  { label: "Name", show: (row) => h("a", { href: to("nodes", row.name) }, row.name) },
  { label: "State", show: stateOf },
  { label: "Up", numeric: true, show: (row) => span(row.uptime / 1000) },
  { label: "Memory", numeric: true, show: (row) => `${bytes(row.mem_used)} of ${bytes(row.mem_limit)}` },
  { label: "Disk free", numeric: true, optional: true, show: (row) => bytes(row.disk_free) },
  { label: "Files", numeric: true, optional: true, show: (row) => `${count(row.fd_used)} of ${count(row.fd_total)}` },
  { label: "Connections", numeric: true, optional: true, show: (row) => count(row.sockets_used) },
  { label: "Version", optional: true, show: (row) => row.applications[0].version },
];

/** Whether a node is well. */
export function stateOf(row) {
  if (!row.running) return badge("stopped", "bad");
  if (row.mem_alarm) return badge("memory is short", "bad");
  return row.disk_free_alarm ? badge("disk is short", "bad") : badge("healthy", "good");
}

/** Show the page. */
export async function show({ root, signal }) {
  const table = tableOf({ caption: "Nodes", columns: COLUMNS, key: (row) => row.name, empty: "There are none." });
  const now = h("div");
  root.append(heading("Nodes"), now, table.element);

  await live(async () => {
    const [rows, { cluster_name: name }] = await Promise.all([
      management.get("/nodes", signal),
      management.get("/overview?columns=cluster_name", signal),
    ]);
    const sum = (field) => rows.reduce((total, row) => total + row[field], 0);
    table.update(rows);
    fill(
      now,
      figures([
        ["Cluster", name],
        ["Nodes", `${rows.filter((row) => row.running).length} of ${rows.length} running`],
        ["Memory", bytes(sum("mem_used"))],
        ["Connections", count(sum("sockets_used"))],
      ]),
    );
  }, signal);
}
