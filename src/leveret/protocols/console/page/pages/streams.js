// The streams of a virtual host that the user may use, a page of names at a time.

import { rest, segment } from "../api.js";
import { askFor } from "../dialog.js";
import { h } from "../dom.js";
import { button, heading } from "../figures.js";
import { firingMark } from "../firing.js";
import { bytes, count, span } from "../format.js";
import { fieldRow } from "../form.js";
import { homeField, homeless, homeOf } from "../home.js";
import { live } from "../live.js";
import { go, setQuery, to } from "../router.js";
import { tableOf } from "../table.js";
import { say } from "../toast.js";

const PAGE_ROWS = 50;
const FIELDS = [
  { name: "name", label: "Name", required: true },
  {
    name: "partitions",
    label: "Partitions",
    type: "number",
    value: 1,
    attributes: { min: 1 },
    help: "For good: records with one key stay in one of them.",
  },
  {
    name: "max_age",
    label: "Keep records for so many seconds",
    type: "number",
    attributes: { min: 1 },
    help: "Empty: for ever.",
  },
  {
    name: "max_bytes",
    label: "Keep so many bytes in each partition",
    type: "number",
    attributes: { min: 0 },
    help: "Empty: no limit.",
  },
];

function columnsOf(vhost) {
  return [
    { label: "Name", show: (row) => [h("a", { href: to("streams", vhost, row.name) }, row.name), firingMark(vhost, row.name)] },
    { label: "Partitions", numeric: true, show: (row) => count(row.partitions) },
    { label: "Records", numeric: true, show: (row) => count(row.records) },
    { label: "Size", numeric: true, show: (row) => bytes(row.size_bytes) },
    { label: "Segments", numeric: true, optional: true, show: (row) => count(row.segments) },
    { label: "Consumers", numeric: true, optional: true, show: (row) => count(row.consumers) },
    {
      label: "Kept for",
      numeric: true,
      optional: true,
      show: (row) => (row.max_age === null ? "ever" : span(row.max_age)),
    },
  ];
}

/** Show the page. */
export async function show({ root, query, signal }) {
  const vhost = homeOf(query);
  if (vhost === null) return homeless(root, "Streams");
  const state = { prefix: "", after: "", ...query, vhost };
  const table = tableOf({
    caption: "Streams",
    columns: columnsOf(vhost),
    key: (row) => row.name,
    empty: "There is no such stream.",
  });
  const first = button("First", () => change({ after: "" }));
  const more = button("Next", () => change({ after: more.dataset.after }));
  const pager = h("nav", { class: "pager", "aria-label": "Pages" }, h("span"), first, more);
  root.append(
    heading(
      "Streams",
      button("New stream", () => make(vhost), "primary"),
    ),
    filters(state, change),
  );
  root.append(table.element, pager);

  function change(values) {
    Object.assign(state, values);
    setQuery(state);
    return refresh();
  }

  const refresh = await live(async () => {
    const wanted = { prefix: state.prefix, after: state.after, limit: PAGE_ROWS };
    const { streams, next } = await rest(vhost).get("/streams", wanted, signal);
    table.update(streams);
    more.dataset.after = next ?? "";
    more.disabled = next === null;
    first.disabled = !state.after;
  }, signal);
}

function filters(state, change) {
  const name = fieldRow({ name: "prefix", label: "Name begins with", type: "search", value: state.prefix });
  name.querySelector("input").addEventListener("change", (event) => change({ prefix: event.target.value, after: "" }));
  return h(
    "form",
    { class: "filters", role: "search", onsubmit: (event) => event.preventDefault() },
    name,
    homeField(state.vhost),
  );
}

function make(vhost) {
  return askFor({
    title: "New stream",
    fields: FIELDS,
    action: "Make stream",
    submit: async ({ name, ...settings }) => {
      await rest(vhost).put(`/streams/${segment(name)}`, settings);
      say(`The stream ${name} is there.`);
      go(to("streams", vhost, name));
    },
  });
}
