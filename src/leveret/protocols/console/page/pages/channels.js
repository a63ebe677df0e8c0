// Every channel of the connections that the user may see.

import { h } from "../dom.js";
import { badge } from "../figures.js";
import { count } from "../format.js";
import { showListing } from "../listing.js";
import { to } from "../router.js";

const MODES = [
  ["confirm", "confirms"],
  ["transactional", "transactions"],
];

/** What is told of a channel, wherever it is listed. */
export const FIGURES = [
  {
    label: "Mode",
    optional: true,
    show: (row) => MODES.filter(([name]) => row[name]).map(([, text]) => badge(text)),
  },
  {
    label: "Prefetch",
    sort: "prefetch_count",
    numeric: true,
    optional: true,
    show: (row) => (row.prefetch_count ? count(row.prefetch_count) : "no limit"),
  },
  { label: "Consumers", sort: "consumer_count", numeric: true, show: (row) => count(row.consumer_count) },
  {
    label: "Unacked",
    sort: "messages_unacknowledged",
    numeric: true,
    show: (row) => count(row.messages_unacknowledged),
  },
  countColumn("Published", "publish"),
  countColumn("Delivered", "deliver_get"),
  countColumn("Ack", "ack"),
];
const COLUMNS = [
  {
    label: "Name",
    sort: "name",
    show: (row) => h("a", { href: to("connections", row.connection_details.name) }, row.name),
  },
  { label: "User", sort: "user", show: (row) => row.user },
  { label: "Virtual host", sort: "vhost", optional: true, show: (row) => row.vhost },
  ...FIGURES,
];

function countColumn(label, name) {
  const show = (row) => count(row.message_stats[name]);
  return { label, sort: `message_stats.${name}`, numeric: true, optional: true, show };
}

/** Show the page. */
export async function show(page) {
  await showListing(page, {
    title: "Channels",
    path: "/channels",
    columns: COLUMNS,
    key: (row) => row.name,
    empty: "There is no such channel.",
  });
}
