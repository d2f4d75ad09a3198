// Appearance and accessibility of the pages: no violations found by axe, in light and dark mode, and screenshots that are
// kept as output.

import { after, afterEach, before, test } from "node:test";
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { close, closeWindows, idOf, output, question, serve, windowOf, window, linkFor } from "./kit.js";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
let server;
let places;
let stopped = false;

before(async () => { server = await serve(); places = await stage(server); });
afterEach(closeWindows);
after(async () => { stopped = true; await close(); await server?.stop(); });

/** Asks, waits for the answer, and asks again until the server stops. */
async function wait(agent, channel, to, text) {
  while (!stopped) {
    const ask = agent.send("POST", `/channels/${channel.id}/ask`, { sender: agent.name, to, payload: { question: text }, timeout: 120 });
    await ask.catch(() => { stopped = true; });
  }
}

/** Fills a server with sample activity. */
async function stage({ researcher, data, release, admin }) {
  for (const [agent, id, role] of [[researcher, "agent.researcher", "researcher"], [data, "agent.data", "data"], [release, "agent.release", "release"]]) {
    await agent.post("/agents/register", { agent_id: id, role_id: role, heartbeat_config: { interval_seconds: 30, unhealthy_after_seconds: 90, dead_after_seconds: 300 } });
    await agent.send("POST", `/agents/${id}/heartbeat`, { status: "active", current_load: 1 });
  }
  const hours = { from: "22:00", to: "07:00", time_zone: "Europe/Berlin", except: ["role:on-call"] };
  await data.put("/agents/agent.data/inbox", { quiet_hours: hours, may_wake: ["agent.researcher", "role:release"] });
  await data.get("/agents/agent.data/inbox?reader=session");
  const titles = ["Tidy the customer archive", "Prepare the fair in Lyon", "Release 1.4", "Summarise the Q1 dataset"];
  const intents = [];
  for (const title of titles) intents.push(await researcher.post("/intents", { title }));
  const intent = intents.at(-1);
  const channel = await researcher.post(`/intents/${intent.id}/channels`, { name: "data-clarification" });
  const say = (agent, body) => agent.post(`/channels/${channel.id}/messages`, { sender: agent.name, ...body });
  await say(researcher, { message_type: "notify", payload: { text: "Starting with the revenue table." } });
  const asked = await say(researcher, { message_type: "request", to: "agent.data", payload: { question: "Is column 7 net or gross?" } });
  await say(data, { message_type: "response", correlation_id: asked.id, payload: { answer: "net" } });
  await researcher.send("POST", `/intents/${intent.id}/events`, { event_type: "comment_added", payload: { reason: "Three outliers in March" } });
  // Three who wait for one another, each in a call that blocks.
  wait(researcher, channel, "agent.data", "And column 9?");
  wait(data, channel, "agent.release", "Which schema?");
  wait(release, channel, "agent.researcher", "Which release?");
  await say(release, { message_type: "request", to: "agent.data", payload: { question: "Ready?" } });
  await work(data, researcher, intent);
  const moment = await release.post("/moments", question({ expires_in: 2400, intent_id: intent.id }));
  await researcher.post("/moments", question({ expires_in: 70000 }, {
    synopsis: "Drop the three March outliers from the summary.",
    findings: ["They come from one test account.", "Without them the mean moves by 4 %.", "The auditor asked for a note either way."],
    question: { stem: "What happens to the three outliers?", options: [
      { label: "Drop and note them", reasoning: "They are no customers." }, { label: "Keep them", reasoning: "The table stays complete." }],
    recommended_idx: 0, hatches: { free_text: true, dialogue: true } }, meta: { decision_class: "data" } }));
  const talk = await data.post("/moments", question({}, { synopsis: "Buy 40 hours of the larger machine.",
    findings: ["The join needs 96 GB at its widest.", "The smaller machine has 64 GB.", "40 hours cost 61 USD."],
    recommendations: ["Book the machine for Tuesday night."],
    question: { stem: "On which machine does the join run?", options: [
      { label: "On the larger one", reasoning: "It is done by Wednesday." }, { label: "On the smaller one", reasoning: "Nothing is bought." }],
    recommended_idx: 0, hatches: { free_text: true, dialogue: true } }, meta: { decision_class: "budget" } }));
  const human = server.ada;
  await human.post(`/moments/${idOf(talk)}/resolution`, { envelope_digest: talk.envelope_digest, resolution: { kind: "dialogue", objection: "Why larger at all?" } });
  await data.post(`/moments/${idOf(talk)}/words`, { text: "The join of the two archives does not fit into 64 GB; on the smaller machine it would take nine days." });
  await admin.send("POST", "/subscriptions", { webhook_url: "https://hooks.example.org/entente", intent_id: intent.id });
  const thread = await letters(human, data);
  const [job] = (await admin.get("/jobs")).jobs;
  return { thread, job: `/jobs/${job.job_id}`, moment: `/inbox/${idOf(moment)}`, talk: `/inbox/${idOf(talk)}`, intent: `/dashboard?intent=${intent.id}` };
}

/** Creates a thread of envelopes: a task from a person, answered by an agent. */
async function letters(human, agent) {
  const corr = `thread-${crypto.randomUUID()}`;
  const letter = (more) => ({ v: "1", id: crypto.randomUUID(), ts: new Date().toISOString(), intent: "data.rows.count", corr,
    reply_to: null, priority: "normal", ...more });
  const task = letter({ type: "task", from: "human.ada", to: "agent.data", payload: { table: "visits" } });
  await human.post("/aee/envelopes", task);
  const doubt = letter({ type: "task", from: "agent.data", to: "human.ada", intent: "data.rows.clarify", reply_to: task.id,
    payload: { question: "Do visits of the test account count?" } });
  await agent.post("/aee/envelopes", doubt);
  await human.post("/aee/envelopes", letter({ type: "result", from: "human.ada", to: "agent.data", intent: "data.rows.clarify",
    reply_to: doubt.id, payload: { answer: "No." } }));
  await agent.post("/aee/envelopes", letter({ type: "result", from: "agent.data", to: "human.ada", reply_to: task.id, payload: { rows: 48211 } }));
  return `/threads?corr=${corr}`;
}

/** Creates jobs with progress and a budget. */
async function work(worker, client, intent) {
  await worker.put("/arcp/agents/summarise/versions/1");
  await worker.put("/arcp/agents/collect/versions/1");
  for (const [agent, budget, spent, current] of [["summarise", "5.00", 1.7, 34], ["collect", "2.00", 1.85, 92]]) {
    await client.post("/jobs", { agent, input: {}, intent_id: intent.id, lease_request: { "cost.budget": [`USD:${budget}`], "tool.call": ["*"] } });
    const host = await worker.post("/workers", { name: `${agent}-1`, agents: [agent] });
    const claimed = await worker.send("POST", "/jobs/claim", { worker_id: host.worker_id });
    const claim = claimed.body.jobs[0];
    const events = [
      { kind: "progress", body: { current, total: 100, units: "rows", message: agent === "collect" ? "Reading the archive" : "Writing the March section" } },
      { kind: "metric", body: { name: "cost.model", value: spent, unit: "USD" } },
    ];
    await worker.send("POST", `/jobs/${claim.job_id}/events`, { claim_token: claim.claim_token, events });
  }
}

async function check(page, name) {
  await page.evaluate(axe);
  const found = await page.evaluate(() => globalThis.axe.run(document, {
    runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] }));
  const told = found.violations.map((one) => `${one.id}: ${one.help}\n${one.nodes.map((node) => `  ${node.html} ${node.failureSummary}`).join("\n")}`);
  assert.deepEqual(told, [], name);
  assert.ok(found.passes.length > 10, `axe looked at nothing on ${name}`);
}

for (const colorScheme of ["light", "dark"]) {
  test(`axe finds nothing wrong with any page, ${colorScheme}`, async () => {
    const page = await windowOf(server, "human.ada", { admin: true, colorScheme, bypassCSP: true });
    for (const path of ["/inbox", places.moment, places.talk, places.intent, "/terminal", "/threads", places.thread, "/inbox/bm_none", "/jobs", places.job, "/queues", "/budgets", "/inboxes", "/inboxes?agent=agent.data", "/search", "/search?q=outliers"]) {
      await page.goto(server.url + path);
      await check(page, `${path}, ${colorScheme}`);
    }
    await page.goto(server.url + places.moment);
    for (const hatch of ["Ask for detail", "Answer in your own words", "Wrong question", "Keys"]) await page.getByText(hatch).first().click();
    await check(page, "all open");
    const stranger = await window({ colorScheme, bypassCSP: true });
    for (const url of [`${server.url}/login`, `${server.url}/docs`, await linkFor(server, "human.ada")]) {
      await stranger.goto(url);
      await check(stranger, url);
    }
  });

  test(`pictures, ${colorScheme}`, async () => {
    const page = await windowOf(server, "human.ada", { admin: true, colorScheme });
    const shoot = async (path, name) => {
      await page.goto(server.url + path);
      await page.locator("body[data-following]").waitFor();
      await page.screenshot({ path: `${output}/${name}-${colorScheme}.png`, fullPage: true });
    };
    await shoot("/inbox", "inbox");
    await shoot(places.moment, "moment");
    await shoot(places.talk, "talk");
    await shoot(places.intent, "dashboard");
    await page.goto(server.url + places.thread);
    await page.getByText("As it was sent").first().click();
    await page.screenshot({ path: `${output}/threads-${colorScheme}.png`, fullPage: true });
    assert.deepEqual(page.faults, []);
    const phone = await windowOf(server, "human.ada", { admin: true, colorScheme, viewport: { width: 390, height: 844 }, isMobile: true, deviceScaleFactor: 2 });
    await phone.goto(server.url + places.moment);
    await phone.screenshot({ path: `${output}/phone-${colorScheme}.png`, fullPage: true });
    for (const [path, name] of [[places.thread, "threads"], ["/inboxes?agent=agent.data", "agent-inbox"], ["/search?q=outliers", "search"]]) {
      await phone.goto(server.url + path);
      await phone.screenshot({ path: `${output}/phone-${name}-${colorScheme}.png`, fullPage: true });
      const wide = await phone.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      assert.ok(wide <= 0, `${path} is ${wide} pixels too wide for a phone`);
    }
    const login = await window({ colorScheme, viewport: { width: 900, height: 640 } });
    await login.goto(`${server.url}/login`);
    await login.screenshot({ path: `${output}/login-${colorScheme}.png` });
  });
}

test("the dashboard goes along with what happens", async () => {
  const page = await windowOf(server, "human.ben", { admin: true });
  const intent = await server.researcher.post("/intents", { title: "A new matter" });
  await page.goto(`${server.url}/dashboard?intent=${intent.id}`);
  await page.locator("body[data-following]").waitFor();
  const channel = await server.researcher.post(`/intents/${intent.id}/channels`, { name: "by-the-way" });
  await server.researcher.post(`/channels/${channel.id}/messages`, { sender: "agent.researcher", message_type: "notify", payload: {} });
  await page.getByText("to everybody in by-the-way").waitFor();
  assert.match(await page.locator("#alarm").innerText(), /Deadlock: .*wait for/);
  await server.admin.post("/intents", { title: "Another matter" });
  await page.getByRole("link", { name: "Another matter" }).waitFor();
  assert.equal(await page.getByRole("heading", { name: "A new matter" }).count(), 1, "the chosen one stays");
  assert.deepEqual(page.faults, []);
});

test("an operation is found in the documentation, and opens with its group", async () => {
  const page = await window();
  await page.goto(`${server.url}/docs`);
  assert.ok(await page.locator("#operations li:visible").count() > 300);
  await page.getByLabel("Filter by path").fill("POST rerun jobs");
  await page.screenshot({ path: `${output}/docs.png` });
  const link = page.getByRole("link", { name: "POST /api/v1/jobs/rerun" });
  assert.equal(await page.locator("#operations section:visible").count(), 1);
  await link.click();
  await page.locator(".opblock.is-open").getByText("Run all jobs of a search again").waitFor();
  await page.screenshot({ path: `${output}/docs-operation.png` });
  await page.goto(`${server.url}/docs`);
  await page.getByLabel("Filter by path").fill("there is no such thing");
  await page.getByText("No operation has these words.").waitFor();
  const phone = await window({ viewport: { width: 390, height: 844 }, isMobile: true });
  await phone.goto(`${server.url}/docs`);
  const wide = await phone.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  assert.ok(wide <= 0, `/docs is ${wide} pixels too wide for a phone`);
  assert.deepEqual(page.faults, []);
});
