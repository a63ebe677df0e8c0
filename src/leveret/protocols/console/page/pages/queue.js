// One queue: its figures and charts, its messages, who has them, how they come in, and what can be done with it.

import { management, rest, segment } from "../api.js";
import { fill, h } from "../dom.js";
import { badge, figures, heading, tabs } from "../figures.js";
import { count, rate, span, time } from "../format.js";
import { live } from "../live.js";
import { setQuery, to } from "../router.js";
import { rights } from "../session.js";
import { actionButtons } from "./queue/actions.js";
import { bindingsTab } from "./queue/bindings.js";
import { clientsTab } from "./queue/clients.js";
import { factsTab } from "./queue/facts.js";
import { messagesTab } from "./queue/messages.js";

const SAMPLES = "lengths_age=60&lengths_incr=5&msg_rates_age=60&msg_rates_incr=5";

/**
 * What the parts of the page share.
 * @typedef {Object} Subject
 * @property {string} vhost
 * @property {string} name
 * @property {string} path below /api
 * @property {string} restPath
 * @property {ReturnType<typeof rest>} rest
 * @property {{configure: boolean, write: boolean, read: boolean}} may
 * @property {boolean} isStream
 * @property {AbortSignal} signal
 * @property {() => Promise<void>} refresh
 */

const always = () => true;

/** Every tab: its name, how it is called, what makes it, and for which queue and whom. */
const TABS = [
  ["facts", "Figures", factsTab, always],
  ["messages", "Messages", messagesTab, (subject) => subject.may.read && !subject.isStream],
  ["clients", "Consumers and leases", clientsTab, always],
  ["bindings", "Bindings", bindingsTab, always],
];

/** Show the page. */
export async function show({ root, params, query, signal }) {
  const { vhost, queue: name } = params;
  const path = `/queues/${segment(vhost)}/${segment(name)}`;
  const [{ type }, may] = await Promise.all([
    management.get(`${path}?columns=type`, signal),
    rights(vhost, "queue", name),
  ]);
  const subject = {
    vhost,
    name,
    path,
    may,
    signal,
    isStream: type === "stream",
    restPath: `/queues/${segment(name)}`,
    rest: rest(vhost),
    refresh: () => update(),
  };
  const allowed = TABS.filter(([, , , fits]) => fits(subject));
  const [first] = allowed.find(([each]) => each === query.tab) ?? allowed[0];
  const place = h("div", { id: "tab-panel", role: "tabpanel", tabindex: "-1", "aria-labelledby": `tab-${first}` });
  const state = h("span");
  const buttons = h("div", { class: "actions" });
  const now = h("div");
  const choice = tabs({
    label: "Parts of this queue",
    names: allowed.map(([each, label]) => [each, label]),
    chosen: first,
    choose,
  });
  const back = h(
    "nav",
    { "aria-label": "Breadcrumb" },
    h("a", { href: to("queues") }, "Queues"),
    ` in virtual host ${vhost}`,
  );
  const made = new Map();
  let shown = null;
  let last = null;
  const title = h("span", {}, name, " ", state);
  root.append(back, heading(title, buttons), now, choice, place);

  async function choose(tab) {
    const [, , make] = allowed.find(([each]) => each === tab);
    setQuery({ ...(tab === query.tab ? query : {}), tab });
    place.setAttribute("aria-labelledby", `tab-${tab}`);
    shown = made.get(tab) ?? make(subject);
    made.set(tab, shown);
    place.replaceChildren(shown.element);
    if (last) await shown.update(last);
  }

  const update = await live(async () => {
    const [row, stats] = await Promise.all([
      management.get(`${subject.path}?${SAMPLES}`, signal),
      subject.may.read ? subject.rest.get(`${subject.restPath}/stats`, {}, signal) : null,
    ]);
    last = { row, stats };
    fill(
      state,
      row.display_name ? [h("span", { class: "soft" }, row.display_name), " "] : null,
      badge(row.type),
      " ",
      row.state === "paused" ? badge("paused", "warn") : badge("running", "good"),
    );
    fill(now, figures(currentFigures(row, stats)));
    if (buttons.dataset.state !== row.state) {
      buttons.dataset.state = row.state;
      buttons.replaceChildren(...actionButtons(subject, row));
    }
    if (shown) await shown.update(last);
    else await choose(first);
  }, signal);
}

function currentFigures(row, stats) {
  return [
    ["Ready", count(row.messages_ready)],
    ["Unacked", count(row.messages_unacknowledged)],
    ["Scheduled", count(row.messages_scheduled + row.messages_backing_off)],
    stats && ["Oldest", span(stats.oldest_age)],
    ["Publish", rate(row.message_stats.publish_details.rate)],
    ["Deliver", rate(row.message_stats.deliver_get_details.rate)],
    ["Acknowledge", rate(row.message_stats.ack_details.rate)],
    ["Consumers", count(row.consumers)],
    row.created_at && ["Created", time(row.created_at)],
  ];
}
