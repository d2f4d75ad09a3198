// Helpers for the tests of the pages: a separate server, agents that use its API, and a Chromium.

import { spawn } from "node:child_process";
import { chmodSync, mkdtempSync, mkdirSync, readFileSync, rmSync, existsSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import assert from "node:assert/strict";
import { chromium } from "playwright-core";

const here = dirname(fileURLToPath(import.meta.url));
const root = join(here, "..", "..");
export const output = join(here, "output");
mkdirSync(output, { recursive: true });

export const program = process.env.ENTENTE_PROGRAM ?? join(root, "target", "debug", "entente");
// ENTENTE_BROWSER takes precedence; scripts/setup.sh searches the same paths.
const browserPath = [process.env.ENTENTE_BROWSER, ...["chromium", "chromium-browser", "google-chrome"].flatMap((name) =>
  (process.env.PATH ?? "").split(":").map((dir) => join(dir, name))),
"/Applications/Google Chrome.app/Contents/MacOS/Google Chrome", "/Applications/Chromium.app/Contents/MacOS/Chromium"]
  .filter(Boolean).find(existsSync);

/** Starts a server with its own database; returns it with its keys. On a busy machine a start may need retries. */
export async function serve(options) {
  for (let tries = 1; ; tries += 1) {
    try { return await start(options); } catch (failure) { if (tries === 3) throw failure; }
  }
}

/** Starts another server on the database of one that runs, with these settings; returns its URL and its end. */
export async function serveBeside(server, port, settings) {
  // Fourth and fifth line: port and directory of the socket.
  const lines = readFileSync(join(server.data_dir, "postgres", "postmaster.pid"), "utf8").split("\n");
  const database = `postgres://entente@localhost:${lines[3]}/entente?host=${encodeURIComponent(lines[4])}`;
  const url = `http://127.0.0.1:${port}`;
  const env = { ...process.env, DATABASE_URL: database, ENTENTE_BIND: `127.0.0.1:${port}`, ...settings };
  const child = spawn(program, ["serve"], { env, stdio: ["ignore", "pipe", "pipe"] });
  let said = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (bytes) => { said += bytes; });
  const ended = new Promise((resolve) => child.once("exit", resolve));
  await until(async () => {
    assert.equal(child.exitCode, null, `the server ended:\n${said}`);
    return fetch(`${url}/healthz`).then((answer) => answer.ok, () => false);
  }, `a server at ${url}`);
  return { url, log: () => said, stop: () => { child.kill("SIGTERM"); return ended; } };
}

async function start({ port = 0, settings = {} } = {}) {
  const dir = mkdtempSync(join(tmpdir(), "entente-pages-"));
  // PostgreSQL runs as another user when the tests run as root.
  chmodSync(dir, 0o755);
  const seeds = ["agent:agent.researcher=key-researcher", "agent:agent.data=key-data", "agent:agent.release=key-release",
    "human:human.ada=key-ada", "human:human.ben=key-ben"];
  const child = spawn(program, ["dev", "--bind", `127.0.0.1:${port}`, "--data-dir", join(dir, "data"),
    ...seeds.flatMap((seed) => ["--seed", seed])], { env: { ...process.env, ...settings }, stdio: ["ignore", "pipe", "pipe"] });
  let said = "";
  const ended = new Promise((resolve) => child.once("exit", resolve));
  const ready = new Promise((resolve, reject) => {
    const hear = (bytes) => {
      said += bytes;
      if (said.includes("Ctrl-C stops the server.")) resolve();
    };
    child.stdout.on("data", hear);
    child.stderr.on("data", hear);
    child.once("exit", () => reject(new Error(`the server ended:\n${said}`)));
  });
  await ready;
  const url = said.match(/ENTENTE_URL=(\S+)/)[1];
  const key = said.match(/ENTENTE_OPERATOR_KEY=(\S+)/)[1];
  const link = said.match(/(http:\S+\/l\/\S+)/)[1];
  return {
    url, link, key, data_dir: join(dir, "data"), log: () => said,
    admin: api(url, key),
    researcher: api(url, "key-researcher", "agent.researcher"),
    data: api(url, "key-data", "agent.data"),
    release: api(url, "key-release", "agent.release"),
    ada: api(url, "key-ada"),
    async stop() {
      child.kill("SIGTERM");
      await ended;
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

/** Returns a client of the API with a key. */
export function api(url, key, name) {
  const send = async (method, path, body) => {
    const answer = await fetch(`${url}/api/v1${path}`, {
      method,
      headers: { "x-api-key": key, "content-type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    return { status: answer.status, body: await answer.json() };
  };
  const sure = async (...ask) => {
    const answer = await send(...ask);
    assert.ok(answer.status < 300, `${ask[0]} ${ask[1]}: ${answer.status} ${JSON.stringify(answer.body)}`);
    return answer.body;
  };
  return {
    name,
    send,
    get: (path) => sure("GET", path),
    post: (path, body = {}) => sure("POST", path, body),
    put: (path, body = {}) => sure("PUT", path, body),
  };
}

/** Creates a one-time link for a person. */
export async function linkFor(server, person, admin = false) {
  const made = await server.admin.post(`/people/${person}/links`, { admin });
  return server.url + made.path;
}

let running;

/** Starts Chromium, once for all tests of a file. */
export async function browser() {
  assert.ok(browserPath, "no Chromium here: scripts/setup.sh installs it, or ENTENTE_BROWSER says where it is");
  running ??= await chromium.launch({
    executablePath: browserPath,
    headless: true,
    args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
      "--disable-component-update", "--disable-sync"],
  });
  return running;
}

export async function close() {
  await running?.close();
  running = undefined;
}

/** Closes every window. */
export async function closeWindows() {
  await Promise.all((running?.contexts() ?? []).map((context) => context.close()));
}

/** Opens a window; errors on its page fail the test that opened it. */
export async function window(options = {}) {
  const context = await (await browser()).newContext({ viewport: { width: 1280, height: 900 }, ...options });
  context.setDefaultTimeout(30000);
  const page = await context.newPage();
  page.faults = [];
  page.on("pageerror", (error) => page.faults.push(String(error)));
  page.on("console", (message) => {
    // Chromium also reports expected errors here: pages with the status of a refusal, and streams that break off and then
    // redirect to the login. Errors of assets are never expected.
    const meant = /status of (401|403|404|409|410|422|429)|INCOMPLETE_CHUNKED|EventSource's response has a MIME type/;
    const own = new URL(message.location().url || "about:blank").pathname.startsWith("/assets/");
    if (message.type() === "error" && (own || !meant.test(message.text()))) {
      page.faults.push(`${message.text()} ${message.location().url}`);
    }
  });
  return page;
}

/** Opens a window of a logged-in person. */
export async function windowOf(server, person, { admin = false, ...options } = {}) {
  const page = await window(options);
  await page.goto(await linkFor(server, person, admin));
  await page.getByRole("button", { name: /Log in as/ }).click();
  await page.waitForURL("**/inbox");
  return page;
}

/** Sets a password as the person: one set by the operator must be changed first. */
export async function ownPassword(server, person, password) {
  const page = await windowOf(server, person);
  await page.goto(`${server.url}/password`);
  await page.getByLabel(/New password/).fill(password);
  await page.getByRole("button", { name: "Set the password" }).click();
  await page.waitForURL("**/inbox");
  await page.context().close();
}

/** Returns a well-formed question; `more` extends the request, `change` overrides members of the question. */
export function question(more = {}, change = {}) {
  return {
    principal_id: "human.ada",
    binding_moment: {
      synopsis: "Ship release 1.4 today, behind the feature flag.",
      findings: ["CI is green on all 412 tests.", "Two of three reviewers approved; the third is away until tomorrow.",
        "No open blocker is left in the tracker.", "Tuesday's traffic is the lowest of the week."],
      recommendations: ["Tag v1.4 on the release branch.", "Publish to the registry with the flag off.",
        "Turn the flag on for 5 % of users."],
      offer: "Ask for detail on any item.",
      question: {
        stem: "When should release 1.4 ship?",
        options: [
          { label: "Ship today", reasoning: "All checks pass, and the flag limits what can go wrong." },
          { label: "Wait a day", reasoning: "The third reviewer is back tomorrow." },
          { label: "Skip 1.4", reasoning: "1.5 is due in a week and has the same fixes." },
        ],
        recommended_idx: 0,
        hatches: { free_text: true, dialogue: true },
      },
      meta: { decision_class: "release" },
      ...change,
    },
    ...more,
  };
}

export const idOf = (moment) => moment.id ?? moment.moment_id;

/** Withdraws an agent's open questions: the same question may not be open twice, and each test asks it. */
export async function withdrawAll(agent) {
  const { moments } = await agent.get("/moments?state=open");
  for (const moment of moments) {
    await agent.post(`/moments/${idOf(moment)}/withdraw`, { reason: "The test that asked is over." });
  }
}

/** Polls until `holds` returns a value, and returns that. */
export async function until(holds, what) {
  const end = Date.now() + 30000;
  for (;;) {
    const found = await holds();
    if (found) return found;
    assert.ok(Date.now() < end, `never: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}
