// Everything that is defined as a file: taken out, and taken in again, also from RabbitMQ.

import { management, segment } from "../api.js";
import { h } from "../dom.js";
import { heading, panel } from "../figures.js";
import { counted } from "../format.js";
import { formOf, parsedJson } from "../form.js";

const FILE_BYTES_MAX = 16 << 20; // as much as one request may have
const ALL = "";
/** What a file may have, and what one of it is called. */
const SECTIONS = {
  vhosts: "virtual host",
  users: "user",
  permissions: "permission",
  topic_permissions: "topic permission",
  parameters: "parameter",
  global_parameters: "global parameter",
  policies: "policy",
  exchanges: "exchange",
  queues: "queue",
  bindings: "binding",
};

/** Show the page. */
export async function show({ root, signal }) {
  const vhosts = (await management.get("/vhosts?columns=name", signal)).map((row) => row.name);
  root.append(heading("Definitions"), h("div", { class: "columns" }, exportPanel(vhosts), importPanel(vhosts)));
}

function choices(vhosts, all) {
  return [[ALL, all], ...vhosts.map((name) => [name, `virtual host ${name}`])];
}

function pathOf(vhost) {
  return vhost ? `/definitions/${segment(vhost)}` : "/definitions";
}

function exportPanel(vhosts) {
  const fields = [{ name: "vhost", label: "What", type: "select", options: choices(vhosts, "everything") }];
  const form = formOf({ fields, action: "Export", submit: download });
  const text = "Everything that is defined, users with hashes of their passwords; no messages.";
  return panel("Export", h("p", { class: "help" }, text), form);
}

/** The browser keeps the file itself, however large it is. */
async function download({ vhost }) {
  const name = vhost ? `definitions-${vhost.replace(/[^\w.-]/g, "_")}.json` : "definitions.json";
  const link = h("a", { href: `/api${pathOf(vhost)}?download=${segment(name)}`, download: name });
  link.click();
}

function importPanel(vhosts) {
  const fields = [
    { name: "file", label: "File", type: "file", required: true, attributes: { accept: ".json,application/json" } },
    { name: "vhost", label: "Into", type: "select", options: choices(vhosts, "the virtual hosts that the file names") },
  ];
  const outcome = h("div", { role: "status" });
  const form = formOf({
    fields,
    action: "Import",
    submit: take,
    preview: async ({ file }) => contents(await read(file)),
  });
  const text = "Adds what is not there; what contradicts something stays as it is, and is told.";

  async function take({ file, vhost }) {
    const found = await read(file);
    outcome.replaceChildren();
    const told = await management.post(pathOf(vhost), found);
    outcome.replaceChildren(...said(contents(found), told?.skipped ?? []));
  }

  return panel("Import", h("p", { class: "help" }, text), form, outcome);
}

async function read(file) {
  if (!file) throw new Error("Choose a file first.");
  if (file.size > FILE_BYTES_MAX) throw new Error("The file is larger than 16 MiB: use leveret definitions import.");
  const found = parsedJson(await file.text(), "The file");
  if (typeof found !== "object" || found === null || Array.isArray(found)) {
    throw new Error("The file has no definitions: choose one that was exported.");
  }
  return found;
}

/** What a file has, in words. */
function contents(file) {
  const found = Object.entries(SECTIONS).filter(([name]) => file[name]?.length);
  const words = found.map(([name, noun]) => counted(file[name].length, noun).replace(/ys$/, "ies"));
  return words.length ? `The file has ${words.join(", ")}.` : "The file defines nothing.";
}

function said(text, skipped) {
  if (!skipped.length) return [h("p", { class: "result" }, `${text} All of it is there now.`)];
  const reasons = skipped.map((reason) => h("li", {}, reason));
  return [h("p", { class: "problem" }, `${text} These were left out:`), h("ul", {}, reasons)];
}
