// Who consumes a queue, which messages are in whose hands, and which are reserved.

import { management, segment } from "../../api.js";
import { confirm } from "../../dialog.js";
import { h } from "../../dom.js";
import { badge, button, panel } from "../../figures.js";
import { ago, bytes, count, span, time } from "../../format.js";
import { tableOf } from "../../table.js";
import { say } from "../../toast.js";

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
const RESERVATIONS = [
  { label: "Group", show: (row) => row.name },
  { label: "User", show: (row) => row.user },
  { label: "Messages", numeric: true, show: (row) => count(row.messages) },
  { label: "Size", numeric: true, optional: true, show: (row) => bytes(row.bytes) },
  { label: "Last request", whole: true, show: (row) => `${span(row.idle_seconds)} ago` },
  { label: "Lease", whole: true, optional: true, show: (row) => (row.lease_seconds ? span(row.lease_seconds) : "none") },
];

async function release({ restPath, rest, refresh }, { name, messages }) {
  const done = await confirm({
    title: `Release ${name}?`,
    text: `${count(messages)} messages wait in the queue again. A query that has read them and comes back cannot go on.`,
    action: "Release",
    submit: () => rest.delete(`${restPath}/reservations/${segment(name)}`),
  });
  if (!done) return;
  say(`The reservation of ${name} is released.`);
  await refresh();
}

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
  const reservations = tableOf({
    caption: "Reservations",
    columns: [...RESERVATIONS, { label: "Actions", show: (row) => button("Release", () => release(subject, row), "danger") }],
    key: (row) => row.name,
    empty: "No query has reserved messages.",
  });
  const reserved = subject.may.read && !subject.isStream ? panel("Reservations", reservations.element) : null;
  const held = subject.may.read ? panel("Leases", leases.element) : null;

  async function update({ row }) {
    consumers.update(row.consumer_details);
    if (reserved) {
      reservations.update((await subject.rest.get(`${subject.restPath}/reservations`, {}, subject.signal)).groups);
    }
    if (held) leases.update(await management.get(`${subject.path}/leases`, subject.signal));
  }

  return { element: h("div", { class: "page" }, panel("Consumers", consumers.element), held, reserved), update };
}
