// One exchange: where its messages go, drawn and as a list, and where a message with a certain key would go.

import { management, segment } from "../api.js";
import { confirm } from "../dialog.js";
import { fill, h } from "../dom.js";
import { badge, button, heading, pairs, panel } from "../figures.js";
import { plain } from "../format.js";
import { live } from "../live.js";
import { go, to } from "../router.js";
import { rights } from "../session.js";
import { tableOf } from "../table.js";
import { say } from "../toast.js";
import { bind, COLUMNS, unbind } from "./exchange/bindings.js";
import { probeForm } from "./exchange/probe.js";
import { BINDINGS_MAX, routing } from "./exchange/routing.js";
import { DEFAULT, flagsOf } from "./exchanges.js";

// To the default exchange every queue is bound by its name, and that cannot be changed.
const NOTHING = { configure: false, write: false, read: false };

/** Show the page. */
export async function show({ root, params, signal }) {
  const { vhost, exchange: name } = params;
  const path = `/exchanges/${segment(vhost)}/${segment(name)}`;
  const isDefault = name === DEFAULT;
  const [row, may] = await Promise.all([
    management.get(path, signal),
    isDefault ? NOTHING : rights(vhost, "exchange", name),
  ]);
  const subject = { vhost, name, path, row, may, signal, refresh: () => update() };
  const drawing = routing(subject);
  const table = tableOf({
    caption: "Bindings",
    columns: may.read ? [...COLUMNS, actions(subject)] : COLUMNS,
    key: (each) => `${each.destination_type} ${each.destination} ${each.properties_key}`,
    empty: "Nothing is bound.",
  });
  const more = h("p", { class: "soft" });
  const back = h(
    "nav",
    { "aria-label": "Breadcrumb" },
    h("a", { href: to("exchanges") }, "Exchanges"),
    ` in virtual host ${vhost}`,
  );
  const title = h("span", {}, isDefault ? "(default)" : name, " ", badge(row.type), " ", flagsOf(row));
  root.append(back, heading(title, ...buttons(subject)), probeForm(subject, drawing.highlight));
  if (!isDefault) root.append(panel("Routing", drawing.element));
  root.append(panel("Bindings", table.element, more), panel("Settings", settings(row)));

  const update = await live(async () => {
    const told = await management.get(`${path}/bindings/source?page=1&page_size=${BINDINGS_MAX}`, signal);
    table.update(told.items);
    const rest = told.filtered_count - told.items.length;
    fill(more, rest > 0 ? `${rest} more are not shown.` : "");
    if (!isDefault) await drawing.update(told.items);
  }, signal);
}

function actions(subject) {
  return { label: "Actions", show: (each) => button("Unbind", () => unbind(subject, each)) };
}

function buttons(subject) {
  const own = !subject.name.startsWith("amq.");
  return [
    subject.may.read ? button("Bind", () => bind(subject)) : null,
    subject.may.configure && own ? button("Delete", () => remove(subject), "danger") : null,
  ];
}

function settings(row) {
  return pairs([
    ["Type", row.type],
    ["Survives a restart", row.durable ? "yes" : "no"],
    ["Policy", row.policy ?? "none"],
    ...Object.entries(row.arguments).map(([name, value]) => [name, plain(value)]),
  ]);
}

async function remove({ name, path }) {
  const done = await confirm({
    title: `Delete ${name}?`,
    text: "The exchange and its bindings are deleted; publishes to it are refused. This cannot be undone.",
    action: "Delete",
    word: name,
    submit: () => management.delete(path),
  });
  if (!done) return;
  say(`The exchange ${name} is gone.`);
  go(to("exchanges"));
}
