// Figures of rules as people read them: names, and values in their units.

import { badge } from "../../figures.js";
import { count, span } from "../../format.js";

/** Every figure that a rule can look at, with its name. */
export const FIGURES = [
  ["depth_max", "messages in the queue"],
  ["waiting_max", "messages that wait"],
  ["oldest_ms", "age of the oldest message (ms)"],
  ["dead_per_hour", "dead letters in an hour"],
  ["error_share", "share of deliveries that failed"],
  ["processing_p95_ms", "processing time, 95 % (ms)"],
  ["idle_ms", "time without a consumer (ms)"],
  ["lag_max", "lag of a consumer group (records)"],
];
const NAMES = new Map(FIGURES);
const KINDS = { info: "plain", warning: "warn", critical: "bad" };

/** The name of a figure. */
export function figureName(figure) {
  return (NAMES.get(figure) ?? figure).replace(/ \((ms|records)\)$/, "");
}

/** A value in its unit: 12,345, 5 m, 1 %. */
export function valued(value, unit) {
  if (value === null || value === undefined) return "";
  if (unit === "ms") return value < 1_000 ? `${Math.round(value)} ms` : span(value / 1_000);
  if (unit === "share") return `${(value * 100).toFixed(1)} %`;
  return count(Math.round(value));
}

/** How bad it is. */
export function severityBadge(severity) {
  return badge(severity, KINDS[severity]);
}

/** Which queues something is about: their pattern, and where they are unless that is everywhere. */
export function scopeOf({ vhost, queue }) {
  if (vhost === "*") return queue === "*" ? "all queues" : queue;
  return `${queue === "*" ? "all queues" : queue} in ${vhost}`;
}
