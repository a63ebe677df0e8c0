// Messages that are not due yet, of all queues of a virtual host: the next ones first, to be cancelled.

import { management, query as queryOf, rest, segment } from "../api.js";
import { confirm } from "../dialog.js";
import { fill, h } from "../dom.js";
import { button, heading } from "../figures.js";
import { ago, bytes, count, counted, time, until } from "../format.js";
import { fieldRow } from "../form.js";
import { homeField, homeless, homeOf } from "../home.js";
import { live } from "../live.js";
import { setQuery, to } from "../router.js";
import { selectionOf } from "../selection.js";
import { rights } from "../session.js";
import { tableOf } from "../table.js";
import { say } from "../toast.js";

const SHOWN_MAX = 200;

function columnsOf(vhost) {
  const href = (queue) => `${to("queues", vhost, queue)}?tab=messages&state=scheduled`;
  return [
    { label: "Queue", show: (row) => h("a", { href: href(row.queue) }, row.queue) },
    { label: "Due", whole: true, show: (row) => h("span", { title: time(row.due_at) }, until(row.due_at)) },
    { label: "At", whole: true, optional: true, show: (row) => time(row.due_at) },
    { label: "Message", whole: true, optional: true, show: (row) => h("span", { class: "mono" }, row.message_id) },
    { label: "Routing key", show: (row) => h("span", { class: "mono" }, row.routing_key) },
    { label: "Size", numeric: true, optional: true, show: (row) => bytes(row.payload_bytes) },
    { label: "Sent", numeric: true, optional: true, show: (row) => ago(row.enqueued_at) },
  ];
}

/** Show the page. */
export async function show({ root, query, signal }) {
  const vhost = homeOf(query);
  if (vhost === null) return homeless(root, "Scheduled messages");
  const state = { queue: "", ...query, vhost };
  const may = new Map();
  const selection = selectionOf({
    key: (row) => row.message_id,
    name: (row) => `message ${row.message_id} of ${row.queue}`,
    allowed: (row) => may.get(row.queue),
  });
  const table = tableOf({
    caption: "Scheduled messages",
    columns: [selection.column, ...columnsOf(vhost)],
    key: (row) => row.message_id,
    empty: "Nothing is scheduled.",
  });
  const told = h("p", { class: "soft", role: "status" });
  const choice = queueField(state, change);
  const filters = h(
    "form",
    { class: "filters", onsubmit: (event) => event.preventDefault() },
    homeField(vhost),
    choice.field,
  );
  const buttons = [
    button("Select all", () => selection.all(table.element)),
    selection.button("Cancel messages", (rows) => cancel(vhost, rows, refresh), "danger"),
  ];
  root.append(heading("Scheduled messages", ...buttons), filters, table.element, told);

  function change(values) {
    Object.assign(state, values);
    setQuery(state);
    return refresh();
  }

  const refresh = await live(async () => {
    const wanted = queryOf({ queue: state.queue, limit: SHOWN_MAX });
    const found = await management.get(`/scheduled/${segment(vhost)}${wanted}`, signal);
    const fresh = [...new Set(found.messages.map((row) => row.queue))].filter((name) => !may.has(name));
    const known = await Promise.all(fresh.map((name) => rights(vhost, "queue", name)));
    for (const [index, name] of fresh.entries()) may.set(name, known[index].configure);
    choice.update(found.queues);
    selection.keep(found.messages);
    table.update(found.messages);
    told.textContent = sentence(found);
  }, signal);
}

function sentence({ messages, total }) {
  return messages.length < total
    ? `The next ${count(messages.length)} of ${counted(total, "message")}.`
    : `${counted(total, "message")}.`;
}

/** The field for one queue; its choices are those that have something scheduled. */
function queueField(state, change) {
  const field = fieldRow({ name: "queue", label: "Queue", type: "select", options: [], value: "" });
  const select = field.querySelector("select");
  select.addEventListener("change", () => change({ queue: select.value }));

  function update(queues) {
    const names = new Map(queues.map((row) => [row.name, `${row.name} (${count(row.scheduled)})`]));
    if (state.queue && !names.has(state.queue)) names.set(state.queue, state.queue);
    fill(
      select,
      h("option", { value: "" }, "all"),
      [...names].map(([value, text]) => h("option", { value }, text)),
    );
    select.value = state.queue;
  }

  return { field, update };
}

async function cancel(vhost, rows, refresh) {
  const api = rest(vhost);
  let gone = 0;
  const done = await confirm({
    title: `Cancel ${counted(rows.length, "message")}?`,
    text: "They are removed before they are due. This cannot be undone.",
    action: "Remove messages",
    submit: async () => {
      for (const { queue, message_id } of rows) {
        await api.delete(`/queues/${segment(queue)}/scheduled/${segment(message_id)}`).catch((error) => {
          // It may have become due while it was looked at.
          if (error.status !== 404) throw error;
          gone += 1;
        });
      }
    },
  });
  if (!done) return;
  say(`Cancelled ${counted(rows.length - gone, "message")}${gone ? `, ${count(gone)} were due already` : ""}.`);
  await refresh();
}
