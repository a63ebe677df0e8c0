// A message as it is shown: a line, and behind it everything that it carries.

import { bodyView, bytesOf, previewOf } from "./body.js";
import { h } from "./dom.js";
import { badge, pairs } from "./figures.js";
import { ago, bytes, plain, time } from "./format.js";

/**
 * A message; what is in it is drawn when it is opened.
 * @param {any} message as REST tells it, with its body in base64
 * @param {HTMLElement} [before] what stands in front of it
 */
export function messageView(message, before = null) {
  const data = bytesOf(message);
  const summary = h(
    "summary",
    {},
    before,
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
