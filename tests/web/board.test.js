// The lists, the pages of one thing and the charts, each way at desktop and phone size: what is found leads to all that it
// concerns, what is done there is on the record, and axe finds nothing wrong. Pictures are kept as output.

import { after, afterEach, before, test } from "node:test";
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { close, closeWindows, output, question, serve, windowOf } from "./kit.js";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const hostile = "<b>Tidy</b> \u202e\"archive\" & 'all'";
let server;
let places;

before(async () => { server = await serve(); places = await stage(server); });
afterEach(closeWindows);
after(async () => { await close(); await server?.stop(); });

async function stage({ researcher, data, release, admin }) {
  for (const [agent, id] of [[researcher, "agent.researcher"], [data, "agent.data"], [release, "agent.release"]]) {
    await agent.post("/agents/register", { agent_id: id });
    await agent.send("POST", `/agents/${id}/heartbeat`, { status: "active", current_load: 1 });
  }
  for (let n = 0; n < 55; n += 1) await researcher.post("/intents", { title: `Matter ${n}` });
  const intent = await researcher.post("/intents", { title: hostile, status: "active" });
  for (const [who, permission] of [["human.ada", "admin"], ["agent.release", "write"], ["agent.data", "write"]]) {
    await researcher.post(`/intents/${intent.id}/acl/entries`, { principal_id: who, permission });
  }
  const channel = await researcher.post(`/intents/${intent.id}/channels`, { name: "clarification" });
  const say = (body) => researcher.post(`/channels/${channel.id}/messages`, { sender: researcher.name, ...body });
  await say({ message_type: "notify", payload: { text: "Starting with the revenue table." } });
  await say({ message_type: "request", to: "agent.data", payload: { question: "Is column 7 net or gross?" } });
  await release.post("/moments", question({ expires_in: 2400, intent_id: intent.id }));
  await data.put("/arcp/agents/summarise/versions/1");
  const job = await researcher.post("/jobs", { agent: "summarise", input: {}, intent_id: intent.id });
  const done = await researcher.post("/jobs", { agent: "summarise", input: {}, intent_id: intent.id });
  const host = await data.post("/workers", { name: "summarise-1", agents: ["summarise"] });
  const claimed = (await data.send("POST", "/jobs/claim", { worker_id: host.worker_id })).body.jobs[0];
  await data.post(`/jobs/${claimed.job_id}/result`, { claim_token: claimed.claim_token, result: {} });
  const open = claimed.job_id === job.job_id ? done.job_id : job.job_id;
  const budget = await admin.post("/budgets", { scope: "system", unit: "USD", limit: 10, name: "All of it",
    thresholds: [{ percent: 80, degrade: { models: ["*-mini"] } }, { percent: 100, ask: { person: "human.ada" } }] });
  const id = budget.id ?? budget.budget_id;
  const call = await researcher.post("/spend/reservations", { model: "large", reserve: { USD: 9 } });
  await researcher.post(`/spend/reservations/${call.reservation_id}/settle`, { cost: { USD: 8.25 } });
  return { intent: `/intents/${intent.id}`, channel: `/channels/${channel.id}`, job: `/jobs/${open}`, budget: `/budgets/${id}` };
}

async function check(page, name) {
  await page.evaluate(axe);
  const found = await page.evaluate(() => globalThis.axe.run(document, {
    runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] }));
  const told = found.violations.map((one) => `${one.id}: ${one.help}\n${one.nodes.map((node) => `  ${node.html} ${node.failureSummary}`).join("\n")}`);
  assert.deepEqual(told, [], name);
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  assert.ok(wide <= 0, `${name} is ${wide} pixels too wide`);
}

const sizes = { desktop: {}, phone: { viewport: { width: 390, height: 844 }, isMobile: true, deviceScaleFactor: 2 } };

for (const [size, options] of Object.entries(sizes)) {
  for (const colorScheme of ["light", "dark"]) {
    test(`axe finds nothing wrong, ${size}, ${colorScheme}`, async () => {
      const page = await windowOf(server, "human.ada", { admin: true, colorScheme, bypassCSP: true, ...options });
      const all = { intents: "/intents", intent: places.intent, channel: places.channel, agents: "/agents", agent: "/agent?id=agent.data",
        people: "/people", person: "/person?id=human.ada", budgets: "/budgets", budget: places.budget, change: `${places.budget}/change`, spend: "/spend", webhooks: "/webhooks", jobs: "/jobs",
        job: places.job, again: "/jobs/again?status=success", queues: "/queues", charts: "/charts?by=model" };
      for (const [name, path] of Object.entries(all)) {
        const answer = await page.goto(server.url + path);
        assert.equal(answer.status(), 200, path);
        await check(page, `${path}, ${size}, ${colorScheme}`);
        await page.screenshot({ path: `${output}/board-${name}-${size}-${colorScheme}.png`, fullPage: true });
      }
      assert.deepEqual(page.faults, []);
    });
  }

  test(`from the dashboard to an intent, its channel, its agent and back, ${size}`, async () => {
    const page = await windowOf(server, "human.ada", { admin: true, ...options });
    await page.goto(`${server.url}/dashboard`);
    await page.getByRole("link", { name: "Intents", exact: true }).first().click();
    await page.getByLabel("Words of the title").fill("archive");
    await page.getByRole("button", { name: "Search" }).click();
    await page.waitForURL(/title=archive/);
    await page.getByRole("main").getByRole("link", { name: /archive/ }).click();
    await page.waitForURL(`**${places.intent}`);
    assert.equal(await page.locator("h1").innerText(), hostile, "a title is text");
    const local = await page.locator("time").first().getAttribute("title");
    assert.ok(!local.includes("UTC"), `the time of day is the reader's: ${local}`);
    await page.getByRole("link", { name: "clarification" }).click();
    await page.getByText("Is column 7 net or gross?").waitFor();
    await page.getByRole("link", { name: "agent.researcher" }).first().click();
    await page.getByRole("heading", { level: 1, name: "agent.researcher" }).waitFor();
    await page.getByRole("link", { name: "intents", exact: true }).click();
    await page.waitForURL(/created_by=agent\.researcher/);
    await page.getByRole("link", { name: "More" }).click();
    await page.waitForURL(/before=intent_/);
    assert.match(page.url(), /created_by=agent\.researcher/, "the conditions are in the URL of each page");
    assert.deepEqual(page.faults, []);
  });

  test(`an agent is drained and works again, and it is said who did it, ${size}`, async () => {
    const page = await windowOf(server, "human.ada", { admin: true, ...options });
    await page.goto(`${server.url}/agent?id=agent.release`);
    await page.getByRole("button", { name: "Drain it" }).click();
    await page.locator("#line").getByRole("link", { name: "human.ada" }).first().waitFor();
    await page.getByRole("button", { name: "Let it work again" }).click();
    await page.getByRole("button", { name: "Drain it" }).waitFor();
    assert.deepEqual(page.faults, []);
  });
}

test("an intent's line of time goes on by itself, and its status is changed there", async () => {
  const page = await windowOf(server, "human.ada", { admin: true });
  await page.goto(server.url + places.intent);
  await page.locator("body[data-following]").waitFor();
  const channel = places.channel.split("/").pop();
  await server.researcher.post(`/channels/${channel}/messages`, { sender: "agent.researcher", message_type: "notify", to: "agent.release", payload: {} });
  await page.getByText("to agent.release in clarification").waitFor();
  await page.getByLabel("Why").fill("Waits for the tables");
  await page.getByRole("button", { name: "Hold it up" }).click();
  await page.locator("#head").getByText("blocked").waitFor();
  await page.locator("#line").getByRole("link", { name: "human.ada" }).first().waitFor();
  assert.deepEqual(page.faults, []);
});

test("without a script a budget is made, raised and closed, and an agent is limited", async () => {
  const page = await windowOf(server, "human.ada", { admin: true, javaScriptEnabled: false });
  await page.goto(`${server.url}/budgets`);
  const form = page.locator("form[action='/budgets']");
  await form.getByLabel("Name; empty").fill("Of releases");
  await form.getByLabel("Whose spending it limits").fill("agent:agent.release");
  await form.getByLabel("Limit", { exact: true }).fill("2,5");
  await form.getByLabel("Unit").fill("USD");
  await form.getByLabel("Window").selectOption("per day");
  const first = form.getByRole("group", { name: "Threshold 1" });
  await first.getByLabel("At per cent").fill("80");
  await first.getByLabel("What follows").selectOption("allow only these tools");
  await first.getByLabel("Person, or patterns").fill("read_*");
  await form.getByRole("button", { name: "Make the budget" }).click();
  await page.getByRole("alert").getByText("such as 12.50").waitFor();
  assert.equal(await form.getByLabel("Name; empty").inputValue(), "Of releases", "what was typed is still there");
  assert.equal(await first.getByLabel("What follows").inputValue(), "tools");
  await form.getByLabel("Limit", { exact: true }).fill("2.5");
  await form.getByRole("button", { name: "Make the budget" }).click();
  await page.getByRole("heading", { level: 1, name: "Of releases" }).waitFor();
  await page.getByText("only these tools are allowed: read_*").waitFor();
  await page.getByRole("link", { name: "Change or close it" }).click();
  await page.getByLabel("Raise the limit by, in USD").fill("1");
  await page.getByRole("button", { name: "Raise it" }).click();
  await page.getByText("3.5 USD").first().waitFor();
  await page.goto(`${server.url}/budgets`);
  await page.getByRole("link", { name: "Change or close Of releases" }).click();
  await page.getByRole("button", { name: "Close the budget" }).click();
  await page.locator(".pill.closed").waitFor();
  await page.goto(`${server.url}/queues`);
  await page.getByText("Limits of summarise").click();
  await page.getByLabel("Jobs at once").first().fill("4");
  await page.getByRole("button", { name: "Limit summarise" }).click();
  await page.getByText("at most 4 at once").waitFor();
  assert.deepEqual(page.faults, []);
});

test("a signal is sent to a job, and all jobs of a search run again after a question", async () => {
  const page = await windowOf(server, "human.ada", { admin: true });
  await page.goto(server.url + places.job);
  await page.getByLabel("Name of the signal").fill("input");
  await page.getByLabel("Payload, as JSON").fill("yes");
  await page.getByRole("button", { name: "Send the signal" }).click();
  await page.getByRole("alert").getByText("no JSON").waitFor();
  await page.getByLabel("Payload, as JSON").fill("{\"answer\": \"yes\"}");
  await page.getByRole("button", { name: "Send the signal" }).click();
  await page.locator("#signals").getByText("waits for its worker").waitFor();
  await page.goto(`${server.url}/jobs?status=success`);
  await page.getByRole("button", { name: "Run all of these again" }).click();
  await page.getByText("The search finds 1 job").waitFor();
  await page.getByRole("button", { name: "Run 1 again", exact: true }).click();
  await page.getByRole("heading", { name: "1 job is run again" }).waitFor();
  await page.locator("#done").getByRole("link").last().click();
  await page.locator("#head").getByText("pending").waitFor();
  assert.deepEqual(page.faults, []);
});

test("a job is cancelled on its page", async () => {
  const page = await windowOf(server, "human.ada", { admin: true });
  await page.goto(server.url + places.job);
  await page.getByRole("button", { name: "Cancel the job" }).click();
  await page.locator(".pill.cancelled").first().waitFor();
  assert.deepEqual(page.faults, []);
});
