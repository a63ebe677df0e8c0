// What happened to alerts, the newest first: they began and ended, receivers were told or were not, silences.

import { badge } from "../../figures.js";
import { time } from "../../format.js";
import { nodeColumn } from "../../session.js";
import { tableOf } from "../../table.js";
import { valued } from "./figure.js";

const KINDS = { firing: "bad", resolved: "good", "not sent": "bad" };

/** The table of events. */
export function historyTable() {
  return tableOf({
    caption: "History",
    columns: [
      { label: "When", show: (row) => time(row.at_ms) },
      { label: "What", show: (row) => badge(row.event, KINDS[row.event] ?? "plain") },
      { label: "Rule", show: (row) => row.rule },
      ...nodeColumn(),
      { label: "More", show: (row) => moreOf(row) },
    ],
    key: (row) => JSON.stringify(row),
    empty: "Nothing has happened yet.",
  });
}

function moreOf(row) {
  if (row.queue) return `${row.queue}: ${valued(row.event === "resolved" ? row.worst : row.value, row.unit)}`;
  if (row.receiver) return row.reason ? `${row.receiver}: ${row.reason}` : row.receiver;
  return row.by ? `by ${row.by}` : "";
}
