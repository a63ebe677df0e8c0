// The body of a message as people can read it: JSON in lines, text, or bytes in hexadecimal.

import { h } from "./dom.js";

const SHOWN_BYTES_MAX = 65_536;
const HEX_BYTES_MAX = 4_096;
const ROW_BYTES = 16;
const CONTROL = /[\u0000-\u0008\u000e-\u001f]/;

/** The bytes of a message that came in base64. */
export function bytesOf(message) {
  return Uint8Array.from(atob(message.payload_base64), (character) => character.charCodeAt(0));
}

/** The text of bytes; null if they are none. */
function textOf(data) {
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(data);
    return CONTROL.test(text) ? null : text;
  } catch {
    return null;
  }
}

/** JSON in lines; null if it is none. */
function prettyOf(text) {
  if (text === null || !/^\s*[[{]/.test(text)) return null;
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return null;
  }
}

/** Bytes as operators are used to see them: where, which, and what of it is text. */
function hexOf(data) {
  const lines = [];
  for (let start = 0; start < Math.min(data.length, HEX_BYTES_MAX); start += ROW_BYTES) {
    const row = [...data.slice(start, start + ROW_BYTES)];
    const hex = row.map((byte) => byte.toString(16).padStart(2, "0")).join(" ");
    const text = row.map((byte) => (byte > 31 && byte < 127 ? String.fromCharCode(byte) : ".")).join("");
    lines.push(`${start.toString(16).padStart(6, "0")}  ${hex.padEnd(ROW_BYTES * 3)} ${text}`);
  }
  return lines.join("\n");
}

/** The begin of a body in one line. */
export function previewOf(data) {
  const text = textOf(data.slice(0, 200)) ?? (data.length > 200 ? textOf(data.slice(0, 198)) : null);
  return text === null ? `${data.length} bytes` : text.replace(/\s+/g, " ");
}

/**
 * A body with the ways to see it that make sense.
 * @param {Uint8Array} data
 */
export function bodyView(data) {
  const cut = data.slice(0, SHOWN_BYTES_MAX);
  const text = textOf(cut);
  const views = [
    ["JSON", data.length > SHOWN_BYTES_MAX ? null : prettyOf(text)],
    ["Text", text],
    ["Hex", hexOf(data)],
  ].filter(([, content]) => content !== null);
  const pre = h("pre", { tabindex: "0" });
  const buttons = views.map(([name]) => h("button", { type: "button", onclick: () => choose(name) }, name));

  function choose(name) {
    const [, content] = views.find(([each]) => each === name);
    pre.textContent = content;
    pre.className = name === "Hex" ? "hex" : "";
    for (const button of buttons) button.setAttribute("aria-pressed", String(button.textContent === name));
  }

  choose(views[0][0]);
  const rest =
    data.length > SHOWN_BYTES_MAX
      ? h("p", { class: "help" }, `The first ${SHOWN_BYTES_MAX} of ${data.length} bytes.`)
      : null;
  return h(
    "div",
    { class: "body" },
    h("div", { class: "views", role: "group", "aria-label": "Show as" }, buttons),
    pre,
    rest,
  );
}
