/// <reference lib="esnext.disposable" preserve="true" />
// The package: what it exports.

export { Agent, ChannelProxy } from "./agent.js";
export type { AgentOptions, AssignmentHandler, MessageContext, MessageHandler } from "./agent.js";
export { Budgets, Reservation } from "./budgets.js";
export { Channel, Channels } from "./channels.js";
export type { AskOptions, ListOptions, MessagePage, SendOptions } from "./channels.js";
export { Entente } from "./client.js";
export { Core } from "./core.js";
export type { Answer, Answered, Connection, Fences, Given, JsonObject, Method, Operation, PathWith, Schemas, Sending } from "./core.js";
export { Decision, Decisions } from "./decisions.js";
export type { AskPerson, Question } from "./decisions.js";
export { canonical, EnvelopeKey, ulid } from "./envelopes.js";
export type { Envelope } from "./envelopes.js";
export { ConnectionError, EntenteError, MessageTimeoutError } from "./errors.js";
export type { FieldError } from "./errors.js";
export type { operations, paths } from "./generated/schema.js";
export { Inbox } from "./inbox.js";
export type { ReadOptions } from "./inbox.js";
export { Intents } from "./intents.js";
export type { Patch } from "./intents.js";
export { Job, JobError, Jobs } from "./jobs.js";
export type { JobEvent } from "./jobs.js";
export { Lease, Leases } from "./leases.js";
export type { AcquireOptions } from "./leases.js";
export { Mail } from "./mail.js";
export type { MailboxItem, NewEnvelope } from "./mail.js";
export { EventStream } from "./streams.js";
export type { Following, Missed, StreamEvent } from "./streams.js";
export { TaskClaim, Tasks } from "./tasks.js";
export type * from "./types.js";
export { JobFailure, JobStopped, RunningJob, Worker } from "./worker.js";
export type { Handler, WorkerOptions } from "./worker.js";
