// Agents (RFC-0021, "SDK Integration"): assignments, messages with automatic answers, and what came while an agent was away.

import assert from "node:assert/strict";
import { Agent, Entente } from "../../dist/index.js";
import { Proxy, client, end, start, talk, test, until, url } from "../server.js";

/** A name that no other test has, and a client of the key that may act as any agent. */
let count = 0;
const fresh = () => `agent.test-${(count += 1)}`;
const anybody = (connection = {}) => new Entente({ url, apiKey: process.env.ENTENTE_API_KEY, ...connection });

/** Runs an agent until `stop` of what it returns. */
async function run(agent) {
  let running;
  await new Promise((resolve, reject) => {
    running = agent.run({ onReady: resolve });
    running.catch(reject);
  });
  return { running, stop: () => (agent.stop(), running) };
}

test("agents of the RFC's example talk to each other", async () => {
  const [ada, bob, log] = [fresh(), fresh(), fresh()];
  const seen = [];
  const data = new Agent(anybody(), bob)
    .onMessage({ channel: "data-clarification" }, (message) => {
      if (message.message_type === "request") return { answer: "v2.3", confidence: 0.95 };
      seen.push(["data-clarification", message.message_type]);
    })
    .onMessage((message) => { seen.push(["any", message.message_type]); });
  const research = new Agent(anybody(), ada);
  let version;
  research.onAssignment(async (intent) => {
    const channel = await research.channels.open("data-clarification", { intentId: intent.id });
    version = (await channel.ask(bob, { question: "Which schema?" }, { seconds: 20 })).payload.answer;
    await channel.broadcast({ status: "starting" });
    await channel.notify(bob, { phase: "research" });
    await channel.notify(log, { phase: "research" });
  });
  const runs = [await run(data), await run(research)];
  const intent = await client("clerk").intents.create("Summarise");
  for (const agent of [bob, ada]) await client("clerk").intents.assign(intent.id, agent);
  await until(() => seen.length === 5, "the messages");
  assert.equal(version, "v2.3");
  assert.deepEqual(seen.map((one) => one.join(" ")).sort(), ["any broadcast", "any notify", "any request", "data-clarification broadcast",
    "data-clarification notify"]);
  await Promise.all(runs.map(({ stop }) => stop()));
});

test("an agent hears what came while it was away, once, and the server may restart under it", async () => {
  const name = fresh();
  const { researcher, intent, channel } = await talk("away");
  await researcher.intents.assign(intent.id, name);
  const heard = [];
  const begin = (agent) => agent.onAssignment(({ id }) => { heard.push(id); }).onMessage(({ payload }) => { heard.push(payload.n); });
  const first = await run(begin(new Agent(anybody(), name)));
  await channel.notify(name, { n: 1 });
  await until(() => heard.length === 2, "the first message");
  await first.stop();
  for (const n of [2, 3, 4]) await channel.notify(name, { n });
  const second = await run(begin(new Agent(anybody(), name)));
  await until(() => heard.length === 5, "what came meanwhile");
  await end("SIGKILL");
  await start();
  await channel.notify(name, { n: 5 });
  await until(() => heard.length === 6, "what came after the restart");
  await second.stop();
  assert.deepEqual(heard, [intent.id, 1, 2, 3, 4, 5]);
});

test("a request is answered once, though the agent dies before it could mark it", async () => {
  const proxy = await Proxy.open();
  const name = fresh();
  const { channel } = await talk("once");
  // Each time the answer is another one.
  let n = 0;
  const agent = () => new Agent(anybody({ url: proxy.url }), name).onMessage(() => ({ n: (n += 1) }));
  const first = await run(agent());
  // The agent dies between its answer and its mark.
  proxy.block("/inbox/seen");
  await channel.send({}, { to: name, type: "request" });
  const answers = async () => (await channel.messages()).messages.filter(({ message_type }) => message_type === "response");
  await until(async () => (await answers()).length === 1, "the answer");
  await first.stop();
  proxy.block();
  const second = await run(agent());
  await channel.notify(name, { last: true });
  await until(async () => (await anybody().as(name).inbox({ reader: "agent" }).read()).seen >= 2, "the mark");
  await second.stop();
  assert.ok(n >= 3);
  assert.deepEqual((await answers()).map(({ payload }) => payload), [{ n: 1 }]);
});

test("a handler that is stopped at work handles the entry again at the next start", async () => {
  const name = fresh();
  const { channel } = await talk("stopped");
  const done = [];
  const make = (isSlow) => new Agent(anybody(), name).onMessage(async ({ payload }, { signal }) => {
    if (isSlow && payload.n === 2) await new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
    done.push(payload.n);
  });
  const first = await run(make(true));
  for (const n of [1, 2]) await channel.notify(name, { n });
  await until(() => done.length === 1, "the first");
  await new Promise((resolve) => setTimeout(resolve, 200));
  await first.stop();
  const second = await run(make(false));
  await until(() => done.length === 2, "the second");
  await second.stop();
  assert.deepEqual(done, [1, 2]);
});

test("a handler that fails ends the agent, or is told of; the entry comes again", async () => {
  const name = fresh();
  const { channel } = await talk("failing");
  let isBroken = true;
  const heard = [];
  const make = (onError) => new Agent(anybody(), { id: name, onError }).onMessage(({ payload }) => {
    if (isBroken) throw new Error("broken");
    heard.push(payload.n);
  });
  const first = await run(make());
  await channel.notify(name, { n: 1 });
  await assert.rejects(first.running, /broken/);
  isBroken = false;
  const second = await run(make());
  await until(() => heard.length === 1, "the entry again");
  await second.stop();
  isBroken = true;
  const told = [];
  const third = await run(make((error) => { told.push(error.message); isBroken = false; }));
  await channel.notify(name, { n: 2 });
  await until(() => told.length === 1, "the error");
  await channel.notify(name, { n: 3 });
  await until(() => heard.length === 2, "the next entry");
  await third.stop();
  assert.deepEqual([heard, told], [[1, 3], ["broken"]]);
});
