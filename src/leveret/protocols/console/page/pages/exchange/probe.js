// Where would this key go? Asks the broker, and publishes nothing.

import { management, query } from "../../api.js";
import { h } from "../../dom.js";
import { panel } from "../../figures.js";
import { counted } from "../../format.js";
import { formOf, parsedJson } from "../../form.js";
import { to } from "../../router.js";

const FIELDS = [
  { name: "routing_key", label: "Routing key" },
  { name: "headers", label: "Headers", attributes: { placeholder: '{"tenant": "t1"}' } },
];

/**
 * The question and its answer; `highlight` is told which bindings were taken.
 * @param {{vhost: string, path: string, row: any}} subject
 * @param {(told: any) => void} highlight
 */
export function probeForm({ vhost, path, row }, highlight) {
  const answer = h("div", { role: "status" });
  const form = formOf({ fields: FIELDS, action: "Look", submit: look });
  form.classList.add("filters");

  async function look({ routing_key, headers }) {
    const given = headers === undefined ? undefined : JSON.stringify(parsedJson(headers, "The field Headers"));
    const told = await management.get(`${path}/probe${query({ routing_key, headers: given })}`);
    answer.replaceChildren(...said(vhost, told, row.type.endsWith("-random")));
    highlight(told);
  }

  return panel("Where would this key go?", form, answer);
}

function said(vhost, { queues, queue_count: count, bindings, alternates, complete }, byChance) {
  if (!count) return [h("p", { class: "result" }, "To no queue: the message would be lost, or returned if mandatory.")];
  const links = queues.map((name) => h("li", {}, h("a", { href: to("queues", vhost, name) }, name)));
  const through = [
    ...new Set(bindings.map((row) => `${row.source || "(default)"} by ${row.routing_key || "(empty)"}`)),
  ];
  return [
    h(
      "p",
      { class: "result" },
      `To ${counted(count, "queue")}${byChance ? ", by chance: another time to another" : ""}:`,
    ),
    h("ul", {}, links),
    through.length ? h("p", { class: "soft" }, `Bindings that match: ${through.join("; ")}.`) : "",
    ...alternates.map((each) =>
      h("p", { class: "soft" }, `Nothing of ${each.exchange} matches: ${each.alternate} gets it.`),
    ),
    complete ? "" : h("p", { class: "soft" }, "There are more than are told here."),
  ];
}
