// Runs one scenario of a client's script: `node script.js <url> <scenario>`. One that succeeds prints `finished`.
"use strict";

const { randomUUID } = require("node:crypto");

/** A name that no other run uses. */
exports.unique = (name) => `${name}-${randomUUID().slice(0, 8)}`;

/** A promise with its handles outside: resolved by whichever callback comes. */
exports.deferred = () => {
  const handles = {};
  handles.promise = new Promise((resolve, reject) => Object.assign(handles, { resolve, reject }));
  return handles;
};

exports.run = async (scenarios, open) => {
  const [url, name] = process.argv.slice(2);
  const { argument, close } = await open(url);
  await scenarios[name](argument);
  await close();
  // Node also ends, and with 0, when nothing is left that could resolve what is awaited: only this line is success.
  console.log("finished");
};
