// The part of the page of nodes that is about a cluster: which node has which shard, and what operators do.

import { management, segment } from "../../api.js";
import { askFor, confirm } from "../../dialog.js";
import { h } from "../../dom.js";
import { badge, button } from "../../figures.js";
import { count, counted } from "../../format.js";
import { to } from "../../router.js";
import { hasTag } from "../../session.js";
import { tableOf } from "../../table.js";
import { say } from "../../toast.js";

const STATES = { active: "good", vacant: "bad", unreachable: "bad" };
const COLUMNS = [
  { label: "Shard", numeric: true, narrow: true, show: (row) => String(row.shard) },
  { label: "Owner", show: (row) => (row.owner ? h("a", { href: to("nodes", row.owner) }, row.owner) : "none") },
  { label: "State", show: (row) => badge(row.state, STATES[row.state] ?? "warn") },
  { label: "Queues", numeric: true, optional: true, show: (row) => count(row.queues) },
  { label: "Group", numeric: true, show: (row) => groupName(row.group) },
  { label: "Epoch", numeric: true, optional: true, show: (row) => count(row.epoch) },
];
const GROUP_STATES = { reachable: "good", unreachable: "bad" };
const GROUPS = [
  { label: "Group", narrow: true, show: (row) => groupName(row.group) },
  { label: "State", show: (row) => badge(row.state, GROUP_STATES[row.state] ?? "plain") },
  { label: "Shards", numeric: true, show: (row) => count(row.shards) },
  { label: "Definitions", show: (row) => (row.definitions ? badge("here", "good") : "") },
  { label: "Commits wait for", optional: true, show: standbysOf },
  { label: "Version", numeric: true, optional: true, show: (row) => row.version ?? "" },
  { label: "Address", optional: true, show: (row) => h("span", { class: "mono" }, row.url) },
];
const REDIS = {
  shared: () => badge("shared", "good"),
  local: ({ troubles }) => h("span", { title: troubles?.redis }, badge("local only", "warn")),
  none: () => h("span", { class: "soft" }, "not configured"),
};
const OF_MEMBERS = [
  { label: "Shards", numeric: true, show: (row) => count(row.member?.shards) },
  { label: "Definitions", numeric: true, optional: true, show: (row) => count(row.member?.definitions) },
  { label: "Link", optional: true, show: linkOf },
  { label: "Redis", optional: true, show: ({ member }) => REDIS[member?.redis]?.(member) ?? "" },
];
const ACTION = { label: "Action", narrow: true, show: (row) => (drains(row) ? button("Drain…", () => drain(row)) : "") };
const OF_PROCESS = new Set(["Files", "Disk free", "Version"]); // its own page has them

/** The table of shards. */
export function shardsOf() {
  return tableOf({ caption: "Shards", columns: COLUMNS, key: (row) => String(row.shard), empty: "There are none." });
}

/** The table of databases. */
export function groupsOf() {
  return tableOf({ caption: "PostgreSQL", columns: GROUPS, key: (row) => String(row.group), empty: "There are none." });
}

function groupName(number) {
  return number === null ? "" : String(number);
}

function standbysOf({ standbys }) {
  if (standbys === null) return "";
  return standbys ? h("span", { class: "mono" }, standbys) : badge("one disk only", "warn");
}

/** The columns of nodes, of those that a single server has. */
export function membersOf(columns) {
  const [name, state, ...others] = columns.filter(({ label }) => !OF_PROCESS.has(label));
  return [{ ...name, narrow: true }, state, ...OF_MEMBERS, ...others.map((each) => ({ ...each, optional: true })), ACTION];
}

function linkOf({ member }) {
  return member ? badge(member.linked, member.linked === "down" ? "bad" : "plain") : "";
}

function drains({ running, member }) {
  return running && member && !member.draining && hasTag("administrator");
}

/** What is wrong in a cluster, in sentences. */
export function troublesOf({ members, shards, groups, doubts }) {
  const vacant = shards.filter((row) => row.state === "vacant").length;
  const found = vacant ? [`${counted(vacant, "shard")} without an owner: their queues cannot be used.`] : [];
  for (const { node, unanswered, troubles } of members) {
    if (unanswered) found.push(`${node} does not answer this node: ${unanswered}.`);
    if (troubles?.etcd) found.push(`${node} does not reach etcd: ${troubles.etcd}`);
    if (troubles?.postgresql) found.push(`${node} cannot write to PostgreSQL: ${troubles.postgresql}`);
    if (troubles?.definitions) found.push(`${node} may have old definitions: ${troubles.definitions}`);
  }
  const alone = members.filter(({ redis }) => redis === "local").map(({ node }) => node);
  if (alone.length) found.push(`Redis does not answer ${alone.join(", ")}: limits are kept by each alone.`);
  for (const { group, state, trouble } of groups) {
    if (state === "unreachable") found.push(`Group ${group} of PostgreSQL does not answer: ${trouble}`);
  }
  for (const { shard, queues, messages } of doubts) {
    const lost = `${counted(queues, "queue")} with ${counted(messages, "message")}`;
    found.push(`Shard ${shard} has ${lost} that the definitions, which are older, do not know: see leveret cluster adopt.`);
  }
  return found.map((text) => h("p", { class: "alarm" }, text));
}

async function drain({ name }) {
  const stay = {
    name: "stay",
    label: "Let it serve clients afterwards",
    type: "checkbox",
    value: true,
    help: "Otherwise its process ends, and its clients have to connect to another node.",
  };
  const done = await askFor({
    title: `Drain ${name}?`,
    text: "Its shards go to the other nodes. It takes shards again when it is started again.",
    fields: [stay],
    action: "Drain",
    danger: true,
    submit: (given) => management.post(`/nodes/${segment(name)}/drain`, given),
  });
  if (done) say(`${name} has no shards any more.`);
}

/** Ask whether shards are to move now. */
export async function rebalance() {
  const done = await confirm({
    title: "Rebalance the cluster?",
    text: "Shards move one by one to the nodes that should have them. Each of them pauses for a moment.",
    action: "Rebalance",
    submit: () => management.post("/rebalance/queues"),
  });
  if (done) say("Shards go to the nodes that should have them.");
}
