// What can be done with a queue and its messages; each button is there for those who may.

import { management } from "../../api.js";
import { askFor, confirm } from "../../dialog.js";
import { button } from "../../figures.js";
import { count, counted } from "../../format.js";
import { parsedJson } from "../../form.js";
import { go, to } from "../../router.js";
import { attempt, say } from "../../toast.js";

const DESTINATION = { name: "to", label: "Destination queue", required: true };
const FILTER = [
  { name: "contains", label: "Only with this text in the body" },
  { name: "routing_key", label: "Only with this routing key" },
  {
    name: "headers",
    label: "Only with these headers",
    type: "textarea",
    help: 'As JSON: {"tenant": "t1"}',
    attributes: { rows: 2 },
  },
  { name: "limit", label: "At most so many", type: "number", attributes: { min: 1 } },
];
const MESSAGE = [
  { name: "payload", label: "Body", type: "textarea", required: true },
  {
    name: "contentType",
    label: "Content type",
    type: "select",
    options: ["application/json", "text/plain", "application/octet-stream"],
  },
  { name: "headers", label: "Headers", type: "textarea", help: 'As JSON: {"tenant": "t1"}', attributes: { rows: 2 } },
  { name: "priority", label: "Priority", type: "number", attributes: { min: 1, max: 10 } },
  { name: "delay_seconds", label: "Delay in seconds", type: "number", attributes: { min: 0, step: "any" } },
  { name: "ttl_seconds", label: "Time to live in seconds", type: "number", attributes: { min: 0, step: "any" } },
];

/** Every action: its label, what it does, the access that it needs, and how its button looks. Streams have two. */
const ACTIONS = [
  ["Publish", publish, "write", null],
  ["Move", (subject) => move(subject, [DESTINATION, ...FILTER], "Move messages", "Move"), "read", null],
  ["Redrive", (subject) => move(subject, FILTER, "Redrive to where they died first", "Redrive"), "read", null],
  ["Pause", (subject) => pause(subject, "pause"), "configure", null],
  ["Resume", (subject) => pause(subject, "resume"), "configure", null],
  ["Purge", purge, "read", "danger"],
  ["Delete", remove, "configure", "danger"],
];
const OF_STREAMS = new Set(["Publish", "Delete"]);

/**
 * The buttons for a queue as it is.
 * @param {import("../queue.js").Subject} subject
 * @param {any} row
 */
export function actionButtons(subject, row) {
  const hidden = row.state === "paused" ? "Pause" : "Resume";
  const fits = ([label, , access]) =>
    subject.may[access] && label !== hidden && (!subject.isStream || OF_STREAMS.has(label));
  return ACTIONS.filter(fits).map(([label, act, , kind]) => button(label, () => act(subject), kind));
}

async function publish(subject) {
  const done = await askFor({
    title: `Publish to ${subject.name}`,
    fields: MESSAGE,
    action: "Publish",
    submit: async ({ payload, contentType, headers, ...rest }) => {
      const sent = { attributes: { contentType }, headers: parsedJson(headers, "The field Headers"), ...rest };
      if (contentType === "application/json") parsedJson(payload, "The body");
      await subject.rest.post(`${subject.restPath}/messages`, { ...sent, payload_base64: encoded(payload) });
      say("The message is on the disk.");
    },
  });
  if (done) await subject.refresh();
}

/** Text as base64 of its UTF-8, so that it arrives byte by byte as it was written. */
function encoded(text) {
  return btoa(Array.from(new TextEncoder().encode(text), (byte) => String.fromCharCode(byte)).join(""));
}

async function move(subject, fields, title, action) {
  const request = ({ to: destination, limit, contains, routing_key, headers }, dryRun) => {
    const filter = { contains, routing_key };
    if (headers !== undefined) filter.headers = parsedJson(headers, "The field with headers");
    return subject.rest.post(`${subject.restPath}/redrive`, { to: destination, limit, filter, dry_run: dryRun });
  };
  const done = await askFor({
    title,
    fields,
    action,
    preview: async (given) => `${counted((await request(given, true)).matched, "message")} would be moved.`,
    submit: async (given) => {
      const { moved, skipped } = await request(given, false);
      say(`Moved ${counted(moved, "message")}${skipped ? `, ${count(skipped)} could not be moved` : ""}.`);
    },
  });
  if (done) await subject.refresh();
}

async function pause(subject, verb) {
  const text = verb === "pause" ? "Nothing is handed out until it is resumed." : "Messages are handed out again.";
  if (await attempt(() => subject.rest.post(`${subject.restPath}/${verb}`), text)) await subject.refresh();
}

async function purge(subject) {
  const done = await confirm({
    title: `Purge ${subject.name}?`,
    text: "Every message that waits in it is deleted. This cannot be undone.",
    action: "Purge",
    word: subject.name,
    submit: async () => {
      const { purged } = await subject.rest.post(`${subject.restPath}/purge`);
      say(`Deleted ${counted(purged, "message")}.`);
    },
  });
  if (done) await subject.refresh();
}

async function remove(subject) {
  const done = await confirm({
    title: `Delete ${subject.name}?`,
    text: "The queue and every message in it are deleted. This cannot be undone.",
    action: "Delete",
    word: subject.name,
    submit: () => management.delete(subject.path),
  });
  if (!done) return;
  say(`The queue ${subject.name} is gone.`);
  go(to("queues"));
}
