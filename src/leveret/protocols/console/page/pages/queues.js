// All queues: searched, sorted and cut into pages by the server, so that 100,000 of them are no more work than ten.

import { management, query as queryOf, segment } from "../api.js";
import { askFor } from "../dialog.js";
import { h } from "../dom.js";
import { badge, button, heading } from "../figures.js";
import { firingMark } from "../firing.js";
import { count, rate, time } from "../format.js";
import { fieldRow, parsedJson } from "../form.js";
import { live } from "../live.js";
import { go, setQuery, to } from "../router.js";
import { who } from "../session.js";
import { pagerOf, tableOf } from "../table.js";
import { say } from "../toast.js";

const PAGE_ROWS = 50;
const TYPING_MS = 250;
const FIELDS =
  "name,display_name,created_at,vhost,type,state,durable,policy,consumers,messages,messages_ready,messages_unacknowledged,message_stats";
const STATES = { paused: "warn", down: "bad" }; // those that are worth a word
const COLUMNS = [
  { label: "Name", sort: "name", show: named },
  { label: "Virtual host", sort: "vhost", optional: true, show: (row) => row.vhost },
  {
    label: "Type",
    show: (row) => [row.type, row.state in STATES ? [" ", badge(row.state, STATES[row.state])] : null],
  },
  { label: "Ready", sort: "messages_ready", numeric: true, show: (row) => count(row.messages_ready) },
  {
    label: "Unacked",
    sort: "messages_unacknowledged",
    numeric: true,
    optional: true,
    show: (row) => count(row.messages_unacknowledged),
  },
  { label: "All", sort: "messages", numeric: true, show: (row) => count(row.messages) },
  rateColumn("Publish", "publish"),
  rateColumn("Deliver", "deliver_get"),
  rateColumn("Ack", "ack"),
  { label: "Consumers", sort: "consumers", numeric: true, optional: true, show: (row) => count(row.consumers) },
  { label: "Policy", optional: true, show: (row) => row.policy ?? "" },
  { label: "Created", sort: "created_at", optional: true, show: (row) => (row.created_at ? time(row.created_at) : "") },
];

/** The name with its link, what people call it, and whether an alert is firing about it. */
function named(row) {
  const link = h("a", { href: to("queues", row.vhost, row.name) }, row.name);
  const called = row.display_name ? [" ", h("span", { class: "soft" }, row.display_name)] : null;
  return [link, called, firingMark(row.vhost, row.name)];
}

function rateColumn(label, name) {
  const show = (row) => rate(row.message_stats?.[`${name}_details`].rate);
  return { label, sort: `message_stats.${name}_details.rate`, numeric: true, optional: true, show };
}

/** Show the page. */
export async function show({ root, query, signal }) {
  const state = { name: "", sort: "name", reverse: "", page: "1", vhost: "", ...query };
  const vhosts = await management.get("/vhosts?columns=name", signal);
  let refresh = null;

  function change(values) {
    Object.assign(state, { page: 1 }, values);
    setQuery(state);
    return refresh();
  }

  const table = tableOf({
    caption: "Queues",
    columns: COLUMNS.filter((column) => vhosts.length > 1 || column.sort !== "vhost"),
    key: (row) => `${row.vhost}/${row.name}`,
    empty: "There is no such queue.",
    sort: { by: state.sort, reverse: state.reverse === "true" },
    onsort: (sort, reverse) => change({ sort, reverse: reverse ? "true" : "" }),
  });
  const pager = pagerOf((page) => change({ page }));
  root.append(heading("Queues", ...makeButton()), filters(state, vhosts, change), table.element, pager.element);

  refresh = await live(async () => {
    const wanted = {
      page: state.page,
      page_size: PAGE_ROWS,
      sort: state.sort,
      sort_reverse: state.reverse,
      name: state.name,
    };
    const folder = state.vhost ? `/queues/${segment(state.vhost)}` : "/queues";
    const told = await management.get(`${folder}${queryOf({ ...wanted, columns: FIELDS })}`, signal);
    table.update(told.items);
    pager.update(told);
  }, signal);
}

function filters(state, vhosts, change) {
  const search = fieldRow({
    name: "name",
    label: "Search",
    type: "search",
    value: state.name,
    attributes: { placeholder: "part of a name" },
  });
  const options = [["", "all"], ...vhosts.map((row) => [row.name, row.name])];
  const home = fieldRow({ name: "vhost", label: "Virtual host", type: "select", value: state.vhost, options });
  let typing = 0;
  search.querySelector("input").addEventListener("input", (event) => {
    const { value } = event.target;
    clearTimeout(typing);
    typing = setTimeout(() => change({ name: value }), TYPING_MS);
  });
  home.querySelector("select").addEventListener("change", (event) => change({ vhost: event.target.value }));
  return h("form", { class: "filters", role: "search", onsubmit: (event) => event.preventDefault() }, search, home);
}

/** A button for those who may make queues somewhere. */
function makeButton() {
  return who().makes_in.length ? [button("New queue", makeQueue, "primary")] : [];
}

function makeQueue() {
  const fields = [
    { name: "name", label: "Name", required: true },
    { name: "vhost", label: "Virtual host", type: "select", options: who().makes_in, value: "/" },
    { name: "type", label: "Type", type: "select", options: ["classic", "quorum", "stream"] },
    { name: "durable", label: "Survives a restart", type: "checkbox", value: true },
    {
      name: "arguments",
      label: "Arguments",
      type: "textarea",
      help: 'As JSON: {"x-max-priority": 10}',
      attributes: { rows: 3 },
    },
  ];
  return askFor({
    title: "New queue",
    fields,
    action: "Make queue",
    submit: async ({ name, vhost, type, durable, arguments: text }) => {
      const given = { "x-queue-type": type, ...parsedJson(text, "The field Arguments") };
      await management.put(`/queues/${segment(vhost)}/${segment(name)}`, { durable, arguments: given });
      say(`The queue ${name} is there.`);
      go(to("queues", vhost, name));
    },
  });
}
