// Who is logged in, and what the user may do. The server refuses all the same: this only hides what would be refused.

import { ask, segment, useToken } from "./api.js";

const NO_USER = { user: null, tags: [], vhosts: [], makes_in: [], cluster: null, oauth: null };
const INCLUDED = {
  administrator: ["administrator", "monitoring", "policymaker", "management"],
  monitoring: ["monitoring", "management"],
  policymaker: ["policymaker", "management"],
  management: ["management"],
};

let known = NO_USER;

/** Keep what the server says of a session. */
function keep(told) {
  known = told?.user ? told : { ...NO_USER, oauth: told?.oauth ?? known.oauth };
  useToken(known.token);
  return known;
}

/**
 * Who is logged in; `user` is null if no user is.
 * @returns {{user: string | null, tags: string[], vhosts: string[], makes_in: string[], cluster: string | null,
 *   oauth?: {label: string, path: string} | null}} `makes_in`: virtual hosts in which the user may make something;
 *   `cluster`: that of the server; `oauth`: the provider at which one can log in
 */
export function who() {
  return known;
}

/** Ask the server who is logged in. */
export async function recall() {
  return keep(await ask("GET", "/console/session"));
}

/** Have the session go on while the page is visible; tells the page when it has ended. */
export async function renew() {
  if (!known.user || document.visibilityState === "hidden") return;
  const told = await ask("GET", "/console/session").catch(() => known);
  if (!told.user) dispatchEvent(new Event("session-ended"));
}

/** Log in; refuses a wrong password. */
export async function logIn(user, password) {
  return keep(await ask("POST", "/console/session", { user, password }));
}

/**
 * Log out.
 * @returns {Promise<string | undefined>} where to go to log out at the provider as well
 */
export async function logOut() {
  const told = await ask("DELETE", "/console/session");
  keep(null);
  return told?.logout_url;
}

/** Forget who was logged in. */
export function forget() {
  keep(null);
}

/**
 * Whether the user has a tag, or one that includes it.
 * @param {"administrator" | "monitoring" | "policymaker" | "management"} tag
 */
export function hasTag(tag) {
  return known.tags.some((each) => INCLUDED[each]?.includes(tag));
}

/** The column of the node that rows come from, where there are several. */
export function nodeColumn() {
  return known.cluster ? [{ label: "Node", optional: true, show: (row) => row.node ?? "" }] : [];
}

/**
 * What may be done with a queue or an exchange.
 * @param {string} vhost
 * @param {"queue" | "exchange"} kind
 * @param {string} name
 * @returns {Promise<{configure: boolean, write: boolean, read: boolean}>}
 */
export function rights(vhost, kind, name) {
  return ask("GET", `/console/rights/${segment(vhost)}/${kind}/${segment(name)}`);
}
