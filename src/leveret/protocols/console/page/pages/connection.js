// One connection: who it is, its channels, and closing it.

import { management, segment } from "../api.js";
import { confirm } from "../dialog.js";
import { fill, h } from "../dom.js";
import { button, figures, heading, pairs, panel } from "../figures.js";
import { ago, bytes, count, plain, time } from "../format.js";
import { live } from "../live.js";
import { go, to } from "../router.js";
import { tableOf } from "../table.js";
import { say } from "../toast.js";
import { FIGURES } from "./channels.js";
import { stateOf } from "./connections.js";

const CHANNELS = [{ label: "Number", show: (row) => count(row.number) }, ...FIGURES];

/** Show the page. */
export async function show({ root, params, signal }) {
  const { connection: name } = params;
  const path = `/connections/${segment(name)}`;
  const channels = tableOf({
    caption: "Channels",
    columns: CHANNELS,
    key: (row) => row.name,
    empty: "It has no channel.",
  });
  const state = h("span");
  const now = h("div");
  const facts = h("div", { class: "columns" });
  const back = h("nav", { "aria-label": "Breadcrumb" }, h("a", { href: to("connections") }, "Connections"));
  const title = h("span", {}, name, " ", state);
  await management.get(`${path}?columns=name`, signal);
  root.append(
    back,
    heading(
      title,
      button("Close", () => close(name, path), "danger"),
    ),
    now,
  );
  root.append(panel("Channels", channels.element), facts);

  await live(async () => {
    const [row, rows] = await Promise.all([management.get(path, signal), management.get(`${path}/channels`, signal)]);
    fill(state, stateOf(row));
    fill(now, figures(currentFigures(row)));
    channels.update(rows);
    fill(facts, panel("Connection", pairs(factsOf(row))), panel("Client", pairs(clientOf(row))));
  }, signal);
}

function currentFigures(row) {
  return [
    ["Channels", count(row.channels)],
    ["Received", bytes(row.recv_oct)],
    ["Sent", bytes(row.send_oct)],
    ["Waits to be sent", bytes(row.send_pend)],
    ["Connected", ago(row.connected_at)],
  ];
}

function factsOf(row) {
  return [
    ["User", row.user],
    ["Virtual host", row.vhost],
    ["From", `${row.peer_host}:${row.peer_port}`],
    ["Protocol", row.protocol],
    ["Login by", row.auth_mechanism],
    ["TLS", row.ssl ? "yes" : "no"],
    ["Since", time(row.connected_at)],
    ["Heartbeat", row.timeout ? `${row.timeout} s` : "none"],
    ["Largest frame", bytes(row.frame_max)],
  ];
}

function clientOf(row) {
  const told = Object.entries(row.client_properties).filter(([name]) => name !== "capabilities");
  const able = Object.entries(row.client_properties.capabilities ?? {}).filter(([, value]) => value);
  return [
    ...told.map(([name, value]) => [name, plain(value)]),
    ["capabilities", able.map(([name]) => name).join(", ")],
  ];
}

async function close(name, path) {
  const done = await confirm({
    title: `Close ${name}?`,
    text: "The client is told so, and may connect again. What it holds goes back to its queues.",
    action: "Close connection",
    submit: () => management.delete(path),
  });
  if (!done) return;
  say(`The connection ${name} was asked to go.`);
  go(to("connections"));
}
