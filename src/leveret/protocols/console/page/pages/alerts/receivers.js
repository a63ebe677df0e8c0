// Receivers: who is told, how, and whether that works. Secrets are typed in and never shown again.

import { management, segment } from "../../api.js";
import { askFor, confirm } from "../../dialog.js";
import { h } from "../../dom.js";
import { badge, button } from "../../figures.js";
import { hasTag } from "../../session.js";
import { tableOf } from "../../table.js";
import { attempt, say, warn } from "../../toast.js";

const KEPT = "Empty: as it is.";
const MODES = [
  ["starttls", "STARTTLS"],
  ["tls", "TLS from the beginning"],
  ["none", "none, on this machine only"],
];
/** Each kind: its name, and the fields that only it has. */
export const KINDS = {
  webhook: { name: "webhook", fields: urlFields },
  slack: { name: "Slack URL", fields: chatFields },
  email: { name: "e-mail", fields: mailFields },
};

function urlFields(row) {
  return [
    ...chatFields(row),
    {
      name: "authorization",
      label: "Authorization",
      type: "password",
      help: row.authorization ? KEPT : "The header to send, such as Bearer and a token.",
    },
  ];
}

function chatFields(row) {
  const help = row.url ? `It is at ${row.place}. ${KEPT}` : "https, or this machine.";
  return [{ name: "url", label: "URL", type: row.url ? "password" : "text", required: !row.url, help }];
}

function mailFields(row) {
  const port = { name: "port", label: "Port", type: "number", value: row.port, attributes: { min: 1, max: 65535 } };
  return [
    { name: "host", label: "Mail server", value: row.host, required: true },
    { name: "tls", label: "Encryption", type: "select", options: MODES, value: row.tls ?? "starttls" },
    { ...port, help: "Empty: 587, 465 or 25." },
    { name: "user", label: "User", value: row.user },
    { name: "password", label: "Password", type: "password", help: row.password ? KEPT : null },
    { name: "sender", label: "From", value: row.sender, required: true },
    { name: "to", label: "To", value: row.to?.join(", "), required: true, help: "With commas between them." },
  ];
}

/** The table of receivers. */
export function receiversTable(again) {
  const columns = [
    { label: "Name", show: (row) => row.name },
    { label: "Kind", show: (row) => KINDS[row.kind].name },
    { label: "Where", optional: true, show: (row) => h("span", { class: "mono" }, row.place) },
    { label: "Rules", optional: true, show: (row) => row.rules.join(", ") },
    { label: "At least", optional: true, show: (row) => row.severity_min },
    { label: "State", show: (row) => stateOf(row) },
  ];
  const actions = {
    label: "Actions",
    show: ({ name }) =>
      h(
        "div",
        { class: "actions" },
        button("Test", () => test(again, name)),
        button("Edit", () => change(again, name)),
        button("Delete", () => remove(again, name), "danger"),
      ),
  };
  return tableOf({
    caption: "Receivers",
    columns: hasTag("administrator") ? [...columns, actions] : columns,
    key: (row) => row.name,
    empty: "There are none: alerts are shown here, and no notification is sent.",
  });
}

function stateOf(row) {
  if (row.problem) return [badge("failing", "bad"), " ", row.problem];
  return row.waiting ? badge(`${row.waiting} waiting`, "warn") : badge("ready", "good");
}

function pathOf(name) {
  return `/alerts/receivers/${segment(name)}`;
}

async function test(again, name) {
  await attempt(() => management.post(`${pathOf(name)}/test`), `${name} took the test.`);
  await again();
}

async function change(again, name) {
  const now = await management.get(pathOf(name)).catch((error) => warn(error.message));
  if (now) await editReceiver(again, now.kind, now);
}

/** Ask for a receiver: a new one of a kind, or what is different about one. */
export async function editReceiver(again, kind, row = {}) {
  const done = await askFor({
    title: row.name ? `Change ${row.name}` : `New ${KINDS[kind].name}`,
    fields: [
      ...(row.name ? [] : [{ name: "name", label: "Name", required: true }]),
      ...KINDS[kind].fields(row),
      {
        name: "rules",
        label: "Rules",
        value: row.rules?.join(", ") ?? "*",
        help: "Names or patterns, with commas between them.",
      },
      {
        name: "severity_min",
        label: "At least",
        type: "select",
        options: ["info", "warning", "critical"],
        value: row.severity_min ?? "warning",
      },
    ],
    action: "Set receiver",
    submit: async ({ name = row.name, rules, to, ...given }) => {
      const lists = { rules: listed(rules ?? "*"), ...(to === undefined ? {} : { to: listed(to) }) };
      const kept = row.name ? { group_s: row.group_s, repeat_s: row.repeat_s } : {};
      await management.put(pathOf(name), { kind, ...kept, ...given, ...lists });
      say(`The receiver ${name} is set.`);
    },
  });
  if (done) await again();
}

function listed(text) {
  return text
    .split(",")
    .map((each) => each.trim())
    .filter(Boolean);
}

async function remove(again, name) {
  const done = await confirm({
    title: `Delete ${name}?`,
    text: "It is told nothing any more.",
    action: "Delete receiver",
    submit: () => management.delete(pathOf(name)),
  });
  if (done) await again();
}
