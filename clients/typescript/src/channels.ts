// Channels and messages (RFC-0021): send, ask, reply, list, follow.

import type { Core, JsonObject, Schemas, Sending } from "./core.js";
import { EntenteError, MessageTimeoutError } from "./errors.js";
import { EventStream } from "./streams.js";
import type { Following, Missed } from "./streams.js";
import type { ChannelRecord, Message } from "./types.js";
import type { Entente } from "./client.js";
import { unref } from "./waiting.js";

/** A page of messages. */
export interface MessagePage {
  messages: Message[];
  /** Continues after the page: `since` of the next one. */
  next: string;
  hasMore: boolean;
  /** How many messages were evicted or expired before this reader came. */
  missed: number;
}

export interface AskOptions extends Sending {
  /** Seconds to wait for the answer; defaults to 30. The request expires then. */
  seconds?: number;
  /** Hints for routing and tracing. */
  metadata?: JsonObject;
}

export interface SendOptions extends Sending {
  to?: string;
  type?: "request" | "response" | "notify" | "broadcast";
  metadata?: JsonObject;
  correlationId?: string;
  expiresAt?: string;
}

export interface ListOptions extends Sending {
  /** A message id, a `next` of a page, or a time; defaults to the newest messages. */
  since?: string;
  /** Only messages to this agent, its roles and everybody. */
  to?: string;
  limit?: number;
  /** Seconds to wait if there is no message, up to 120. */
  wait?: number;
}

/** Longest long poll in seconds: a proxy may cut off what takes longer. */
const POLL = 25;
/** Seconds that a request outlives the wait for its answer, for what is under way. */
const SLACK = 1;

/** Milliseconds after which an agent's inbox has shown an answer. */
const SEEN = 60_000;

/** Requests whose answers somebody here waits for. */
export const asked = new Set<string>();

/** One channel, in the name of one agent. Its id suffices; `record` reads the rest. */
export class Channel {
  constructor(
    readonly client: Entente,
    readonly id: string,
  ) {}

  get #core(): Core {
    return this.client.core;
  }

  #path(): { channel_id: string } {
    return { channel_id: this.id };
  }

  /** Reads the channel. */
  record(sending: Sending = {}): Promise<ChannelRecord> {
    return this.#core.request("get", "/api/v1/channels/{channel_id}", { ...sending, path: this.#path() });
  }

  /** Sends a message. It is stored once, also if the answer is lost on the way. */
  async send<P extends object = JsonObject>(payload: P, { to, type, metadata, correlationId, expiresAt, ...sending }: SendOptions = {},
  ): Promise<Message<P>> {
    const body: Schemas["SendBody"] = {
      sender: await this.client.agent(), payload: payload as JsonObject, message_type: type ?? "notify", to: to ?? null,
      metadata: metadata ?? null, correlation_id: correlationId ?? null, expires_at: expiresAt ?? null,
    };
    const sent = await this.#core.request("post", "/api/v1/channels/{channel_id}/messages", { ...sending, path: this.#path(), body });
    return sent as Message<P>;
  }

  /** Tells one agent or role something, and waits for no answer. */
  notify<P extends object>(to: string, payload: P, options: SendOptions = {}): Promise<Message<P>> {
    return this.send(payload, { ...options, to, type: "notify" });
  }

  /** Tells everybody something. */
  broadcast<P extends object>(payload: P, options: SendOptions = {}): Promise<Message<P>> {
    return this.send(payload, { ...options, to: "*", type: "broadcast" });
  }

  /** Asks, and waits for the first answer; throws `MessageTimeoutError` if none comes in time. The question is asked once,
   *  whatever is lost on the way; with an `idempotencyKey`, also by a process that starts anew, which gets the same answer. */
  async ask<P extends object = JsonObject>(to: string, question: object, options: AskOptions = {}): Promise<Message<P>> {
    const { request, answers } = await this.#ask(to, question, 1, options);
    const [first] = answers;
    if (first === undefined) throw new MessageTimeoutError(request.id, to, options.seconds ?? 30);
    return first as Message<P>;
  }

  /** Asks several, and returns their answers: all of them, or those that came in time. `to` is a list of agents, which are asked
   *  one by one, or a role or `*`: then `expect` answers are awaited, by default one of each recipient. */
  async askAll(to: string | string[], question: object, options: AskOptions & { expect?: number } = {}): Promise<Message[]> {
    const { expect, ...others } = options;
    if (typeof to !== "string") {
      const asked = await Promise.all(to.map((one) => this.#ask(one, question, 1, others)));
      return asked.flatMap(({ answers }) => answers);
    }
    if (expect !== undefined) return (await this.#ask(to, question, expect, others)).answers;
    const { seconds = 30, metadata, ...sending } = others;
    // Only the server knows who that is. It takes no key with `/ask`, so a lost answer is an error, not a second question.
    const body = { sender: await this.client.agent(), to, payload: question as JsonObject, timeout: seconds, expect: "all" as const,
      metadata: metadata ?? null };
    const timeout = sending.timeout ?? (seconds + 10) * 1_000;
    const done = await this.#core.request("post", "/api/v1/channels/{channel_id}/ask", { ...sending, path: this.#path(), body, timeout });
    return done.responses as Message[];
  }

  async #ask(to: string, question: object, expect: number, options: AskOptions): Promise<{ request: Message; answers: Message[] }> {
    const { seconds = 30, metadata, ...sending } = options;
    const late = Date.now() + seconds * 1_000;
    // Under a key of the caller's the question is the same whenever it is asked, so it has no end.
    const expiresAt = new Date(this.#core.now() + (seconds + SLACK) * 1_000).toISOString();
    const end = sending.idempotencyKey === undefined ? { expiresAt } : {};
    const request = await this.send(question, { ...sending, ...end, to, type: "request", ...(metadata && { metadata }) });
    asked.add(request.id);
    const answers: Message[] = [];
    try {
      for (let since = request.id; answers.length < expect; ) {
        const left = Math.ceil((late - Date.now()) / 1_000);
        if (left <= 0) break;
        const page = await this.messages({ since, to: request.sender, wait: Math.min(left, POLL), ...(sending.signal && { signal: sending.signal }) });
        answers.push(...page.messages.filter((message) => message.correlation_id === request.id));
        since = page.next;
      }
    } finally {
      // An agent's inbox shows the answers a moment later, and they are no news then.
      unref(setTimeout(() => asked.delete(request.id), SEEN));
    }
    return { request: request as Message, answers: answers.slice(0, expect) };
  }

  /** Answers a request; the answer goes to its sender. */
  async reply<P extends object>(request: { id: string } | string, payload: P, sending: Sending & { metadata?: JsonObject } = {}): Promise<Message<P>> {
    const { metadata, ...others } = sending;
    const path = { ...this.#path(), message_id: typeof request === "string" ? request : request.id };
    const body = { sender: await this.client.agent(), payload: payload as JsonObject, metadata: metadata ?? null };
    const sent = await this.#core.request("post", "/api/v1/channels/{channel_id}/messages/{message_id}/reply", { ...others, path, body });
    return sent as Message<P>;
  }

  /** Lists messages, oldest first. */
  async messages({ since, to, limit, wait, ...sending }: ListOptions = {}): Promise<MessagePage> {
    const query = { ...(since !== undefined && { since }), ...(to !== undefined && { to }), ...(limit !== undefined && { limit }),
      ...(wait !== undefined && { wait }) };
    const timeout = sending.timeout ?? ((wait ?? 0) + 30) * 1_000;
    const { data, headers } = await this.#core.answer("get", "/api/v1/channels/{channel_id}/messages",
      { ...sending, path: this.#path(), query, timeout });
    const messages = data as Message[];
    return {
      messages,
      // A browser hides the headers of another origin: the last message is a position, too.
      next: headers.get("entente-next-cursor") ?? messages.at(-1)?.id ?? since ?? "",
      hasMore: headers.get("entente-has-more") === "true",
      missed: Number(headers.get("entente-missed") ?? 0),
    };
  }

  /** Reads one message. */
  async message(id: string, sending: Sending = {}): Promise<Message> {
    const path = { ...this.#path(), message_id: id };
    return await this.#core.request("get", "/api/v1/channels/{channel_id}/messages/{message_id}", { ...sending, path }) as Message;
  }

  /** Marks a message as read; only its addressee may. */
  async read(message: { id: string } | string, sending: Sending = {}): Promise<Message> {
    const path = { ...this.#path(), message_id: typeof message === "string" ? message : message.id };
    const body = { status: "read" as const };
    return await this.#core.request("patch", "/api/v1/channels/{channel_id}/messages/{message_id}",
      { repeatable: true, ...sending, path, body }) as Message;
  }

  /** Follows the messages, each once; `missed` of an event says what was evicted before it. Begins now, after `since`, or after
   *  `lastEventId`. */
  follow(following: Following & { since?: string } = {}): EventStream<Message & { intent_id: string; channel_name: string }> {
    const { since } = following;
    const query = { event_types: "channel_message", ...(since !== undefined && { since }) };
    return new EventStream(this.#core, "/api/v1/subscribe/channels/{channel_id}", { path: this.#path(), query }, following);
  }

  /** Closes the channel. */
  async close(sending: Sending = {}): Promise<void> {
    await this.#core.request("delete", "/api/v1/channels/{channel_id}", { ...sending, path: this.#path() });
  }
}

/** The channels of intents. */
export class Channels {
  constructor(readonly client: Entente) {}

  /** Creates a channel. */
  async create(intentId: string, channel: Schemas["NewChannel"], sending: Sending = {}): Promise<Channel & { readonly created: ChannelRecord }> {
    const path = { intent_id: intentId };
    const created = await this.client.core.request("post", "/api/v1/intents/{intent_id}/channels", { ...sending, path, body: channel });
    return Object.assign(new Channel(this.client, created.id), { created });
  }

  /** Lists an intent's channels, open ones first. */
  list(intentId: string, sending: Sending & { status?: "open" | "closed" } = {}): Promise<ChannelRecord[]> {
    const { status, ...others } = sending;
    return this.client.core.request("get", "/api/v1/intents/{intent_id}/channels",
      { ...others, path: { intent_id: intentId }, query: { ...(status && { status }) } });
  }

  /** Returns the open channel with this name; creates it if there is none. */
  async open(name: string, { intentId, ...options }: { intentId: string } & Omit<Schemas["NewChannel"], "name">): Promise<Channel> {
    for (let tries = 1; ; tries += 1) {
      const found = (await this.list(intentId, { status: "open" })).find((channel) => channel.name === name);
      if (found) return new Channel(this.client, found.id);
      try {
        return await this.create(intentId, { ...options, name });
      } catch (refused) {
        // Another agent has opened it in between.
        if (!(refused instanceof EntenteError) || refused.status !== 409 || tries === 3) throw refused;
      }
    }
  }
}

export type { Missed };
