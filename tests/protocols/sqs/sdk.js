// The SDK of AWS for JavaScript against the endpoint that the environment names; prints "finished" at the end.
const assert = require("node:assert");
const {
  SQSClient, CreateQueueCommand, SendMessageCommand, ReceiveMessageCommand, DeleteMessageCommand,
  GetQueueAttributesCommand, SendMessageBatchCommand, QueueDoesNotExist,
} = require("@aws-sdk/client-sqs");

const client = new SQSClient({ endpoint: process.env.ENDPOINT, region: "us-east-1", maxAttempts: 1 });

async function main() {
  const { QueueUrl } = await client.send(new CreateQueueCommand({ QueueName: process.env.QUEUE }));
  const MessageAttributes = {
    color: { DataType: "String", StringValue: "grün" },
    raw: { DataType: "Binary", BinaryValue: Uint8Array.from([0, 255]) },
  };
  // The SDK compares the digests of bodies itself.
  const sent = await client.send(new SendMessageCommand({ QueueUrl, MessageBody: "héllo", MessageAttributes }));
  const { Messages } = await client.send(
    new ReceiveMessageCommand({ QueueUrl, WaitTimeSeconds: 5, MessageAttributeNames: ["All"] }));
  assert.strictEqual(Messages[0].Body, "héllo");
  assert.strictEqual(Messages[0].MessageId, sent.MessageId);
  assert.strictEqual(Messages[0].MD5OfMessageAttributes, sent.MD5OfMessageAttributes);
  assert.deepStrictEqual([...Messages[0].MessageAttributes.raw.BinaryValue], [0, 255]);
  await client.send(new DeleteMessageCommand({ QueueUrl, ReceiptHandle: Messages[0].ReceiptHandle }));
  const Entries = [{ Id: "a", MessageBody: "one" }, { Id: "b", MessageBody: "two" }];
  const batch = await client.send(new SendMessageBatchCommand({ QueueUrl, Entries }));
  assert.strictEqual(batch.Successful.length, 2);
  const { Attributes } = await client.send(new GetQueueAttributesCommand({ QueueUrl, AttributeNames: ["All"] }));
  assert.strictEqual(Attributes.ApproximateNumberOfMessages, "2");
  await assert.rejects(
    client.send(new SendMessageCommand({ QueueUrl: `${QueueUrl}-nowhere`, MessageBody: "a" })),
    (error) => error instanceof QueueDoesNotExist && error.$metadata.httpStatusCode === 400);
  client.destroy();
  console.log("finished");
}

main();
