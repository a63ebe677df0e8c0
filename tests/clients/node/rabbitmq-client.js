// Scenarios for rabbitmq-client, which reconnects by itself; each gets a connection.
"use strict";

const assert = require("node:assert");
const { Connection } = require("rabbitmq-client");
const { deferred, run, unique } = require("./scenarios");

const scenarios = {
  async publishes_with_confirms_and_consumes(connection) {
    const queue = unique("orders");
    const seen = [];
    const done = deferred();
    const options = { queue, queueOptions: { autoDelete: true }, qos: { prefetchCount: 2 } };
    const consumer = connection.createConsumer(options, async (message) => {
      seen.push(message.body.n);
      if (seen.length === 20) done.resolve();
    });
    consumer.on("error", done.reject);
    await new Promise((resolve) => consumer.once("ready", resolve));
    const publisher = connection.createPublisher({ confirm: true, maxAttempts: 2 });
    for (let n = 0; n < 20; n++) await publisher.send(queue, { n });
    await done.promise;
    assert.deepStrictEqual(seen, Array.from({ length: 20 }, (_, n) => n));
    await publisher.close();
    await consumer.close();
  },

  async gets_unroutable_messages_back(connection) {
    const publisher = connection.createPublisher({ confirm: true });
    const returned = deferred();
    publisher.on("basic.return", returned.resolve);
    await publisher.send({ exchange: "amq.topic", routingKey: unique("nowhere"), mandatory: true }, "lost");
    assert.strictEqual((await returned.promise).replyText, "NO_ROUTE");
    await publisher.close();
  },

  async routes_by_topic(connection) {
    const [exchange, queue] = [unique("events"), unique("errors")];
    await connection.exchangeDeclare({ exchange, type: "topic", autoDelete: true });
    await connection.queueDeclare({ queue, exclusive: true });
    await connection.queueBind({ exchange, queue, routingKey: "#.error" });
    const publisher = connection.createPublisher({ confirm: true });
    for (const routingKey of ["error", "info", "a.b.error"]) await publisher.send({ exchange, routingKey }, routingKey);
    const seen = [await connection.basicGet({ queue, noAck: true }), await connection.basicGet({ queue, noAck: true })];
    assert.deepStrictEqual(seen.map((message) => message.body), ["error", "a.b.error"]);
    assert.strictEqual(await connection.basicGet({ queue }), undefined);
    await publisher.close();
  },

  async asks_and_is_answered(connection) {
    const queue = unique("double");
    const server = connection.createConsumer({ queue, queueOptions: { autoDelete: true } }, async (message, reply) => {
      await reply(message.body * 2);
    });
    await new Promise((resolve) => server.once("ready", resolve));
    const client = connection.createRPCClient({ confirm: true });
    const answers = await Promise.all([1, 2, 3].map((number) => client.send(queue, number)));
    assert.deepStrictEqual(answers.map((message) => message.body), [2, 4, 6]);
    await client.close();
    await server.close();
  },

  async drops_what_its_handler_drops(connection) {
    const [dead, queue] = [unique("dead"), unique("work")];
    await connection.queueDeclare({ queue: dead, exclusive: true });
    const letters = { "x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead };
    const queueOptions = { exclusive: true, arguments: letters };
    const consumer = connection.createConsumer({ queue, queueOptions }, async () => 2 /* drop */);
    await new Promise((resolve) => consumer.once("ready", resolve));
    const buried = deferred();
    const gravedigger = connection.createConsumer({ queue: dead, queueOptions: { passive: true } }, buried.resolve);
    const publisher = connection.createPublisher({ confirm: true });
    await publisher.send(queue, "bad");
    assert.strictEqual((await buried.promise).headers["x-death"][0].queue, queue);
    await publisher.close();
    await gravedigger.close();
    await consumer.close();
  },

  async hears_why_it_was_refused(connection) {
    await assert.rejects(connection.queueDeclare({ queue: unique("missing"), passive: true }), /NOT_FOUND/);
  },
};

run(scenarios, async (url) => {
  const connection = new Connection(url);
  await new Promise((resolve, reject) => connection.once("connection", resolve).once("error", reject));
  return { argument: connection, close: () => connection.close() };
});
