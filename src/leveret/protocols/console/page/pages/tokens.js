// What programs log in with: tokens of the REST API, and access keys that sign requests to the port for SQS.

import { management, operator } from "../api.js";
import { askFor, confirm, reveal } from "../dialog.js";
import { h } from "../dom.js";
import { badge, button, heading, panel } from "../figures.js";
import { ago, time } from "../format.js";
import { live } from "../live.js";
import { to } from "../router.js";
import { tableOf } from "../table.js";
import { say } from "../toast.js";

const OWNER = { label: "User", show: (row) => h("a", { href: to("users", row.user) }, row.user) };
const MADE = { label: "Made", whole: true, optional: true, show: (row) => (row.created_ms ? ago(row.created_ms) : "") };
const TOKENS = [
  { label: "Id", show: (row) => h("span", { class: "mono" }, row.id) },
  OWNER,
  { label: "For", show: (row) => row.label },
  { label: "Scopes", optional: true, show: (row) => h("span", { class: "mono" }, row.scopes.join(" ")) },
  MADE,
  { label: "Ends", whole: true, show: (row) => endOf(row) },
];
const KEYS = [{ label: "Id", show: (row) => h("span", { class: "mono" }, row.id) }, OWNER, MADE];
const SCOPES_HELP =
  "With spaces between them: write:orders* read:* configure:mine* or *:*, and manage for the tags of the user.";

function endOf({ expires_ms: end }) {
  if (end === null) return "never";
  return end <= Date.now() ? badge("ended", "warn") : time(end);
}

/** Show the page. */
export async function show({ root, signal }) {
  const again = () => refresh();
  const tokens = tableOf({
    caption: "Tokens",
    columns: [
      ...TOKENS,
      actions(
        (row) => rotateToken(row, again),
        (row) => revoke(row, again),
      ),
    ],
    key: (row) => row.id,
    empty: "There are none.",
  });
  const keys = tableOf({
    caption: "Access keys",
    columns: [
      ...KEYS,
      actions(
        (row) => rotateKey(row, again),
        (row) => deleteKey(row, again),
      ),
    ],
    key: (row) => row.id,
    empty: "There are none.",
  });
  const newToken = button("New token", () => addToken(again), "primary");
  const newKey = button("New access key", () => addKey(again), "primary");
  root.append(heading("Tokens", newToken, newKey));
  root.append(panel("Tokens of the REST API", tokens.element), panel("Access keys of SQS", keys.element));

  const refresh = await live(async () => {
    const [all, signing] = await Promise.all([operator("tokens.list"), operator("keys.list")]);
    tokens.update(all);
    keys.update(signing);
  }, signal);
}

function actions(rotate, remove) {
  return {
    label: "Actions",
    show: (row) =>
      h(
        "div",
        { class: "actions" },
        button("Rotate", () => rotate(row)),
        button("Delete", () => remove(row), "danger"),
      ),
  };
}

async function userField() {
  const users = await management.get("/users?columns=name");
  return { name: "user", label: "User", type: "select", options: users.map((row) => row.name) };
}

function showToken({ token }) {
  const text = "This is the only time that the token is shown: keep it where the program finds it.";
  return reveal({ title: "The new token", text, values: [["Token", token]] });
}

function showKey({ id, secret }) {
  const text = "This is the only time that the secret is shown: keep it where the program finds it.";
  const values = [
    ["Access key id", id],
    ["Secret access key", secret],
  ];
  return reveal({ title: "The new access key", text, values });
}

/** Ask, do it, and show the secret that came of it. */
async function made(again, question, showSecret) {
  let result = null;
  const done = await askFor({
    ...question,
    submit: async (values) => {
      result = await question.submit(values);
    },
  });
  if (!done) return;
  await showSecret(result);
  await again();
}

async function addToken(again) {
  const fields = [
    await userField(),
    { name: "scopes", label: "Scopes", required: true, help: SCOPES_HELP, attributes: { class: "mono" } },
    { name: "label", label: "What it is for" },
    { name: "days", label: "Ends after days", type: "number", help: "Empty: never.", attributes: { min: 1 } },
  ];
  const submit = ({ user, scopes, label, days }) =>
    operator("tokens.add", { user, scopes: scopes.trim().split(/\s+/), label: label ?? "", days: days ?? null });
  await made(again, { title: "New token", fields, action: "Make token", submit }, showToken);
}

async function rotateToken({ id, label }, again) {
  const fields = [
    {
      name: "overlap",
      label: "The old token stays good for seconds",
      type: "number",
      value: 3600,
      help: "Time to change it everywhere; 0: it ends at once.",
      attributes: { min: 0 },
    },
  ];
  const submit = ({ overlap = 0 }) => operator("tokens.rotate", { id, overlap_s: overlap });
  await made(again, { title: `Rotate token ${label || id}`, fields, action: "Rotate", submit }, showToken);
}

async function addKey(again) {
  const fields = [await userField()];
  const submit = ({ user }) => operator("keys.add", { user });
  await made(again, { title: "New access key", fields, action: "Make access key", submit }, showKey);
}

async function rotateKey({ id }, again) {
  const text = "The user gets another key, and what is signed with this one is refused at once.";
  const submit = () => operator("keys.rotate", { id });
  await made(again, { title: `Rotate access key ${id}?`, text, action: "Rotate", danger: true, submit }, showKey);
}

async function remove(title, text, verb, id, again) {
  const done = await confirm({ title, text, action: "Delete", submit: () => operator(verb, { id }) });
  if (!done) return;
  say(`${id} is of no use any more.`);
  await again();
}

function revoke({ id, label }, again) {
  return remove(`Delete token ${label || id}?`, "Clients that use it are refused at once.", "tokens.revoke", id, again);
}

function deleteKey({ id }, again) {
  const text = "What is signed with it is refused at once.";
  return remove(`Delete access key ${id}?`, text, "keys.delete", id, again);
}
