// What a user may do in virtual hosts, and with which keys of topic exchanges: listed, set, cleared.

import { management, segment } from "../../api.js";
import { askFor } from "../../dialog.js";
import { h } from "../../dom.js";
import { button } from "../../figures.js";
import { attempt, say } from "../../toast.js";

const PATTERN = (name, label, value) => ({
  name,
  label,
  value,
  help: "A regular expression of names; .* is all, nothing is none.",
  attributes: { class: "mono" },
});
function mono(text) {
  return h("span", { class: "mono" }, text);
}

/** @param {any} subject */
export function columnsOf(subject) {
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

/** @param {any} subject */
export function topicColumns(subject) {
  return [
    { label: "Virtual host", show: (row) => row.vhost },
    { label: "Exchange", show: (row) => row.exchange },
    { label: "Write", show: (row) => mono(row.write) },
    { label: "Read", show: (row) => mono(row.read) },
    {
      label: "Actions",
      show: (row) =>
        h(
          "div",
          { class: "actions" },
          button("Edit", () => restrict(subject, row)),
          button("Clear", () => unrestrict(subject, row)),
        ),
    },
  ];
}

function pathOf({ name }, vhost) {
  return `/permissions/${segment(vhost)}/${segment(name)}`;
}

/** Ask for a permission in a virtual host and set it. */
export async function permit(subject, row = { vhost: "/", configure: ".*", write: ".*", read: ".*" }) {
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

function topicPath({ name }, vhost) {
  return `/topic-permissions/${segment(vhost)}/${segment(name)}`;
}

/** Ask for the keys of a topic exchange that the user may use, and set them. */
export async function restrict(subject, row = { vhost: "/", exchange: "amq.topic", write: ".*", read: ".*" }) {
  const vhosts = await management.get("/vhosts?columns=name");
  const done = await askFor({
    title: `Keys that ${subject.name} may use`,
    fields: [
      {
        name: "vhost",
        label: "Virtual host",
        type: "select",
        options: vhosts.map((each) => each.name),
        value: row.vhost,
      },
      { name: "exchange", label: "Topic exchange", value: row.exchange, required: true },
      PATTERN("write", "Write: keys to publish with", row.write),
      PATTERN("read", "Read: keys to bind by", row.read),
    ],
    action: "Set",
    submit: async ({ vhost, exchange, write = "", read = "" }) => {
      await management.put(topicPath(subject, vhost), { exchange, write, read });
      say(`${subject.name} may use these keys of ${exchange}.`);
    },
  });
  if (done) await subject.refresh();
}

async function unrestrict(subject, { vhost, exchange }) {
  const path = `${topicPath(subject, vhost)}/${segment(exchange)}`;
  const text = `${subject.name} may use every key of ${exchange}.`;
  if (await attempt(() => management.delete(path), text)) await subject.refresh();
}

async function clear(subject, { vhost }) {
  const text = `${subject.name} may not enter ${vhost} any more.`;
  if (await attempt(() => management.delete(pathOf(subject, vhost)), text)) await subject.refresh();
}
