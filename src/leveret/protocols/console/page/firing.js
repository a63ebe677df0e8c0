// Firing alerts: asked for while a user is logged in, and shown in the menu, the title of the window and the lists.

import { isAway, management } from "./api.js";
import { h } from "./dom.js";
import { badge } from "./figures.js";
import { announce, EVERY_MS, isLive, RETRY_MS } from "./live.js";
import { to } from "./router.js";

const SHOWN_MAX = 5;

let rows = [];

/**
 * Ask now and then until the signal says that the user has left; pages that ask for nothing themselves learn by it when
 * the broker goes away and comes back.
 * @param {AbortSignal} signal
 * @param {() => void} changed called after each answer
 * @param {() => void} back called when the broker answers again
 */
export async function watchFiring(signal, changed, back) {
  let away = false;
  rows = [];
  while (!signal.aborted) {
    if (document.visibilityState !== "hidden") {
      const failure = await management.get("/alerts", signal).then(keep, (error) => error);
      if (signal.aborted) return;
      if (failure && isAway(failure) && !isLive()) announce(failure);
      if (away && !failure) back();
      away = Boolean(failure && isAway(failure));
      changed();
    }
    await new Promise((done) => setTimeout(done, away ? RETRY_MS : EVERY_MS));
  }
}

function keep(told) {
  rows = told.filter((row) => row.state === "firing" && !row.silence);
}

/** How many alerts are firing that no silence covers. */
export function firingCount() {
  return rows.length;
}

/** A mark for a queue or a stream of a list about which an alert is firing. */
export function firingMark(vhost, queue) {
  const found = rows.filter((row) => row.vhost === vhost && row.queue === queue);
  if (!found.length) return null;
  const worst = found.some((row) => row.severity === "critical") ? "bad" : "warn";
  const mark = badge(found[0].rule, worst);
  mark.title = found.map((row) => row.says).join("\n");
  return [" ", h("a", { href: to("alerts") }, mark), found.length > 1 ? ` +${found.length - 1}` : null];
}

/** Lines that say which alerts are firing, critical ones first. */
export function firingLines() {
  const isCritical = (row) => row.severity === "critical";
  const sorted = rows.toSorted((one, other) => isCritical(other) - isCritical(one));
  const lines = sorted
    .slice(0, SHOWN_MAX)
    .map((row) => h("p", { class: "alarm" }, h("a", { href: to("alerts") }, row.rule), `: ${row.queue}. ${row.says}`));
  const more = sorted.length - SHOWN_MAX;
  if (more > 0) lines.push(h("p", { class: "alarm" }, h("a", { href: to("alerts") }, `${more} more alerts are firing.`)));
  return lines;
}
