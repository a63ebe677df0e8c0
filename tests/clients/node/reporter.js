// A reporter for `node --test`: one JSON object per test, with its full name and how it ended.
"use strict";

module.exports = async function* reporter(events) {
  const path = [];
  for await (const { type, data } of events) {
    if (type === "test:start") path.splice(data.nesting, Infinity, data.name);
    if ((type === "test:pass" || type === "test:fail") && data.details.type !== "suite") {
      path.splice(data.nesting, Infinity, data.name);
      const outcome = data.skip !== undefined ? "skipped" : type === "test:pass" ? "passed" : "failed";
      yield `${JSON.stringify({ name: path.join(" > "), outcome })}\n`;
    }
  }
};
