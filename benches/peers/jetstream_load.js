// Load for JetStream: publishers that wait for each acknowledgement, and consumers that pull and acknowledge, until
// everything that was published is consumed.

import { AckPolicy, connect } from "nats";

const [port, stream, publishers, seconds, text] = process.argv.slice(2);
const WORKERS = 4;
const BATCH = 64;
// Limits the lead over the consumers, as in Entente's load.
const LEAD = 2000;

const connection = await connect({ servers: `127.0.0.1:${port}` });
const js = connection.jetstream();
const manager = await js.jetstreamManager();
await manager.streams.purge(stream);
// A work queue has one consumer, which all workers share.
await manager.consumers.add(stream, { durable_name: "peers", ack_policy: AckPolicy.Explicit, max_ack_pending: 10000 });

const body = new TextEncoder().encode(text);
const begun = performance.now();
let published = 0;
let consumed = 0;
let over = false;

async function publish() {
    while (performance.now() - begun < 1000 * Number(seconds)) {
        if (published > consumed + LEAD) {
            await new Promise((resolve) => setTimeout(resolve, 1));
            continue;
        }
        await js.publish(`${stream}.cycles`, body);
        published += 1;
    }
}

async function work() {
    const consumer = await js.consumers.get(stream, "peers");
    while (!over) {
        for await (const message of await consumer.fetch({ max_messages: BATCH, expires: 1000 })) {
            message.ack();
            consumed += 1;
        }
    }
}

const workers = Array.from({ length: WORKERS }, work);
await Promise.all(Array.from({ length: Number(publishers) }, publish));
while (consumed < published) {
    await new Promise((resolve) => setTimeout(resolve, 1));
}
// Has all acknowledgements sent.
await connection.flush();
const elapsed = (performance.now() - begun) / 1000;
over = true;
await Promise.all(workers);
console.log(JSON.stringify({ rate: consumed / elapsed }));
await connection.close();
