// How many of something a virtual host or a user may have: shown and set.

import { management } from "./api.js";
import { askFor } from "./dialog.js";
import { count } from "./format.js";
import { say } from "./toast.js";

/**
 * Limits in words.
 * @param {Array<[string, string]>} kinds the name of each limit, and what it bounds
 * @param {Object<string, number>} values
 */
export function limitPairs(kinds, values) {
  return kinds.map(([name, label]) => [label, name in values ? count(values[name]) : "no limit"]);
}

/**
 * Ask for limits and set them; those that are left empty are removed.
 * @param {{owner: string, path: string, kinds: Array<[string, string]>, values: Object<string, number>}} options
 * @returns {Promise<boolean>} whether they were set
 */
export function setLimits({ owner, path, kinds, values }) {
  const fields = kinds.map(([name, label]) => ({
    name,
    label,
    type: "number",
    value: values[name],
    help: "Empty: no limit.",
    attributes: { min: 0 },
  }));
  return askFor({
    title: `Limits of ${owner}`,
    fields,
    action: "Set limits",
    submit: async (given) => {
      for (const [name] of kinds) await set(`${path}/${name}`, given[name]);
      say(`The limits of ${owner} are set.`);
    },
  });
}

function set(path, value) {
  return value === undefined ? management.delete(path) : management.put(path, { value });
}
