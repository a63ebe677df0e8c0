// Logging in.

import { h } from "../dom.js";
import { formOf } from "../form.js";
import { logIn, who } from "../session.js";

const FIELDS = [
  {
    name: "user",
    label: "User",
    required: true,
    attributes: { autocomplete: "username", autocapitalize: "none", spellcheck: "false" },
  },
  { name: "password", label: "Password", type: "password", attributes: { autocomplete: "current-password" } },
];

/** Why a login at the provider failed, by the word that the server adds to the address. */
const FAILED = {
  denied: "The provider has refused the login.",
  failed: "The login at the provider was not accepted: try again. The log of the server says why.",
  unreachable: "The provider does not answer: try again later, or log in with a password.",
  busy: "Too many logins are being decided: try again.",
  tags: "Your user may not use the console: ask an administrator for a tag such as management.",
  scopes: "Your token has too many scopes for a session: ask an administrator.",
};

/** What the address says about a login that failed; once. */
function failure() {
  const found = FAILED[new URLSearchParams(location.search).get("login")];
  if (found) history.replaceState(null, "", location.pathname + location.hash);
  return found;
}

/** The way to log in at the provider, if there is one. */
function elsewhere() {
  const { oauth } = who();
  const leave = () => location.assign(oauth.path);
  return oauth ? h("button", { type: "button", class: "sso", onclick: leave }, `Log in with ${oauth.label}`) : null;
}

/**
 * Show the login in place of everything else.
 * @param {HTMLElement} app
 * @param {() => Promise<void>} done called when a user is logged in
 * @param {string} [reason] why that is needed
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
  const why = h("p", { class: "soft", role: "status" }, failure() ?? reason);
  app.className = "login";
  app.replaceChildren(h("main", {}, brand, why, form, elsewhere()));
  document.title = "Log in · Leveret";
  form.elements.namedItem("user").focus();
}
