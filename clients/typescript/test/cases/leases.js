// Leases with fencing, tasks under claims, and budgets.

import assert from "node:assert/strict";
import { Proxy, client, operator, talk, test, until } from "../server.js";

test("a write under a lease that was lost has no effect", async () => {
  const { researcher, data, intent, channel } = await talk("leases");
  const lease = await researcher.leases.acquire(intent.id, "report", { duration: 60 });
  await lease.under.channel(channel.id).send({ n: 1 });
  await assert.rejects(data.leases.acquire(intent.id, "report"), { status: 409, code: "lease_held" });
  const waiting = data.leases.acquire(intent.id, "report", { wait: 10 });
  await lease.release();
  assert.ok(lease.signal.aborted);
  const next = await waiting;
  assert.ok(next.fencingToken > lease.fencingToken);
  await assert.rejects(lease.under.channel(channel.id).send({ n: 2 }), { status: 409, code: "lease_ended" });
  await next[Symbol.asyncDispose]();
  assert.deepEqual(await data.leases.list(intent.id), []);
  const value = await researcher.leases.hold(intent.id, "report", async (under) => (await under.channel(channel.id).send({ n: 3 })).payload.n);
  assert.equal(value, 3);
  assert.deepEqual((await channel.messages()).messages.map(({ payload }) => payload.n), [1, 3]);
});

test("two programs of one agent hold a lease in turn", async () => {
  let asked = 0;
  const counting = (...call) => ((asked += 1), fetch(...call));
  const { researcher, intent } = await talk("in-turn", { fetch: counting });
  const lease = await researcher.leases.acquire(intent.id, "report");
  asked = 0;
  await assert.rejects(researcher.leases.acquire(intent.id, "report", { wait: 3 }), { status: 409, code: "lease_held" });
  assert.ok(asked >= 2 && asked <= 5, `${asked} requests`);
  await lease.release();
});

test("a lease is renewed while it is held, and says when it is lost", async () => {
  const { researcher, intent } = await talk("renewals");
  const lease = await researcher.leases.acquire(intent.id, "*", { duration: 1 });
  const before = lease.record.expires_at;
  await until(() => lease.record.expires_at > before, "a renewal");
  // The creator of the intent takes it away.
  await researcher.request("delete", "/api/v1/intents/{intent_id}/leases/{lease_id}", { path: { intent_id: intent.id, lease_id: lease.id } });
  await until(() => lease.signal.aborted, "the loss");
  assert.equal(lease.signal.reason.code, "lease_ended");
  await lease.release();
});

test("a task is claimed by one agent, and its steps happen once", async () => {
  const proxy = await Proxy.open();
  const { researcher, data, intent } = await talk("tasks", { url: proxy.url });
  const task = await researcher.tasks.create(intent.id, { name: "count" });
  proxy.lose("/api/v1/turn");
  const claim = await researcher.tasks.claim(task.id);
  await assert.rejects(data.tasks.claim(task.id), { status: 409, code: "claim_conflict" });
  await claim.start();
  await claim.under.intents.record(intent.id, "note", { n: 1 });
  proxy.lose("/api/v1/turn");
  const done = await claim.complete({ rows: 3 });
  assert.deepEqual([done.status, done.output], ["completed", { rows: 3 }]);
  await assert.rejects(claim.under.intents.record(intent.id, "note", { n: 2 }), { status: 409 });
  const other = await researcher.tasks.create(intent.id, { name: "sum" });
  {
    const returned = await researcher.tasks.claim(other.id);
    assert.equal(returned.task.status, "claimed");
    await returned[Symbol.asyncDispose]();
  }
  assert.equal((await researcher.tasks.get(other.id)).status, "ready");
  assert.equal((await researcher.tasks.list(intent.id)).length, 2);
});

test("what a call may cost is reserved before it, once", async () => {
  const proxy = await Proxy.open();
  const budget = await operator().budgets.create({ scope: "agent:agent.clerk", limit: 1, unit: "USD" });
  const clerk = client("clerk", { url: proxy.url });
  proxy.lose("/spend/reservations");
  const reservation = await clerk.budgets.reserve({ USD: 0.6 }, { model: "small" });
  const use = async () => (await operator().budgets.get(budget.id)).usage;
  assert.equal((await use()).reserved, 0.6);
  await assert.rejects(clerk.budgets.reserve({ USD: 0.6 }), { code: "BUDGET_EXHAUSTED" });
  proxy.lose("/settle");
  await reservation.settle({ USD: 0.25 });
  {
    const unused = await clerk.budgets.reserve({ USD: 0.5 });
    assert.ok(unused.id);
    await unused[Symbol.asyncDispose]();
  }
  const { spent, reserved } = await use();
  assert.deepEqual([spent, reserved], [0.25, 0]);
  assert.deepEqual((await clerk.budgets.list()).map(({ id }) => id), [budget.id]);
});
