// The client: everything that one agent does on one server.

import { Budgets } from "./budgets.js";
import { Channel, Channels } from "./channels.js";
import type { AskOptions, ListOptions, MessagePage, SendOptions } from "./channels.js";
import { Core } from "./core.js";
import type { Answer, Connection, Fences, Given, Method, Operation, PathWith, Schemas, Sending } from "./core.js";
import { Decisions } from "./decisions.js";
import { Inbox } from "./inbox.js";
import { Intents } from "./intents.js";
import { Jobs } from "./jobs.js";
import { Leases } from "./leases.js";
import { Mail } from "./mail.js";
import { EventStream } from "./streams.js";
import type { Following } from "./streams.js";
import { Tasks } from "./tasks.js";
import type { ChannelRecord, Message, Turn, TurnTaken } from "./types.js";
import { Worker } from "./worker.js";
import type { Handler, WorkerOptions } from "./worker.js";

/** A client of one server, with one key, as one agent. */
export class Entente {
  readonly core: Core;
  readonly intents = new Intents(this);
  readonly channels = new Channels(this);
  readonly leases = new Leases(this);
  readonly tasks = new Tasks(this);
  readonly jobs = new Jobs(this);
  readonly budgets = new Budgets(this);
  readonly decisions = new Decisions(this);
  readonly mail = new Mail(this);
  #agent: Promise<string> | undefined;

  constructor(connection: Connection = {}) {
    this.core = new Core(connection);
  }

  /** Sends any request of the OpenAPI document, typed by its path. */
  request<M extends Method, P extends PathWith<M>>(
    method: M, path: P, given: Given<Operation<M, P>> & Sending,
  ): Promise<Answer<Operation<M, P>>> {
    return this.core.request(method, path, given);
  }

  /** Returns the agent that this client acts as. */
  agent(): Promise<string> {
    if (this.core.agentId !== undefined) return Promise.resolve(this.core.agentId);
    this.#agent ??= this.me().then((me) => me.agent_id);
    // A failure is not kept.
    this.#agent.catch(() => { this.#agent = undefined; });
    return this.#agent;
  }

  /** Says who the key belongs to, and what it may do. */
  me(sending: Sending = {}): Promise<Schemas["WhoamiBody"]> {
    return this.core.request("get", "/api/v1/principals/me", sending);
  }

  /** Returns a client that acts as another agent. */
  as(agentId: string): Entente {
    return new Entente({ ...this.core.connection, agentId });
  }

  /** Returns a client whose writes take effect only while a lease or a claim is held, or an epoch is the latest. */
  under(fences: Fences): Entente {
    return new Entente({ ...this.core.connection, ...fences });
  }

  /** Returns a channel by its id. */
  channel(id: string): Channel {
    return new Channel(this, id);
  }

  /** Returns the inbox of the agent, for one reader. */
  inbox({ agentId, reader }: { agentId?: string; reader?: string } = {}): Inbox {
    return new Inbox(this, agentId, reader);
  }

  /** Does everything between two thoughts of an agent in one transaction: all of it or nothing, and once. */
  turn(turn: Turn, sending: Sending = {}): Promise<TurnTaken> {
    const timeout = sending.timeout ?? ((turn.inbox?.wait ?? 0) + 30) * 1_000;
    return this.core.request("post", "/api/v1/turn", { ...sending, body: turn, timeout });
  }

  /** Follows an intent, an agent, or everything that the key may see. `types` are names of events, such as `task.*`. */
  follow({ intentId, agentId, types, ...following }: Following & { intentId?: string; agentId?: string; types?: string[] } = {}): EventStream {
    const query = types ? { event_types: types.join(",") } : {};
    if (intentId !== undefined) return new EventStream(this.core, "/api/v1/subscribe/intents/{intent_id}", { path: { intent_id: intentId }, query }, following);
    if (agentId !== undefined) return new EventStream(this.core, "/api/v1/subscribe/agents/{agent_id}", { path: { agent_id: agentId }, query }, following);
    return new EventStream(this.core, "/api/v1/subscribe", { query }, following);
  }

  /** Returns a worker, which runs jobs with this handler as soon as its `run` is called. */
  worker<Input = unknown, Checkpoint = unknown>(options: WorkerOptions, handler: Handler<Input, Checkpoint>): Worker<Input, Checkpoint> {
    return new Worker(this, options, handler);
  }

  // The methods of RFC-0021, "SDK Integration", under its names.

  createChannel(intentId: string, name: string, options: Omit<Schemas["NewChannel"], "name"> = {}): Promise<Channel> {
    return this.channels.create(intentId, { ...options, name });
  }

  listChannels(intentId: string): Promise<ChannelRecord[]> {
    return this.channels.list(intentId);
  }

  getChannel(channelId: string): Promise<ChannelRecord> {
    return this.channel(channelId).record();
  }

  closeChannel(channelId: string): Promise<void> {
    return this.channel(channelId).close();
  }

  sendMessage(channelId: string, payload: object, options: SendOptions = {}): Promise<Message> {
    return this.channel(channelId).send(payload, options) as Promise<Message>;
  }

  replyTo(channelId: string, messageId: string, payload: object): Promise<Message> {
    return this.channel(channelId).reply(messageId, payload) as Promise<Message>;
  }

  listMessages(channelId: string, options: ListOptions = {}): Promise<MessagePage> {
    return this.channel(channelId).messages(options);
  }

  getMessage(channelId: string, messageId: string): Promise<Message> {
    return this.channel(channelId).message(messageId);
  }

  markRead(channelId: string, messageId: string): Promise<Message> {
    return this.channel(channelId).read(messageId);
  }

  ask(channelId: string, to: string, question: object, options: AskOptions = {}): Promise<Message> {
    return this.channel(channelId).ask(to, question, options);
  }

  askAll(channelId: string, to: string | string[], question: object, options: AskOptions & { expect?: number } = {}): Promise<Message[]> {
    return this.channel(channelId).askAll(to, question, options);
  }
}
