// Which page belongs to an address: #/queues/%2F/orders?tab=messages.

import { query } from "./api.js";

/** The path and the query after the hash. */
export function here() {
  const [path, search = ""] = (location.hash.slice(1) || "/").split("?");
  return { path, query: Object.fromEntries(new URLSearchParams(search)) };
}

/**
 * What stands in the places of a pattern's names; null if the path is another.
 * @param {string} pattern "/queues/:vhost/:queue"
 * @param {string} path
 */
export function match(pattern, path) {
  const wanted = pattern.split("/");
  const parts = path.split("/");
  if (wanted.length !== parts.length) return null;
  const found = {};
  for (const [index, part] of wanted.entries()) {
    if (part.startsWith(":")) found[part.slice(1)] = decodeURIComponent(parts[index]);
    else if (part !== parts[index]) return null;
  }
  return found;
}

/** The address of a page; segments are encoded. */
export function to(...segments) {
  return `#/${segments.map(encodeURIComponent).join("/")}`;
}

/** Go to an address. */
export function go(address) {
  location.hash = address;
}

/** Remember the state of a page in its address, without a new entry in the history. */
export function setQuery(values) {
  history.replaceState(null, "", `#${here().path}${query(values)}`);
}
