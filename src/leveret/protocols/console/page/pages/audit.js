// Who changed what: the last acts that the server remembers, the newest first.

import { rest } from "../api.js";
import { h } from "../dom.js";
import { badge, heading } from "../figures.js";
import { count, time } from "../format.js";
import { fieldRow } from "../form.js";
import { live } from "../live.js";
import { setQuery } from "../router.js";
import { nodeColumn } from "../session.js";
import { tableOf } from "../table.js";

const ACTS_MAX = 1_000;
const SHOWN_MAX = 200;
const KNOWN = new Set(["at_ms", "by", "act", "outcome", "peer", "node", "kind", "count", "since_ms"]);
const KINDS = ["administration", "clients", "refusals"];
/** How an act ended; everything else is why it was refused. */
const GOOD = { done: "good", "asked for": "plain" };
const COLUMNS = [
  { label: "What", show: (row) => h("span", { class: "mono" }, row.act) },
  { label: "By", show: (row) => row.by },
  { label: "When", whole: true, show: (row) => time(row.at_ms) },
  { label: "Outcome", show: (row) => (GOOD[row.outcome] ? badge(row.outcome, GOOD[row.outcome]) : refused(row)) },
  { label: "Times", whole: true, optional: true, show: (row) => (row.count ? count(row.count) : "") },
  { label: "From", optional: true, show: (row) => row.peer ?? "" },
  { label: "Log", optional: true, show: (row) => row.kind ?? "" },
];
const MORE = { label: "More", optional: true, show: (row) => moreOf(row) };

function refused(row) {
  return [badge("refused", "bad"), " ", row.outcome];
}

function moreOf(row) {
  return Object.entries(row)
    .filter(([name]) => !KNOWN.has(name))
    .map(([name, value]) => `${name}: ${value}`)
    .join(", ");
}

/** Show the page. */
export async function show({ root, query, signal }) {
  const state = { text: "", by: "", kind: "", ...query };
  const table = tableOf({ caption: "Acts", columns: [...COLUMNS, ...nodeColumn(), MORE], key: keyOf, empty: "There is no such act." });
  const told = h("p", { class: "soft", role: "status" });
  let acts = [];

  function draw() {
    const wanted = state.text.toLowerCase();
    const found = acts.filter(
      (row) => (!state.by || row.by === state.by) && (!wanted || JSON.stringify(row).toLowerCase().includes(wanted)),
    );
    table.update(found.slice(0, SHOWN_MAX));
    told.textContent =
      found.length > SHOWN_MAX
        ? `The newest ${count(SHOWN_MAX)} of ${count(found.length)}.`
        : `${count(found.length)} acts.`;
  }

  let refresh = async () => {};

  function change(values) {
    Object.assign(state, values);
    setQuery(state);
    if ("kind" in values) refresh();
    else draw();
  }

  root.append(heading("Audit log"), filters(state, change), table.element, told);
  refresh = await live(async () => {
    const kind = KINDS.includes(state.kind) ? { kind: state.kind } : {};
    ({ acts } = await rest("/").get("/audit", { limit: ACTS_MAX, ...kind }, signal));
    draw();
  }, signal);
}

/** Acts have no names of their own; two that are the same in all are one to those who look. */
function keyOf(row) {
  return JSON.stringify(row);
}

function filters(state, change) {
  const text = fieldRow({ name: "text", label: "Search", type: "search", value: state.text });
  const by = fieldRow({ name: "by", label: "By user", value: state.by });
  const kinds = [["", "all"], ...KINDS.map((kind) => [kind, kind])];
  const kind = fieldRow({ name: "kind", label: "Log", type: "select", options: kinds, value: state.kind });
  text.querySelector("input").addEventListener("input", (event) => change({ text: event.target.value }));
  kind.querySelector("select").addEventListener("change", (event) => change({ kind: event.target.value }));
  by.querySelector("input").addEventListener("input", (event) => change({ by: event.target.value }));
  return h("form", { class: "filters", role: "search", onsubmit: (event) => event.preventDefault() }, text, by, kind);
}
