// Some messages of a group of dead letters: looked at one by one, and those that are chosen redriven or deleted.

import { segment } from "../../api.js";
import { h } from "../../dom.js";
import { button } from "../../figures.js";
import { counted } from "../../format.js";
import { messageView } from "../../message.js";
import { selectionOf } from "../../selection.js";
import { warn } from "../../toast.js";
import { discard, inWords, redrive } from "./actions.js";

const SHOWN_MAX = 20;

/**
 * The place for them; `open` shows those of a group.
 * @param {any} subject
 * @param {(row: any) => boolean} allowed whether what is in the queue of a group may be changed
 */
export function sampleOf(subject, allowed) {
  const element = h("section", { "aria-label": "Messages of a group" });

  async function load(row) {
    const headers = JSON.stringify({ "x-last-death-reason": row.reason, "x-first-death-queue": row.origin });
    const wanted = { headers, limit: SHOWN_MAX, encoding: "base64" };
    return (await subject.rest.get(`/queues/${segment(row.queue)}/messages`, wanted)).messages;
  }

  async function open(row) {
    const messages = await load(row).catch((error) => warn(error.message));
    if (messages) draw({ ...row }, messages);
  }

  function draw(row, messages) {
    const again = { ...subject, refresh: () => Promise.all([subject.refresh(), open(row)]) };
    const selection = selectionOf({ key: (each) => each.message_id, name: (each) => `message ${each.message_id}` });
    const chosen = (rows) => [
      { queue: row.queue, filter: { message_ids: rows.map((each) => each.message_id) }, messages: rows.length },
    ];
    const list = h(
      "div",
      {},
      messages.map((each) => messageView(each, allowed(row) ? selection.box(each) : null)),
    );
    const title = h("h2", { tabindex: "-1" }, `Of ${row.origin}: ${inWords(row.reason)}`);
    const buttons = [
      button("Select all", () => selection.all(list)),
      selection.button("Redrive messages", (rows) => redrive(again, chosen(rows))),
      selection.button("Delete messages", (rows) => discard(again, chosen(rows)), "danger"),
    ];
    const told = `The first ${counted(messages.length, "message")} of this group in ${row.queue}.`;
    const actions = h("div", { class: "actions" }, allowed(row) ? buttons : []);
    element.replaceChildren(
      h("header", { class: "heading" }, title, actions),
      h("p", { class: "soft", role: "status" }, told),
      list,
    );
    selection.keep(messages);
    title.focus({ preventScroll: true });
    title.scrollIntoView({ block: "nearest" });
  }

  return { element, open };
}
