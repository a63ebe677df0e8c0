// Virtual hosts: each is a world of queues, exchanges and permissions of its own.

import { management, segment } from "../api.js";
import { askFor } from "../dialog.js";
import { h } from "../dom.js";
import { badge, button } from "../figures.js";
import { count, rate } from "../format.js";
import { showListing } from "../listing.js";
import { go, to } from "../router.js";
import { hasTag, recall } from "../session.js";
import { say } from "../toast.js";

const TYPES = [
  ["undefined", "classic, as clients expect"],
  ["quorum", "quorum"],
  ["stream", "stream"],
];
const COLUMNS = [
  { label: "Name", sort: "name", show: nameOf },
  { label: "Description", optional: true, show: (row) => row.description },
  { label: "Tags", optional: true, show: (row) => row.tags.map((tag) => [badge(tag), " "]) },
  { label: "Ready", sort: "messages_ready", numeric: true, show: (row) => count(row.messages_ready) },
  {
    label: "Unacked",
    sort: "messages_unacknowledged",
    numeric: true,
    optional: true,
    show: (row) => count(row.messages_unacknowledged),
  },
  { label: "All", sort: "messages", numeric: true, show: (row) => count(row.messages) },
  rateColumn("Publish", "publish"),
  rateColumn("Deliver", "deliver_get"),
];

/** Only administrators may look at one by itself. */
function nameOf(row) {
  return hasTag("administrator") ? h("a", { href: to("vhosts", row.name) }, row.name) : row.name;
}

function rateColumn(label, name) {
  const show = (row) => rate(row.message_stats[`${name}_details`].rate);
  return { label, sort: `message_stats.${name}_details.rate`, numeric: true, optional: true, show };
}

/**
 * What is said about a virtual host, as fields.
 * @param {any} [row]
 */
export function detailFields(row = { description: "", tags: [], default_queue_type: "undefined" }) {
  return [
    { name: "description", label: "Description", value: row.description },
    { name: "tags", label: "Tags", value: row.tags.join(", "), help: "With commas between them." },
    {
      name: "default_queue_type",
      label: "Type of queues that are declared without one",
      type: "select",
      options: TYPES,
      value: row.default_queue_type,
    },
  ];
}

/** Make a virtual host, or say something else about one. */
export function put(name, { description = "", tags = "", default_queue_type }) {
  return management.put(`/vhosts/${segment(name)}`, { description, tags, default_queue_type });
}

/** Show the page. */
export async function show(page) {
  await showListing(page, {
    title: "Virtual hosts",
    path: "/vhosts",
    columns: COLUMNS,
    key: (row) => row.name,
    empty: "There is no such virtual host.",
    actions: hasTag("administrator") ? [button("New virtual host", make, "primary")] : [],
  });
}

function make() {
  return askFor({
    title: "New virtual host",
    fields: [{ name: "name", label: "Name", required: true }, ...detailFields()],
    action: "Make virtual host",
    submit: async ({ name, ...details }) => {
      await put(name, details);
      await recall();
      say(`The virtual host ${name} is there; you may do everything in it.`);
      go(to("vhosts", name));
    },
  });
}
