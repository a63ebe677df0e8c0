// Dead letters that were chosen, as groups or one by one: back to where they died, to another queue, or gone.

import { segment } from "../../api.js";
import { askFor } from "../../dialog.js";
import { count, counted } from "../../format.js";
import { say } from "../../toast.js";

/**
 * What was chosen in one queue.
 * @typedef {{queue: string, filter: Object<string, any>, messages: number}} Chosen
 */

const REASONS = { maxlen: "no room", delivery_limit: "delivered too often" };

/** Why messages died, as people say it. */
export function inWords(reason) {
  return REASONS[reason] ?? reason;
}

function total(chosen) {
  return chosen.reduce((sum, each) => sum + each.messages, 0);
}

function ask({ rest }, verb, { queue, filter }, more) {
  return rest.post(`/queues/${segment(queue)}/${verb}`, { filter, ...more });
}

/** One after the other: each looks through a queue, and a server does that for a few at a time. */
async function all(subject, verb, chosen, more) {
  const told = [];
  for (const each of chosen) told.push(await ask(subject, verb, each, more));
  return (name) => told.reduce((sum, answer) => sum + answer[name], 0);
}

/**
 * @param {any} subject
 * @param {Chosen[]} chosen
 */
export async function redrive(subject, chosen) {
  const done = await askFor({
    title: "Redrive dead letters",
    text: `${counted(total(chosen), "message")} and what has been added since; each goes to the queue where it died first.`,
    fields: [{ name: "to", label: "To this queue instead", help: "Empty: back to where they died." }],
    action: "Redrive",
    preview: async () => {
      const sum = await all(subject, "redrive", chosen, { dry_run: true });
      return `${counted(sum("matched"), "message")} would be moved.`;
    },
    submit: async ({ to }) => {
      const sum = await all(subject, "redrive", chosen, { to });
      const left = sum("skipped") ? `, ${count(sum("skipped"))} could not be moved` : "";
      say(`Moved ${counted(sum("moved"), "message")}${left}.`);
    },
  });
  if (done) await subject.refresh();
}

/**
 * @param {any} subject
 * @param {Chosen[]} chosen
 */
export async function discard(subject, chosen) {
  const done = await askFor({
    title: "Delete dead letters?",
    text: `${counted(total(chosen), "message")} and what has been added since. This cannot be undone.`,
    action: "Delete",
    danger: true,
    preview: async () => {
      const sum = await all(subject, "discard", chosen, { dry_run: true });
      return `${counted(sum("matched"), "message")} would be deleted.`;
    },
    submit: async () => {
      const sum = await all(subject, "discard", chosen, {});
      say(`Deleted ${counted(sum("matched"), "message")}.`);
    },
  });
  if (done) await subject.refresh();
}
