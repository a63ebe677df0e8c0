// Logging in.

import { h } from "../dom.js";
import { formOf } from "../form.js";
import { logIn } from "../session.js";

const FIELDS = [
  {
    name: "user",
    label: "User",
    required: true,
    attributes: { autocomplete: "username", autocapitalize: "none", spellcheck: "false" },
  },
  { name: "password", label: "Password", type: "password", attributes: { autocomplete: "current-password" } },
];

/**
 * Show the login in place of everything else.
 * @param {HTMLElement} app
 * @param {() => Promise<void>} done called when somebody is logged in
 * @param {string} [reason] why he has to
 */
export function showLogin(app, done, reason = "") {
  const form = formOf({
    fields: FIELDS,
    action: "Log in",
    submit: async ({ user, password = "" }) => {
      await logIn(user, password);
      await done();
    },
  });
  const brand = h("h1", {}, h("img", { src: "icon.svg", alt: "", width: 40, height: 40 }), "Leveret");
  const why = h("p", { class: "soft", role: "status" }, reason);
  app.className = "login";
  app.replaceChildren(h("main", {}, brand, why, form));
  document.title = "Log in · Leveret";
  form.elements.namedItem("user").focus();
}
