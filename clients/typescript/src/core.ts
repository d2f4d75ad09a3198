// The core: one typed request over the paths of the OpenAPI document, with repetitions that happen once.

import { ConnectionError, EntenteError, refusal } from "./errors.js";
import { keyed } from "./generated/keyed.js";
import type { components, paths } from "./generated/schema.js";
import { check, linked, pause, sleep } from "./waiting.js";

export type Schemas = components["schemas"];
export type JsonObject = Record<string, unknown>;
export type Method = "get" | "put" | "post" | "patch" | "delete";

/** The paths that have a method. */
export type PathWith<M extends Method> = { [P in keyof paths]: M extends keyof paths[P] ? P : never }[keyof paths];
/** The operation of a method and a path. */
export type Operation<M extends Method, P extends keyof paths> = M extends keyof paths[P] ? paths[P][M] : never;

type Parameters<O, In extends string> = O extends { parameters: infer All } ? (In extends keyof All ? All[In] : undefined) : undefined;
type Member<Name extends string, T> = [T] extends [undefined] ? { [N in Name]?: undefined }
  : undefined extends T ? { [N in Name]?: T } : {} extends T ? { [N in Name]?: T } : { [N in Name]: T };
type Body<O> = O extends { requestBody: { content: { "application/json": infer B } } } ? B
  : O extends { requestBody?: { content: { "application/json": infer B } } } ? B | undefined : undefined;
type Responses<O> = O extends { responses: infer R } ? R[keyof R] : never;
/** What an operation answers. */
export type Answer<O> = Responses<O> extends infer R
  ? R extends { content: { "application/json": infer B } } ? B : R extends { content: infer C } ? C[keyof C] : undefined
  : never;

/** The parts of a request that its operation defines. */
export type Given<O> = Member<"path", Exclude<Parameters<O, "path">, undefined>>
  & Member<"query", Parameters<O, "query">> & Member<"body", Body<O>>;

/** A random id. Pages that came without https have no `crypto.randomUUID`. */
export function randomId(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** What a write takes effect under: it is refused once a lease or claim ended, or a later epoch began. */
export interface Fences {
  lease?: { id: string; fencing_token: number };
  claim?: { id: string; token: number | string };
  epoch?: number;
}

/** How to send a request. */
export interface Sending extends Fences {
  /** Ends the request, and what waits for it. */
  signal?: AbortSignal | undefined;
  /** Names the request: repeated under this key, it happens once. By default each call has a key of its own. */
  idempotencyKey?: string;
  /** Milliseconds for an attempt to be answered. */
  timeout?: number;
  /** Milliseconds for which a request without an answer, or with 429 or 503, is repeated; 0 never repeats. */
  retryFor?: number;
  /** Whether a write without an idempotency key has the same effect when it is repeated. */
  repeatable?: boolean;
  /** Further headers, such as `If-Match`. */
  headers?: Record<string, string>;
}

/** How to reach a server. */
export interface Connection extends Fences {
  /** The server's URL; defaults to `ENTENTE_URL` where there is an environment, or else to the page's own origin. */
  url?: string;
  /** The key; defaults to `ENTENTE_API_KEY` where there is an environment. */
  apiKey?: string;
  /** The agent to act as; defaults to the key's own. */
  agentId?: string;
  /** Milliseconds for an attempt to be answered; defaults to 30 seconds. */
  timeout?: number;
  /** Milliseconds for which requests are repeated; defaults to 30 seconds. */
  retryFor?: number;
  /** Another `fetch`, for a proxy or a test. */
  fetch?: typeof fetch;
}

/** An answer with its status and headers. */
export interface Answered<T> {
  data: T;
  status: number;
  headers: Headers;
}

interface Loose {
  path?: object;
  query?: object;
  body?: unknown;
}

const SECONDS_30 = 30_000;
/** Errors of node that say that the request was not sent. */
const UNSENT = ["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN"];

/** The environment, where there is one: node, Deno and Bun have it, browsers do not. */
function environment(name: string): string | undefined {
  const { process } = globalThis as { process?: { env?: Record<string, string | undefined> } };
  return process?.env?.[name];
}

/** Sends requests to one server with one key. */
export class Core {
  readonly url: string;
  readonly agentId: string | undefined;
  readonly connection: Connection;
  readonly #apiKey: string | undefined;
  readonly #fetch: typeof fetch;
  /** Milliseconds that the server's clock is ahead, as far as its answers tell. */
  #ahead = 0;

  constructor(connection: Connection = {}) {
    const { location } = globalThis as { location?: { origin?: string } };
    const url = connection.url ?? environment("ENTENTE_URL") ?? location?.origin;
    if (!url) throw new TypeError("`url` is missing: pass the server's URL, or set ENTENTE_URL.");
    this.url = url.replace(/\/+$/, "");
    this.connection = connection;
    this.agentId = connection.agentId;
    this.#apiKey = connection.apiKey ?? environment("ENTENTE_API_KEY");
    // Called as a method, `fetch` of a browser refuses to work.
    this.#fetch = connection.fetch ?? ((...call) => fetch(...call));
  }

  /** Sends a request, and returns the answer's body. */
  async request<M extends Method, P extends PathWith<M>>(
    method: M, path: P, given: Given<Operation<M, P>> & Sending,
  ): Promise<Answer<Operation<M, P>>> {
    return (await this.answer(method, path, given)).data;
  }

  /** Sends a request, and returns the answer with its headers. */
  async answer<M extends Method, P extends PathWith<M>>(
    method: M, path: P, given: Given<Operation<M, P>> & Sending,
  ): Promise<Answered<Answer<Operation<M, P>>>> {
    const response = await this.send(method, path as string, given as Loose & Sending);
    const text = await response.text();
    // Lines of JSON, as of a bundle, are a text.
    const isJson = /\bjson|\+json/.test(response.headers.get("content-type") ?? "");
    const data = (isJson && text ? JSON.parse(text) : text || undefined) as Answer<Operation<M, P>>;
    return { data, status: response.status, headers: response.headers };
  }

  /** Sends a request until it has an answer, and returns that with its body read; throws a refusal. */
  async send(method: string, path: string, given: Loose & Sending): Promise<Response> {
    const isKeyed = keyed.has(`${method} ${path}`);
    const headers = this.headers(given, method !== "get");
    if (isKeyed) headers["idempotency-key"] = given.idempotencyKey ?? randomId();
    // A text is lines of JSON, as of a bundle.
    const isText = typeof given.body === "string";
    if (given.body !== undefined) headers["content-type"] = isText ? "application/x-ndjson" : "application/json";
    const body = given.body === undefined ? null : isText ? (given.body as string) : JSON.stringify(given.body);
    const init = { method: method.toUpperCase(), headers, body };
    const isSafe = isKeyed || given.repeatable === true || ["get", "put", "delete"].includes(method);
    const url = this.target(path, given);
    const end = Date.now() + (given.retryFor ?? this.connection.retryFor ?? SECONDS_30);
    for (let attempt = 0; ; attempt += 1) {
      const outcome = await this.#attempt(url, init, given);
      if (!(outcome instanceof EntenteError)) return outcome;
      const wait = (outcome.retryAfter ?? 0) * 1_000 || pause(attempt);
      if (!isRepeated(outcome, isSafe) || Date.now() + wait > end) throw outcome;
      await sleep(wait, given.signal);
    }
  }

  /** Opens a stream of server-sent events; the caller ends it by the signal. */
  async open(path: string, given: Loose & Sending): Promise<Response> {
    const headers = { ...this.headers(given, false), accept: "text/event-stream" };
    const { signal = null } = given;
    const url = this.target(path, given);
    const response = await this.#fetch(url, { headers, signal, cache: "no-store" }).catch((why: unknown) => {
      throw unreached("GET", url, why);
    });
    this.#hearTime(response.headers);
    if (response.ok) return response;
    throw await refusal(response);
  }

  /** Returns the time on the server's clock, to a second. */
  now(): number {
    return Date.now() + this.#ahead;
  }

  private headers(given: Sending, isWrite: boolean): Record<string, string> {
    const headers: Record<string, string> = { accept: "application/json" };
    if (this.#apiKey) headers["x-api-key"] = this.#apiKey;
    if (this.agentId) headers["x-agent-id"] = this.agentId;
    if (isWrite) {
      const { lease, claim, epoch } = { ...this.connection, ...defined(given) };
      if (lease) headers["entente-lease"] = `${lease.id}; token=${lease.fencing_token}`;
      if (claim) headers["entente-claim"] = `${claim.id}; token=${claim.token}`;
      if (epoch !== undefined) headers["entente-epoch"] = String(epoch);
    }
    return { ...headers, ...given.headers };
  }

  private target(path: string, { path: names, query }: Loose): string {
    const filled = path.replace(/\{(\w+)\}/g, (_, name: string) => {
      const value = (names as Record<string, unknown> | undefined)?.[name];
      if (value === undefined || value === "") throw new TypeError(`\`path.${name}\` is missing.`);
      return encodeURIComponent(String(value));
    });
    const search = new URLSearchParams();
    for (const [name, value] of Object.entries(query ?? {})) {
      for (const each of Array.isArray(value) ? value : [value]) if (each != null) search.append(name, String(each));
    }
    const text = search.toString();
    return `${this.url}${filled}${text && `?${text}`}`;
  }

  /** Sends once. Returns the answer whole, or why there is none; throws what the caller's signal says. */
  async #attempt(url: string, init: RequestInit, { signal, timeout }: Sending): Promise<Response | EntenteError> {
    check(signal);
    const { controller, unlink } = linked(signal);
    const late = timeout ?? this.connection.timeout ?? SECONDS_30;
    const timer = setTimeout(() => controller.abort(new Error(`no answer within ${late / 1000} s`)), late);
    try {
      const response = await this.#fetch(url, { ...init, signal: controller.signal, cache: "no-store" });
      this.#hearTime(response.headers);
      if (!response.ok) return await refusal(response);
      // An answer that breaks off within its body is none.
      const body = await response.arrayBuffer();
      return new Response(body.byteLength === 0 ? null : body, response);
    } catch (cause) {
      check(signal);
      return unreached(init.method ?? "", url, controller.signal.aborted ? controller.signal.reason : cause);
    } finally {
      clearTimeout(timer);
      unlink();
    }
  }

  #hearTime(headers: Headers): void {
    const time = Date.parse(headers.get("date") ?? "");
    const ahead = time - Date.now();
    // The header has whole seconds, cut off.
    if (!Number.isNaN(time)) this.#ahead = ahead > 0 || ahead < -1_000 ? ahead + 500 : 0;
  }
}

function unreached(method: string, url: string, why: unknown): ConnectionError {
  // `fetch` of node says "fetch failed", and the cause what failed.
  const { message, cause } = why as { message?: string; cause?: { message?: string; code?: string } };
  return new ConnectionError(`${method} ${url}: ${cause?.message || cause?.code || message || String(why)}`, why);
}

/** Whether a request is sent again after an outcome. */
function isRepeated(outcome: EntenteError, isSafe: boolean): boolean {
  if (outcome.status === 429) return true;
  if (outcome.status === 503 || outcome.status === 502 || outcome.status === 504) return isSafe;
  if (outcome.status !== 0) return false;
  const { code } = ((outcome.cause as { cause?: { code?: string } } | undefined)?.cause ?? {}) as { code?: string };
  return isSafe || (code !== undefined && UNSENT.includes(code));
}

function defined<T extends object>(given: T): Partial<T> {
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)) as Partial<T>;
}
