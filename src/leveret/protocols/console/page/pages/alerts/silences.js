// Silences: who wants to hear nothing about which alerts, until when, and why.

import { management, segment } from "../../api.js";
import { askFor } from "../../dialog.js";
import { button } from "../../figures.js";
import { time } from "../../format.js";
import { hasTag } from "../../session.js";
import { tableOf } from "../../table.js";
import { attempt, say } from "../../toast.js";
import { scopeOf } from "./figure.js";

const HOUR_MS = 3_600_000;
const SPANS = [
  ["1", "1 hour"],
  ["4", "4 hours"],
  ["24", "1 day"],
  ["168", "1 week"],
  ["720", "30 days"],
];

/** The table of silences. */
export function silencesTable(again) {
  const columns = [
    { label: "Rule", show: (row) => (row.rule === "*" ? "all rules" : row.rule) },
    { label: "About", show: (row) => scopeOf(row) },
    { label: "Why", show: (row) => row.why },
    { label: "By", optional: true, show: (row) => row.by },
    { label: "Until", show: (row) => time(row.until_ms) },
  ];
  const actions = { label: "Actions", show: ({ name }) => button("End", () => end(again, name)) };
  return tableOf({
    caption: "Silences",
    columns: hasTag("policymaker") ? [...columns, actions] : columns,
    key: (row) => row.name,
    empty: "There are none.",
  });
}

/** Ask for a silence; about an alert, if one is given. */
export async function silence(again, alert = { rule: "*", vhost: "*", queue: "*" }) {
  const help = "A name, or a pattern: * is any text.";
  const done = await askFor({
    title: "New silence",
    text: "What it is about is still shown here, but no notification is sent.",
    fields: [
      { name: "rule", label: "Rule", value: alert.rule, required: true, help },
      { name: "queue", label: "Queue", value: alert.queue, required: true, help },
      { name: "vhost", label: "Virtual host", value: alert.vhost, required: true, help },
      { name: "hours", label: "For", type: "select", options: SPANS, value: "1" },
      { name: "why", label: "Why", required: true },
    ],
    action: "Silence",
    submit: async ({ hours, ...given }) => {
      await management.post("/alerts/silences", { ...given, until_ms: Date.now() + Number(hours) * HOUR_MS });
      say("The silence has begun.");
    },
  });
  if (done) await again();
}

async function end(again, name) {
  const done = await attempt(() => management.delete(`/alerts/silences/${segment(name)}`), "The silence has ended.");
  if (done) await again();
}
