// Dead letters of a virtual host: in groups by why and where they died, looked at, redriven or deleted.

import { management, rest, segment } from "../api.js";
import { fill, h } from "../dom.js";
import { badge, button, figures, heading } from "../figures.js";
import { ago, bytes, count } from "../format.js";
import { homeField, homeless, homeOf } from "../home.js";
import { live } from "../live.js";
import { to } from "../router.js";
import { selectionOf } from "../selection.js";
import { rights } from "../session.js";
import { tableOf } from "../table.js";
import { discard, inWords, redrive } from "./dead-letters/actions.js";
import { sampleOf } from "./dead-letters/sample.js";

const EVERY_MS = 15_000; // the server looks at many messages for an answer
/** Reasons that are no consumer's fault: time or room was short. */
const SHORTAGES = new Set(["expired", "maxlen"]);

function keyOf(row) {
  return JSON.stringify([row.queue, row.reason, row.origin]);
}

/** Show the page. */
export async function show({ root, query, signal }) {
  const vhost = homeOf(query);
  if (vhost === null) return homeless(root, "Dead letters");
  const may = new Map();
  const subject = { vhost, rest: rest(vhost), refresh: () => update() };
  const selection = selectionOf({
    key: keyOf,
    name: (row) => `${row.reason} of ${row.origin} in ${row.queue}`,
    allowed: (row) => may.get(row.queue),
  });
  const sample = sampleOf(subject, (row) => may.get(row.queue));
  const table = tableOf({
    caption: "Groups of dead letters",
    columns: [selection.column, ...columnsOf(vhost, sample.open)],
    key: keyOf,
    empty: "There are no dead letters.",
  });
  const now = h("div");
  const more = h("p", { class: "soft", role: "status" });
  const filters = h("form", { class: "filters", onsubmit: (event) => event.preventDefault() }, homeField(vhost));
  const buttons = [
    button("Select all", () => selection.all(table.element)),
    selection.button("Redrive", (rows) => redrive(subject, rows.map(meant))),
    selection.button("Delete", (rows) => discard(subject, rows.map(meant)), "danger"),
  ];
  root.append(heading("Dead letters", ...buttons), filters, now, table.element, more, sample.element);

  const update = await live(
    async () => {
      const told = await management.get(`/dead-letters/${segment(vhost)}`, signal);
      const fresh = new Set(told.groups.map((row) => row.queue).filter((name) => !may.has(name)));
      const known = await Promise.all([...fresh].map((name) => rights(vhost, "queue", name)));
      for (const [index, name] of [...fresh].entries()) may.set(name, known[index].configure);
      selection.keep(told.groups);
      table.update(told.groups);
      fill(now, figures(currentFigures(told)));
      more.textContent = told.complete ? "" : "There are more: only the first of each queue were looked at.";
    },
    signal,
    EVERY_MS,
  );
}

/** What finds the messages of a group. */
function meant({ queue, reason, origin, messages }) {
  const headers = { "x-last-death-reason": reason, "x-first-death-queue": origin };
  return { queue, filter: { headers }, messages };
}

function currentFigures({ groups, queues }) {
  return [
    ["Dead letters", count(groups.reduce((sum, row) => sum + row.messages, 0))],
    ["Groups", count(groups.length)],
    ["Queues for dead letters", count(queues.length)],
    ["Newest", ago(groups.length ? Math.max(...groups.map((row) => row.last_died_at ?? 0)) || null : null)],
  ];
}

function columnsOf(vhost, open) {
  const queue = (name) => h("a", { href: to("queues", vhost, name) }, name);
  return [
    { label: "Reason", show: (row) => badge(inWords(row.reason), SHORTAGES.has(row.reason) ? "warn" : "bad") },
    { label: "Died in", show: (row) => queue(row.origin) },
    { label: "Lies in", optional: true, show: (row) => queue(row.queue) },
    { label: "Messages", numeric: true, show: (row) => count(row.messages) },
    { label: "Size", numeric: true, optional: true, show: (row) => bytes(row.bytes) },
    { label: "First died", numeric: true, optional: true, show: (row) => ago(row.first_died_at) },
    { label: "Last died", numeric: true, optional: true, show: (row) => ago(row.last_died_at) },
    { label: "Actions", show: (row) => button("Look", () => open(row)) },
  ];
}
