// Alerts: what is wrong now, the rules that say so, silences, who is told, and what happened.

import { management } from "../api.js";
import { h } from "../dom.js";
import { button, heading, panel } from "../figures.js";
import { live } from "../live.js";
import { hasTag } from "../session.js";
import { historyTable } from "./alerts/history.js";
import { nowTable } from "./alerts/now.js";
import { editReceiver, KINDS, receiversTable } from "./alerts/receivers.js";
import { editRule, rulesTable } from "./alerts/rules.js";
import { silence, silencesTable } from "./alerts/silences.js";

const EVENTS = 50;

/** Show the page. */
export async function show({ root, signal }) {
  let refresh = null;
  const again = () => refresh();
  const parts = partsOf(again).filter(({ tag }) => hasTag(tag));
  root.append(heading("Alerts", hasTag("policymaker") ? button("New silence", () => silence(again)) : null));
  for (const { title, table, add } of parts) root.append(panel(title, table.element, add));

  refresh = await live(async () => {
    const told = await Promise.all(parts.map(({ path }) => management.get(path, signal)));
    for (const [index, { table }] of parts.entries()) table.update(told[index]);
  }, signal);
}

/** The panels of the page: what they show, and the tag that sees it. */
function partsOf(again) {
  return [
    { title: "Now", tag: "management", path: "/alerts", table: nowTable(again) },
    {
      title: "Receivers",
      tag: "monitoring",
      path: "/alerts/receivers",
      table: receiversTable(again),
      add: receiverAdders(again),
    },
    { title: "Silences", tag: "management", path: "/alerts/silences", table: silencesTable(again) },
    { title: "Rules", tag: "management", path: "/alerts/rules", table: rulesTable(again), add: ruleAdder(again) },
    { title: "History", tag: "management", path: `/alerts/history?limit=${EVENTS}`, table: historyTable() },
  ];
}

function ruleAdder(again) {
  if (!hasTag("administrator")) return null;
  return h(
    "p",
    {},
    button("Add rule", () => editRule(again)),
  );
}

function receiverAdders(again) {
  if (!hasTag("administrator")) return null;
  const buttons = Object.entries(KINDS).map(([kind, { name }]) =>
    button(`Add ${name}`, () => editReceiver(again, kind)),
  );
  return h("p", { class: "actions" }, buttons);
}
