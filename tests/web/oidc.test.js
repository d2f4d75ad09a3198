// Login with accounts of an OpenID Connect provider: a real one (oidc-provider), in a real browser, and one that lies.
//
// `server` creates nobody; `creating` runs beside it on the same database and creates people; `doubting` asks the provider
// that lies, and names people by their addresses.

import { after, afterEach, before, test } from "node:test";
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { join } from "node:path";
import { close, closeWindows, output, ownPassword, program, serve, serveBeside, until, window } from "./kit.js";
import { CLIENT, LIES, SECRET, Visitor, complaint, freePort, pretend, provide } from "./provider.js";

const PASSWORD = "four plain words here";
const TEAMS = "engineers=team.eng,engineers=team.all,team.ops,lost=team.missing";
let server, creating, doubting, provider, liar;

before(async () => {
  const ports = [await freePort(), await freePort(), await freePort()];
  const urls = ports.map((port) => `http://127.0.0.1:${port}`);
  provider = await provide(urls.map((url) => `${url}/login/provider/callback`));
  liar = await pretend();
  const settings = {
    ENTENTE_PUBLIC_URL: urls[0], ENTENTE_OIDC_ISSUER: provider.issuer, ENTENTE_OIDC_ALLOW: "localhost", ENTENTE_OIDC_CLIENT_ID: CLIENT,
    ENTENTE_OIDC_CLIENT_SECRET: SECRET, ENTENTE_OIDC_LABEL: "Example Org", ENTENTE_OIDC_SCOPES: "profile email groups",
    ENTENTE_OIDC_NAME_CLAIM: "preferred_username", ENTENTE_OIDC_TEAMS: TEAMS, ENTENTE_OIDC_ADMIN_GROUP: "admins",
  };
  server = await serve({ port: ports[0], settings });
  [creating, doubting] = await Promise.all([
    serveBeside(server, ports[1], { ...settings, ENTENTE_OIDC_CREATE_PEOPLE: "true" }),
    serveBeside(server, ports[2], { ...settings, ENTENTE_PUBLIC_URL: urls[2], ENTENTE_OIDC_ISSUER: liar.issuer, ENTENTE_OIDC_CREATE_PEOPLE: "true",
      ENTENTE_OIDC_NAME_CLAIM: "email", ENTENTE_OIDC_PRINCIPAL: "{claim}", ENTENTE_OIDC_TEAMS: "", ENTENTE_OIDC_ADMIN_GROUP: "" }),
  ]);
  for (const name of ["human.cora", "human.dan", "human.eve", "human.fay", "human.gus"]) await person(name);
});
afterEach(closeWindows);
after(async () => {
  await close();
  for (const one of [creating, doubting, server, provider, liar]) await one?.stop();
});

/** Runs `entente doctor` beside a server, with these settings. The provider lives in this process, which must not block. */
async function doctor(settings) {
  const child = spawn(program, ["doctor"], { cwd: output, env: { ...process.env, ...settings }, stdio: ["ignore", "pipe", "pipe"] });
  let said = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (bytes) => { said += bytes; });
  await new Promise((resolve) => child.once("close", resolve));
  return said;
}

test("the doctor asks the provider", async () => {
  const settings = { ENTENTE_DATA_DIR: server.data_dir, ENTENTE_PUBLIC_URL: server.url, ENTENTE_OIDC_ISSUER: provider.issuer,
    ENTENTE_OIDC_ALLOW: "localhost", ENTENTE_OIDC_CLIENT_ID: CLIENT, ENTENTE_OIDC_CLIENT_SECRET: SECRET };
  assert.match(await doctor(settings), /^ok {4}the OpenID Connect provider answers/m);
  const wrong = await doctor({ ...settings, ENTENTE_OIDC_ISSUER: `${provider.issuer}/elsewhere` });
  assert.match(wrong, /^FAULT ENTENTE_OIDC_ISSUER: nobody can log in: /m);
});

const person = (id) => server.admin.post("/principals", { id, kind: "human" });

/** Adds an account to the real provider. */
function account(sub, name, more = {}) {
  provider.accounts.set(sub, { preferred_username: name, ...more });
  return sub;
}

/** Returns what the API says about the key of a login. */
async function me(visitor) {
  const answer = await fetch(`${server.url}/api/v1/principals/me`, { headers: { "x-api-key": visitor.key() ?? "" } });
  return answer.json();
}

async function events(type) {
  return server.admin.get(`/audit?limit=1000&event_type=${type}`);
}

for (const [place, viewport] of [["desk", { width: 1280, height: 900 }], ["phone", { width: 390, height: 844 }]]) {
  test(`a person logs in with their account, at a ${place}`, async () => {
    account("s-cora", "cora");
    const page = await window({ viewport });
    await page.goto(`${server.url}/dashboard`);
    const button = page.getByRole("link", { name: "Log in with Example Org" });
    const box = await button.boundingBox();
    assert.ok(box.height >= 36 && box.x >= 0 && box.x + box.width <= viewport.width, "the button can be hit");
    await page.screenshot({ path: join(output, `login-provider-${place}.png`) });
    await button.click();
    await page.getByLabel("Account").fill("s-cora");
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.waitForURL(`${server.url}/dashboard`);
    assert.equal(await page.locator("body").getAttribute("data-who"), "human.cora");
    const cookies = (await page.context().cookies(server.url)).filter((cookie) => cookie.domain === "127.0.0.1");
    assert.deepEqual(cookies.map(({ name, httpOnly, sameSite }) => [name, httpOnly, sameSite]), [["entente", true, "Strict"]]);
    const key = cookies[0].value;
    const visitor = { key: () => key };
    assert.equal((await me(visitor)).principal_id, "human.cora");
    // Logging in anew ends the login before, though the browser withholds its key on the way back.
    await page.goto(`${server.url}/login`);
    await button.click();
    await page.waitForURL(`${server.url}/inbox`);
    assert.equal((await me(visitor)).principal_id, undefined, "the key is replaced");
    visitor.key = () => next;
    const next = (await page.context().cookies(server.url)).find((cookie) => cookie.name === "entente").value;
    assert.equal((await me(visitor)).principal_id, "human.cora");
    await page.getByRole("button", { name: "Log out" }).click();
    await page.waitForURL("**/login");
    assert.equal((await me(visitor)).principal_id, undefined, "the key is revoked");
    assert.deepEqual(page.faults, []);
  });
}

test("who cancels at the provider reads what happened, and no words of the provider's", async () => {
  const page = await window();
  await page.goto(`${server.url}/login?next=/jobs`);
  await page.getByRole("link", { name: "Log in with Example Org" }).click();
  await page.getByRole("button", { name: "Cancel" }).click();
  const alert = await page.getByRole("alert").innerText();
  assert.match(alert, /Example Org did not let you in, or you cancelled\. Begin again/);
  assert.match(await page.getByRole("link", { name: "Log in with Example Org" }).getAttribute("href"), /next=\/jobs$/, "what was asked for is still known");
});

test("a login is an ordinary key of the person, who decides with it", async () => {
  account("s-dan", "dan", { name: "Dan Example" });
  const visitor = new Visitor();
  const page = await visitor.logIn(server.url, "s-dan", "/jobs?state=open");
  assert.equal(page.status, 200);
  assert.match(page.text, /url=\/jobs\?state=open"/, "the page leads on to what was asked for");
  assert.match(page.headers.get("set-cookie"), /entente=[^;]+; Path=\/; Max-Age=43200; HttpOnly; SameSite=Strict/);
  const known = await me(visitor);
  assert.deepEqual([known.principal_id, known.key.label, known.key.scopes.includes("admin")], ["human.dan", "browser", false]);
  assert.deepEqual(known.key.authority, { basis: "provider_account", let_in_by: "entente" });
  // Decides as with an own password.
  const asked = await server.release.post("/moments", { principal_id: "human.dan", binding_moment: {
    synopsis: "Ship it.", findings: ["It works."], recommendations: ["Ship."], offer: "Ask.", meta: { decision_class: "release" },
    question: { stem: "Ship?", options: [{ label: "Yes", reasoning: "It works." }, { label: "No", reasoning: "It is Friday." }],
      recommended_idx: 0, hatches: { free_text: true, dialogue: true } } } });
  const answer = await fetch(`${server.url}/api/v1/moments/${asked.id ?? asked.moment_id}/resolution`, {
    method: "POST", headers: { "x-api-key": visitor.key(), "content-type": "application/json" },
    body: JSON.stringify({ envelope_digest: asked.envelope_digest, resolution: { kind: "option", option_idx: 0 } }) });
  assert.equal(answer.status, 200, await answer.text());
  // Has no password, and gets none by the account.
  const token = (await visitor.go(`${server.url}/password`)).text.match(/name="token" value="([^"]+)"/)[1];
  const refused = await visitor.go(`${server.url}/password`, { token, password: "some four words more" });
  assert.equal(refused.status, 403);
  assert.match(refused.text, /account of your organisation/);
  for (const secret of [SECRET, visitor.key().slice(12)]) assert.ok(!server.log().includes(secret), "no secret is logged");
});

test("a callback works once, in the browser that began, unchanged, and in time", async () => {
  account("s-eve", "eve");
  const visitor = new Visitor();
  const callback = await visitor.toCallback(`${server.url}/login/provider`, "s-eve");
  const bound = visitor.cookies.get("127.0.0.1").get("entente-login");
  // In another browser, which has begun a login of its own.
  const other = new Visitor();
  for (const begins of [false, true]) {
    if (begins) await other.go(`${server.url}/login/provider`);
    const page = await other.go(callback);
    assert.equal(page.status, 400);
    assert.match(complaint(page), /This browser began no such login/);
    assert.equal(other.key(), undefined);
  }
  // Changed: the state, the issuer, no code.
  const change = (name, to) => {
    const url = new URL(callback);
    if (to === null) url.searchParams.delete(name); else url.searchParams.set(name, to(url.searchParams.get(name)));
    return url.href;
  };
  for (const [url, status] of [
    [change("state", (state) => state.replace(/^./, (first) => (first === "a" ? "b" : "a"))), 400],
    [change("state", () => ""), 400],
    [change("state", null), 400],
    [change("iss", () => "https://elsewhere.example"), 403],
    [change("code", null), 403],
    [change("code", () => "another"), 401],
  ]) assert.equal((await visitor.go(url)).status, status, url);
  assert.equal(visitor.key(), undefined);
  // The state of another login with this login's code: the code belongs to the other verifier and nonce.
  const second = await visitor.go(`${server.url}/login/provider`);
  const mixed = change("state", () => new URL(second.location).searchParams.get("state"));
  assert.equal((await visitor.go(mixed)).status, 401);
  // The provider has seen a misuse of the code by now and takes it no more, so a fresh one.
  const fresh = await visitor.toCallback(`${server.url}/login/provider`, "s-eve");
  assert.equal((await visitor.go(fresh)).status, 200);
  const key = visitor.key();
  assert.ok(key);
  assert.equal(visitor.cookies.get("127.0.0.1").get("entente-login"), undefined, "the cookie of the login is gone");
  // Replayed, even with the cookie.
  for (const cookie of [undefined, bound]) {
    if (cookie) visitor.cookies.get("127.0.0.1").set("entente-login", cookie);
    const page = await visitor.go(fresh);
    assert.ok([400, 401].includes(page.status), `${page.status}`);
  }
  assert.equal(visitor.key(), key, "the login stays");
  assert.equal((await me(visitor)).principal_id, "human.eve");
});

test("a login that began on one server ends on the other, and twice on none", async () => {
  account("s-fay", "fay");
  const visitor = new Visitor();
  const callback = await visitor.toCallback(`${creating.url}/login/provider?next=/jobs`, "s-fay");
  assert.ok(callback.startsWith(`${server.url}/`), "both have one public URL");
  const page = await visitor.go(callback);
  assert.equal(page.status, 200, complaint(page));
  assert.equal((await me(visitor)).principal_id, "human.fay");
});

test("next leads nowhere else", async () => {
  account("s-gus", "gus");
  for (const next of ["https://elsewhere.example/", "//elsewhere.example", "/\\elsewhere.example", "javascript:1"]) {
    const page = await new Visitor().logIn(server.url, "s-gus", next);
    assert.equal(page.status, 200);
    assert.match(page.text, /url=\/inbox"/);
    assert.ok(!page.text.includes("elsewhere"));
  }
});

test("an unknown person is refused, or created where the operator has set so", async () => {
  account("s-new", "newcomer", { name: "New Comer" });
  const visitor = new Visitor();
  const page = await visitor.logIn(server.url, "s-new");
  assert.equal(page.status, 403);
  assert.match(complaint(page), /There is no `human\.newcomer` here\. Ask an admin to let you in/);
  assert.equal(visitor.key(), undefined);
  const begun = await visitor.toCallback(`${creating.url}/login/provider`, "s-new");
  const created = await visitor.go(begun.replace(server.url, creating.url));
  assert.equal(created.status, 200, complaint(created));
  const principal = await server.admin.get("/principals/human.newcomer");
  assert.deepEqual([principal.kind, principal.display_name, principal.created_by], ["human", "New Comer", "entente"]);
  // Known from now on, on each server.
  assert.equal((await new Visitor().logIn(server.url, "s-new")).status, 200);
});

test("a name at the provider takes over nobody", async () => {
  // human.ada has a seeded key, human.hal a password, human.ida an open link; agent.x is an agent.
  await person("human.hal");
  await server.admin.put("/people/human.hal/password", { password: PASSWORD });
  await person("human.ida");
  await server.admin.post("/people/human.ida/links");
  await server.admin.post("/principals", { id: "human.robot", kind: "agent" });
  for (const [name, why] of [["ada", /already logs in by other means/], ["hal", /already logs in by other means/],
    ["ida", /already logs in by other means/], ["robot", /is no person here/], ["x".repeat(200), /makes no name of a person/]]) {
    const visitor = new Visitor();
    const page = await visitor.logIn(server.url, account(`s-thief-${name.slice(0, 9)}`, name));
    assert.equal(page.status, 403, name);
    assert.match(complaint(page), why);
    assert.equal(visitor.key(), undefined);
  }
});

test("an account is known by its subject: neither its name nor another account with that name changes who it is", async () => {
  await person("human.jan");
  await person("human.kim");
  account("s-jan", "jan");
  assert.equal((await new Visitor().logIn(server.url, "s-jan")).status, 200);
  // The name passes on to another account.
  account("s-jan", "kim");
  account("s-other", "jan");
  const refused = await new Visitor().logIn(server.url, "s-other");
  assert.equal(refused.status, 403);
  assert.match(complaint(refused), /`human\.jan` belongs to another account/);
  const renamed = new Visitor();
  assert.equal((await renamed.logIn(server.url, "s-jan")).status, 200);
  assert.equal((await me(renamed)).principal_id, "human.jan", "a new name opens nothing else");
  // An admin releases the person, whose logins end; then the other account may become them.
  const key = renamed.key();
  const released = await fetch(`${server.url}/api/v1/people/human.jan/account`, { method: "DELETE", headers: { "x-api-key": server.key } });
  assert.equal(released.status, 204);
  assert.equal((await me({ key: () => key })).principal_id, undefined);
  const again = await fetch(`${server.url}/api/v1/people/human.jan/account`, { method: "DELETE", headers: { "x-api-key": server.key } });
  assert.equal(again.status, 404);
  const heir = new Visitor();
  assert.equal((await heir.logIn(server.url, "s-other")).status, 200);
  assert.equal((await me(heir)).principal_id, "human.jan");
});

test("groups move a person between the teams of the mapping, at each login, and touch no other", async () => {
  await person("human.lea");
  const members = async (team) => (await server.admin.get(`/teams/${team}`)).members;
  for (const team of ["team.eng", "team.all", "team.ops"]) await server.admin.put(`/teams/${team}`, { members: ["human.ben"] });
  await server.admin.put("/teams/team.own", { members: ["human.ben", "human.lea"] });
  account("s-lea", "lea", { groups: ["engineers", "lost", "unmapped"] });
  assert.equal((await new Visitor().logIn(server.url, "s-lea")).status, 200);
  assert.deepEqual(await members("team.eng"), ["human.ben", "human.lea"]);
  assert.deepEqual(await members("team.all"), ["human.ben", "human.lea"]);
  assert.deepEqual(await members("team.ops"), ["human.ben"]);
  account("s-lea", "lea", { groups: ["team.ops"] });
  assert.equal((await new Visitor().logIn(server.url, "s-lea")).status, 200);
  assert.deepEqual(await members("team.eng"), ["human.ben"]);
  assert.deepEqual(await members("team.all"), ["human.ben"]);
  assert.deepEqual(await members("team.ops"), ["human.ben", "human.lea"]);
  account("s-lea", "lea");
  assert.equal((await new Visitor().logIn(server.url, "s-lea")).status, 200);
  assert.deepEqual(await members("team.ops"), ["human.ben"], "no groups are no teams");
  assert.deepEqual(await members("team.own"), ["human.ben", "human.lea"], "a team outside of the mapping stays");
  assert.match(server.log(), /team\.missing/, "the operator is told of a team that does not exist");
  // Groups that are no list log nobody in, and so move nobody.
  account("s-lea", "lea", { groups: { eng: true } });
  assert.match(complaint(await new Visitor().logIn(server.url, "s-lea")), /is no list of groups/);
});

test("the admin group administers, as long as the account is in it", async () => {
  await person("human.max");
  account("s-max", "max", { groups: ["admins"] });
  const visitor = new Visitor();
  assert.equal((await visitor.logIn(server.url, "s-max")).status, 200);
  assert.ok((await me(visitor)).key.scopes.includes("admin"));
  account("s-max", "max", { groups: ["engineers"] });
  const key = visitor.key();
  assert.equal((await visitor.logIn(server.url, "s-max")).status, 200);
  assert.ok(!(await me(visitor)).key.scopes.includes("admin"));
  assert.equal((await me({ key: () => key })).principal_id, undefined, "the login before has ended in this browser");
});

test("a token that was not made by the provider for this login is not believed", async () => {
  liar.claims = { sub: "l-nia", email: "nia@example.com", email_verified: true };
  for (const [name, lie] of Object.entries(LIES)) {
    liar.lie = lie;
    const visitor = new Visitor();
    const page = await visitor.logIn(doubting.url, "");
    assert.equal(page.status, 502, `${name}: ${complaint(page)}`);
    assert.match(complaint(page), /cannot be verified/);
    assert.equal(visitor.key(), undefined, name);
  }
  liar.lie = undefined;
  const visitor = new Visitor();
  assert.equal((await visitor.logIn(doubting.url, "")).status, 200);
  assert.equal((await me(visitor)).principal_id, "nia@example.com");
  assert.ok(!doubting.log().includes("an access token"));
});

test("an address that the provider has not verified names nobody", async () => {
  for (const verified of [false, undefined, "false", 1]) {
    liar.claims = { sub: "l-olga", email: "olga@example.com", email_verified: verified };
    const visitor = new Visitor();
    const page = await visitor.logIn(doubting.url, "");
    assert.ok([403, 502].includes(page.status), `${verified}: ${page.status}`);
    assert.equal(visitor.key(), undefined);
  }
  liar.claims = { sub: "l-olga", email: "olga@example.com", email_verified: "true" };
  assert.equal((await new Visitor().logIn(doubting.url, "")).status, 200, "some providers say it in words");
});

test("keys that the provider has replaced are asked for anew", async () => {
  liar.claims = { sub: "l-nia", email: "nia@example.com", email_verified: true };
  liar.key = { ...liar.stranger, kid: "two", jwk: { ...liar.stranger.jwk, kid: "two" } };
  assert.equal((await new Visitor().logIn(doubting.url, "")).status, 200);
});

test("a provider that is away or frozen keeps nobody from the login page, nor from a password", async () => {
  await ownPassword(server, "human.ben", PASSWORD);
  const quick = async (what, milliseconds) => {
    const began = Date.now();
    const done = await what();
    assert.ok(Date.now() - began < milliseconds, `${Date.now() - began} ms`);
    return done;
  };
  const others = async () => {
    const page = await quick(() => new Visitor().go(`${doubting.url}/login`), 2000);
    assert.match(page.text, /Log in with Example Org/);
    const entered = await new Visitor().go(`${doubting.url}/login`, { name: "human.ben", password: PASSWORD });
    assert.equal(entered.status, 303);
  };
  // Frozen between the beginning of a login and its end.
  const visitor = new Visitor();
  const callback = await visitor.toCallback(`${doubting.url}/login/provider`, "");
  liar.frozen = true;
  const ending = quick(() => visitor.go(callback), 15000);
  await others();
  const page = await ending;
  assert.equal(page.status, 503);
  assert.match(complaint(page), /Example Org does not answer at the moment\. Try again in a minute, or log in with a password/);
  liar.frozen = false;
  assert.equal((await new Visitor().logIn(doubting.url, "")).status, 200, "it is back");
  // Away before a server has ever asked it.
  await liar.stop();
  const port = await freePort();
  const fresh = await serveBeside(server, port, { ENTENTE_PUBLIC_URL: `http://127.0.0.1:${port}`, ENTENTE_OIDC_ISSUER: liar.issuer,
    ENTENTE_OIDC_ALLOW: "localhost", ENTENTE_OIDC_CLIENT_ID: CLIENT, ENTENTE_OIDC_CLIENT_SECRET: SECRET, ENTENTE_OIDC_CREATE_PEOPLE: "true" });
  try {
    const away = await quick(() => new Visitor().go(`${fresh.url}/login/provider`), 3000);
    assert.equal(away.status, 503);
    liar.frozen = true;
    await liar.again();
    await until(async () => (await quick(() => new Visitor().go(`${fresh.url}/login/provider`), 12000)).status === 503, "a frozen provider is away");
    // One waits for the provider, and all others get their answer at once.
    const asked = liar.asked;
    const answers = await quick(() => Promise.all(Array.from({ length: 20 }, () => new Visitor().go(`${fresh.url}/login/provider`))), 9000);
    assert.ok(answers.every((answer) => answer.status === 503));
    assert.ok(liar.asked - asked <= 1, `it was asked ${liar.asked - asked} times`);
    liar.frozen = false;
    await until(async () => (await new Visitor().go(`${fresh.url}/login/provider`)).status === 303, "it is back");
    assert.equal((await new Visitor().logIn(fresh.url, "")).status, 200);
  } finally {
    await fresh.stop();
  }
});

test("who tries too often waits, and passwords do not", async () => {
  const visitor = new Visitor();
  let slow;
  for (let tries = 0; tries < 400 && !slow; tries += 1) {
    const page = await visitor.go(`${creating.url}/login/provider/callback?state=guessed&code=guessed`);
    if (page.status === 429) slow = page;
  }
  assert.ok(Number(slow?.headers.get("retry-after")) >= 1);
  assert.match(complaint(slow), /too many tries/);
  assert.equal((await new Visitor().go(`${creating.url}/login`, { name: "human.ben", password: PASSWORD })).status, 303);
  assert.match(creating.log(), /credential_refused|opened nothing/);
});

test("logins, accounts and teams are in the log", async () => {
  const kinds = async (type) => (await events(type)).map((event) => event.payload);
  const bound = await kinds("person.account_bound");
  assert.ok(bound.some((payload) => payload.principal_id === "human.cora" && payload.issuer === provider.issuer && payload.subject === "s-cora"));
  assert.ok((await kinds("person.account_released")).some((payload) => payload.principal_id === "human.jan"));
  assert.ok((await kinds("key.created")).some((payload) => payload.opened_by === "provider" && payload.principal_id === "human.cora"));
  assert.ok((await kinds("team.changed")).some((payload) => payload.follows === "human.lea" && payload.team === "team.eng"));
});
