// Streams and inboxes: each event once and in order, whatever is cut; what was missed is told.

import assert from "node:assert/strict";
import { Proxy, client, end, start, talk, test, until } from "../server.js";

/** Collects the numbers of messages until there are so many. */
async function collect(stream, count) {
  const found = [];
  for await (const { data } of stream) {
    found.push(data.payload.n);
    if (found.length === count) return found;
  }
}

test("a stream that is cut again and again has each message once", async () => {
  const proxy = await Proxy.open();
  const { channel, other } = await talk("cuts", { url: proxy.url });
  const stream = channel.follow();
  const collected = collect(stream, 40);
  await stream.opened;
  for (let n = 0; n < 40; n += 1) {
    await other.send({ n });
    if (n % 15 === 14) proxy.cut();
  }
  assert.deepEqual(await collected, Array.from({ length: 40 }, (_, n) => n));
});

test("a stream goes on in another process, and on a server that was restarted", async () => {
  const { channel, other } = await talk("resume");
  const first = channel.follow();
  const collected = collect(first, 1);
  await first.opened;
  await other.send({ n: 0 });
  assert.deepEqual(await collected, [0]);
  await other.send({ n: 1 });
  const second = channel.follow({ lastEventId: first.lastEventId });
  const rest = collect(second, 2);
  await second.opened;
  await end("SIGKILL");
  await start();
  await other.send({ n: 2 });
  assert.deepEqual(await rest, [1, 2]);
});

test("a stream says what it missed", async () => {
  const researcher = client("researcher");
  const intent = await researcher.intents.create("evictions");
  const channel = await researcher.channels.create(intent.id, { name: "small", options: { max_messages: 3 } });
  const stream = channel.follow();
  const one = collect(stream, 1);
  await stream.opened;
  await channel.send({ n: 0 });
  await one;
  for (let n = 1; n <= 8; n += 1) await channel.send({ n });
  await until(async () => (await channel.messages()).messages.length === 3, "the eviction");
  const told = [];
  const later = channel.follow({ lastEventId: stream.lastEventId, onMissed: ({ missed }) => told.push(missed) });
  const found = [];
  for await (const event of later) {
    found.push([event.data.payload.n, event.missed?.missed]);
    if (found.length === 3) break;
  }
  assert.deepEqual(found, [[6, 5], [7, undefined], [8, undefined]]);
  assert.deepEqual([told, later.missed], [[5], 5]);
});

test("a stream that is refused ends with the refusal, and one that is left is closed", async () => {
  const { channel, researcher, intent } = await talk("refused");
  const missing = client("data").channel("chan_01J9ZK4T6Q8R2V5X7Y9B1C3D5F").follow();
  await assert.rejects(collect(missing, 1), { status: 404 });
  const all = researcher.follow({ intentId: intent.id, types: ["channel_message", "status_changed"] });
  const types = (async () => {
    const seen = [];
    for await (const event of all) {
      seen.push(event.type);
      if (seen.length === 2) return seen;
    }
  })();
  await all.opened;
  await channel.send({});
  await researcher.intents.setStatus(intent.id, "active");
  assert.deepEqual(await types, ["channel_message", "status_changed"]);
  const controller = new AbortController();
  const everything = researcher.follow({ signal: controller.signal });
  const ended = collect(everything, 1);
  await everything.opened;
  controller.abort(new Error("enough"));
  await assert.rejects(ended, /enough/);
});

test("an inbox gives each entry until it is handled", async () => {
  const { channel } = await talk("inbox");
  const inbox = client("data").inbox({ reader: "test" });
  const begin = await inbox.read();
  await inbox.mark(begin.newest);
  for (const n of [1, 2, 3]) await channel.notify("agent.data", { n });
  const read = async (count) => {
    const found = [];
    for await (const entry of inbox.entries()) {
      found.push(entry.message.payload.n);
      if (found.length === count) return found;
    }
  };
  // The second entry is left while it is being handled.
  assert.deepEqual(await read(2), [1, 2]);
  assert.deepEqual(await read(2), [2, 3]);
  const stream = await inbox.follow();
  for await (const { type, data } of stream) {
    assert.deepEqual([type, data.message.payload.n], ["entry", 3]);
    break;
  }
});

test("a turn happens once, and shows the inbox", async () => {
  const proxy = await Proxy.open();
  const { channel, other } = await talk("turns", { url: proxy.url });
  const request = await other.send({}, { to: "agent.researcher", type: "request" });
  proxy.lose("/api/v1/turn");
  const turn = await channel.client.turn({
    messages: [{ channel_id: channel.id, to: "agent.data", message_type: "response", correlation_id: request.id, payload: { n: 1 } }],
    inbox: { reader: "turns" },
  });
  assert.equal(turn.done.messages.length, 1);
  assert.equal(turn.inbox.reader, "turns");
  assert.equal((await other.messages()).messages.length, 2);
});
