// Questions in front of the page: the browser's own dialogs, which keep the focus inside and close with Escape.

import { freshId, h } from "./dom.js";
import { formOf } from "./form.js";

/**
 * A dialog with a form. Resolves with true when `submit` has succeeded, with false when it was closed without.
 * @param {{title: string, text?: any, fields?: import("./form.js").Field[], action: string, danger?: boolean,
 *   submit: (values: Object<string, any>) => Promise<void>,
 *   preview?: (values: Object<string, any>) => Promise<string>, look?: string}} options `look` is the button of `preview`
 * @returns {Promise<boolean>}
 */
export function askFor({ title, text = null, fields = [], action, danger = false, submit, preview, look }) {
  return new Promise((resolve) => {
    const id = freshId("dialog");
    const cancel = h("button", { type: "button", onclick: () => dialog.close() }, "Cancel");
    const form = formOf({ fields, action, danger, extra: look ? null : cancel, submit: finish, preview, look });
    const dialog = h(
      "dialog",
      { "aria-labelledby": id, onclose: closed },
      h("h2", { id }, title),
      paragraphs(text),
      form,
    );
    let done = false;

    async function finish(values) {
      await submit(values);
      done = true;
      dialog.close();
    }

    function closed() {
      dialog.remove();
      resolve(done);
    }

    document.body.append(dialog);
    dialog.showModal();
    if (!fields.length) cancel.focus();
  });
}

/**
 * Ask before something that cannot be undone; with `word`, that must be typed first.
 * @param {{title: string, text: string, action: string, word?: string, submit: () => Promise<void>}} options
 */
export function confirm({ title, text, action, word, submit }) {
  const fields = word ? [{ name: "word", label: `Type ${word} to confirm`, required: true }] : [];
  return askFor({
    title,
    text,
    fields,
    action,
    danger: true,
    submit: async (given) => {
      if (word && given.word !== word) throw new Error(`That is not ${word}: nothing was done.`);
      await submit();
    },
  });
}

/**
 * Show a secret once, with a button that copies it. Resolves when it was closed.
 * @param {{title: string, text: string, values: Array<[string, string]>}} options names and what they are
 * @returns {Promise<boolean>}
 */
export function reveal({ title, text, values }) {
  const fields = values.map(([label, value]) => ({ name: label, label, value, attributes: { readonly: true } }));
  const copy = async () => {
    if (!navigator.clipboard) throw new Error("Browsers copy only from pages with TLS: select the text instead.");
    await navigator.clipboard.writeText(values.at(-1)[1]);
    return `${values.at(-1)[0]} is in the clipboard.`;
  };
  const more = [h("p", {}, text)];
  return askFor({ title, text: more, fields, action: "Done", preview: copy, look: "Copy", submit: async () => {} });
}

/** Text as a paragraph; elements as they are. */
function paragraphs(text) {
  return typeof text === "string" ? h("p", {}, text) : text;
}
