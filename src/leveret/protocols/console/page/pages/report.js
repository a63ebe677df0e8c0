// One report: its page as it was written, and what it says in words. Nothing in it can run or ask for anything.

import { management, query as queryOf, segment } from "../api.js";
import { h } from "../dom.js";
import { heading, panel } from "../figures.js";
import { to } from "../router.js";

/** Show the page. */
export async function show({ root, params, query, signal }) {
  const { report: name } = params;
  const path = `/reports/${segment(name)}`;
  const where = queryOf({ node: query.node });
  const { summary } = await management.get(path + where, signal);
  const source = `/api${path}/page${where}`;
  const back = h("nav", { "aria-label": "Breadcrumb" }, h("a", { href: to("reports") }, "Pipeline reports"));
  const alone = h("a", { href: source, target: "_blank", rel: "noopener" }, "Open in a tab of its own");
  root.append(back, heading(name, alone));
  root.append(h("iframe", { class: "report", title: `Report ${name}`, src: source, sandbox: true }));
  if (summary) root.append(panel("Summary", h("pre", { class: "wide", tabindex: "0" }, summary)));
}
