// Who consumes a queue, and which messages are in whose hands.

import { management } from "../../api.js";
import { h } from "../../dom.js";
import { badge, panel } from "../../figures.js";
import { ago, count, time } from "../../format.js";
import { tableOf } from "../../table.js";

const CONSUMERS = [
  { label: "Tag", show: (row) => row.consumer_tag },
  { label: "User", show: (row) => row.channel_details.user },
  { label: "Channel", optional: true, show: (row) => row.channel_details.name },
  { label: "State", show: (row) => (row.active ? badge("active", "good") : badge("waiting")) },
  { label: "Acknowledges", optional: true, show: (row) => (row.ack_required ? "yes" : "no") },
  { label: "Prefetch", numeric: true, show: (row) => (row.prefetch_count ? count(row.prefetch_count) : "no limit") },
  { label: "Last active", whole: true, optional: true, show: (row) => ago(row.last_activity_at) },
];
const LEASES = [
  { label: "Message", show: (row) => h("span", { class: "mono" }, row.message_id) },
  { label: "Holder", show: (row) => row.holder?.name ?? h("span", { class: "soft" }, "has a receipt") },
  { label: "Connection", optional: true, show: (row) => row.holder?.connection_name ?? "" },
  { label: "Taken", whole: true, show: (row) => ago(row.taken_at) },
  { label: "Until", whole: true, optional: true, show: (row) => (row.ends_at ? time(row.ends_at) : "no deadline") },
  { label: "Deliveries", numeric: true, show: (row) => count(row.deliveries) },
  { label: "Priority", numeric: true, optional: true, show: (row) => count(row.priority) },
];

/** @param {import("../queue.js").Subject} subject */
export function clientsTab(subject) {
  const consumers = tableOf({
    caption: "Consumers",
    columns: CONSUMERS,
    key: (row) => `${row.channel_details.name} ${row.consumer_tag}`,
    empty: "No consumers.",
  });
  const leases = tableOf({
    caption: "Leases",
    columns: LEASES,
    key: (row) => row.message_id,
    empty: "No unacked messages.",
  });
  const held = subject.may.read ? panel("Leases", leases.element) : null;

  async function update({ row }) {
    consumers.update(row.consumer_details);
    if (held) leases.update(await management.get(`${subject.path}/leases`, subject.signal));
  }

  return { element: h("div", { class: "page" }, panel("Consumers", consumers.element), held), update };
}
