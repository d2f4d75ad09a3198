// The page on which a person sets where they are told, at desktop and phone size, and push messages in the browser's own service
// worker. A push service on the internet is out of reach of the tests: the browser is handed the message as one would hand it over.

import { createServer } from "node:http";
import { after, afterEach, before, test } from "node:test";
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { close, closeWindows, idOf, output, question, serve, until, windowOf, withdrawAll } from "./kit.js";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
let server;
let chat;
const got = [];

before(async () => {
  server = await serve();
  chat = createServer((request, answer) => {
    let body = "";
    request.on("data", (bytes) => { body += bytes; });
    request.on("end", () => { got.push(JSON.parse(body)); answer.end("ok"); });
  });
  await new Promise((resolve) => chat.listen(0, "127.0.0.1", resolve));
});
afterEach(async () => { await closeWindows(); await withdrawAll(server.release); });
after(async () => { chat?.close(); await close(); await server?.stop(); });

async function check(page, name) {
  await page.evaluate(axe);
  const found = await page.evaluate(() => globalThis.axe.run(document, {
    runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] }));
  assert.deepEqual(found.violations.map((one) => `${one.id}: ${one.help} ${one.nodes.map((node) => node.html)}`), []);
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  assert.ok(wide <= 0, `${name} is ${wide} pixels too wide`);
  await page.screenshot({ path: `${output}/${name}.png`, fullPage: true });
}

for (const [size, viewport] of [["desktop", { width: 1280, height: 900 }], ["phone", { width: 390, height: 844 }]]) {
  test(`a person sets where they are told, and is told (${size})`, async () => {
    const page = await windowOf(server, "human.ada", { viewport, timezoneId: "Europe/Berlin" });
    await page.getByRole("link", { name: "Be told" }).click();
    await page.getByText("You are told nowhere yet.").waitFor();
    await check(page, `notifications-none-${size}`);
    const form = page.locator("form", { has: page.getByRole("button", { name: "Add" }) });
    await form.getByLabel("Kind").selectOption("slack");
    await form.getByLabel("Address or URL").fill("ftp://chat.example");
    await form.getByRole("button", { name: "Add" }).click();
    // What was refused is said, and nothing that was typed is lost.
    await page.getByRole("alert").waitFor();
    assert.equal(await form.getByLabel("Address or URL").inputValue(), "ftp://chat.example");
    await form.getByLabel("Address or URL").fill(`http://127.0.0.1:${chat.address().port}/hook`);
    await form.getByLabel("Quiet from").fill("03:00");
    await form.getByLabel("until").fill("03:01");
    assert.equal(await form.getByLabel("Time zone").inputValue(), "Europe/Berlin");
    await form.getByRole("button", { name: "Add" }).click();
    const card = page.locator("li.card");
    await card.getByText("on", { exact: true }).waitFor();
    got.length = 0;
    await card.getByRole("button", { name: "Try it" }).click();
    await until(() => got.length === 1, "the message to try it");
    const moment = await server.release.post("/moments", question());
    await until(() => got.length === 2, "the question");
    assert.match(JSON.stringify(got[1]), new RegExp(`/inbox/${idOf(moment)}`));
    await page.reload();
    await card.getByText(/last told/).waitFor();
    await card.getByText("What, and when").click();
    await card.getByLabel("Name").fill("team chat");
    await card.getByLabel("Remind me, in minutes").fill("often");
    await card.getByRole("button", { name: "Save" }).click();
    await page.getByRole("alert").waitFor();
    await card.getByLabel("Remind me, in minutes").fill("30");
    await check(page, `notifications-one-${size}`);
    await card.getByRole("button", { name: "Save" }).click();
    await card.getByRole("heading", { name: /team chat/ }).waitFor();
    const { contact_points: [kept] } = await server.ada.get("/people/human.ada/contact-points");
    assert.deepEqual([kept.settings.remind_seconds, kept.settings.quiet_hours.time_zone, kept.settings.quotes], [1800, "Europe/Berlin", true]);
    await card.getByRole("button", { name: "Switch off" }).click();
    await card.getByText("you have switched it off").waitFor();
    await card.getByRole("button", { name: "Switch on" }).click();
    await card.getByRole("button", { name: "Remove" }).click();
    await page.getByText("You are told nowhere yet.").waitFor();
    assert.deepEqual(page.faults, []);
  });
}

test("a browser shows push messages, and says why when it cannot subscribe", async () => {
  const page = await windowOf(server, "human.ben", { permissions: ["notifications"] });
  await page.goto(`${server.url}/notifications`);
  const [worker] = await Promise.all([
    page.context().waitForEvent("serviceworker"),
    page.getByRole("button", { name: "Tell me in this browser" }).click(),
  ]);
  // The push service is out of reach here, and the page says so.
  await page.getByText("The browser could not subscribe").waitFor();
  assert.equal(new URL(worker.url()).pathname, "/push.js");
  const session = await page.context().newCDPSession(page);
  let registration;
  session.on("ServiceWorker.workerRegistrationUpdated", ({ registrations }) => { registration ??= registrations[0]?.registrationId; });
  await session.send("ServiceWorker.enable");
  await until(() => registration, "the worker's registration");
  const told = { title: "Decide: <b>Ship</b>?", body: "agent.release asks you to decide", path: "/inbox/bm_1", count: 2 };
  await session.send("ServiceWorker.deliverPushMessage", { origin: server.url, registrationId: registration, data: JSON.stringify(told) });
  const shown = await until(() => worker.evaluate(async () => {
    const [one] = await registration.getNotifications();
    return one && { title: one.title, body: one.body, path: one.data.path, tag: one.tag };
  }), "the notification");
  assert.deepEqual(shown, { title: told.title, body: told.body, path: "/inbox/bm_1", tag: "/inbox/bm_1" });
  // Windows of tests are incognito, where Chromium says that it has no push messages.
  assert.deepEqual(page.faults.filter((fault) => !fault.includes("incognito")), []);
});
