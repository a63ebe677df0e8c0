// Rules: which figure of which queues, how much is too much, and for how long.

import { management, segment } from "../../api.js";
import { askFor, confirm } from "../../dialog.js";
import { h } from "../../dom.js";
import { badge, button } from "../../figures.js";
import { span } from "../../format.js";
import { hasTag } from "../../session.js";
import { tableOf } from "../../table.js";
import { say, warn } from "../../toast.js";
import { FIGURES, figureName, scopeOf, severityBadge, valued } from "./figure.js";

const SEVERITIES = ["info", "warning", "critical"];
const EMPTY = { severity: "warning", for_s: 60, vhost: "*", queue: "*", enabled: true, sample_min: 0 };
const COLUMNS = [
  { label: "Name", show: (row) => h("span", { title: row.says }, row.name) },
  { label: "Severity", optional: true, show: (row) => severityBadge(row.severity) },
  { label: "Fires when", show: (row) => `${figureName(row.figure)} > ${valued(row.limit, row.unit)}` },
  { label: "For", optional: true, show: (row) => (row.for_s ? span(row.for_s) : "at once") },
  { label: "About", optional: true, show: (row) => scopeOf(row) },
  { label: "State", show: (row) => (row.enabled ? badge("on", "good") : badge("off", "warn")) },
];

/** The table of rules. */
export function rulesTable(again) {
  const actions = {
    label: "Actions",
    show: (row) =>
      h(
        "div",
        { class: "actions" },
        button("Edit", () => change(again, row.name)),
        row.changed ? button("Delete", () => remove(again, row.name), "danger") : null,
      ),
  };
  return tableOf({
    caption: "Rules",
    columns: hasTag("administrator") ? [...COLUMNS, actions] : COLUMNS,
    key: (row) => row.name,
    empty: "There are none.",
  });
}

/** Ask first how it is now: the button may be older than the rule. */
async function change(again, name) {
  const now = await management.get(`/alerts/rules/${segment(name)}`).catch((error) => warn(error.message));
  if (now) await editRule(again, now);
}

/** Ask for a rule: a new one, or other limits of one. */
export async function editRule(again, row = EMPTY) {
  const help = "A name, or a pattern: * is any text.";
  const done = await askFor({
    title: row.name ? `Change ${row.name}` : "New rule",
    fields: [
      ...(row.name ? [] : [{ name: "name", label: "Name", required: true }]),
      { name: "figure", label: "Figure", type: "select", options: FIGURES, value: row.figure },
      {
        name: "limit",
        label: "Limit",
        type: "number",
        value: row.limit,
        required: true,
        attributes: { min: 0, step: "any" },
        help: "More than this is too much.",
      },
      {
        name: "clear",
        label: "Over when down to",
        type: "number",
        value: row.clear,
        attributes: { min: 0, step: "any" },
        help: "Empty: nine tenths of the limit.",
      },
      {
        name: "for_s",
        label: "For so many seconds",
        type: "number",
        value: row.for_s,
        attributes: { min: 0 },
        help: "What is shorter is no alert.",
      },
      { name: "severity", label: "Severity", type: "select", options: SEVERITIES, value: row.severity },
      { name: "queue", label: "Queues", value: row.queue, help },
      { name: "vhost", label: "Virtual hosts", value: row.vhost, help },
      { name: "says", label: "In words", value: row.says, help: "What receivers read." },
      { name: "enabled", label: "On", type: "checkbox", value: row.enabled },
    ],
    action: "Set rule",
    submit: async ({ name = row.name, ...given }) => {
      await management.put(`/alerts/rules/${segment(name)}`, { ...given, sample_min: row.sample_min });
      say(`The rule ${name} is set.`);
    },
  });
  if (done) await again();
}

async function remove(again, name) {
  const done = await confirm({
    title: `Delete ${name}?`,
    text: "A rule that is always there is as it was again; any other is gone.",
    action: "Delete rule",
    submit: () => management.delete(`/alerts/rules/${segment(name)}`),
  });
  if (done) await again();
}
