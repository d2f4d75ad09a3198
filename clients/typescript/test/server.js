// A real server for the tests, which can be killed and started again, and a proxy before it that cuts connections.

import { spawn } from "node:child_process";
import { chmodSync, mkdtempSync, rmSync } from "node:fs";
import { connect, createServer } from "node:net";
import { after, test as run } from "node:test";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Entente } from "../dist/index.js";

const root = fileURLToPath(new URL("../../../", import.meta.url));
const program = process.env.ENTENTE_PROGRAM ?? join(root, "target", "debug", "entente");
const SEEDS = ["agent:agent.researcher=key-researcher", "agent:agent.data=key-data", "agent:agent.clerk=key-clerk", "human:human.ada=key-ada"];

/** Milliseconds after which a test fails. */
const LATE = 120_000;

export let url;
let dir;
let child;
let ended;

let started;
const proxies = new Set();

/** A test against the server, which the first one starts. */
export function test(name, work) {
  run(name, { timeout: LATE }, async (context) => {
    started ??= start();
    await started;
    try {
      await work(context);
    } finally {
      // One that stays open keeps the program alive.
      await Promise.all([...proxies].map((proxy) => proxy.close()));
    }
  });
}

after(stop);

/** Starts the server, or starts it again at the same address on the same data. */
export async function start() {
  dir ??= mkdtempSync(join(tmpdir(), "entente-typescript-"));
  // PostgreSQL runs as another user when the tests run as root.
  chmodSync(dir, 0o755);
  const bind = url === undefined ? "127.0.0.1:0" : new URL(url).host;
  child = spawn(program, ["dev", "--bind", bind, "--data-dir", join(dir, "data"), ...SEEDS.flatMap((seed) => ["--seed", seed])],
    { stdio: ["ignore", "pipe", "pipe"] });
  ended = new Promise((resolve) => child.once("exit", resolve));
  let said = "";
  await new Promise((resolve, reject) => {
    const hear = (bytes) => {
      said += bytes;
      if (said.includes("Ctrl-C stops the server.")) resolve();
    };
    child.stdout.on("data", hear);
    child.stderr.on("data", hear);
    child.once("exit", (code, by) => reject(new Error(`the server ended (${code ?? by}):\n${said}`)));
  });
  url = said.match(/ENTENTE_URL=(\S+)/)[1];
  process.env.ENTENTE_URL = url;
  process.env.ENTENTE_API_KEY = said.match(/ENTENTE_API_KEY=(\S+)/)[1];
  process.env.ENTENTE_OPERATOR_KEY = said.match(/ENTENTE_OPERATOR_KEY=(\S+)/)[1];
}

/** Ends the server: `SIGKILL` is a crash. */
export async function end(signal = "SIGTERM") {
  child.kill(signal);
  await ended;
}

/** Ends the server for good. */
export async function stop() {
  if (child === undefined) return;
  await end();
  rmSync(dir, { recursive: true, force: true });
}

/** Returns a client of a seeded agent: `researcher`, `data`, `clerk` or `ada`. */
export function client(name, connection = {}) {
  return new Entente({ url, apiKey: `key-${name}`, ...connection });
}

export function operator() {
  return new Entente({ url, apiKey: process.env.ENTENTE_OPERATOR_KEY });
}

/** Creates an intent with a channel; returns the channel as the agent that created it sees it, and as another one does. */
export async function talk(name, connection = {}) {
  const researcher = client("researcher", connection);
  const data = client("data");
  const intent = await researcher.intents.create(`talk about ${name}`);
  const channel = await researcher.channels.create(intent.id, { name });
  return { researcher, data, intent, channel, other: data.channel(channel.id) };
}

/** A proxy between a client and the server. */
export class Proxy {
  connections = new Set();
  #lose = { left: 0, match: "" };
  #stopped;
  #server;

  static async open() {
    const proxy = new Proxy();
    proxies.add(proxy);
    proxy.#server = createServer((near) => proxy.#relay(near));
    await new Promise((resolve) => proxy.#server.listen(0, "127.0.0.1", resolve));
    proxy.url = `http://127.0.0.1:${proxy.#server.address().port}`;
    return proxy;
  }

  #relay(near) {
    const far = connect(Number(new URL(url).port), "127.0.0.1");
    let isLost = false;
    const close = () => {
      near.destroy();
      far.destroy();
      this.connections.delete(close);
    };
    this.connections.add(close);
    near.on("data", (bytes) => {
      if (this.#stopped !== undefined && bytes.includes(this.#stopped)) return close();
      if (this.#lose.left > 0 && bytes.includes(this.#lose.match)) {
        this.#lose.left -= 1;
        isLost = true;
      }
      far.write(bytes);
    });
    far.on("data", (bytes) => (isLost ? close() : near.write(bytes)));
    for (const socket of [near, far]) socket.on("error", close).on("close", close);
  }

  /** Loses the answers to the next requests with this text: the server does them, and the client never hears. */
  lose(match, left = 1) {
    this.#lose = { match, left };
  }

  /** Lets no request with this text through, until it is called without one. */
  block(match) {
    this.#stopped = match;
  }

  /** Requests whose answers are yet to be lost. */
  get left() {
    return this.#lose.left;
  }

  /** Cuts every connection. */
  cut() {
    for (const close of [...this.connections]) close();
  }

  close() {
    this.cut();
    proxies.delete(this);
    return new Promise((resolve) => this.#server.close(resolve));
  }
}

/** Waits until something holds. */
export async function until(holds, what) {
  for (const late = Date.now() + 30_000; ; ) {
    const found = await holds();
    if (found) return found;
    if (Date.now() > late) throw new Error(`never: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
