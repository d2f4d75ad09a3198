// An agent (RFC-0021, "SDK Integration"): handlers for assignments and messages, and channels to talk on.
//
// The agent rests on its inbox, where the server keeps its position: what came while it was away, it handles when it starts.

import type { Entente } from "./client.js";
import { asked } from "./channels.js";
import type { Channel } from "./channels.js";
import type { AskOptions, SendOptions } from "./channels.js";
import type { Sending } from "./core.js";
import { ConnectionError, EntenteError } from "./errors.js";
import type { InboxEntry, Intent, Message } from "./types.js";
import { linked } from "./waiting.js";

/** A channel as its agent uses it. */
export class ChannelProxy {
  constructor(readonly channel: Channel) {}

  get id(): string {
    return this.channel.id;
  }

  /** Asks, and waits for the answer; throws `MessageTimeoutError`. */
  ask(to: string, question: object, options: AskOptions = {}): Promise<Message> {
    return this.channel.ask(to, question, options);
  }

  /** Asks several, and returns their answers. */
  askAll(to: string | string[], question: object, options: AskOptions & { expect?: number } = {}): Promise<Message[]> {
    return this.channel.askAll(to, question, options);
  }

  /** Tells everybody. */
  broadcast(payload: object, options: SendOptions = {}): Promise<Message> {
    return this.channel.broadcast(payload, options) as Promise<Message>;
  }

  /** Tells one agent or role, and forgets it. */
  notify(to: string, payload: object, options: SendOptions = {}): Promise<Message> {
    return this.channel.notify(to, payload, options) as Promise<Message>;
  }
}

/** What a handler of messages may use. */
export interface MessageContext {
  channel: ChannelProxy;
  /** The channel's name. */
  name: string;
  intentId: string;
  signal: AbortSignal;
}

/** Handles a message. If that is a request, an object that it returns is sent as the answer. */
export type MessageHandler = (message: Message, context: MessageContext) => unknown;
/** Handles an intent that the agent was assigned to. */
export type AssignmentHandler = (intent: Intent, context: { signal: AbortSignal }) => unknown;

export interface AgentOptions {
  /** The agent's id; defaults to the client's. */
  id?: string;
  /** The reader of the inbox that is this program; defaults to `agent`. */
  reader?: string;
  /** How many messages are handled at once; defaults to 8. Assignments are handled beside them, and may take long. */
  concurrency?: number;
  /** Told of what a handler threw; the entry counts as handled then. Without it, `run` rejects, and the entry comes again at the
   *  next start. */
  onError?: (error: unknown, entry: InboxEntry | undefined) => void;
  /** Told how many entries were evicted before they were read. */
  onMissed?: (missed: number) => void;
}

/** Longest long poll of the inbox in seconds. */
const POLL = 25;
/** Entries read ahead of the oldest one that is still being handled, in pages of this size. */
const PAGE = 50;
/** Refusals of an answer for which nobody waits any more: there is one, or the question is over. */
const ANSWERED = ["idempotency_mismatch", "message_expired", "channel_closed", "intent_resolved", "not_found", "gone", "loop_stopped"];
/** Milliseconds that two clocks may differ. */
const SECOND = 1_000;

/** Keeps a position over work that ends in any order: everything up to it is done. */
class Progress {
  #open = new Set<number>();
  #done = new Set<number>();
  /** The place up to which everything is done. */
  position = 0;

  isNew(place: number): boolean {
    return place > this.position && !this.#open.has(place) && !this.#done.has(place);
  }

  begin(place: number): void {
    this.#open.add(place);
  }

  /** Notes the end of one, or that all others up to a place need no work. */
  end(place: number): void {
    this.#open.delete(place);
    this.#done.add(place);
    const oldest = Math.min(...this.#open, Infinity);
    for (const done of this.#done) {
      if (done >= oldest) continue;
      this.position = Math.max(this.position, done);
      this.#done.delete(done);
    }
  }
}

/** An agent that runs until it is stopped. */
export class Agent {
  readonly client: Entente;
  /** Channels of intents: `open` creates one if there is none with the name. */
  readonly channels: { open(name: string, options: { intentId: string }): Promise<ChannelProxy> };
  readonly #options: AgentOptions;
  readonly #assignments: AssignmentHandler[] = [];
  readonly #messages: { channel: string | undefined; handler: MessageHandler }[] = [];
  readonly #names = new Map<string, Promise<{ name: string; intentId: string }>>();
  readonly #stopping = new AbortController();
  /** Intents that were handled because they were on the list, with the time of that. */
  readonly #caught = new Map<string, number>();
  /** The last message of each channel that is being handled: those that ask nothing keep their order. */
  readonly #order = new Map<string, Promise<void>>();

  constructor(client: Entente, options: AgentOptions | string = {}) {
    this.#options = typeof options === "string" ? { id: options } : options;
    this.client = this.#options.id === undefined ? client : client.as(this.#options.id);
    this.channels = {
      open: async (name, { intentId }) => new ChannelProxy(await this.client.channels.open(name, { intentId })),
    };
  }

  /** Handles the intents that the agent is assigned to, also those from before it started. */
  onAssignment(handler: AssignmentHandler): this {
    this.#assignments.push(handler);
    return this;
  }

  /** Handles messages: those on channels with a name, or all. */
  onMessage(handler: MessageHandler): this;
  onMessage(filter: { channel?: string }, handler: MessageHandler): this;
  onMessage(first: MessageHandler | { channel?: string }, second?: MessageHandler): this {
    if (typeof first === "function") this.#messages.push({ channel: undefined, handler: first });
    else if (second) this.#messages.push({ channel: first.channel, handler: second });
    return this;
  }

  /** Ends `run` after the handlers that are at work; their signal tells them. What one of them does not finish comes again. */
  stop(): void {
    this.#stopping.abort(new Error("The agent stops."));
  }

  /** Runs until `stop` or the signal. `onReady` is called once the inbox is open: nothing is missed from then on. */
  async run({ signal, onReady }: { signal?: AbortSignal; onReady?: () => void } = {}): Promise<void> {
    const { controller, unlink } = linked(signal, this.#stopping.signal);
    const failed = new AbortController();
    const { controller: all, unlink: unlinkAll } = linked(controller.signal, failed.signal);
    const inbox = this.client.inbox({ reader: this.#options.reader ?? "agent" });
    const progress = new Progress();
    const running = new Set<Promise<void>>();
    let messages = 0;
    const begin = (entry: InboxEntry | undefined, work: () => Promise<void>) => {
      const run = (async () => {
        try {
          await work();
        } catch (why) {
          // Whoever is stopped at work has not handled the entry: it comes again.
          if (all.signal.aborted) return;
          if (!this.#options.onError) return failed.abort(why);
          this.#options.onError(why, entry);
        }
        if (entry) progress.end(entry.place);
      })().catch((why: unknown) => failed.abort(why)).finally(() => {
        running.delete(run);
        if (entry?.kind === "message") messages -= 1;
      });
      running.add(run);
      if (entry?.kind === "message") messages += 1;
    };
    let marked = 0;
    const mark = async (sending: Sending) => {
      const { position } = progress;
      if (position <= marked) return;
      await inbox.mark(position, sending);
      marked = position;
    };
    try {
      let page = await inbox.read({ expand: true, limit: PAGE, signal: all.signal, retryFor: Infinity });
      onReady?.();
      marked = progress.position = page.seen;
      // The inbox has what happened since it was opened: what was there before is on the list.
      if (page.newest === 0 || page.seen === 0) await this.#catchUp(page.entries, begin, all.signal);
      while (!all.signal.aborted) {
        if (page.missed > 0) this.#options.onMissed?.(page.missed);
        for (const entry of page.entries) {
          if (!progress.isNew(entry.place)) continue;
          while (entry.kind === "message" && messages >= (this.#options.concurrency ?? 8)) await Promise.race(running);
          if (all.signal.aborted) break;
          progress.begin(entry.place);
          begin(entry, () => this.#handle(entry, all.signal));
        }
        if (all.signal.aborted) break;
        if (running.size === 0) progress.end(page.next_place);
        await mark({ signal: all.signal, retryFor: Infinity });
        // While handlers work, their entries are marked as they end.
        const wait = running.size > 0 || progress.position > marked ? 1 : POLL;
        page = await inbox.read({ expand: true, limit: PAGE, since: page.next, wait, signal: all.signal, retryFor: Infinity });
      }
    } catch (why) {
      if (!all.signal.aborted) throw why;
    } finally {
      all.abort(new Error("The agent stops."));
      await Promise.allSettled(running);
      // What could not be marked comes again.
      await mark({ retryFor: 2_000 }).catch(() => undefined);
      unlink();
      unlinkAll();
    }
    if (failed.signal.aborted) throw failed.signal.reason;
  }

  /** Handles the assignments from before the inbox was opened. */
  async #catchUp(entries: InboxEntry[], begin: (entry: undefined, work: () => Promise<void>) => void, signal: AbortSignal): Promise<void> {
    if (this.#assignments.length === 0) return;
    const listed = new Set(entries.filter((entry) => entry.what === "intent_assigned").map((entry) => entry.intent_id ?? entry.reference));
    const now = this.client.core.now() + SECOND;
    const agent_id = await this.client.agent();
    for (let before: string | undefined; ; ) {
      const page = await this.client.intents.list({ agent_id, limit: PAGE, ...(before !== undefined && { before }) }, { signal, retryFor: Infinity });
      for (const intent of page) {
        const isOver = intent.status === "completed" || intent.status === "abandoned";
        if (isOver || listed.has(intent.id)) continue;
        this.#caught.set(intent.id, now);
        begin(undefined, () => this.#assigned(intent, signal));
      }
      before = page.at(-1)?.id;
      if (page.length < PAGE) return;
    }
  }

  async #assigned(intent: Intent, signal: AbortSignal): Promise<void> {
    for (const handler of this.#assignments) await handler(intent, { signal });
  }

  async #handle(entry: InboxEntry, signal: AbortSignal): Promise<void> {
    if (entry.what === "intent_assigned" && this.#assignments.length > 0) {
      const id = entry.intent_id ?? entry.reference;
      if (id == null || entry.withheld || entry.gone) return;
      // It was on the list, too.
      if (Date.parse(entry.at) <= (this.#caught.get(id) ?? 0)) return;
      const intent = await readable(this.client.intents.get(id, { signal, retryFor: Infinity }));
      if (intent) await this.#assigned(intent, signal);
    }
    const { message } = entry;
    if (entry.kind !== "message" || message == null) return;
    // Whoever asked has the answer already.
    if (message.correlation_id != null && asked.has(message.correlation_id)) return;
    if (message.message_type === "request") return this.#message(message as Message, signal);
    const before = this.#order.get(message.channel_id) ?? Promise.resolve();
    const work = before.then(() => this.#message(message as Message, signal));
    const settled = work.catch(() => undefined);
    this.#order.set(message.channel_id, settled);
    await work.finally(() => {
      if (this.#order.get(message.channel_id) === settled) this.#order.delete(message.channel_id);
    });
  }

  async #message(message: Message, signal: AbortSignal): Promise<void> {
    const place = await readable(this.#place(message.channel_id));
    // The channel is gone, and nobody waits for an answer there.
    if (!place) return;
    const { name, intentId } = place;
    const channel = this.client.channel(message.channel_id);
    const context = { channel: new ChannelProxy(channel), name, intentId, signal };
    let answer: unknown;
    for (const { channel: wanted, handler } of this.#messages) {
      if (wanted === undefined || wanted === name) answer = (await handler(message, context)) ?? answer;
    }
    if (message.message_type === "request" && answer !== undefined) await this.#answer(channel, message, answer, signal);
  }

  /** Answers a request once: an agent that died after the answer, and sees the request again, answers nothing more. */
  async #answer(channel: Channel, request: Message, answer: unknown, signal: AbortSignal): Promise<void> {
    if (answer === null || typeof answer !== "object" || Array.isArray(answer)) {
      throw new TypeError(`A handler answered ${request.id} with ${JSON.stringify(answer)}: an answer is an object.`);
    }
    const idempotencyKey = `answer-${request.id}-${await this.client.agent()}`;
    for (;;) {
      try {
        await channel.reply(request, answer, { idempotencyKey });
        return;
      } catch (refused) {
        // A server that is away comes back; an agent that stops gives up, and answers at its next start.
        if (refused instanceof ConnectionError && !signal.aborted) continue;
        if (!(refused instanceof EntenteError) || !ANSWERED.includes(refused.code)) throw refused;
        return;
      }
    }
  }

  #place(channelId: string): Promise<{ name: string; intentId: string }> {
    let found = this.#names.get(channelId);
    if (!found) {
      found = this.client.channel(channelId).record({ retryFor: Infinity, signal: this.#stopping.signal }).then((record) => ({ name: record.name, intentId: record.intent_id }));
      found.catch(() => this.#names.delete(channelId));
      this.#names.set(channelId, found);
    }
    return found;
  }
}


/** Returns what is read, or nothing if the agent may not read it any more. */
function readable<T>(reading: Promise<T>): Promise<T | undefined> {
  return reading.catch((why: unknown) => {
    if (why instanceof EntenteError && [403, 404, 410].includes(why.status)) return undefined;
    throw why;
  });
}
