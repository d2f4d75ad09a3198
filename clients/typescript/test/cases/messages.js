// Messages: send, ask, reply, list; what is lost on the way happens once; refusals.

import assert from "node:assert/strict";
import { ConnectionError, Entente, EntenteError, MessageTimeoutError } from "../../dist/index.js";
import { Proxy, client, end, operator, start, talk, test, url } from "../server.js";

test("a question is asked and answered", async () => {
  const { channel, other } = await talk("schema");
  const asked = channel.ask("agent.data", { question: "Which schema?" }, { seconds: 10 });
  const { messages: [request], next } = await other.messages({ to: "agent.data", wait: 10 });
  assert.deepEqual([request.message_type, request.payload], ["request", { question: "Which schema?" }]);
  const reply = await other.reply(request, { answer: "v2.3" });
  const answer = await asked;
  assert.deepEqual([answer.id, answer.payload.answer, answer.correlation_id], [reply.id, "v2.3", request.id]);
  const page = await other.messages({ since: next });
  assert.deepEqual(page.messages.map(({ id }) => id), [reply.id]);
  assert.equal((await other.read(request)).status, "read");
});

test("a question that nobody answers ends in time", async () => {
  const { channel } = await talk("silence");
  const began = Date.now();
  await assert.rejects(channel.ask("agent.data", {}, { seconds: 1 }), MessageTimeoutError);
  assert.ok(Date.now() - began < 5_000);
});

test("a question under a key is asked once, also by another process", async () => {
  const { channel, other } = await talk("asked again");
  const ask = (seconds) => channel.ask("agent.data", { n: 1 }, { seconds, idempotencyKey: "question" });
  await assert.rejects(ask(1), MessageTimeoutError);
  const { messages: [request] } = await other.messages();
  const reply = await other.reply(request, { n: 2 });
  assert.equal((await ask(10)).id, reply.id);
  assert.equal((await other.messages()).messages.length, 2);
});

test("several answer a question", async () => {
  const { channel, other, intent } = await talk("everybody");
  const clerk = client("clerk").channel(channel.id);
  for (const agent of ["agent.data", "agent.clerk"]) await client("researcher").intents.assign(intent.id, agent);
  const answer = async (who, name) => {
    for (const left = ["list", "count"]; left.length > 0; left.pop()) {
      const since = answer[name];
      const page = await who.messages({ to: `agent.${name}`, wait: 10, ...(since && { since }) });
      for (const request of page.messages.filter((message) => message.message_type === "request")) await who.reply(request, { from: name });
      answer[name] = page.next;
    }
  };
  const answering = Promise.all([answer(other, "data"), answer(clerk, "clerk")]);
  const listed = await channel.askAll(["agent.data", "agent.clerk"], {}, { seconds: 10 });
  assert.deepEqual(listed.map(({ payload }) => payload.from).sort(), ["clerk", "data"]);
  const counted = await channel.askAll("*", {}, { seconds: 10, expect: 2 });
  assert.deepEqual(counted.map(({ payload }) => payload.from).sort(), ["clerk", "data"]);
  await answering;
  assert.deepEqual(await channel.askAll("*", {}, { seconds: 1 }), []);
});

test("a send whose answers are lost is one message", async () => {
  const proxy = await Proxy.open();
  const { channel, other } = await talk("lost answers", { url: proxy.url });
  proxy.lose("/messages", 2);
  const sent = await channel.send({ n: 1 });
  assert.equal(proxy.left, 0, "the answers were not lost");
  proxy.lose("/reply", 1);
  const request = await other.send({}, { to: "agent.researcher", type: "request" });
  await channel.reply(request, { n: 2 });
  const { messages } = await other.messages();
  assert.deepEqual(messages.map(({ id }) => id).slice(0, 2), [sent.id, request.id]);
  assert.equal(messages.length, 3);
});

test("a request waits for a server that is away", async () => {
  const { channel, other } = await talk("restart");
  await end("SIGKILL");
  const sending = channel.send({ n: 1 });
  await start();
  assert.deepEqual((await other.messages()).messages.map(({ id }) => id), [(await sending).id]);
});

test("a refusal says what is wrong and what to do", async () => {
  const { channel, other } = await talk("refusals");
  const stranger = new Entente({ url, apiKey: "key-nobody" });
  await assert.rejects(stranger.intents.list(), { name: "EntenteError", status: 401, code: "unauthenticated", advice: /valid key/ });
  const wrong = await channel.client.request("post", "/api/v1/intents", { body: { titel: "x" } }).catch((why) => why);
  assert.ok(wrong instanceof EntenteError);
  assert.deepEqual([wrong.status, wrong.code, wrong.errors[0].pointer], [422, "invalid_request", "/title"]);
  assert.match(wrong.message, /title/);
  assert.match(wrong.requestId, /^req_/);
  await channel.close();
  await assert.rejects(other.send({}), { status: 404, code: "not_found" });
});

test("a key that sends too fast waits as long as it is told to", async () => {
  const { intent } = await talk("rates");
  const made = await operator().request("post", "/api/v1/principals/{principal_id}/keys",
    { path: { principal_id: "agent.clerk" }, body: { label: "slow", rate_per_second: 5 } });
  const clerk = new Entente({ url, apiKey: made.key, agentId: "agent.clerk" });
  const channel = await clerk.channels.create(intent.id, { name: "slow" });
  const began = Date.now();
  await Promise.all(Array.from({ length: 12 }, (_, n) => channel.send({ n })));
  assert.ok(Date.now() - began > 500, "the key was not slowed");
  const { messages } = await client("researcher").channel(channel.id).messages();
  assert.deepEqual(messages.map(({ payload }) => payload.n).sort((a, b) => a - b), Array.from({ length: 12 }, (_, n) => n));
  await assert.rejects(Promise.all(Array.from({ length: 30 }, () => channel.send({}, { retryFor: 0 }))),
    (refused) => refused.status === 429 && refused.code === "rate_limited" && refused.retryAfter > 0);
});

test("one key names one request", async () => {
  const { channel } = await talk("keys");
  const first = await channel.send({ n: 1 }, { idempotencyKey: "one" });
  assert.equal((await channel.send({ n: 1 }, { idempotencyKey: "one" })).id, first.id);
  await assert.rejects(channel.send({ n: 2 }, { idempotencyKey: "one" }), { status: 409, code: "idempotency_mismatch" });
});

test("a signal ends a wait, and nothing listens where there is no server", async () => {
  const { channel } = await talk("signals");
  const why = new Error("enough");
  const controller = new AbortController();
  setTimeout(() => controller.abort(why), 50);
  await assert.rejects(channel.messages({ wait: 20, signal: controller.signal }), why);
  const nowhere = new Entente({ url: "http://127.0.0.1:9", apiKey: "x", retryFor: 0 });
  await assert.rejects(nowhere.intents.list(), (error) => error instanceof ConnectionError && error.status === 0);
});

test("a change of a state that meets another one is made on top of it", async () => {
  const { researcher, intent } = await talk("states");
  const add = () => researcher.intents.patch(intent.id, ({ state }) => [{ op: "set", path: "n", value: (state.n ?? 0) + 1 }]);
  await Promise.all([add(), add(), add()]);
  assert.equal((await researcher.intents.get(intent.id)).state.n, 3);
  assert.equal((await researcher.intents.setStatus(intent.id, "active")).status, "active");
});

test("a bundle is imported and read again, as a text", async () => {
  const { intent } = await talk("exported");
  const written = await client("researcher").request("get", "/api/v1/intents/{intent_id}/export", { path: { intent_id: intent.id } });
  assert.equal(typeof written, "string");
  const made = await operator().request("post", "/api/v1/bundles", { body: written });
  assert.equal(made.intent_id, intent.id);
  const again = await operator().request("get", "/api/v1/bundles/{bundle_id}/file", { path: { bundle_id: made.id } });
  assert.equal(again, written);
});
