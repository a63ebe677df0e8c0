// One stream: its partitions, and its consumer groups with how far each is behind.

import { rest, segment } from "../api.js";
import { askFor, confirm } from "../dialog.js";
import { fill, h } from "../dom.js";
import { badge, bar, button, figures, heading, panel } from "../figures.js";
import { bytes, count, counted, span } from "../format.js";
import { live } from "../live.js";
import { go, to } from "../router.js";
import { rights } from "../session.js";
import { tableOf } from "../table.js";
import { say } from "../toast.js";

const GROUPS_MAX = 100;
const PARTITIONS = [
  { label: "Partition", show: (row) => count(row.partition) },
  { label: "First offset", numeric: true, show: (row) => count(row.first_offset) },
  { label: "Next offset", numeric: true, show: (row) => count(row.next_offset) },
  { label: "Records", numeric: true, show: (row) => count(row.records) },
  { label: "Size", numeric: true, optional: true, show: (row) => bytes(row.size_bytes) },
  { label: "Segments", numeric: true, optional: true, show: (row) => count(row.segments) },
];

/** Show the page. */
export async function show({ root, params, signal }) {
  const { vhost, stream: name } = params;
  const path = `/streams/${segment(name)}`;
  const api = rest(vhost);
  const [, may] = await Promise.all([api.get(path, {}, signal), rights(vhost, "queue", name)]);
  const subject = { vhost, name, path, api, may, refresh: () => update() };
  const now = h("div");
  const groups = tableOf({
    caption: "Consumer groups",
    columns: groupColumns(subject),
    key: (row) => row.name,
    empty: "No group reads it.",
  });
  const lags = h("div");
  const partitions = tableOf({
    caption: "Partitions",
    columns: PARTITIONS,
    key: (row) => String(row.partition),
    empty: "There is none.",
  });
  const back = h(
    "nav",
    { "aria-label": "Breadcrumb" },
    h("a", { href: to("streams") }, "Streams"),
    ` in virtual host ${vhost}; `,
    h("a", { href: to("queues", vhost, name) }, "as a queue"),
  );
  const buttons = may.configure ? [button("Delete", () => remove(subject), "danger")] : [];
  root.append(back, heading(h("span", {}, name, " ", badge("stream")), ...buttons), now);
  root.append(panel("Consumer groups", groups.element, lags), panel("Partitions", partitions.element));

  const update = await live(async () => {
    const [row, told] = await Promise.all([
      api.get(path, {}, signal),
      api.get(`${path}/groups`, { limit: GROUPS_MAX }, signal),
    ]);
    fill(now, figures(currentFigures(row, told.groups)));
    groups.update(told.groups);
    fill(lags, lagBars(told.groups), told.next && h("p", { class: "soft" }, `Only the first ${GROUPS_MAX} are shown.`));
    partitions.update(row.partition_stats);
  }, signal);
}

function currentFigures(row, groups) {
  return [
    ["Records", count(row.records)],
    ["Size", bytes(row.size_bytes)],
    ["Partitions", count(row.partitions)],
    ["Groups", count(groups.length)],
    ["Largest lag", count(Math.max(0, ...groups.map((group) => group.total_lag)))],
    ["Consumers", count(row.consumers)],
    ["Kept for", row.max_age === null ? "ever" : span(row.max_age)],
  ];
}

function groupColumns(subject) {
  const columns = [
    { label: "Group", show: (row) => row.name },
    { label: "State", show: (row) => (Object.keys(row.members).length ? badge("active", "good") : badge("empty")) },
    { label: "Members", show: (row) => membersOf(row) },
    { label: "Lag", numeric: true, show: (row) => count(row.total_lag) },
  ];
  const act = (row) =>
    h(
      "div",
      { class: "actions" },
      button("Reset", () => reset(subject, row)),
      button("Forget", () => forget(subject, row), "danger"),
    );
  return subject.may.configure ? [...columns, { label: "Actions", show: act }] : columns;
}

function membersOf({ members }) {
  const rows = Object.entries(members).map(([name, partitions]) =>
    h("li", {}, name, h("span", { class: "soft" }, ` partitions ${partitions.join(", ") || "none"}`)),
  );
  return rows.length ? h("ul", { class: "plain" }, rows) : h("span", { class: "soft" }, "no members");
}

/** How far groups are behind, beside the one that is furthest; those that have read everything are left out. */
function lagBars(groups) {
  const most = Math.max(0, ...groups.map((group) => group.total_lag));
  const late = groups.filter((group) => group.total_lag);
  return late.map(({ name, total_lag: lag, lag: byPartition }) => {
    const behind = Object.values(byPartition).filter(Boolean).length;
    return bar({ label: name, part: lag / most, text: `${count(lag)} behind in ${counted(behind, "partition")}` });
  });
}

async function reset({ path, api, refresh }, { name }) {
  const done = await askFor({
    title: `Reset ${name}`,
    text: "Its members have to join again, and read on from the new place.",
    fields: [
      {
        name: "to",
        label: "Read on from",
        type: "select",
        options: [
          ["earliest", "the oldest record"],
          ["latest", "after the newest record"],
          ["time", "a time"],
        ],
      },
      { name: "at", label: "Time", attributes: { type: "datetime-local" }, help: "Only for a time; in your zone." },
    ],
    action: "Reset group",
    submit: async ({ to: place, at }) => {
      if (place === "time" && !at) throw new Error("Give the time to read on from.");
      const target = place === "time" ? { timestamp: new Date(at).getTime() / 1000 } : { to: place };
      await api.post(`${path}/groups/${segment(name)}/reset`, target);
      say(`The group ${name} reads on from there.`);
    },
  });
  if (done) await refresh();
}

async function forget({ path, api, refresh }, { name }) {
  const done = await confirm({
    title: `Forget ${name}?`,
    text: "How far it has read is deleted. This cannot be undone.",
    action: "Forget group",
    submit: () => api.delete(`${path}/groups/${segment(name)}`),
  });
  if (!done) return;
  say(`The group ${name} is forgotten.`);
  await refresh();
}

async function remove({ name, path, api }) {
  const done = await confirm({
    title: `Delete ${name}?`,
    text: "The stream, its records and its groups are deleted. This cannot be undone.",
    action: "Delete",
    word: name,
    submit: () => api.delete(path),
  });
  if (!done) return;
  say(`The stream ${name} is gone.`);
  go(to("streams"));
}
