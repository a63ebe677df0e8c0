// What is wrong now: firing alerts, and those that are pending until they have lasted long enough.

import { h } from "../../dom.js";
import { badge, button } from "../../figures.js";
import { ago } from "../../format.js";
import { to } from "../../router.js";
import { hasTag, nodeColumn } from "../../session.js";
import { tableOf } from "../../table.js";
import { figureName, severityBadge, valued } from "./figure.js";
import { silence } from "./silences.js";

/** The table of alerts. */
export function nowTable(again) {
  const actions = {
    label: "Actions",
    show: (row) => (row.silence ? null : button("Silence", () => silence(again, row))),
  };
  const columns = [
    { label: "Queue", show: (row) => queueOf(row) },
    { label: "Rule", show: (row) => h("span", { title: row.says }, row.rule) },
    { label: "State", show: (row) => h("div", { class: "actions" }, severityBadge(row.severity), stateOf(row)) },
    { label: "Value", numeric: true, show: (row) => valued(row.value, row.unit) },
    { label: "Limit", numeric: true, optional: true, show: (row) => valued(row.limit, row.unit) },
    { label: "Figure", optional: true, show: (row) => figureName(row.figure) },
    { label: "Since", optional: true, show: (row) => ago(row.since_ms) },
    ...nodeColumn(),
  ];
  return tableOf({
    caption: "Alerts",
    columns: hasTag("policymaker") ? [...columns, actions] : columns,
    key: (row) => JSON.stringify([row.rule, row.vhost, row.queue]),
    empty: "Nothing is wrong.",
  });
}

function stateOf(row) {
  if (row.silence) return badge("silenced", "plain");
  return row.state === "firing" ? badge("firing", "bad") : badge("pending", "plain");
}

function queueOf(row) {
  const folder = row.figure === "lag_max" ? "streams" : "queues";
  const link = h("a", { href: to(folder, row.vhost, row.queue) }, row.queue);
  return row.vhost === "/" ? link : [link, h("span", { class: "soft" }, ` in ${row.vhost}`)];
}
