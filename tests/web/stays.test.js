// Live updates of the pages: while the user types, when the login ends, in hidden tabs, and for visitors from other sites.

import { createServer } from "node:http";
import { after, afterEach, before, test } from "node:test";
import assert from "node:assert/strict";
import { close, closeWindows, idOf, ownPassword, question, serve, until, window, windowOf, withdrawAll } from "./kit.js";

const PASSWORD = "four plain words here";
let server;
before(async () => {
  server = await serve();
  await ownPassword(server, "human.ada", PASSWORD);
});
afterEach(async () => { await closeWindows(); await withdrawAll(server.release); });
after(async () => { await close(); await server?.stop(); });

const ask = (more, change) => server.release.post("/moments", question(more, change));
const stateOf = (moment) => server.release.get(`/moments/${idOf(moment)}`);
const following = (page) => page.locator("body[data-following]").waitFor();
const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

/** Simulates that a tab is hidden or visible again, because a headless browser shows all its tabs. */
const turn = (page, hidden) => page.evaluate((value) => {
  Object.defineProperty(document, "hidden", { configurable: true, get: () => value });
  Object.defineProperty(document, "visibilityState", { configurable: true, get: () => (value ? "hidden" : "visible") });
  document.dispatchEvent(new Event("visibilitychange"));
}, hidden);

async function logIn(page) {
  await page.getByLabel("Name").fill("human.ada");
  await page.getByLabel("Password").fill(PASSWORD);
  await page.getByRole("button", { name: "Log in" }).click();
}

async function withdraw(moment) {
  await server.release.post(`/moments/${idOf(moment)}/withdraw`, { reason: "No longer needed." });
}

test("a page that shows why an answer was refused is the question's own, and stays true", async () => {
  const moment = await ask();
  const page = await windowOf(server, "human.ada");
  await page.goto(`${server.url}/inbox/${idOf(moment)}`);
  await following(page);
  // Selected first, so that the part is not updated and keeps the false digest.
  await page.getByLabel("Wait a day").check();
  await page.evaluate(() => { for (const field of document.querySelectorAll("input[name=digest]")) field.value = "sha256:00"; });
  await page.getByRole("button", { name: "Commit to this" }).click();
  await page.getByRole("alert").waitFor();
  assert.equal(new URL(page.url()).pathname, `/inbox/${idOf(moment)}`);
  await following(page);
  await pause(1000);
  assert.equal(await page.getByRole("alert").count(), 1, "what was refused is said until one goes on");
  await withdraw(moment);
  await page.getByText("It is withdrawn.").waitFor();
  assert.equal(await page.getByRole("alert").count(), 1);
  const answer = await page.reload();
  assert.deepEqual([answer.status(), answer.request().method()], [200, "GET"]);
  assert.deepEqual(page.faults, []);
});

test("a link on another site leads to the page, for who is logged in", async () => {
  const page = await windowOf(server, "human.ada");
  const before = await page.context().cookies();
  // The name `localhost` is a different site from the address 127.0.0.1.
  const elsewhere = createServer((_, answer) => answer.setHeader("content-type", "text/html").end(`<a href="${server.url}/dashboard?intent=x&amp;y=1">look</a>`));
  await new Promise((resolve) => elsewhere.listen(0, "localhost", resolve));
  await page.goto(`http://localhost:${elsewhere.address().port}/`);
  await page.getByRole("link", { name: "look" }).click();
  await page.getByRole("heading", { name: "Dashboard" }).waitFor();
  assert.equal(page.url(), `${server.url}/dashboard?intent=x&y=1`);
  assert.deepEqual((await page.context().cookies(server.url)).map((one) => one.value), before.map((one) => one.value));
  const stranger = await window();
  await stranger.goto(`http://localhost:${elsewhere.address().port}/`);
  await stranger.getByRole("link", { name: "look" }).click();
  await stranger.waitForURL(`${server.url}/login?next=**`);
  elsewhere.close();
  assert.deepEqual(page.faults, []);
});

test("an update of the page does not overtake a logout", async () => {
  const page = await windowOf(server, "human.ada");
  await page.goto(`${server.url}/inbox`);
  await following(page);
  // The answer is held back until the page has noticed the end of its login by itself.
  await page.route("**/logout", async (route) => {
    const answer = await route.fetch({ maxRedirects: 0 });
    await page.waitForResponse((one) => /\/login\?next=(\/|%2F)inbox$/.test(one.url()));
    await new Promise((resolve) => setTimeout(resolve, 300));
    await route.fulfill({ response: answer });
  });
  await page.getByRole("button", { name: "Log out" }).click();
  await page.waitForURL(/\/login/);
  assert.equal(page.url(), `${server.url}/login`);
  assert.deepEqual(page.faults, []);
});

test("what is being written outlives a login that ends, and goes by the next one", async () => {
  const moment = await ask();
  const page = await windowOf(server, "human.ada");
  await page.goto(`${server.url}/inbox/${idOf(moment)}`);
  await following(page);
  await page.keyboard.press("t");
  await page.keyboard.type("Ship it on Thursday.");
  const other = await page.context().newPage();
  await other.goto(`${server.url}/inbox`);
  await other.getByRole("button", { name: "Log out" }).click();
  await other.waitForURL("**/login");
  const way = page.getByRole("status").getByRole("link", { name: "Log in again" });
  await way.waitFor();
  assert.equal(await page.locator("textarea[name=answer]").inputValue(), "Ship it on Thursday.");
  const [fresh] = await Promise.all([page.context().waitForEvent("page"), way.click()]);
  // The message is shown for a few seconds only, perhaps before the other window has loaded completely.
  const told = page.getByRole("status").getByText("You are logged in again.").waitFor();
  await logIn(fresh);
  await Promise.all([told, fresh.waitForURL(`**/inbox/${idOf(moment)}`)]);
  await page.getByRole("button", { name: "Answer in these words" }).click();
  await page.getByRole("heading", { name: "Answered" }).waitFor();
  assert.equal((await stateOf(moment)).resolution.answer, "Ship it on Thursday.");
  assert.deepEqual(page.faults, []);
});

test("what was sent after the login had ended stands there again after the next, and is gone once it is said", async () => {
  const moment = await ask();
  const page = await windowOf(server, "human.ada");
  await page.goto(`${server.url}/inbox/${idOf(moment)}`);
  await page.getByText("Ask for detail on any item.").click();
  const text = "Which reviewer is away?\n\nAnd until when? 何日まで";
  await page.getByLabel("What would you like to know more about?").fill(text);
  await page.context().clearCookies();
  await page.getByRole("button", { name: "Ask for detail" }).click();
  await page.waitForURL(`**/login?next=/inbox/${idOf(moment)}`);
  await logIn(page);
  await page.waitForURL(`**/inbox/${idOf(moment)}`);
  const field = page.locator("textarea[name=text]");
  await until(async () => (await field.inputValue()) === text, "the text is back");
  assert.equal(await field.isVisible(), true);
  await page.getByRole("button", { name: "Ask for detail" }).click();
  await page.locator(".thread .ours").getByText("Which reviewer is away?").waitFor();
  assert.equal(await field.inputValue(), "");
  await page.reload();
  assert.equal(await field.inputValue(), "");
  await withdraw(moment);
  assert.deepEqual(page.faults, []);
});

test("the longest text of a language with letters of three bytes is judged, not lost", async () => {
  const moment = await ask();
  const page = await windowOf(server, "human.ada", { javaScriptEnabled: false });
  await page.goto(`${server.url}/inbox/${idOf(moment)}`);
  await page.getByText("Answer in your own words").click();
  const text = "漢".repeat(16000);
  await page.locator("textarea[name=answer]").fill(text);
  await page.getByRole("button", { name: "Answer in these words" }).click();
  await page.getByRole("alert").waitFor();
  assert.equal(await page.locator("textarea[name=answer]").inputValue(), text);
  await withdraw(moment);
});

test("many tabs do not starve one another, and one that nobody sees asks for nothing and says nothing", async () => {
  const moment = await ask();
  const first = await windowOf(server, "human.ada");
  const tabs = [first];
  for (let n = 0; n < 7; n += 1) {
    await turn(tabs.at(-1), true);
    const tab = await first.context().newPage();
    await tab.goto(`${server.url}/dashboard`, { timeout: 10000 });
    await following(tab);
    tabs.push(tab);
  }
  const behind = tabs[1];
  let asked = 0;
  behind.on("request", () => { asked += 1; });
  const intent = await server.researcher.post("/intents", { title: "Behind the others" });
  await tabs.at(-1).getByRole("link", { name: "Behind the others" }).waitFor();
  assert.equal(asked, 0, "a tab behind the others has asked the server");
  await turn(behind, false);
  await behind.getByRole("link", { name: "Behind the others" }).waitFor();
  await following(behind);

  // A question in a tab opened in the background has not been seen.
  const unseen = await first.context().newPage();
  await unseen.addInitScript(() => {
    Object.defineProperty(document, "hidden", { configurable: true, get: () => true });
    Object.defineProperty(document, "visibilityState", { configurable: true, get: () => "hidden" });
  });
  await unseen.goto(`${server.url}/inbox/${idOf(moment)}`);
  await pause(1000);
  assert.equal((await stateOf(moment)).first_viewed_at ?? null, null);
  await turn(unseen, false);
  await until(async () => (await stateOf(moment)).first_viewed_at, "it is seen once the tab is in front");
  await withdraw(moment);
  await server.researcher.send("POST", `/intents/${intent.id}/status`, { status: "abandoned" });
});

test("a dashboard is written anew only every few seconds, however much happens", async () => {
  const page = await windowOf(server, "human.ada", { admin: true });
  await page.goto(`${server.url}/dashboard`);
  await following(page);
  await pause(500);
  let asked = 0;
  page.on("request", (request) => { asked += request.url().endsWith("/dashboard") ? 1 : 0; });
  for (let n = 0; n < 12; n += 1) {
    await server.researcher.post("/intents", { title: `Matter ${n}` });
    await pause(500);
  }
  await page.getByRole("link", { name: "Matter 11" }).waitFor();
  assert.ok(asked >= 1 && asked <= 5, `asked ${asked} times`);
});

test("the keyboard stays where it is while a page is renewed, and nothing is renewed for a clock", async () => {
  const page = await windowOf(server, "human.ada", { admin: true });
  await page.goto(`${server.url}/dashboard`);
  await following(page);
  const list = page.getByRole("list", { name: "Intents, the liveliest first" });
  await server.researcher.post("/intents", { title: "The first of them" });
  await page.getByRole("link", { name: "The first of them" }).waitFor();
  await list.focus();
  await page.evaluate(() => { document.activeElement.stale = true; document.getElementById("jobs").stale = true; });
  await server.researcher.post("/intents", { title: "One more matter" });
  await page.getByRole("link", { name: "One more matter" }).waitFor();
  const found = await page.evaluate(() => ({ name: document.activeElement.getAttribute("aria-label"), stale: document.activeElement.stale === true }));
  assert.deepEqual(found, { name: "Intents, the liveliest first", stale: false });
  assert.equal(await page.evaluate(() => document.getElementById("jobs").stale), true);

  const moment = await ask();
  await page.goto(`${server.url}/inbox`);
  await following(page);
  const age = page.locator("#cards time").first();
  await page.evaluate(() => { document.getElementById("cards").stale = true; document.querySelector("#cards time").textContent = "long ago"; });
  await until(async () => {
    await page.evaluate(() => document.dispatchEvent(new Event("visibilitychange")));
    return !/long ago/.test(await age.innerText());
  }, "the age is put right");
  assert.equal(await page.evaluate(() => document.getElementById("cards").stale), true, "for an age alone the cards are not made anew");
  await withdraw(moment);
});

test("who looks at a question of somebody else sees what becomes of it", async () => {
  const moment = await ask();
  const page = await windowOf(server, "human.ben", { admin: true });
  await page.goto(`${server.url}/inbox/${idOf(moment)}`);
  await following(page);
  await withdraw(moment);
  await page.getByText("It is withdrawn.").waitFor({ timeout: 4500 });
});
