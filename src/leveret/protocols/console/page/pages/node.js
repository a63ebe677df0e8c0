// One node: what it uses and may use, where it listens, what it keeps on its disk, and what it is made of.

import { management, segment } from "../api.js";
import { chartOf, history } from "../chart.js";
import { fill, h } from "../dom.js";
import { bar, figures, heading, pairs, panel } from "../figures.js";
import { bytes, count, counted, span, time } from "../format.js";
import { live } from "../live.js";
import { to } from "../router.js";
import { tableOf } from "../table.js";
import { stateOf } from "./nodes.js";

const LISTENERS = [
  { label: "Protocol", show: (row) => row.protocol },
  { label: "Address", show: (row) => h("span", { class: "mono" }, row.ip_address) },
  { label: "Port", numeric: true, show: (row) => String(row.port) },
  { label: "TLS", show: (row) => (row.tls ? "yes" : "no") },
];
const SYNCS = {
  always: "always: what is confirmed is on the disk",
  interval: "now and then: a power cut may lose what was confirmed",
  never: "never: a power cut may lose what was confirmed",
};

/** Show the page. */
export async function show({ root, params, signal }) {
  const { node: name } = params;
  const path = `/nodes/${segment(name)}`;
  await management.get(`${path}?columns=name`, signal);
  const state = h("span");
  const now = h("div");
  const memory = chartOf({ title: "Memory", lines: [{ label: "In use", colour: "--line-1" }], format: bytes, signal });
  const used = history();
  const resources = h("div");
  const facts = h("div", { class: "columns" });
  const listeners = tableOf({
    caption: "Listeners",
    columns: LISTENERS,
    key: (row) => `${row.protocol} ${row.ip_address} ${row.port}`,
    empty: "It listens nowhere.",
  });
  const back = h("nav", { "aria-label": "Breadcrumb" }, h("a", { href: to("nodes") }, "Nodes"));
  root.append(back, heading(h("span", {}, name, " ", state)), now);
  root.append(h("div", { class: "columns" }, panel("Memory", memory.element), panel("Resources", resources)), facts);
  root.append(panel("Listeners", listeners.element));

  await live(async () => {
    const row = await management.get(path, signal);
    fill(state, stateOf(row));
    if (!row.running) return;
    const [kept, overview] = await Promise.all([
      management.get(`${path}/storage`, signal),
      management.get("/overview?columns=listeners", signal),
    ]);
    fill(now, figures(currentFigures(row, kept)));
    memory.set(used.add([[Date.now() / 1000, row.mem_used]]));
    fill(resources, gauges(row));
    fill(facts, panel("Journal", pairs(journalOf(kept))), panel("Process", pairs(processOf(row, kept))));
    listeners.update(overview.listeners.filter((each) => each.node === name));
  }, signal);
}

function currentFigures(row, { journal, streams }) {
  return [
    ["Up", span(row.uptime / 1000)],
    ["Memory", bytes(row.mem_used)],
    ["Disk free", bytes(row.disk_free)],
    ["Log", journal ? bytes(journal.log_bytes) : "in memory"],
    ["Streams", bytes(streams.bytes)],
    ["Connections", count(row.sockets_used)],
  ];
}

/** How much of each thing is used that can run short; of the disk, how near its free space is to the limit. */
export function gauges(node) {
  const part = (used, most) => (most ? used / most : 0);
  return [
    bar({
      label: "Memory",
      part: part(node.mem_used, node.mem_limit),
      text: `${bytes(node.mem_used)} of ${bytes(node.mem_limit)}`,
      bad: node.mem_alarm,
    }),
    bar({
      label: "Disk",
      part: node.disk_free ? node.disk_free_limit / node.disk_free : 1,
      text: `${bytes(node.disk_free)} free, alarm at ${bytes(node.disk_free_limit)}`,
      bad: node.disk_free_alarm,
    }),
    bar({
      label: "Files and sockets",
      part: part(node.fd_used, node.fd_total),
      text: `${count(node.fd_used)} of ${count(node.fd_total)}`,
    }),
  ];
}

function journalOf({ journal, streams }) {
  const size = `${bytes(streams.bytes)} in ${counted(streams.partitions, "partition")}`;
  const inStreams = [["Streams", streams.partitions ? `${size}, ${counted(streams.segments, "segment")}` : "none"]];
  if (!journal) return [["Journal", "in memory: nothing survives a restart"], ...inStreams];
  return [
    ["Log", `${bytes(journal.log_bytes)} in ${counted(journal.segments, "segment")}`],
    ["History", historyOf(journal)],
    ["Synced", SYNCS[journal.sync]],
    ["Commits since the start", count(journal.frames)],
    ["Syncs since the start", count(journal.syncs)],
    ["Not written yet", bytes(journal.unwritten_bytes)],
    ["In the cache", bytes(journal.cached_bytes)],
    ["Takes publishes", journal.full ? "no: the disk is nearly full" : "yes"],
    ...(journal.archive_problem ? [["Archive", journal.archive_problem]] : []),
    ...inStreams,
  ];
}

/** What is kept for the pipeline, and from when on it is complete. */
function historyOf({ history_bytes: size, history_segments: segments, history_begins_ms: begins }) {
  const since = begins === null ? "complete" : `begins ${time(begins)}`;
  return segments ? `${bytes(size)} in ${counted(segments, "segment")}, ${since}` : since;
}

function processOf(row, { versions }) {
  return [
    ["Process", row.os_pid],
    ["Processors", count(row.processors)],
    ["Data directory", row.db_dir],
    ...Object.entries(versions),
  ];
}
