// Looking at messages without taking them.

import { h } from "../../dom.js";
import { counted } from "../../format.js";
import { formOf } from "../../form.js";
import { messageView } from "../../message.js";
import { here } from "../../router.js";

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
    list.replaceChildren(...messages.map((message) => messageView(message)));
  }

  /** Only once: messages that are being read must not change. */
  async function update() {
    if (looked) return;
    looked = true;
    const { state = "ready" } = here().query;
    form.elements.namedItem("state").value = state;
    await look({ state, limit: 20 });
  }

  return { element: h("div", { class: "page" }, h("h2", { class: "unseen" }, "Messages"), form, told, list), update };
}
