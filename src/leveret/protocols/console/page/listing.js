// A page with one long list, which the server searches, sorts and cuts into pages.

import { management, query as queryOf } from "./api.js";
import { h } from "./dom.js";
import { heading } from "./figures.js";
import { fieldRow } from "./form.js";
import { live } from "./live.js";
import { setQuery } from "./router.js";
import { pagerOf, tableOf } from "./table.js";

const PAGE_ROWS = 50;
const TYPING_MS = 250;

/**
 * Show such a page. Gives a function that asks the server again at once.
 * @param {{root: HTMLElement, query: Object<string, string>, signal: AbortSignal}} page
 * @param {{title: string, path: string, columns: import("./table.js").Column[], key: (row: any) => string,
 *   empty: string, actions?: HTMLElement[], above?: any}} options `path` is below /api
 * @returns {Promise<() => Promise<void>>}
 */
export async function showListing({ root, query, signal }, { title, path, columns, key, empty, actions = [], above }) {
  const state = { name: "", sort: "name", reverse: "", page: "1", ...query };
  let refresh = null;

  function change(values) {
    Object.assign(state, { page: 1 }, values);
    setQuery(state);
    return refresh();
  }

  const table = tableOf({
    caption: title,
    columns,
    key,
    empty,
    sort: { by: state.sort, reverse: state.reverse === "true" },
    onsort: (sort, reverse) => change({ sort, reverse: reverse ? "true" : "" }),
  });
  const pager = pagerOf((page) => change({ page }));
  root.append(heading(title, ...actions), search(state.name, change), ...[above ?? []].flat());
  root.append(table.element, pager.element);

  refresh = await live(async () => {
    const { name, page, sort, reverse } = state;
    const wanted = { name, page, page_size: PAGE_ROWS, sort, sort_reverse: reverse };
    const told = await management.get(`${path}${queryOf(wanted)}`, signal);
    table.update(told.items);
    pager.update(told);
  }, signal);
  return refresh;
}

/** The field for a part of a name. */
function search(value, change) {
  const attributes = { placeholder: "part of a name" };
  const field = fieldRow({ name: "name", label: "Search", type: "search", value, attributes });
  let typing = 0;
  field.querySelector("input").addEventListener("input", (event) => {
    clearTimeout(typing);
    typing = setTimeout(() => change({ name: event.target.value }), TYPING_MS);
  });
  return h("form", { class: "filters", role: "search", onsubmit: (event) => event.preventDefault() }, field);
}
