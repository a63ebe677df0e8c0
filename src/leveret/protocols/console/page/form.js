// Forms: fields with labels and help, their values, and what the server says against them.

import { freshId, h } from "./dom.js";

/**
 * @typedef {Object} Field
 * @property {string} name
 * @property {string} label
 * @property {"text" | "password" | "number" | "textarea" | "select" | "checkbox" | "search" | "file"} [type]
 * @property {any} [value]
 * @property {string} [help]
 * @property {boolean} [required]
 * @property {Array<string | [string, string]>} [options] of a select: values, or values and their names
 * @property {Object<string, any>} [attributes] more of them: min, max, rows, placeholder
 */

/**
 * A field with its label.
 * @param {Field} field
 */
export function fieldRow(field) {
  const id = freshId(field.name);
  const described = field.help ? `${id}-help` : null;
  const input = control(field, { id, name: field.name, "aria-describedby": described, ...field.attributes });
  const label = h(
    "label",
    { for: id },
    field.label,
    field.required ? h("span", { class: "needed" }, " (needed)") : null,
  );
  const help = field.help ? h("p", { class: "help", id: described }, field.help) : null;
  const parts = field.type === "checkbox" ? [h("div", { class: "check" }, input, label)] : [label, input];
  return h("div", { class: "field" }, ...parts, help);
}

/** The element that takes the value. */
function control(field, attributes) {
  const needed = field.required ? { required: true } : {};
  if (field.type === "select") {
    const options = field.options.map((each) => {
      const [value, name] = Array.isArray(each) ? each : [each, each];
      return h("option", { value, selected: value === field.value }, name);
    });
    return h("select", { ...attributes, ...needed }, options);
  }
  if (field.type === "textarea")
    return h("textarea", { rows: 6, spellcheck: "false", ...attributes, ...needed }, field.value ?? "");
  if (field.type === "checkbox") return h("input", { type: "checkbox", ...attributes, checked: Boolean(field.value) });
  return h("input", {
    type: field.type ?? "text",
    autocomplete: "off",
    ...attributes,
    ...needed,
    value: field.value ?? "",
  });
}

/**
 * What was filled in: numbers as numbers, nothing for what was left empty.
 * @param {HTMLFormElement} form
 * @param {Field[]} fields
 * @returns {Object<string, any>}
 */
export function values(form, fields) {
  const found = {};
  for (const { name, type } of fields) {
    const input = form.elements.namedItem(name);
    if (type === "checkbox") found[name] = input.checked;
    else if (type === "file") found[name] = input.files[0];
    else if (type === "number") found[name] = input.value === "" ? undefined : Number(input.value);
    else found[name] = input.value === "" ? undefined : input.value;
  }
  return found;
}

/**
 * A form; what `submit` throws is shown above the buttons and read out. `preview` says what would be done.
 * @param {{fields: Field[], action: string, danger?: boolean, submit: (values: Object<string, any>) => Promise<void>,
 *   preview?: (values: Object<string, any>) => Promise<string>, look?: string, extra?: any}} options
 * @returns {HTMLFormElement}
 */
export function formOf({ fields, action, danger = false, submit, preview = null, look = "Preview", extra = null }) {
  const problem = h("p", { class: "problem", role: "alert" });
  const result = h("p", { class: "result", role: "status" });
  const button = h("button", { class: danger ? "danger" : "primary", type: "submit" }, action);
  const second = preview ? h("button", { type: "button", onclick: () => run(second, show) }, look) : null;
  const actions = h("div", { class: "actions" }, button, second, extra);
  const form = h("form", { onsubmit: send }, fields.map(fieldRow), result, problem, actions);

  async function show(given) {
    result.textContent = await preview(given);
  }

  async function run(pressed, action) {
    pressed.disabled = true;
    problem.textContent = result.textContent = "";
    try {
      await action(values(form, fields));
    } catch (error) {
      problem.textContent = error.message;
    } finally {
      pressed.disabled = false;
    }
  }

  function send(event) {
    event.preventDefault();
    return run(button, submit);
  }

  return form;
}

/** The value of a field of JSON; refuses with a sentence. */
export function parsedJson(text, what) {
  if (text === undefined) return {};
  try {
    return JSON.parse(text);
  } catch {
    throw new Error(`${what} is not JSON: write it as {"name": "value"}.`);
  }
}
