// Small parts that pages are made of: figures with names, states, bars, panels, tabs.

import { freshId, h } from "./dom.js";

/**
 * Figures with their names, in a row.
 * @param {Array<[string, any] | null>} pairs
 */
export function figures(pairs) {
  return h(
    "dl",
    { class: "figures" },
    pairs.filter(Boolean).map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))),
  );
}

/**
 * Names and values, one under the other.
 * @param {Array<[string, any]>} rows
 */
export function pairs(rows) {
  return h(
    "dl",
    { class: "pairs" },
    rows.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]),
  );
}

/**
 * A state in a word.
 * @param {string} text
 * @param {"good" | "bad" | "warn" | "plain"} [kind]
 */
export function badge(text, kind = "plain") {
  return h("span", { class: `badge ${kind}` }, text);
}

/**
 * How much of something is used; if it is brief, the text is beside it.
 * @param {{label: string, part: number, text: string, bad?: boolean, brief?: boolean}} options
 */
export function bar({ label, part, text, bad = false, brief = false }) {
  const width = `${Math.round(Math.min(1, Math.max(0, part)) * 100)}%`;
  const meter = h("div", { class: bad ? "bar bad" : "bar" }, h("div", { styles: { width } }));
  meter.setAttribute("role", "meter");
  meter.setAttribute("aria-label", label);
  meter.setAttribute("aria-valuenow", String(Math.round(part * 100)));
  meter.setAttribute("aria-valuetext", text);
  return h(
    "div",
    { class: brief ? "gauge brief" : "gauge" },
    h("span", {}, label),
    meter,
    h("span", { class: "soft" }, text),
  );
}

/**
 * A part of a page with a heading.
 * @param {string} title
 * @param {...any} children
 */
export function panel(title, ...children) {
  const id = freshId("panel");
  return h("section", { class: "panel", "aria-labelledby": id }, h("h2", { id }, title), ...children);
}

/**
 * The heading of a page, with what can be done there.
 * @param {any} title
 * @param {...any} actions
 */
export function heading(title, ...actions) {
  return h(
    "header",
    { class: "heading" },
    h("h1", { tabindex: "-1" }, title),
    h("div", { class: "actions" }, ...actions),
  );
}

/** A button. */
export function button(label, onclick, kind = null) {
  return h("button", { type: "button", class: kind, onclick }, label);
}

/**
 * Parts of a page of which one is shown; `choose` is called when that changes.
 * @param {{label: string, names: Array<[string, string]>, chosen: string, choose: (name: string) => void}} options
 */
export function tabs({ label, names, chosen, choose }) {
  const buttons = names.map(([name, text]) =>
    h(
      "button",
      {
        type: "button",
        role: "tab",
        id: `tab-${name}`,
        "aria-controls": "tab-panel",
        onclick: () => select(name),
      },
      text,
    ),
  );
  const list = h("div", { class: "tabs", role: "tablist", "aria-label": label, onkeydown: move }, buttons);

  function mark(name) {
    for (const [index, each] of names.entries()) {
      const selected = each[0] === name;
      buttons[index].setAttribute("aria-selected", String(selected));
      buttons[index].tabIndex = selected ? 0 : -1;
    }
  }

  function select(name) {
    mark(name);
    choose(name);
  }

  function move(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const next = (buttons.indexOf(document.activeElement) + step + buttons.length) % buttons.length;
    buttons[next].focus();
    select(names[next][0]);
  }

  mark(chosen);
  return list;
}
