// Numbers, sizes and times as people read them.

const WHOLE = new Intl.NumberFormat("en");
const SHORT = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
const SPANS = [
  [86_400, "d"],
  [3_600, "h"],
  [60, "m"],
  [1, "s"],
];

/** A count in full: 12,345. */
export function count(value) {
  return value === null || value === undefined ? "–" : WHOLE.format(value);
}

/** A count with what is counted: 1 message, 2 messages. */
export function counted(value, noun) {
  return `${count(value)} ${noun}${value === 1 ? "" : "s"}`;
}

/** A count that fits everywhere: 12.3K. */
export function brief(value) {
  return value === null || value === undefined ? "–" : value < 10_000 ? WHOLE.format(value) : SHORT.format(value);
}

/** So much in a second. */
export function rate(value) {
  if (value === null || value === undefined) return "–";
  return `${value >= 100 || value === 0 ? brief(Math.round(value)) : value.toFixed(1)}/s`;
}

/** A size: 1.5 GiB. */
export function bytes(value) {
  if (value === null || value === undefined) return "–";
  let unit = 0;
  while (value >= 1024 && unit < UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${UNITS[unit]}`;
}

/** A span of seconds in two units: 3 d 4 h. */
export function span(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 1) return seconds <= 0 ? "0 s" : "< 1 s";
  const at = SPANS.findIndex(([unit]) => seconds >= unit);
  const [unit, name] = SPANS[at];
  const rest = SPANS[at + 1];
  const whole = Math.floor(seconds / unit);
  const more = rest ? Math.floor((seconds % unit) / rest[0]) : 0;
  return more ? `${whole} ${name} ${more} ${rest[1]}` : `${whole} ${name}`;
}

/** A time of day with its date, in the zone of the user. */
export function time(value) {
  return value === null || value === undefined ? "–" : new Date(value).toLocaleString("sv-SE");
}

/** How long ago a time was. */
export function ago(value) {
  if (value === null || value === undefined) return "–";
  return `${span((Date.now() - new Date(value).getTime()) / 1000)} ago`;
}

/** How long it is until a time. */
export function until(value) {
  if (value === null || value === undefined) return "–";
  const seconds = (new Date(value).getTime() - Date.now()) / 1000;
  return seconds <= 0 ? "now" : `in ${span(seconds)}`;
}

/** Any value of JSON in one line. */
export function plain(value) {
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}
