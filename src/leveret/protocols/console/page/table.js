// Tables: sorted by their headings, updated in place so that neither the focus nor the eye loses its row.

import { h } from "./dom.js";
import { count } from "./format.js";

/**
 * @typedef {Object} Column
 * @property {string} label
 * @property {(row: any) => any} show what a cell has
 * @property {string} [sort] what the server calls the column, if it can be sorted by
 * @property {boolean} [numeric]
 * @property {boolean} [optional] left out where the screen is narrow
 * @property {boolean} [narrow] as narrow as what is in it
 * @property {boolean} [whole] in one line: times and the like
 */

/**
 * @param {{caption: string, columns: Column[], key: (row: any) => string, empty: string,
 *   sort?: {by: string, reverse: boolean}, onsort?: (by: string, reverse: boolean) => void}} options
 */
export function tableOf({ caption, columns, key, empty, sort, onsort }) {
  const body = h("tbody");
  const headings = columns.map((column) => heading(column));
  const table = h("table", {}, h("caption", { class: "unseen" }, caption), h("thead", {}, h("tr", {}, headings)), body);
  const element = h("div", { class: "table", tabindex: "0", role: "region", "aria-label": `${caption}, table` }, table);
  const known = new Map();
  let order = sort ?? { by: "", reverse: false };
  mark();

  function heading(column) {
    const attributes = { scope: "col", class: classes(column), "data-sort": column.sort };
    if (!column.sort || !onsort) return h("th", attributes, column.label);
    return h("th", attributes, h("button", { type: "button", onclick: () => resort(column) }, column.label));
  }

  function resort(column) {
    // Numbers are looked at from the largest on, names from the first on.
    const reverse = order.by === column.sort ? !order.reverse : Boolean(column.numeric);
    order = { by: column.sort, reverse };
    mark();
    onsort(order.by, order.reverse);
  }

  function mark() {
    for (const [index, column] of columns.entries()) {
      const sorted = column.sort && column.sort === order.by;
      if (sorted) headings[index].setAttribute("aria-sort", order.reverse ? "descending" : "ascending");
      else headings[index].removeAttribute("aria-sort");
    }
  }

  function update(rows) {
    if (!rows.length) {
      known.clear();
      body.replaceChildren(h("tr", {}, h("td", { class: "empty", colspan: columns.length }, empty)));
      return;
    }
    const wanted = rows.map((row) => kept(row));
    const keys = new Set(rows.map(key));
    for (const each of known.keys()) if (!keys.has(each)) known.delete(each);
    if (wanted.length !== body.children.length || wanted.some((row, index) => row !== body.children[index])) {
      body.replaceChildren(...wanted);
    }
  }

  function kept(told) {
    // One object for each row, as long as it is shown: a button that stays where it is must not act on old values.
    const { row, element: old } = known.get(key(told)) ?? { row: {}, element: null };
    for (const name of Object.keys(row)) if (!(name in told)) delete row[name];
    Object.assign(row, told);
    const fresh = h(
      "tr",
      {},
      columns.map((column) => h("td", { class: classes(column) }, column.show(row))),
    );
    known.set(key(told), { row, element: old ?? fresh });
    if (!old) return fresh;
    for (const [index, cell] of [...fresh.children].entries()) {
      if (!cell.isEqualNode(old.children[index])) old.children[index].replaceWith(cell);
    }
    return old;
  }

  return { element, update };
}

function classes(column) {
  return ["numeric", "optional", "narrow", "whole"].filter((name) => column[name]).join(" ") || null;
}

/**
 * Which part of a long list is shown, and the way to the others.
 * @param {(page: number) => void} onpage
 */
export function pagerOf(onpage) {
  const text = h("span", { role: "status" });
  const step = (label, change) => h("button", { type: "button", onclick: () => onpage(state.page + change) }, label);
  const back = step("Previous", -1);
  const forth = step("Next", 1);
  const element = h("nav", { class: "pager", "aria-label": "Pages" }, text, back, forth);
  let state = { page: 1, pages: 1 };

  function update({ page, page_count, filtered_count, total_count, page_size }) {
    state = { page, pages: page_count };
    const first = filtered_count ? (page - 1) * page_size + 1 : 0;
    const last = Math.min(page * page_size, filtered_count);
    const all = filtered_count === total_count ? "" : ` (${count(total_count)} in all)`;
    text.textContent = `${count(first)} to ${count(last)} of ${count(filtered_count)}${all}`;
    back.disabled = page <= 1;
    forth.disabled = page >= page_count;
  }

  return { element, update };
}
