// Loaded before scripts that know only AMQP's own port: sends their connections to the port in BROKER_PORT instead.
"use strict";

const net = require("node:net");

const connect = net.connect;

net.connect = (options, ...rest) => {
  const redirected = `${options.port}` === "5672" ? { ...options, port: Number(process.env.BROKER_PORT) } : options;
  return connect(redirected, ...rest);
};
