// All exchanges: searched, sorted and cut into pages by the server.

import { management, segment } from "../api.js";
import { askFor } from "../dialog.js";
import { h } from "../dom.js";
import { badge, button } from "../figures.js";
import { parsedJson } from "../form.js";
import { showListing } from "../listing.js";
import { go, to } from "../router.js";
import { who } from "../session.js";
import { say } from "../toast.js";

export const DEFAULT = "amq.default";
const FLAGS = [
  ["durable", "durable"],
  ["auto_delete", "deleted when unused"],
  ["internal", "internal"],
];
const TYPES = ["direct", "fanout", "topic", "headers", "x-consistent-hash", "x-modulus-hash", "x-random", "x-local-random"];
const COLUMNS = [
  {
    label: "Name",
    sort: "name",
    show: (row) => h("a", { href: to("exchanges", row.vhost, row.name || DEFAULT) }, row.name || "(default)"),
  },
  { label: "Virtual host", sort: "vhost", optional: true, show: (row) => row.vhost },
  { label: "Type", sort: "type", show: (row) => row.type },
  { label: "Features", optional: true, show: (row) => flagsOf(row) },
  { label: "Policy", optional: true, show: (row) => row.policy ?? "" },
];

/** What an exchange is, in words. */
export function flagsOf(row) {
  return FLAGS.filter(([name]) => row[name]).map(([, text]) => [badge(text), " "]);
}

/** Show the page. */
export async function show(page) {
  await showListing(page, {
    title: "Exchanges",
    path: "/exchanges",
    columns: COLUMNS,
    key: (row) => `${row.vhost}/${row.name}`,
    empty: "There is no such exchange.",
    actions: who().vhosts.length ? [button("New exchange", make, "primary")] : [],
  });
}

function make() {
  return askFor({
    title: "New exchange",
    fields: [
      { name: "name", label: "Name", required: true },
      { name: "vhost", label: "Virtual host", type: "select", options: who().vhosts, value: "/" },
      { name: "type", label: "Type", type: "select", options: TYPES },
      { name: "durable", label: "Survives a restart", type: "checkbox", value: true },
      { name: "alternate", label: "Alternate exchange", help: "Gets what matches no binding." },
      { name: "arguments", label: "More arguments", type: "textarea", help: "As JSON.", attributes: { rows: 2 } },
    ],
    action: "Make exchange",
    submit: async ({ name, vhost, type, durable, alternate, arguments: text }) => {
      const given = parsedJson(text, "The field More arguments");
      if (alternate) given["alternate-exchange"] = alternate;
      await management.put(`/exchanges/${segment(vhost)}/${segment(name)}`, { type, durable, arguments: given });
      say(`The exchange ${name} is there.`);
      go(to("exchanges", vhost, name));
    },
  });
}
