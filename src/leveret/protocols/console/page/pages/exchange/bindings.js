// What is bound to an exchange: listed, added, removed.

import { management, segment } from "../../api.js";
import { askFor } from "../../dialog.js";
import { h } from "../../dom.js";
import { parsedJson } from "../../form.js";
import { to } from "../../router.js";
import { attempt, say } from "../../toast.js";

const KINDS = { queue: "q", exchange: "e" };

export const COLUMNS = [
  { label: "To", show: (row) => h("a", { href: hrefOf(row) }, row.destination) },
  { label: "Kind", optional: true, show: (row) => row.destination_type },
  { label: "Routing key", show: (row) => h("span", { class: "mono" }, row.routing_key) },
  {
    label: "Arguments",
    optional: true,
    show: (row) => (Object.keys(row.arguments).length ? JSON.stringify(row.arguments) : ""),
  },
];

/** The page of what a binding leads to. */
export function hrefOf({ vhost, destination, destination_type: kind }) {
  return to(kind === "queue" ? "queues" : "exchanges", vhost, destination);
}

function pathOf({ vhost, name }, kind, destination) {
  return `/bindings/${segment(vhost)}/e/${segment(name)}/${KINDS[kind]}/${segment(destination)}`;
}

/** Ask for a binding and add it. */
export async function bind(subject) {
  const done = await askFor({
    title: `Bind to ${subject.name}`,
    fields: [
      { name: "kind", label: "What", type: "select", options: Object.keys(KINDS) },
      { name: "destination", label: "Its name", required: true },
      { name: "routing_key", label: "Routing key" },
      { name: "arguments", label: "Arguments", type: "textarea", help: "As JSON.", attributes: { rows: 2 } },
    ],
    action: "Bind",
    submit: async ({ kind, destination, routing_key = "", arguments: text }) => {
      const given = { routing_key, arguments: parsedJson(text, "The field Arguments") };
      await management.post(pathOf(subject, kind, destination), given);
      say(`${destination} is bound to ${subject.name}.`);
    },
  });
  if (done) await subject.refresh();
}

/** Remove a binding. */
export async function unbind(subject, row) {
  const path = `${pathOf(subject, row.destination_type, row.destination)}/${segment(row.properties_key)}`;
  const text = `${row.destination} is not bound by that key any more.`;
  if (await attempt(() => management.delete(path), text)) await subject.refresh();
}
