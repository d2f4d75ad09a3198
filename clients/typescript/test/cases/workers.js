// Workers: jobs run to their end across failures, restarts, cancellations and other workers.

import assert from "node:assert/strict";
import { Entente, JobFailure } from "../../dist/index.js";
import { Proxy, end, start, test, until, url } from "../server.js";

const anybody = (connection = {}) => new Entente({ url, apiKey: process.env.ENTENTE_API_KEY, ...connection });
let count = 0;
const fresh = () => `scribe-${(count += 1)}`;

/** Runs a worker; `stop` of what it returns ends it. */
async function work(options, handler, connection = {}) {
  const errors = [];
  const worker = anybody(connection).worker({ onError: (why) => errors.push(why), ...options }, handler);
  const running = worker.run();
  // Its agent has to be known before a job can be submitted.
  await until(async () => (await anybody().request("get", "/api/v1/arcp/agents", { query: {} })).agents.some(({ name }) => name === options.agent), "the agent");
  return { worker, running, errors, stop: () => (worker.stop(), running) };
}

test("a job runs, reports and ends with its result", async () => {
  const agent = fresh();
  const { stop, errors } = await work({ agent }, async (job) => {
    await job.log("begun");
    await job.progress(1, 2, "lines");
    await job.metric("lines", 2, "1");
    return { shouted: String(job.input).toUpperCase(), attempt: job.attempt };
  });
  const job = await anybody().jobs.submit({ agent, input: "hello" });
  const kinds = [];
  for await (const { data } of job.events()) kinds.push(data.payload.kind ?? data.type);
  assert.deepEqual(kinds.filter((kind) => ["log", "progress", "metric", "job.result"].includes(kind)), ["log", "progress", "metric", "job.result"]);
  assert.deepEqual(await job.result(), { shouted: "HELLO", attempt: 1 });
  await stop();
  assert.deepEqual(errors, []);
});

test("a result can be streamed", async () => {
  const agent = fresh();
  const { stop } = await work({ agent }, async (job) => {
    for (const line of ["one\n", "zwölf\n"]) await job.write(line);
  });
  const job = await anybody().jobs.submit({ agent });
  assert.equal(await job.result(), "one\nzwölf\n");
  await stop();
});

test("a failure that may be retried goes on at the checkpoint, and one that may not ends the job", async () => {
  const agent = fresh();
  const { stop } = await work({ agent, terms: { retry: { max_attempts: 3, initial_delay_ms: 1 } } }, async (job) => {
    if (job.input === "hopeless") throw new JobFailure("no such file", { code: "INVALID_REQUEST", retryable: false });
    if (job.checkpoint === null) {
      await job.save({ lines: 7 });
      throw new JobFailure("the upstream is busy", { retryable: true });
    }
    return job.checkpoint;
  });
  const job = await anybody().jobs.submit({ agent });
  assert.deepEqual(await job.result(), { lines: 7 });
  assert.equal((await job.record()).attempt, 2);
  const hopeless = await anybody().jobs.submit({ agent, input: "hopeless" });
  await assert.rejects(hopeless.result(), { name: "JobError", code: "INVALID_REQUEST", message: /no such file/ });
  await stop();
});

test("a job that is cancelled is told at once", async () => {
  const agent = fresh();
  const { worker, stop } = await work({ agent }, (job) => new Promise((_, reject) => {
    job.signal.addEventListener("abort", () => reject(job.signal.reason));
  }));
  const job = await anybody().jobs.submit({ agent });
  await until(() => worker.running.size === 1, "the job");
  const began = Date.now();
  await job.cancel("changed my mind");
  await assert.rejects(job.result(), { code: "CANCELLED" });
  assert.ok(Date.now() - began < 5_000);
  await stop();
});

test("jobs run side by side, and what a stopped worker leaves another one finishes", async () => {
  const agent = fresh();
  let [most, begun] = [0, 0];
  let release;
  const go = new Promise((resolve) => { release = resolve; });
  const slow = await work({ agent, concurrency: 3 }, async (job) => {
    most = Math.max(most, slow.worker.running.size);
    await job.save({ by: "first" });
    await job.log("first");
    begun += 1;
    await new Promise((_, reject) => job.signal.addEventListener("abort", () => reject(job.signal.reason)));
  });
  const jobs = await Promise.all([1, 2, 3].map((input) => anybody().jobs.submit({ agent, input })));
  await until(async () => (await Promise.all(jobs.map((job) => job.record()))).every((record) => record.status === "running") && most === 3 && begun === 3, "three jobs");
  await slow.stop();
  assert.equal(slow.worker.running.size, 0);
  const next = await work({ agent, concurrency: 3 }, async (job) => {
    await go;
    // The number of the attempt is that of the claim before.
    await job.log("next");
    return [job.input, job.checkpoint, job.attempt];
  });
  release();
  for (const [at, job] of jobs.entries()) {
    assert.deepEqual(await job.result(), [at + 1, { by: "first" }, 1]);
    const logged = [];
    for await (const { data } of job.events()) if (data.payload.kind === "log") logged.push(data.payload.body.message);
    assert.deepEqual(logged, ["first", "next"]);
  }
  await next.stop();
});

test("a result that cannot be reported ends its job, and a large worker takes jobs", async () => {
  const agent = fresh();
  const circle = {};
  circle.circle = circle;
  const { stop, errors } = await work({ agent, concurrency: 200 }, (job) => (job.input === "circle" ? circle : 10n));
  for (const input of ["circle", "large"]) {
    const job = await anybody().jobs.submit({ agent, input });
    await assert.rejects(job.result(), { name: "JobError", message: /the result was refused: .*(circular|BigInt)/ });
    assert.equal((await job.record()).attempt, 1);
  }
  assert.equal(errors.length, 2);
  await stop();
});

test("a server that is restarted under a worker, and lost answers, change nothing", async () => {
  const proxy = await Proxy.open();
  const agent = fresh();
  const ran = [];
  const { stop, errors, worker } = await work({ agent, concurrency: 2 }, async (job) => {
    ran.push(job.input);
    for (let n = 0; n < 4; n += 1) await job.progress(n + 1, 4);
    if (job.input === 0) await until(() => ran.includes("go on"), "the restart");
    return job.input;
  }, { url: proxy.url });
  const first = await anybody().jobs.submit({ agent, input: 0 });
  await until(() => worker.running.size === 1, "the first job");
  await end("SIGKILL");
  await start();
  ran.push("go on");
  assert.equal(await first.result(), 0);
  proxy.lose("/events", 2);
  const second = await anybody().jobs.submit({ agent, input: 1 });
  assert.equal(await second.result(), 1);
  proxy.lose("/result", 1);
  const third = await anybody().jobs.submit({ agent, input: 2 });
  assert.equal(await third.result(), 2);
  const numbers = [];
  for await (const { data } of second.events()) if (data.payload.kind === "progress") numbers.push(data.payload.body.current);
  assert.deepEqual([numbers, ran, errors], [[1, 2, 3, 4], [0, "go on", 1, 2], []]);
  await stop();
});

test("a quiet worker asks rarely until it is to run again", async () => {
  const agent = fresh();
  const asked = [];
  const counting = (to, ...call) => (asked.push(String(to)), fetch(to, ...call));
  const { stop } = await work({ agent }, async () => "done", { fetch: counting });
  const { workers } = await anybody().request("get", "/api/v1/workers", { query: {} });
  const worker_id = workers.find(({ agents }) => agents.includes(`${agent}@1.0.0`)).worker_id;
  const direct = (directive) => anybody().request("post", "/api/v1/workers/{worker_id}/directive", { path: { worker_id }, body: { directive } });
  const pause = (seconds) => new Promise((resolve) => { setTimeout(resolve, seconds * 1_000); });
  await direct("quiet");
  await pause(2);
  const job = await anybody().jobs.submit({ agent });
  asked.length = 0;
  await pause(2);
  assert.ok(asked.length < 5, asked.join());
  assert.equal((await job.record()).status, "pending");
  await direct("run");
  assert.equal(await job.result(), "done");
  await stop();
});

test("what a job may do is asked before it does it", async () => {
  const agent = fresh();
  const { stop } = await work({ agent }, async (job) => {
    const { reservation_id } = await job.authorize("tool.call", "write", { reserve: { USD: 0.5 } });
    await job.settle(reservation_id, { USD: 0.2 });
    const refused = await job.authorize("tool.call", "delete").catch((why) => why.code);
    const { budget } = await job.authorize("tool.call", "write");
    return { refused, budget };
  });
  const job = await anybody().jobs.submit({ agent, lease_request: { "tool.call": ["write"], "cost.budget": ["USD:1.00"] } });
  const { refused, budget } = await job.result();
  assert.deepEqual([refused, Number(budget.USD)], ["PERMISSION_DENIED", 0.8]);
  await stop();
});
