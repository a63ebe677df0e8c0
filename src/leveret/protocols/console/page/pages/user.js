// One user: tags, password, and permissions in virtual hosts.

import { management, segment } from "../api.js";
import { askFor, confirm } from "../dialog.js";
import { fill, h } from "../dom.js";
import { button, heading, pairs, panel } from "../figures.js";
import { limitPairs, setLimits } from "../limits.js";
import { live } from "../live.js";
import { go, to } from "../router.js";
import { tableOf } from "../table.js";
import { say } from "../toast.js";
import { columnsOf, permit, restrict, topicColumns } from "./user/permissions.js";
import { tagsIn, tagsOf, userFields } from "./users.js";

/** Every limit: its name, and what it bounds. */
const LIMITS = [
  ["max-connections", "Connections"],
  ["max-channels", "Channels"],
];

/** Show the page. */
export async function show({ root, params, signal }) {
  const { user: name } = params;
  const path = `/users/${segment(name)}`;
  await management.get(path, signal);
  const subject = { name, path, refresh: () => update() };
  const tags = h("span");
  const permissions = tableOf({
    caption: "Permissions",
    columns: columnsOf(subject),
    key: (row) => row.vhost,
    empty: "The user may enter no virtual host.",
  });
  const topics = tableOf({
    caption: "Keys of topic exchanges",
    columns: topicColumns(subject),
    key: (row) => `${row.vhost}/${row.exchange}`,
    empty: "Every key is allowed.",
  });
  const back = h("nav", { "aria-label": "Breadcrumb" }, h("a", { href: to("users") }, "Users"));
  const limits = h("div");
  const buttons = [
    button("Change", () => change(subject)),
    button("Set limits", () => limit(subject)),
    button("Delete", () => remove(subject), "danger"),
  ];
  const add = (label, act) =>
    h(
      "p",
      {},
      button(label, () => act(subject)),
    );
  root.append(back, heading(h("span", {}, name, " ", tags), ...buttons));
  root.append(panel("Permissions", permissions.element, add("Set permission", permit)));
  root.append(panel("Keys of topic exchanges", topics.element, add("Restrict keys", restrict)), limits);

  const update = await live(async () => {
    const [row, rows, keys] = await Promise.all([
      management.get(path, signal),
      management.get(`${path}/permissions`, signal),
      management.get(`${path}/topic-permissions`, signal),
    ]);
    fill(tags, tagsOf(row));
    fill(limits, panel("Limits", pairs(limitPairs(LIMITS, row.limits ?? {}))));
    permissions.update(rows);
    topics.update(keys);
  }, signal);
}

async function limit({ name, path, refresh }) {
  const { limits = {} } = await management.get(path);
  const own = `/user-limits/${segment(name)}`;
  if (await setLimits({ owner: name, path: own, kinds: LIMITS, values: limits })) await refresh();
}

/** Change tags; the password stays if no other is given, which the server is told by its hash. */
async function change(subject) {
  const { tags, password_hash, hashing_algorithm } = await management.get(subject.path);
  const done = await askFor({
    title: `Change ${subject.name}`,
    fields: userFields(tags, "Leave it empty to keep the one there is."),
    action: "Change user",
    submit: async ({ password, tags: text }) => {
      const secret = password ? { password } : { password_hash, hashing_algorithm };
      await management.put(subject.path, { ...secret, tags: tagsIn(text) });
      say(`The user ${subject.name} is changed.`);
    },
  });
  if (done) await subject.refresh();
}

async function remove({ name, path }) {
  const done = await confirm({
    title: `Delete ${name}?`,
    text: "The user and all permissions of the user are deleted. This cannot be undone.",
    action: "Delete",
    word: name,
    submit: () => management.delete(path),
  });
  if (!done) return;
  say(`The user ${name} is gone.`);
  go(to("users"));
}
