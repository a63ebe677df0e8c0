// One virtual host: what is in it, its limits, and who may do what there.

import { management, segment } from "../api.js";
import { askFor, confirm } from "../dialog.js";
import { fill, h } from "../dom.js";
import { badge, button, figures, heading, pairs, panel } from "../figures.js";
import { count, rate } from "../format.js";
import { limitPairs, setLimits } from "../limits.js";
import { live } from "../live.js";
import { go, to } from "../router.js";
import { recall } from "../session.js";
import { tableOf } from "../table.js";
import { say } from "../toast.js";
import { detailFields, put } from "./vhosts.js";

/** Every limit: its name, and what it bounds. */
const LIMITS = [
  ["max-connections", "Connections"],
  ["max-queues", "Queues"],
];
const PERMISSIONS = [
  { label: "User", show: (row) => h("a", { href: to("users", row.user) }, row.user) },
  ...["configure", "write", "read"].map((name) => ({
    label: name[0].toUpperCase() + name.slice(1),
    show: (row) => h("span", { class: "mono" }, row[name] || "nothing"),
  })),
];

/** Show the page. */
export async function show({ root, params, signal }) {
  const { vhost: name } = params;
  const path = `/vhosts/${segment(name)}`;
  const limitsPath = `/vhost-limits/${segment(name)}`;
  const subject = { name, path, limitsPath, refresh: () => update() };
  let last = await management.get(path, signal);
  const now = h("div");
  const facts = h("div", { class: "columns" });
  const permissions = tableOf({
    caption: "Permissions",
    columns: PERMISSIONS,
    key: (row) => row.user,
    empty: "No user may enter it.",
  });
  const back = h("nav", { "aria-label": "Breadcrumb" }, h("a", { href: to("vhosts") }, "Virtual hosts"));
  const buttons = [
    button("Change", () => change(subject, last)),
    button("Set limits", () => limit(subject)),
    button("Delete", () => remove(subject), "danger"),
  ];
  root.append(back, heading(name, ...buttons), now, facts, panel("Permissions", permissions.element));

  const update = await live(async () => {
    const [row, limits, users] = await Promise.all([
      management.get(path, signal),
      management.get(limitsPath, signal),
      management.get(`${path}/permissions`, signal),
    ]);
    last = row;
    fill(now, figures(currentFigures(row)));
    fill(
      facts,
      panel("Details", pairs(detailsOf(row))),
      panel("Limits", pairs(limitPairs(LIMITS, limits[0]?.value ?? {}))),
    );
    permissions.update(users);
  }, signal);
}

function currentFigures(row) {
  return [
    ["Ready", count(row.messages_ready)],
    ["Unacked", count(row.messages_unacknowledged)],
    ["All messages", count(row.messages)],
    ["Publish", rate(row.message_stats.publish_details.rate)],
    ["Deliver", rate(row.message_stats.deliver_get_details.rate)],
    ["Acknowledge", rate(row.message_stats.ack_details.rate)],
  ];
}

function detailsOf(row) {
  return [
    ["Description", row.description || "none"],
    ["Tags", row.tags.length ? row.tags.map((tag) => [badge(tag), " "]) : "none"],
    ["Type of queues without one", row.default_queue_type === "undefined" ? "classic" : row.default_queue_type],
  ];
}

async function change({ name, refresh }, row) {
  const done = await askFor({
    title: `Change ${name}`,
    fields: detailFields(row),
    action: "Change",
    submit: async (details) => {
      await put(name, details);
      say(`The virtual host ${name} is changed.`);
    },
  });
  if (done) await refresh();
}

async function limit({ name, limitsPath, refresh }) {
  const [told] = await management.get(limitsPath);
  if (await setLimits({ owner: name, path: limitsPath, kinds: LIMITS, values: told?.value ?? {} })) await refresh();
}

async function remove({ name, path }) {
  const done = await confirm({
    title: `Delete ${name}?`,
    text: "Everything in it is deleted: queues with their messages, exchanges, permissions. This cannot be undone.",
    action: "Delete",
    word: name,
    submit: () => management.delete(path),
  });
  if (!done) return;
  await recall();
  say(`The virtual host ${name} is gone.`);
  go(to("vhosts"));
}
