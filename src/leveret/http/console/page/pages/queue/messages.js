// Looking at messages without taking them.

import { h } from "../../dom.js";
import { badge, pairs } from "../../figures.js";
import { ago, bytes, counted, plain, time } from "../../format.js";
import { formOf } from "../../form.js";
import { bodyView, bytesOf, previewOf } from "./body.js";

const FIELDS = [
  {
    name: "state",
    label: "State",
    type: "select",
    options: [
      ["ready", "ready"],
      ["leased", "taken"],
      ["scheduled", "scheduled"],
      ["backing-off", "backing off"],
    ],
  },
  { name: "contains", label: "Text in the body" },
  { name: "routing_key", label: "Routing key" },
  { name: "limit", label: "How many", type: "number", value: 20, attributes: { min: 1, max: 200 } },
];

/** @param {import("../queue.js").Subject} subject */
export function messagesTab(subject) {
  const list = h("div");
  const told = h("p", { class: "soft", role: "status" });
  const form = formOf({ fields: FIELDS, action: "Look", submit: look });
  form.classList.add("filters");
  let looked = false;

  async function look(wanted) {
    const { messages } = await subject.rest.get(
      `${subject.restPath}/messages`,
      { ...wanted, encoding: "base64" },
      subject.signal,
    );
    told.textContent = messages.length
      ? `${counted(messages.length, "message")}, the next to be delivered first`
      : "There are none.";
    list.replaceChildren(...messages.map(shown));
  }

  /** Only once: messages under somebody's eyes must not change. */
  async function update() {
    if (looked) return;
    looked = true;
    await look({ state: "ready", limit: 20 });
  }

  return { element: h("div", { class: "page" }, h("h2", { class: "unseen" }, "Messages"), form, told, list), update };
}

/** A message; what is in it is drawn when it is opened. */
function shown(message) {
  const data = bytesOf(message);
  const summary = h(
    "summary",
    {},
    h("b", { class: "mono" }, message.message_id),
    message.priority ? badge(`priority ${message.priority}`) : null,
    message.receive_count ? badge(`delivered ${message.receive_count}×`, "warn") : null,
    h("span", { class: "preview mono" }, previewOf(data)),
    h("span", { class: "soft" }, `${bytes(data.length)}, ${ago(message.enqueued_at)}`),
  );
  const element = h("details", { class: "message" }, summary);
  element.addEventListener("toggle", () => element.append(h("div", {}, properties(message), bodyView(data))), {
    once: true,
  });
  return element;
}

/** Everything about a message but its body. */
function properties(message) {
  const facts = {
    Sent: time(message.enqueued_at),
    Due: message.due_at ? time(message.due_at) : null,
    Exchange: message.exchange ?? "(default)",
    "Routing key": message.routing_key,
    Group: message.group_id,
    "Time to live": message.ttl_seconds === undefined ? null : `${message.ttl_seconds} s`,
    ...message.attributes,
  };
  const rows = Object.entries(facts).filter(([, value]) => value !== null && value !== undefined);
  const headers = Object.entries(message.headers ?? {});
  return h(
    "div",
    {},
    h("h3", {}, "Properties"),
    pairs(rows),
    headers.length ? [h("h3", {}, "Headers"), pairs(headers.map(([name, value]) => [name, plain(value)]))] : null,
  );
}
