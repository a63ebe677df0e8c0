// Reports of the pipeline that lie in the directory of reports.

import { query } from "../api.js";
import { h } from "../dom.js";
import { ago, bytes, time } from "../format.js";
import { showListing } from "../listing.js";
import { to } from "../router.js";
import { nodeColumn } from "../session.js";

const COLUMNS = [
  { label: "Name", sort: "name", show: linkOf },
  { label: "Made", sort: "made_at", numeric: true, show: (row) => time(row.made_at) },
  { label: "Age", numeric: true, optional: true, show: (row) => ago(row.made_at) },
  { label: "Size", sort: "bytes", numeric: true, optional: true, show: (row) => bytes(row.bytes) },
];
const HOW = "leveret pipeline report --path DATA --out REPORTS/NAME";

function linkOf({ name, node }) {
  return h("a", { href: to("reports", name) + query({ node }) }, name);
}

/** Show the page. */
export async function show(page) {
  await showListing(
    { ...page, query: { sort: "made_at", reverse: "true", ...page.query } },
    {
      title: "Pipeline reports",
      path: "/reports",
      columns: [...COLUMNS, ...nodeColumn()],
      key: (row) => `${row.node} ${row.name}`,
      empty: "There are none in the directory that the option reports_dir names.",
      above: h("p", { class: "help" }, "A report is made by ", h("code", {}, HOW), "."),
    },
  );
}
