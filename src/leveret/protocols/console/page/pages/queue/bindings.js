// How messages come into a queue.

import { management, segment } from "../../api.js";
import { askFor } from "../../dialog.js";
import { h } from "../../dom.js";
import { button, panel } from "../../figures.js";
import { parsedJson } from "../../form.js";
import { tableOf } from "../../table.js";
import { attempt, say } from "../../toast.js";

/** @param {import("../queue.js").Subject} subject */
export function bindingsTab(subject) {
  const columns = [
    { label: "From exchange", show: (row) => row.source || h("span", { class: "soft" }, "(default)") },
    { label: "Routing key", show: (row) => h("span", { class: "mono" }, row.routing_key) },
    {
      label: "Arguments",
      optional: true,
      show: (row) => (Object.keys(row.arguments).length ? JSON.stringify(row.arguments) : ""),
    },
    ...(subject.may.write
      ? [{ label: "Actions", show: (row) => (row.source ? button("Unbind", () => unbind(subject, row)) : "") }]
      : []),
  ];
  const table = tableOf({
    caption: "Bindings",
    columns,
    key: (row) => `${row.source} ${row.properties_key}`,
    empty: "Nothing leads here.",
  });

  async function update() {
    table.update(await management.get(`${subject.path}/bindings`, subject.signal));
  }

  const add = subject.may.write
    ? h(
        "p",
        {},
        button("Bind to an exchange", () => bind(subject)),
      )
    : null;
  return { element: panel("Bindings", table.element, add), update };
}

function pathOf({ vhost, name }, source) {
  return `/bindings/${segment(vhost)}/e/${segment(source)}/q/${segment(name)}`;
}

async function bind(subject) {
  const exchanges = await management.get(`/exchanges/${segment(subject.vhost)}?columns=name,type`);
  const options = exchanges.filter((row) => row.name).map((row) => [row.name, `${row.name} (${row.type})`]);
  const done = await askFor({
    title: `Bind ${subject.name}`,
    fields: [
      { name: "source", label: "Exchange", type: "select", options },
      { name: "routing_key", label: "Routing key" },
      {
        name: "arguments",
        label: "Arguments",
        type: "textarea",
        help: "As JSON; for exchanges of the type headers.",
        attributes: { rows: 2 },
      },
    ],
    action: "Bind",
    submit: async ({ source, routing_key = "", arguments: text }) => {
      await management.post(pathOf(subject, source), {
        routing_key,
        arguments: parsedJson(text, "The field Arguments"),
      });
      say(`${subject.name} is bound to ${source}.`);
    },
  });
  if (done) await subject.refresh();
}

async function unbind(subject, row) {
  const path = `${pathOf(subject, row.source)}/${segment(row.properties_key)}`;
  if (
    await attempt(() => management.delete(path), `${subject.name} is not bound to ${row.source} by that key any more.`)
  ) {
    await subject.refresh();
  }
}
