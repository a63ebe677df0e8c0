// Short messages at the edge of the page, which screen readers read out.

import { h } from "./dom.js";

const SHOWN_MS = 6_000;

/** Say that something was done. */
export function say(text) {
  show(text, "good");
}

/** Say that something failed. */
export function warn(text) {
  show(text, "bad");
}

function show(text, kind) {
  const close = h(
    "button",
    { class: "quiet", type: "button", "aria-label": "Dismiss", onclick: () => toast.remove() },
    "×",
  );
  const toast = h("div", { class: `toast ${kind}` }, h("span", {}, text), close);
  document.getElementById("toasts").append(toast);
  setTimeout(() => toast.remove(), SHOWN_MS);
}

/**
 * Do something, and say what became of it.
 * @param {() => Promise<any>} action
 * @param {string | ((result: any) => string)} done
 * @returns {Promise<boolean>} whether it was done
 */
export async function attempt(action, done) {
  try {
    const result = await action();
    say(typeof done === "function" ? done(result) : done);
    return true;
  } catch (error) {
    warn(error.message);
    return false;
  }
}
