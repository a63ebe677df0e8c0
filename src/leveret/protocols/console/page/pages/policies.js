// Policies, and those of operators, which win over what users and policies say.

import { management, segment } from "../api.js";
import { askFor, confirm } from "../dialog.js";
import { h } from "../dom.js";
import { button, heading, panel } from "../figures.js";
import { parsedJson } from "../form.js";
import { live } from "../live.js";
import { hasTag, who } from "../session.js";
import { tableOf } from "../table.js";
import { say } from "../toast.js";

/** Both sorts: where they are, how they are called, and the tag to change them. */
const SORTS = [
  { folder: "/policies", title: "Policies", tag: "policymaker", kinds: ["all", "queues", "exchanges"] },
  { folder: "/operator-policies", title: "Policies of operators", tag: "administrator", kinds: ["queues"] },
];
const COLUMNS = [
  { label: "Name", show: (row) => row.name },
  { label: "Virtual host", optional: true, show: (row) => row.vhost },
  { label: "Pattern", show: (row) => h("span", { class: "mono" }, row.pattern) },
  { label: "Applies to", optional: true, show: (row) => row["apply-to"] },
  { label: "Definition", show: (row) => definitionOf(row) },
  { label: "Priority", numeric: true, show: (row) => row.priority },
];
const EMPTY = { pattern: "", definition: {}, priority: 0, "apply-to": "queues", vhost: "/" };

function definitionOf(row) {
  const lines = Object.entries(row.definition).map(([name, value]) => h("li", {}, `${name}: ${JSON.stringify(value)}`));
  return h("ul", { class: "plain mono" }, lines);
}

/** Show the page. */
export async function show({ root, signal }) {
  let refresh = null;
  const again = () => refresh();
  const parts = SORTS.map((sort) => ({ sort, table: tableFor(sort, again) }));
  root.append(heading("Policies"));
  for (const { sort, table } of parts) root.append(panel(sort.title, table.element, addButton(sort, again)));

  refresh = await live(async () => {
    const told = await Promise.all(parts.map(({ sort }) => management.get(sort.folder, signal)));
    for (const [index, { table }] of parts.entries()) table.update(told[index]);
  }, signal);
}

function tableFor(sort, again) {
  const actions = {
    label: "Actions",
    show: (row) =>
      h(
        "div",
        { class: "actions" },
        button("Edit", () => edit(sort, again, row)),
        button("Delete", () => remove(sort, again, row), "danger"),
      ),
  };
  return tableOf({
    caption: sort.title,
    columns: hasTag(sort.tag) ? [...COLUMNS, actions] : COLUMNS,
    key: (row) => `${row.vhost}/${row.name}`,
    empty: "There are none.",
  });
}

function addButton(sort, again) {
  if (!hasTag(sort.tag) || !who().vhosts.length) return null;
  return h(
    "p",
    {},
    button(`Add to ${sort.title.toLowerCase()}`, () => edit(sort, again)),
  );
}

function pathOf(sort, { vhost, name }) {
  return `${sort.folder}/${segment(vhost)}/${segment(name)}`;
}

async function edit(sort, again, row = EMPTY) {
  const place = row.name ? [] : [{ name: "name", label: "Name", required: true }];
  const homes = { name: "vhost", label: "Virtual host", type: "select", options: who().vhosts, value: row.vhost };
  const done = await askFor({
    title: row.name ? `Change ${row.name}` : "New policy",
    fields: [
      ...place,
      ...(row.name ? [] : [homes]),
      { name: "pattern", label: "Pattern", value: row.pattern, required: true, help: "A regular expression of names." },
      { name: "kind", label: "Applies to", type: "select", options: sort.kinds, value: row["apply-to"] },
      {
        name: "definition",
        label: "Definition",
        type: "textarea",
        required: true,
        value: row.name ? JSON.stringify(row.definition, null, 2) : "",
        help: 'As JSON: {"max-length": 100000}',
      },
      { name: "priority", label: "Priority", type: "number", value: row.priority, help: "The highest wins." },
    ],
    action: "Set policy",
    submit: async ({ name = row.name, vhost = row.vhost, pattern, kind, definition, priority = 0 }) => {
      const given = { pattern, priority, "apply-to": kind, definition: parsedJson(definition, "The definition") };
      await management.put(pathOf(sort, { vhost, name }), given);
      say(`The policy ${name} is set.`);
    },
  });
  if (done) await again();
}

async function remove(sort, again, row) {
  const { name } = row;
  const done = await confirm({
    title: `Delete ${name}?`,
    text: "What it set goes back to what queues and exchanges were declared with.",
    action: "Delete policy",
    submit: () => management.delete(pathOf(sort, row)),
  });
  if (!done) return;
  say(`The policy ${name} is gone.`);
  await again();
}
