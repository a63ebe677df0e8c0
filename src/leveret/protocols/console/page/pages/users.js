// All users, and new ones.

import { management, segment } from "../api.js";
import { askFor } from "../dialog.js";
import { h } from "../dom.js";
import { badge, button } from "../figures.js";
import { showListing } from "../listing.js";
import { go, to } from "../router.js";
import { say } from "../toast.js";

const TAGS_HELP = "administrator, monitoring, policymaker or management, with commas between them; none for programs.";
const COLUMNS = [
  { label: "Name", sort: "name", show: (row) => h("a", { href: to("users", row.name) }, row.name) },
  { label: "Tags", show: (row) => tagsOf(row) },
  { label: "Password", show: (row) => (row.password_hash ? "yes" : badge("none", "warn")) },
  { label: "Limits", optional: true, show: (row) => limitsOf(row) },
];

/** The tags of a user as badges. */
export function tagsOf(row) {
  return row.tags.map((tag) => [badge(tag, tag === "administrator" ? "warn" : "plain"), " "]);
}

/** The limits of a user in words. */
export function limitsOf(row) {
  return Object.entries(row.limits ?? {})
    .map(([name, value]) => `${name}: ${value}`)
    .join(", ");
}

/**
 * The fields of the tags and the password.
 * @param {string[]} tags
 * @param {string} help of the password
 */
export function userFields(tags, help) {
  return [
    { name: "password", label: "Password", type: "password", help, attributes: { autocomplete: "new-password" } },
    { name: "tags", label: "Tags", value: tags.join(", "), help: TAGS_HELP },
  ];
}

/** The tags in a text as the server wants them. */
export function tagsIn(text = "") {
  return text
    .split(",")
    .map((tag) => tag.trim())
    .filter(Boolean);
}

/** Show the page. */
export async function show(page) {
  await showListing(page, {
    title: "Users",
    path: "/users",
    columns: COLUMNS,
    key: (row) => row.name,
    empty: "There is no such user.",
    actions: [button("New user", make, "primary")],
  });
}

function make() {
  return askFor({
    title: "New user",
    fields: [
      { name: "name", label: "Name", required: true },
      ...userFields([], "Without one, the user cannot log in by password."),
    ],
    action: "Make user",
    submit: async ({ name, password, tags }) => {
      const path = `/users/${segment(name)}`;
      await refuseKnown(path, name);
      await management.put(path, { password: password ?? "", tags: tagsIn(tags) });
      say(`The user ${name} is there; permissions come next.`);
      go(to("users", name));
    },
  });
}

/** The server would change a user who is there, and the password with it. */
async function refuseKnown(path, name) {
  const known = await management.get(path).catch((error) => {
    if (error.status !== 404) throw error;
    return null;
  });
  if (known) throw new Error(`There is a user ${name} already: choose another name.`);
}
