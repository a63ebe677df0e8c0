// Requests to the broker: the management API (/api), REST (/queues ...) and the session of this page.

let token = "";
let lacking = new Set();

/** What the server refused, or that it did not answer at all (status 0). */
export class Refused extends Error {
  /**
   * @param {number} status
   * @param {string} message
   */
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

const AWAY = new Set([0, 502, 503, 504]);

/** Whether the broker did not answer, but may do so soon. */
export function isAway(error) {
  return AWAY.has(error.status);
}

/** Carry this token from now on. */
export function useToken(value) {
  token = value ?? "";
}

/** The nodes and shards of a cluster that have not answered since this was asked last. */
export function takeLacking() {
  const found = [...lacking];
  lacking = new Set();
  return found;
}

/** One segment of a path. */
export function segment(text) {
  return encodeURIComponent(text);
}

/** A query of names and values, without those that are nothing; "" if all are. */
export function query(values) {
  const given = Object.entries(values).filter(([, value]) => value !== null && value !== undefined && value !== "");
  return given.length ? `?${new URLSearchParams(given.map(([name, value]) => [name, String(value)]))}` : "";
}

/**
 * Ask the server.
 * @param {string} method
 * @param {string} path
 * @param {any} [body] sent as JSON
 * @param {AbortSignal} [signal]
 * @returns {Promise<any>}
 */
export async function ask(method, path, body, signal) {
  const headers = { "X-CSRF-Token": token, Accept: "application/json" };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let answer;
  try {
    answer = await fetch(path, {
      method,
      headers,
      signal,
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(0, "The broker does not answer: look whether it runs.");
  }
  for (const each of answer.headers.get("X-Leveret-Unanswered")?.split(", ") ?? []) lacking.add(each);
  const text = await answer.text();
  const told = text && answer.headers.get("Content-Type")?.includes("json") ? JSON.parse(text) : null;
  if (answer.ok) return told;
  // The management API says 401 with another word to a known user who may not.
  if (answer.status === 401 && told?.error !== "not_authorised") dispatchEvent(new Event("session-ended"));
  throw new Refused(answer.status, told?.detail ?? told?.reason ?? `The broker answered ${answer.status}.`);
}

/** The management API, as RabbitMQ has it. */
export const management = {
  get: (path, signal) => ask("GET", `/api${path}`, undefined, signal),
  put: (path, body = {}) => ask("PUT", `/api${path}`, body),
  post: (path, body = {}) => ask("POST", `/api${path}`, body),
  delete: (path) => ask("DELETE", `/api${path}`),
};

/** A verb of operators, which administrators have: tokens.list and the like. */
export async function operator(verb, values = {}) {
  return (await ask("POST", `/operator/${verb}`, values)).result;
}

/**
 * The REST API in a virtual host.
 * @param {string} vhost
 */
export function rest(vhost) {
  const at = (path, values = {}) => `${path}${query({ vhost, ...values })}`;
  return {
    get: (path, values, signal) => ask("GET", at(path, values), undefined, signal),
    put: (path, body = {}) => ask("PUT", at(path), body),
    post: (path, body = {}) => ask("POST", at(path), body),
    patch: (path, body = {}) => ask("PATCH", at(path), body),
    delete: (path, values) => ask("DELETE", at(path, values)),
  };
}
