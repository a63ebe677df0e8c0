// One user: tags, password, and permissions in virtual hosts.

import { management, segment } from "../api.js";
import { askFor, confirm } from "../dialog.js";
import { fill, h } from "../dom.js";
import { button, heading, panel } from "../figures.js";
import { live } from "../live.js";
import { go, to } from "../router.js";
import { tableOf } from "../table.js";
import { attempt, say } from "../toast.js";
import { tagsIn, tagsOf, userFields } from "./users.js";

const PATTERN = (name, label, value) => ({
  name,
  label,
  value,
  help: "A regular expression of names; .* is all, nothing is none.",
  attributes: { class: "mono" },
});
const TOPICS = [
  { label: "Virtual host", show: (row) => row.vhost },
  { label: "Exchange", show: (row) => row.exchange },
  { label: "Write", show: (row) => mono(row.write) },
  { label: "Read", show: (row) => mono(row.read) },
];

function mono(text) {
  return h("span", { class: "mono" }, text);
}

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
    columns: TOPICS,
    key: (row) => `${row.vhost}/${row.exchange}`,
    empty: "Every key is allowed.",
  });
  const back = h("nav", { "aria-label": "Breadcrumb" }, h("a", { href: to("users") }, "Users"));
  const buttons = [button("Change", () => change(subject)), button("Delete", () => remove(subject), "danger")];
  const add = h(
    "p",
    {},
    button("Set permission", () => permit(subject)),
  );
  root.append(back, heading(h("span", {}, name, " ", tags), ...buttons));
  root.append(panel("Permissions", permissions.element, add), panel("Keys of topic exchanges", topics.element));

  const update = await live(async () => {
    const [row, rows, keys] = await Promise.all([
      management.get(path, signal),
      management.get(`${path}/permissions`, signal),
      management.get(`${path}/topic-permissions`, signal),
    ]);
    fill(tags, tagsOf(row));
    permissions.update(rows);
    topics.update(keys);
  }, signal);
}

function columnsOf(subject) {
  return [
    { label: "Virtual host", show: (row) => row.vhost },
    { label: "Configure", show: (row) => mono(row.configure) },
    { label: "Write", show: (row) => mono(row.write) },
    { label: "Read", show: (row) => mono(row.read) },
    {
      label: "Actions",
      show: (row) =>
        h(
          "div",
          { class: "actions" },
          button("Edit", () => permit(subject, row)),
          button("Clear", () => clear(subject, row)),
        ),
    },
  ];
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

function pathOf({ name }, vhost) {
  return `/permissions/${segment(vhost)}/${segment(name)}`;
}

async function permit(subject, row = { vhost: "/", configure: ".*", write: ".*", read: ".*" }) {
  const vhosts = await management.get("/vhosts?columns=name");
  const options = vhosts.map((each) => each.name);
  const done = await askFor({
    title: `Permission of ${subject.name}`,
    fields: [
      { name: "vhost", label: "Virtual host", type: "select", options, value: row.vhost },
      PATTERN("configure", "Configure: make and delete", row.configure),
      PATTERN("write", "Write: publish, bind a queue", row.write),
      PATTERN("read", "Read: consume, bind to an exchange", row.read),
    ],
    action: "Set",
    submit: async ({ vhost, configure = "", write = "", read = "" }) => {
      await management.put(pathOf(subject, vhost), { configure, write, read });
      say(`${subject.name} has this permission in ${vhost}.`);
    },
  });
  if (done) await subject.refresh();
}

async function clear(subject, { vhost }) {
  const text = `${subject.name} may not enter ${vhost} any more.`;
  if (await attempt(() => management.delete(pathOf(subject, vhost)), text)) await subject.refresh();
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
