// The virtual host that a page is about: which ones there are to choose from, and the field for it.

import { segment } from "./api.js";
import { h } from "./dom.js";
import { heading } from "./figures.js";
import { fieldRow } from "./form.js";
import { go, here } from "./router.js";
import { who } from "./session.js";

/**
 * The virtual host that the address names, or else the first one; null if the user may enter none.
 * @param {Object<string, string>} query
 */
export function homeOf(query) {
  const homes = who().vhosts;
  if (homes.includes(query.vhost)) return query.vhost;
  return homes.includes("/") ? "/" : (homes[0] ?? null);
}

/** A page for a user who may enter none. */
export function homeless(root, title) {
  root.append(heading(title), h("p", {}, "Your user may enter no virtual host: ask an administrator."));
}

/** The field in which another one is chosen; the page is then shown anew. */
export function homeField(vhost) {
  const field = fieldRow({ name: "vhost", label: "Virtual host", type: "select", options: who().vhosts, value: vhost });
  const choose = (event) => go(`#${here().path}?vhost=${segment(event.target.value)}`);
  field.querySelector("select").addEventListener("change", choose);
  return field;
}
