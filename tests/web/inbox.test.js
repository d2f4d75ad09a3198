// The inbox in a real browser: every way to answer, by mouse, by keyboard and without JavaScript; two windows; complete
// content without styles and on a phone.

import { after, afterEach, before, test } from "node:test";
import assert from "node:assert/strict";
import { close, closeWindows, idOf, output, ownPassword, question, serve, until, window, windowOf, withdrawAll } from "./kit.js";

let server;
before(async () => { server = await serve(); });
afterEach(async () => { await closeWindows(); await withdrawAll(server.release); });
after(async () => { await close(); await server?.stop(); });

const ask = (more, change) => server.release.post("/moments", question(more, change));
const stateOf = (moment, agent = server.release) => agent.get(`/moments/${idOf(moment)}`);

test("from the link of `entente dev` to a decision that is made", async () => {
  const page = await window();
  await page.goto(server.link);
  await page.getByRole("button", { name: "Log in as human.dev" }).click();
  await page.waitForURL("**/inbox");
  await page.getByRole("link", { name: "Let your first agent in over MCP." }).click();
  await page.getByLabel("REST under /api/v1").check();
  await page.getByRole("button", { name: "Commit to this" }).click();
  await page.getByRole("heading", { name: "Answered" }).waitFor();
  await page.getByRole("link", { name: "← Inbox" }).click();
  assert.match(await page.getByRole("main").innerText(), /Nothing waits for you/);
  const again = await window();
  const answer = await again.goto(server.link);
  assert.equal(answer.status(), 410);
  assert.deepEqual(page.faults, []);
});

test("a password opens the page that was asked for, and a wrong one does not", async () => {
  await ownPassword(server, "human.ben", "four plain words here");
  const page = await window();
  await page.goto(`${server.url}/dashboard`);
  await page.getByLabel("Name").fill("human.ben");
  await page.getByLabel("Password").fill("four wrong words here");
  await page.getByRole("button", { name: "Log in" }).click();
  assert.match(await page.getByRole("alert").innerText(), /open nothing here/);
  await page.getByLabel("Password").fill("four plain words here");
  await page.getByRole("button", { name: "Log in" }).click();
  await page.waitForURL("**/dashboard");
  const cookies = await page.context().cookies();
  assert.equal(cookies.length, 1);
  assert.deepEqual([cookies[0].httpOnly, cookies[0].sameSite], [true, "Strict"]);
  assert.equal(await page.evaluate(() => document.cookie), "");
  await page.getByRole("button", { name: "Log out" }).click();
  await page.waitForURL("**/login");
  await page.goto(`${server.url}/dashboard`);
  assert.match(page.url(), /\/login\?next=\/dashboard/);
  assert.deepEqual(page.faults, []);
});

test("a question appears by itself and is resolved by an option", async () => {
  const page = await windowOf(server, "human.ada");
  await page.locator("body[data-following]").waitFor();
  const moment = await ask({ expires_in: 1800 });
  const card = page.locator(".ask").filter({ has: page.getByRole("link", { name: "Ship release 1.4 today, behind the feature flag." }) });
  await card.waitFor();
  assert.equal(await card.locator(".pill").getByText("release", { exact: true }).count(), 1, "its class stands on the card");
  await card.getByRole("link").click();
  await page.waitForURL(`**/inbox/${idOf(moment)}`);
  assert.equal(await page.locator("#moment .pill").getByText("release", { exact: true }).count(), 1, "and on its page");
  assert.equal(await page.locator("input[type=radio]:checked").count(), 0, "nothing is preselected");
  assert.equal(await page.getByText("(recommended)").count(), 1);
  assert.equal(await page.locator("[data-slot=label]").first().evaluate((one) => getComputedStyle(one).unicodeBidi), "isolate");
  await until(async () => (await stateOf(moment)).first_viewed_at, "that it was seen is known");
  await page.getByLabel("Wait a day").check();
  await page.getByRole("button", { name: "Commit to this" }).click();
  await page.getByRole("heading", { name: "Answered" }).waitFor();
  const found = await stateOf(moment);
  assert.equal(found.state, "resolved");
  assert.deepEqual([found.resolution.kind, found.resolution.option_idx], ["option", 1]);
  assert.deepEqual([found.resolution.resolved_by, found.resolution.resolved_via], ["human.ada", "web"]);
  assert.deepEqual(page.faults, []);
});

test("the keyboard alone is enough, for an option and for one's own words", async () => {
  const first = await ask({ expires_in: 600 });
  const page = await windowOf(server, "human.ada");
  await page.keyboard.press("j");
  await page.keyboard.press("Enter");
  await page.waitForURL(`**/inbox/${idOf(first)}`);
  await page.keyboard.press("2");
  assert.equal(await page.getByLabel("Wait a day").isChecked(), true);
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "Answered" }).waitFor();
  assert.equal((await stateOf(first)).resolution.option_idx, 1);

  const second = await ask();
  await page.keyboard.press("u");
  await page.waitForURL("**/inbox");
  await page.getByRole("link", { name: /Ship release/ }).first().waitFor();
  await page.keyboard.press("j");
  await page.keyboard.press("Enter");
  await page.waitForURL(`**/inbox/${idOf(second)}`);
  await page.keyboard.press("t");
  await page.keyboard.type("Ship on Thursday, after the freeze.\nNot before.");
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "Answered" }).waitFor();
  const found = await stateOf(second);
  assert.deepEqual([found.resolution.kind, found.resolution.answer],
    ["free_text", "Ship on Thursday, after the freeze.\nNot before."]);
  assert.deepEqual(page.faults, []);
});

test("who does not want the keys turns them off", async () => {
  const moment = await ask();
  const page = await windowOf(server, "human.ada");
  await page.goto(`${server.url}/inbox/${idOf(moment)}`);
  const hint = page.locator(".option kbd").first();
  assert.equal(await hint.isVisible(), true);
  await page.keyboard.press("?");
  await page.getByLabel("Keys are on").uncheck();
  const nothing = async () => {
    for (const key of ["2", "t", "d", "j", "u", "?"]) await page.keyboard.press(key);
    assert.equal(await page.locator("input[type=radio]:checked").count(), 0);
    assert.equal(await page.locator("textarea:visible").count(), 0);
    assert.equal(new URL(page.url()).pathname, `/inbox/${idOf(moment)}`);
    assert.equal(await hint.isVisible(), false);
  };
  await page.getByRole("heading", { level: 1 }).click();
  await nothing();
  await page.reload();
  await nothing();
  await page.locator("#keys summary").click();
  await page.getByLabel("Keys are on").check();
  await page.getByRole("heading", { level: 1 }).click();
  await page.keyboard.press("2");
  assert.equal(await page.getByLabel("Wait a day").isChecked(), true);
  await server.release.post(`/moments/${idOf(moment)}/withdraw`, { reason: "No longer needed." });
  assert.deepEqual(page.faults, []);
});

test("the question itself is refused, talked about, and asked anew", async () => {
  const agent = server.data;
  const moment = await agent.post("/moments", question());
  const page = await windowOf(server, "human.ada");
  await page.goto(`${server.url}/inbox/${idOf(moment)}`);
  await page.keyboard.press("d");
  await page.keyboard.type("Whether, not when: who asked for this release?");
  await page.getByRole("button", { name: "Refuse the question" }).click();
  await page.getByRole("heading", { name: "You refused the question" }).waitFor();
  assert.equal((await stateOf(moment, agent)).state, "deliberating");
  const refused = async (what, code) => {
    const answer = await agent.send("POST", "/moments", what);
    assert.deepEqual([answer.status, answer.body.code], [409, code]);
  };
  await refused(question({}, { synopsis: "Ship it all the same." }), "same_question");

  await page.locator("body[data-following]").waitFor();
  await agent.post(`/moments/${idOf(moment)}/words`, { text: "Sales asked, for the fair on Friday." });
  await page.getByText("Sales asked, for the fair on Friday.").waitFor();
  await page.getByLabel("Your reply").fill("Then ask me about the fair.");
  await page.getByRole("button", { name: "Reply" }).click();
  await page.getByText("Then ask me about the fair.").waitFor();

  const change = { synopsis: "Show 1.4 at the fair from a laptop.", question: {
    stem: "What is shown at the fair?",
    options: [{ label: "1.4 from a laptop", reasoning: "Nothing ships." }, { label: "1.3 as it is", reasoning: "It is tested." }],
    recommended_idx: 0, hatches: { free_text: true, dialogue: true } } };
  await refused(question({}, change), "deliberation_required");
  const again = await agent.post("/moments", question({ supersedes: idOf(moment), objection_response: "You are right: the fair is the question." }, change));
  await page.goto(`${server.url}/inbox/${idOf(again)}`);
  assert.match(await page.getByRole("main").innerText(), /You are right: the fair is the question\./);
  await page.getByLabel("1.4 from a laptop").check();
  await page.getByRole("button", { name: "Commit to this" }).click();
  await page.getByRole("heading", { name: "Answered" }).waitFor();
  assert.deepEqual(page.faults, []);
});

test("asking for detail resolves nothing", async () => {
  const moment = await ask();
  const page = await windowOf(server, "human.ada");
  await page.goto(`${server.url}/inbox/${idOf(moment)}`);
  await page.getByText("Ask for detail on any item.").click();
  await page.getByLabel("What would you like to know more about?").fill("Which reviewer is away?");
  await page.getByRole("button", { name: "Ask for detail" }).click();
  await page.getByText("Which reviewer is away?").waitFor();
  assert.equal((await stateOf(moment)).state, "open");
  await page.locator("body[data-following]").waitFor();
  await server.release.post(`/moments/${idOf(moment)}/words`, { text: "Carol, until Wednesday." });
  await page.getByText("Carol, until Wednesday.").waitFor();
  // A user with a selected option still gets later words, and the selection stays.
  await page.getByLabel("Skip 1.4").check();
  await server.release.post(`/moments/${idOf(moment)}/words`, { text: "Dave could stand in for her." });
  await page.getByText("Dave could stand in for her.").waitFor();
  assert.equal(await page.getByLabel("Skip 1.4").isChecked(), true);
  await page.getByRole("button", { name: "Commit to this" }).click();
  await page.getByRole("heading", { name: "Answered" }).waitFor();
  assert.deepEqual(page.faults, []);
});

test("what is answered in one window is answered in the other, at once", async () => {
  const moment = await ask();
  const [one, other] = [await windowOf(server, "human.ada"), await windowOf(server, "human.ada")];
  const list = await windowOf(server, "human.ada");
  await list.locator("body[data-following]").waitFor();
  const card = list.locator(`.ask a[href="/inbox/${idOf(moment)}"]`);
  assert.equal(await card.count(), 1);
  for (const page of [one, other]) {
    await page.goto(`${server.url}/inbox/${idOf(moment)}`);
    await page.locator("body[data-following]").waitFor();
  }
  assert.deepEqual([await other.getByRole("status").count(), await other.getByRole("status").innerText()], [1, ""]);
  // Even with a half-typed answer.
  await other.keyboard.press("t");
  await other.keyboard.type("I was about to say");
  await one.getByLabel("Ship today").check();
  await one.getByRole("button", { name: "Commit to this" }).click();
  await other.getByRole("heading", { name: "Answered" }).waitFor({ timeout: 3000 });
  assert.equal(await other.locator("textarea").count(), 0);
  assert.match(await other.getByRole("status").innerText(), /human\.ada answered/);
  const unsent = other.getByRole("region", { name: "What you wrote was not sent:" });
  assert.match(await unsent.innerText(), /I was about to say/);
  await other.reload();
  assert.match(await unsent.innerText(), /I was about to say/, "nor is it lost when the page is loaded anew");
  await until(async () => (await card.count()) === 0, "the card is gone from the list");
  assert.deepEqual([...one.faults, ...other.faults, ...list.faults], []);
});

test("it all works without JavaScript, and who is too late is told who was first", async () => {
  const moment = await ask();
  const page = await windowOf(server, "human.ada", { javaScriptEnabled: false });
  const late = await windowOf(server, "human.ada", { javaScriptEnabled: false });
  for (const one of [page, late]) {
    await one.locator(`a[href="/inbox/${idOf(moment)}"]`).click();
    await one.waitForURL(`**/inbox/${idOf(moment)}`);
  }
  await page.getByLabel("Ship today").check();
  await page.getByRole("button", { name: "Commit to this" }).click();
  await page.getByRole("heading", { name: "Answered" }).waitFor();
  await late.getByText("Answer in your own words").click();
  await late.getByLabel("The question is right, the answer is another").fill("Tomorrow at noon.");
  await late.getByRole("button", { name: "Answer in these words" }).click();
  const alert = await late.getByRole("alert").innerText();
  assert.match(alert, /human\.ada/);
  assert.match(await late.getByRole("region", { name: "What you wrote was not sent:" }).innerText(), /Tomorrow at noon\./);
  assert.equal((await stateOf(moment)).resolution.kind, "option");
});

test("whatever is written when nobody takes it any more is given back", async () => {
  const moment = await ask();
  const ways = [["Ask for detail on any item.", "What would you like to know more about?", "Ask for detail"],
    ["Answer in your own words", "The question is right, the answer is another", "Answer in these words"],
    ["Wrong question, let us talk", "What is wrong with the question?", "Refuse the question"]];
  const pages = [];
  for (const [opens, label] of ways) {
    const page = await windowOf(server, "human.ada", { javaScriptEnabled: false });
    await page.goto(`${server.url}/inbox/${idOf(moment)}`);
    await page.getByText(opens).click();
    await page.getByLabel(label).fill(`Too late:\n${label}`);
    pages.push(page);
  }
  const live = await windowOf(server, "human.ada");
  await live.goto(`${server.url}/inbox/${idOf(moment)}`);
  await live.locator("body[data-following]").waitFor();
  await live.getByText(ways[0][0]).click();
  await live.getByLabel(ways[0][1]).fill("Who asked for it?");
  // A draft of a request for detail becomes a draft of the reply in a deliberation.
  await server.ada.post(`/moments/${idOf(moment)}/resolution`, { envelope_digest: moment.envelope_digest, resolution: { kind: "dialogue", objection: "Not this." } });
  const reply = live.getByLabel("Your reply");
  await reply.waitFor();
  assert.equal(await reply.inputValue(), "Who asked for it?");
  await server.ada.post(`/moments/${idOf(moment)}/close`);
  const unsent = (page) => page.getByRole("region", { name: "What you wrote was not sent:" }).locator("p").allTextContents();
  await live.getByRole("heading", { name: "What you wrote was not sent:" }).waitFor();
  assert.deepEqual(await unsent(live), ["Who asked for it?"]);
  for (const [at, page] of pages.entries()) {
    await page.getByRole("button", { name: ways[at][2] }).click();
    await page.getByRole("alert").waitFor();
    assert.deepEqual(await unsent(page), [`Too late:\n${ways[at][1]}`]);
  }
  assert.deepEqual(live.faults, []);
});

test("forty findings and every other slot stand there as written, also without style and on a phone", async () => {
  const findings = Array.from({ length: 40 }, (_, n) => `Finding ${n + 1}: <b>not markup</b> & "quoted"  twice  spaced`);
  const moment = await ask({}, { findings });
  const slots = (await stateOf(moment)).binding_moment;
  const page = await windowOf(server, "human.ada");
  await page.route("**/*.css*", (route) => route.abort());
  await page.goto(`${server.url}/inbox/${idOf(moment)}`);
  const texts = (slot) => page.locator(`[data-slot=${slot}]`).allTextContents();
  assert.deepEqual(await texts("finding"), slots.findings);
  assert.deepEqual(await texts("synopsis"), [slots.synopsis]);
  assert.deepEqual(await texts("recommendation"), slots.recommendations);
  assert.deepEqual(await texts("offer"), [slots.offer]);
  assert.deepEqual(await texts("stem"), [slots.question.stem]);
  assert.deepEqual(await texts("label"), slots.question.options.map((option) => option.label));
  assert.deepEqual(await texts("reasoning"), slots.question.options.map((option) => option.reasoning));
  const plain = await page.getByRole("main").innerText();
  assert.match(plain, /Ship today[^]*\(recommended\)[^]*Wait a day/);
  assert.match(plain, /Answer in your own words[^]*Wrong question, let us talk/);
  await page.screenshot({ path: `${output}/no-style.png`, fullPage: true });

  const phone = await windowOf(server, "human.ada", { viewport: { width: 360, height: 740 }, isMobile: true, hasTouch: true });
  for (const path of [`/inbox/${idOf(moment)}`, "/inbox", "/dashboard"]) {
    await phone.goto(server.url + path);
    const wide = await phone.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    assert.ok(wide <= 0, `${path} is ${wide} pixels too wide for a phone`);
  }
  await phone.goto(`${server.url}/inbox/${idOf(moment)}`);
  assert.equal(await phone.locator("[data-slot=finding]").count(), 40);
  await phone.getByLabel("Wait a day").tap();
  await phone.getByRole("button", { name: "Commit to this" }).tap();
  await phone.getByRole("heading", { name: "Answered" }).waitFor();
});

test("a closed hatch is not there, and the agent's reason is", async () => {
  const base = question().binding_moment.question;
  const moment = await ask({ hatch_justification: "The form of the authority knows these three." },
    { question: { ...base, hatches: { free_text: false, dialogue: true } } });
  const page = await windowOf(server, "human.ada");
  await page.goto(`${server.url}/inbox/${idOf(moment)}`);
  const text = await page.getByRole("main").innerText();
  assert.doesNotMatch(text, /Answer in your own words/);
  assert.match(text, /Wrong question, let us talk/);
  assert.match(text, /The form of the authority knows these three\./);
  await server.release.post(`/moments/${idOf(moment)}/withdraw`, { reason: "No longer needed." });
  await page.getByText("It is withdrawn.").waitFor();
});
