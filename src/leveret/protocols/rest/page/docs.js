// Draws /openapi.json. Text comes from the document and is set as text, never as HTML.
"use strict";

function element(name, text, ...children) {
  const made = document.createElement(name);
  if (text) made.textContent = text;
  made.append(...children);
  return made;
}

function limits(schema) {
  const told = [];
  if (schema.enum) told.push(schema.enum.join(" | "));
  if (schema.minimum !== undefined) told.push(`${schema.minimum} to ${schema.maximum}`);
  if (schema.maxLength !== undefined && schema.maxLength < 1e6) told.push(`up to ${schema.maxLength} characters`);
  if (schema.maxItems !== undefined) told.push(`up to ${schema.maxItems}`);
  return told.join(", ");
}

function rows(fields) {
  const table = element("table");
  for (const [name, schema, required, help] of fields) {
    const row = element("tr", "", element("td", "", element("code", name)), element("td", String(schema.type || "any")));
    row.append(element("td", limits(schema)), element("td", (required ? "Required. " : "") + (help || "")));
    table.append(row);
  }
  return table;
}

function bodyFields(schema) {
  const required = new Set(schema.required || []);
  const fields = Object.entries(schema.properties || {});
  return fields.map(([name, field]) => [name, field, required.has(name), field.description]);
}

async function send(method, path, inputs, body, output) {
  const query = new URLSearchParams();
  const headers = {};
  for (const [parameter, input] of inputs) {
    if (parameter.in === "path") path = path.replace(`{${parameter.name}}`, encodeURIComponent(input.value));
    else if (input.value && parameter.in === "query") query.set(parameter.name, input.value);
    else if (input.value) headers[parameter.name] = input.value;
  }
  const token = document.getElementById("token").value;
  if (token) headers.Authorization = `Bearer ${token}`;
  if (body) headers["Content-Type"] = "application/json";
  const url = path + (query.size ? `?${query}` : "");
  try {
    const answer = await fetch(url, { method: method.toUpperCase(), headers, body: body || undefined });
    output.textContent = `${answer.status} ${answer.statusText}\n${await answer.text()}`;
  } catch (error) {
    output.textContent = String(error);
  }
}

function form(method, path, operation) {
  const made = element("form");
  const inputs = operation.parameters.map((parameter) => {
    const input = element("input");
    made.append(element("label", `${parameter.name} `, input), element("br"));
    return [parameter, input];
  });
  let text = null;
  if (operation.requestBody) {
    text = element("textarea");
    text.rows = 4;
    text.value = "{}";
    made.append(text);
  }
  const output = element("pre");
  made.append(element("button", "Send"), output);
  made.addEventListener("submit", (event) => {
    event.preventDefault();
    send(method, path, inputs, text && text.value, output);
  });
  return made;
}

function draw(method, path, operation) {
  const head = element("summary", "", element("b", method.toUpperCase()), element("code", path));
  head.append(` ${operation.summary}`);
  const made = element("details", "", head);
  if (operation.description) made.append(element("p", operation.description));
  const parameters = operation.parameters.map((each) => {
    return [each.name, each.schema, each.required, each.description || each.schema.description];
  });
  made.append(rows(parameters));
  if (operation.requestBody) {
    made.append(element("h4", "Body"), rows(bodyFields(operation.requestBody.content["application/json"].schema)));
  }
  made.append(element("h4", "Answers"));
  for (const [status, answer] of Object.entries(operation.responses)) {
    made.append(element("div", `${status}: ${answer.description}`));
  }
  made.append(element("h4", "Try it"), form(method, path, operation));
  return made;
}

async function main() {
  const described = await (await fetch("/openapi.json")).json();
  const place = document.getElementById("operations");
  let tag = "";
  const all = Object.entries(described.paths).flatMap(([path, methods]) => {
    return Object.entries(methods).map(([method, operation]) => [method, path, operation]);
  });
  all.sort((one, other) => one[1].localeCompare(other[1]));
  for (const [method, path, operation] of all) {
    if (operation.tags[0] !== tag) {
      tag = operation.tags[0];
      place.append(element("h2", tag));
    }
    place.append(draw(method, path, operation));
  }
}

main();
