// Rows of a table that are chosen by their boxes, and the buttons that do something with them.

import { h } from "./dom.js";
import { count } from "./format.js";

/**
 * @param {{key: (row: any) => string, name: (row: any) => string, allowed?: (row: any) => boolean}} options `name` is
 *   what screen readers hear beside a box
 */
export function selectionOf({ key, name, allowed = () => true }) {
  const chosen = new Map();
  const buttons = [];
  let rows = [];

  function refresh() {
    for (const { element, label } of buttons) {
      element.disabled = !chosen.size;
      element.textContent = chosen.size ? `${label} (${count(chosen.size)})` : label;
    }
  }

  function choose(row, wanted) {
    if (wanted) chosen.set(key(row), row);
    else chosen.delete(key(row));
    refresh();
  }

  function box(row) {
    const element = h("input", {
      type: "checkbox",
      "aria-label": `Select ${name(row)}`,
      disabled: !allowed(row),
      onchange: (event) => choose(row, event.target.checked),
    });
    element.checked = chosen.has(key(row));
    return element;
  }

  /** A button that is of use when something is chosen; `act` gets the rows. */
  function button(label, act, kind = null) {
    const onclick = () => act([...chosen.values()]);
    const element = h("button", { type: "button", class: kind, disabled: true, onclick }, label);
    buttons.push({ element, label });
    return element;
  }

  /** Choose all of them, or none if they all are. */
  function all(element) {
    const open = rows.filter(allowed);
    const wanted = open.some((row) => !chosen.has(key(row)));
    for (const row of open) choose(row, wanted);
    for (const each of element.querySelectorAll("input[type=checkbox]:not(:disabled)")) each.checked = wanted;
  }

  /** What is there now: what is not there any more is not chosen any more. */
  function keep(fresh) {
    rows = fresh;
    const known = new Map(fresh.map((row) => [key(row), row]));
    for (const each of chosen.keys()) {
      if (known.has(each)) chosen.set(each, known.get(each));
      else chosen.delete(each);
    }
    refresh();
  }

  return { column: { label: "Select", narrow: true, show: box }, button, all, keep, box };
}
