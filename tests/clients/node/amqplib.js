// Scenarios for amqplib, the oldest AMQP client for Node; each gets a connection.
"use strict";

const assert = require("node:assert");
const amqplib = require("amqplib");
const { deferred, run, unique } = require("./scenarios");

const scenarios = {
  async confirms_every_message(connection) {
    const channel = await connection.createConfirmChannel();
    const { queue } = await channel.assertQueue("", { exclusive: true });
    for (let number = 0; number < 1000; number++) channel.sendToQueue(queue, Buffer.from(`${number}`), { persistent: true });
    await channel.waitForConfirms();
    assert.strictEqual((await channel.checkQueue(queue)).messageCount, 1000);
  },

  async refuses_what_a_full_queue_cannot_take(connection) {
    const channel = await connection.createConfirmChannel();
    const limits = { "x-max-length": 1, "x-overflow": "reject-publish" };
    const { queue } = await channel.assertQueue("", { exclusive: true, arguments: limits });
    channel.sendToQueue(queue, Buffer.from("first"));
    channel.sendToQueue(queue, Buffer.from("second"));
    await assert.rejects(channel.waitForConfirms(), /message nacked/);
  },

  async consumes_in_order_within_the_prefetch(connection) {
    const channel = await connection.createChannel();
    const { queue } = await channel.assertQueue("", { exclusive: true });
    for (let number = 0; number < 50; number++) channel.sendToQueue(queue, Buffer.from(`${number}`));
    await channel.prefetch(5);
    const seen = [];
    const done = deferred();
    await channel.consume(queue, (message) => {
      seen.push(message.content.toString());
      channel.ack(message);
      if (seen.length === 50) done.resolve();
    });
    await done.promise;
    assert.deepStrictEqual(seen, Array.from({ length: 50 }, (_, number) => `${number}`));
  },

  async keeps_properties_and_headers(connection) {
    const channel = await connection.createChannel();
    const { queue } = await channel.assertQueue("", { exclusive: true });
    const headers = { text: "ä", number: 42, big: 2 ** 40, fraction: 0.5, flag: true, list: [1, "two"], deep: { er: {} } };
    channel.sendToQueue(queue, Buffer.from("x"), { headers, messageId: "m", timestamp: 1700000000, priority: 3, type: "t" });
    const message = await channel.get(queue, { noAck: true });
    assert.deepStrictEqual({ ...message.properties.headers }, headers);
    assert.strictEqual(message.properties.messageId, "m");
    assert.strictEqual(message.properties.timestamp, 1700000000);
    assert.strictEqual(message.properties.priority, 3);
    assert.strictEqual(message.properties.type, "t");
  },

  async gets_unroutable_messages_back(connection) {
    const channel = await connection.createConfirmChannel();
    const order = [];
    channel.on("return", (message) => order.push(`returned ${message.fields.replyCode}`));
    channel.publish("amq.direct", unique("nowhere"), Buffer.from("lost"), { mandatory: true }, () => order.push("confirmed"));
    await channel.waitForConfirms();
    assert.deepStrictEqual(order, ["returned 312", "confirmed"]);
  },

  async routes_by_topic(connection) {
    const channel = await connection.createChannel();
    const exchange = unique("events");
    await channel.assertExchange(exchange, "topic", { autoDelete: true });
    const { queue } = await channel.assertQueue("", { exclusive: true });
    await channel.bindQueue(queue, exchange, "*.error.#");
    for (const key of ["app.error", "app.error.disk", "error", "app.info"]) channel.publish(exchange, key, Buffer.from(key));
    const seen = [(await channel.get(queue)).content.toString(), (await channel.get(queue)).content.toString()];
    assert.deepStrictEqual(seen, ["app.error", "app.error.disk"]);
    assert.strictEqual(await channel.get(queue), false);
  },

  async gives_back_and_dead_letters(connection) {
    const channel = await connection.createChannel();
    const dead = await channel.assertQueue("", { exclusive: true });
    const options = { exclusive: true, deadLetterExchange: "", deadLetterRoutingKey: dead.queue };
    const { queue } = await channel.assertQueue("", options);
    channel.sendToQueue(queue, Buffer.from("x"));
    channel.nack(await channel.get(queue));
    const again = await channel.get(queue);
    assert.ok(again.fields.redelivered);
    const buried = deferred();
    await channel.consume(dead.queue, buried.resolve, { noAck: true });
    channel.reject(again, false);
    assert.strictEqual((await buried.promise).properties.headers["x-death"][0].reason, "rejected");
  },

  async hears_that_its_queue_is_gone(connection) {
    const channel = await connection.createChannel();
    const { queue } = await channel.assertQueue("", { exclusive: true });
    const cancelled = deferred();
    await channel.consume(queue, cancelled.resolve);
    await channel.deleteQueue(queue);
    assert.strictEqual(await cancelled.promise, null);
  },

  async loses_only_the_channel_that_was_refused(connection) {
    const refused = await connection.createChannel();
    const error = deferred();
    refused.on("error", error.resolve);
    await assert.rejects(refused.checkQueue(unique("missing")), /404.*NOT_FOUND - no queue/);
    assert.strictEqual((await error.promise).code, 404);
    const other = await connection.createChannel();
    await other.close();
  },

  async answers_directly(connection) {
    const channel = await connection.createChannel();
    const { queue } = await channel.assertQueue("", { exclusive: true });
    const answer = deferred();
    await channel.consume("amq.rabbitmq.reply-to", answer.resolve, { noAck: true });
    await channel.consume(queue, (message) => channel.sendToQueue(message.properties.replyTo, Buffer.from("pong")));
    channel.sendToQueue(queue, Buffer.from("ping"), { replyTo: "amq.rabbitmq.reply-to" });
    assert.strictEqual((await answer.promise).content.toString(), "pong");
  },

  async recovers_unacknowledged_messages(connection) {
    const channel = await connection.createChannel();
    const { queue } = await channel.assertQueue("", { exclusive: true });
    channel.sendToQueue(queue, Buffer.from("x"));
    await channel.get(queue);
    await channel.recover();
    assert.ok((await channel.get(queue)).fields.redelivered);
  },
};

run(scenarios, async (url) => {
  const connection = await amqplib.connect(url);
  return { argument: connection, close: () => connection.close() };
});
