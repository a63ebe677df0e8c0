// Who is connected: all connections to monitors, one's own connections to others.

import { h } from "../dom.js";
import { badge } from "../figures.js";
import { ago, bytes, count } from "../format.js";
import { showListing } from "../listing.js";
import { to } from "../router.js";

const COLUMNS = [
  { label: "Name", sort: "name", show: (row) => h("a", { href: to("connections", row.name) }, row.name) },
  { label: "Called", sort: "user_provided_name", show: (row) => row.user_provided_name ?? "" },
  { label: "User", sort: "user", show: (row) => row.user },
  { label: "Virtual host", sort: "vhost", optional: true, show: (row) => row.vhost },
  { label: "State", optional: true, show: (row) => stateOf(row) },
  { label: "TLS", optional: true, show: (row) => (row.ssl ? "yes" : "no") },
  { label: "Channels", sort: "channels", numeric: true, show: (row) => count(row.channels) },
  { label: "Received", sort: "recv_oct", numeric: true, optional: true, show: (row) => bytes(row.recv_oct) },
  { label: "Sent", sort: "send_oct", numeric: true, optional: true, show: (row) => bytes(row.send_oct) },
  { label: "Since", sort: "connected_at", whole: true, optional: true, show: (row) => ago(row.connected_at) },
];

/** Whether a connection may publish. */
export function stateOf(row) {
  return badge(row.state, row.state === "running" ? "good" : "warn");
}

/** Show the page. */
export async function show(page) {
  await showListing(page, {
    title: "Connections",
    path: "/connections",
    columns: COLUMNS,
    key: (row) => row.name,
    empty: "There is no such connection.",
  });
}
