// A worker: claims jobs of an agent, runs them, and reports how they end, across restarts of the server and of itself.

import type { Entente } from "./client.js";
import { type JsonObject, type Schemas, type Sending, randomId } from "./core.js";
import { EntenteError } from "./errors.js";
import type { ClaimedJob } from "./types.js";
import { linked, sleep } from "./waiting.js";

/** Throw it to end a job as failed with a code of ARCP §12, and to say whether another attempt makes sense. */
export class JobFailure extends Error {
  override readonly name = "JobFailure";
  readonly code: string;
  readonly retryable: boolean | undefined;
  readonly details: JsonObject | undefined;

  constructor(message: string, { code, retryable, details }: { code?: string; retryable?: boolean; details?: JsonObject } = {}) {
    super(message);
    this.code = code ?? "INTERNAL_ERROR";
    this.retryable = retryable;
    this.details = details;
  }
}

/** Why a job has to stop: `job.signal.reason` is one. */
export class JobStopped extends Error {
  override readonly name = "JobStopped";

  constructor(
    /** `cancelled` by whoever submitted it, `lost` to another worker, or `handed back` because this worker stops. */
    readonly why: "cancelled" | "lost" | "handed back",
  ) {
    super(`The job was ${why}.`);
  }
}

export interface WorkerOptions {
  /** The agent whose jobs the worker runs. */
  agent: string;
  /** The version of the agent, which the worker registers; defaults to 1.0.0. */
  version?: string;
  /** How many jobs run at once; defaults to 1. */
  concurrency?: number;
  /** Terms of the version: retries, the longest run, what happens to jobs whose worker is lost. */
  terms?: Schemas["AgentVersionTerms"];
  /** The worker's name, for people. */
  name?: string;
  labels?: Record<string, string>;
  /** Seconds that running jobs have to end by themselves when the worker stops; then they are handed back. Defaults to 0. */
  grace?: number;
  /** Told of what went wrong while the worker goes on, such as a report that was refused. */
  onError?: (error: unknown, job: RunningJob | undefined) => void;
}

/** Longest wait of a claim in seconds. */
const CLAIM = 20;
/** Most jobs of one claim. */
const CLAIMED_AT_ONCE = 100;

/** Milliseconds that a job may take to stop. */
const LATE = 1_000;
/** Pause in milliseconds between claims that the server does not let wait. */
const REST = 1_000;

/** Reports go on for as long as the server is away: a claim that is lost meanwhile is refused then. */
const FOR_EVER: Sending = { repeatable: true, retryFor: Infinity };

/** A job that this worker runs. */
export class RunningJob<Input = unknown, Checkpoint = unknown> {
  readonly id: string;
  readonly input: Input;
  /** The progress that an earlier attempt stored last; null if there is none. */
  readonly checkpoint: Checkpoint | null;
  /** Number of the attempt, from 1. */
  readonly attempt: number;
  /** Aborted when the job has to stop: its reason is a `JobStopped`. */
  readonly signal: AbortSignal;
  /** A client whose writes take effect only while this worker holds the job. */
  readonly under: Entente;
  readonly stopper = new AbortController();
  #said = 0;
  #chunks = 0;
  #bytes = 0;
  /** Events are sent one after the other, so that their order is theirs. */
  #last: Promise<unknown> = Promise.resolve();
  /** Of this claim: a job that was handed back is claimed again under the same number of its attempt. */
  readonly #prefix = randomId();

  constructor(readonly client: Entente, readonly claimed: ClaimedJob) {
    this.id = claimed.job_id;
    this.input = claimed.input as Input;
    this.checkpoint = (claimed.checkpoint ?? null) as Checkpoint | null;
    this.attempt = claimed.attempt;
    this.signal = this.stopper.signal;
    this.under = client.under({ claim: { id: claimed.job_id, token: claimed.claim_token } });
  }

  get token(): string {
    return this.claimed.claim_token;
  }

  /** Whether the output was streamed with `write`. */
  get isStreamed(): boolean {
    return this.#chunks > 0;
  }

  /** Reports an event of ARCP §8.2, once, and in order. */
  event(kind: string, body: JsonObject): Promise<Schemas["JobReported"]> {
    this.#said += 1;
    const event = { kind, body, ts: new Date().toISOString(), event_key: `${this.#prefix}-${this.#said}` };
    const sent = this.#last.then(() => this.#report({ events: [event] }));
    this.#last = sent.catch(() => undefined);
    return sent;
  }

  async #report(report: Omit<Schemas["NewJobEvents"], "claim_token">): Promise<Schemas["JobReported"]> {
    const body = { ...report, claim_token: this.token } as Schemas["NewJobEvents"];
    const told = await this.client.core.request("post", "/api/v1/jobs/{job_id}/events",
      { ...FOR_EVER, signal: this.signal, path: { job_id: this.id }, body });
    if (told.cancel_requested) this.stopper.abort(new JobStopped("cancelled"));
    return told;
  }

  log(message: string, level: "debug" | "info" | "warn" | "error" = "info"): Promise<Schemas["JobReported"]> {
    return this.event("log", { level, message });
  }

  progress(current: number, total?: number, units?: string): Promise<Schemas["JobReported"]> {
    return this.event("progress", { current, ...(total !== undefined && { total }), ...(units !== undefined && { units }) });
  }

  /** Reports a metric; one that is called `cost.…`, in a currency, is deducted from the budgets. */
  metric(name: string, value: number, unit: string): Promise<Schemas["JobReported"]> {
    return this.event("metric", { name, value, unit });
  }

  /** Streams a piece of the result. */
  write(text: string): Promise<Schemas["JobReported"]> {
    this.#bytes += new TextEncoder().encode(text).length;
    return this.event("result_chunk", this.#chunk(text, true));
  }

  #chunk(data: string, more: boolean): JsonObject {
    const chunk_seq = this.#chunks;
    this.#chunks += 1;
    return { result_id: this.claimed.result_id, chunk_seq, data, encoding: "utf8", more };
  }

  /** Stores how far the work is; the next attempt begins with it. */
  async save(checkpoint: Checkpoint): Promise<void> {
    const body = { checkpoint, claim_token: this.token } as Schemas["NewJobCheckpoint"];
    await this.client.core.request("put", "/api/v1/jobs/{job_id}/checkpoint",
      { ...FOR_EVER, signal: this.signal, path: { job_id: this.id }, body });
  }

  /** Asks whether the job's authority covers an operation, and reserves its cost; throws `PERMISSION_DENIED` or
   *  `BUDGET_EXHAUSTED`. */
  authorize(capability: string, target: string, more: { reserve?: Record<string, number>; callId?: string } = {}): Promise<Schemas["JobOperationAllowed"]> {
    const body = { capability, target, claim_token: this.token, call_id: more.callId ?? null, reserve: more.reserve ?? null } as Schemas["JobOperation"];
    // A reservation is not repeated: after a lost answer there might be two.
    return this.client.core.request("post", "/api/v1/jobs/{job_id}/authorize",
      { repeatable: more.reserve === undefined, signal: this.signal, path: { job_id: this.id }, body });
  }

  /** Charges what an operation cost, in place of what was reserved. */
  settle(reservationId: string, cost: Record<string, number>): Promise<Schemas["JobBudget"]> {
    const body = { cost, claim_token: this.token } as Schemas["JobSettlement"];
    return this.client.core.request("post", "/api/v1/jobs/{job_id}/reservations/{reservation_id}/settle",
      { repeatable: true, path: { job_id: this.id, reservation_id: reservationId }, body });
  }

  /** Ends the job. */
  async finish(result: unknown): Promise<void> {
    const body: Schemas["NewJobResult"] = { claim_token: this.token };
    if (this.isStreamed) {
      await this.event("result_chunk", this.#chunk("", false));
      Object.assign(body, { result_id: this.claimed.result_id, result_size: this.#bytes });
    } else {
      body.result = (result ?? null) as never;
    }
    await this.client.core.request("post", "/api/v1/jobs/{job_id}/result", { ...FOR_EVER, path: { job_id: this.id }, body });
  }

  /** Ends the attempt as failed. */
  async fail(why: unknown): Promise<void> {
    const { code = "INTERNAL_ERROR", retryable, details } = why instanceof JobFailure ? why : { code: undefined };
    const message = why instanceof Error ? why.message : String(why);
    const body = { claim_token: this.token, code, message, retryable: retryable ?? null, details: details ?? null };
    await this.client.core.request("post", "/api/v1/jobs/{job_id}/error", { ...FOR_EVER, path: { job_id: this.id }, body });
  }

  /** Gives the job back: another worker continues at its checkpoint, at once. */
  async handBack(reason: string): Promise<void> {
    const body = { claim_token: this.token, reason };
    await this.client.core.request("post", "/api/v1/jobs/{job_id}/release", { repeatable: true, retryFor: 5_000, path: { job_id: this.id }, body });
  }
}

/** Runs jobs: its value is the result. It is called again, with the checkpoint, if an attempt fails or its worker is lost. */
export type Handler<Input = unknown, Checkpoint = unknown> = (job: RunningJob<Input, Checkpoint>) => unknown;

/** Claims jobs and runs them until it is stopped. */
export class Worker<Input = unknown, Checkpoint = unknown> {
  readonly options: WorkerOptions;
  /** The jobs that run now. */
  readonly running = new Map<string, RunningJob<Input, Checkpoint>>();
  #id = "";
  #interval = 10;
  /** What the server has told the worker to do. */
  #directive: "run" | "quiet" | "terminate" = "run";
  #registering: Promise<void> | undefined;
  readonly #stopping = new AbortController();
  readonly #handler: Handler<Input, Checkpoint>;
  readonly #runs = new Set<Promise<void>>();
  /** Wakes the loop of claims, which waits for room. */
  #wake: () => void = () => undefined;
  /** Cuts off the heartbeat that waits, because it does not name the newest jobs. */
  #beating = new AbortController();

  constructor(readonly client: Entente, options: WorkerOptions, handler: Handler<Input, Checkpoint>) {
    this.options = options;
    this.#handler = handler;
  }

  /** Runs until `stop` or the signal; then running jobs end or are handed back. Rejects if the server refuses the worker. `onReady`
   *  is called once the agent is registered: jobs for it can be submitted from then on. */
  async run({ signal, onReady }: { signal?: AbortSignal; onReady?: () => void } = {}): Promise<void> {
    const stop = () => this.stop();
    signal?.addEventListener("abort", stop, { once: true });
    if (signal?.aborted) stop();
    const beats = new AbortController();
    try {
      await this.#register();
      onReady?.();
      const beating = this.#beat(beats.signal);
      try {
        await Promise.race([this.#claim(), beating]);
      } finally {
        this.stop();
        await this.#wind();
        beats.abort();
        await beating.catch(() => undefined);
        await this.#leave();
      }
    } catch (why) {
      if (!this.#stopping.signal.aborted || why !== this.#stopping.signal.reason) throw why;
    } finally {
      signal?.removeEventListener("abort", stop);
    }
  }

  /** Stops claiming, and lets `run` end. */
  stop(): void {
    this.#stopping.abort(new Error("The worker stops."));
    this.#wake();
  }

  async #register(): Promise<void> {
    const { agent, version = "1.0.0", concurrency = 1, name, labels = {}, terms = {} } = this.options;
    const sending = { ...FOR_EVER, signal: this.#stopping.signal };
    await this.client.core.request("put", "/api/v1/arcp/agents/{name}/versions/{version}",
      { ...sending, path: { name: agent, version }, body: terms });
    const body = { name: name ?? `${agent} in TypeScript`, agents: [`${agent}@${version}`], slots: concurrency, labels };
    // A worker that is registered twice is one that never came, and leaves no job.
    const worker = await this.client.core.request("post", "/api/v1/workers", { ...sending, body });
    this.#id = worker.worker_id;
    this.#interval = worker.heartbeat_interval_sec;
  }

  async #claim(): Promise<void> {
    const { signal } = this.#stopping;
    const { concurrency = 1 } = this.options;
    while (!signal.aborted) {
      if (this.#directive !== "run") {
        await sleep(REST, signal).catch(() => undefined);
        continue;
      }
      const room = concurrency - this.running.size;
      if (room <= 0) {
        await new Promise<void>((resolve) => { this.#wake = resolve; });
        continue;
      }
      const asked = Date.now();
      try {
        const body = { worker_id: this.#id, max: Math.min(room, CLAIMED_AT_ONCE), wait_sec: CLAIM, idempotency_key: randomId() };
        const { jobs } = await this.client.core.request("post", "/api/v1/jobs/claim",
          { ...FOR_EVER, timeout: (CLAIM + 10) * 1_000, signal, body });
        for (const job of jobs) this.#start(new RunningJob<Input, Checkpoint>(this.client, job));
        // The server does not let a worker wait that is to be quiet; the next heartbeat says so.
        if (jobs.length === 0 && Date.now() - asked < REST) await sleep(REST, signal).catch(() => undefined);
      } catch (why) {
        if (signal.aborted) return;
        await this.#recover(why);
      }
    }
  }

  /** Registers anew if the server has forgotten the worker. */
  async #recover(why: unknown): Promise<void> {
    if (!(why instanceof EntenteError) || (why.status !== 404 && why.status !== 410)) throw why;
    // Claims and heartbeats notice it at once.
    this.#registering ??= this.#register().finally(() => { this.#registering = undefined; });
    await this.#registering;
  }

  #start(job: RunningJob<Input, Checkpoint>): void {
    this.running.set(job.id, job);
    const run = this.#work(job).catch((why: unknown) => this.options.onError?.(why, job)).finally(() => {
      if (this.running.get(job.id) === job) this.running.delete(job.id);
      this.#runs.delete(run);
      this.#wake();
    });
    this.#runs.add(run);
    this.#beating.abort();
  }

  /** Runs one job, and reports how it ended. */
  async #work(job: RunningJob<Input, Checkpoint>): Promise<void> {
    let end: () => Promise<void>;
    try {
      const result = await this.#handler(job);
      end = () => this.#finish(job, result);
    } catch (why) {
      const reason = stopped(job);
      // A handler that was told to stop fails in its own way.
      if (reason === "cancelled") end = () => job.fail(new JobFailure("stopped as asked", { code: "CANCELLED", retryable: false }));
      else if (reason === "handed back") end = () => job.handBack("The worker stops.");
      else if (reason === "lost") return;
      else end = () => job.fail(why);
    }
    await end();
  }

  /** Reports the result. One that cannot be reported fails the job: another attempt would do all of the work again, and end so too. */
  async #finish(job: RunningJob<Input, Checkpoint>, result: unknown): Promise<void> {
    try {
      await job.finish(result);
    } catch (why) {
      const isLost = why instanceof EntenteError && (why.status === 0 || why.code === "CLAIM_LOST" || why.code === "JOB_ENDED");
      const reason = `the result was refused: ${why instanceof Error ? why.message : String(why)}`;
      if (!isLost) await job.fail(new JobFailure(reason, { retryable: false })).catch(() => undefined);
      throw why;
    }
  }

  /** Sends heartbeats, which keep the claims, and tells jobs that they have to stop. */
  async #beat(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      this.#beating = new AbortController();
      const { controller, unlink } = linked(signal, this.#beating.signal);
      const jobs = [...this.running.values()].map((job) => ({
        job_id: job.id, claim_token: job.token, stopping: job.signal.aborted,
      }));
      try {
        const told = await this.client.core.request("post", "/api/v1/workers/{worker_id}/heartbeat", {
          ...FOR_EVER, signal: controller.signal, timeout: (this.#interval + 10) * 1_000, path: { worker_id: this.#id },
          body: { state: "running", jobs, directive: this.#directive, wait_sec: this.#interval },
        });
        for (const id of told.cancel) this.running.get(id)?.stopper.abort(new JobStopped("cancelled"));
        for (const id of told.lost) this.running.get(id)?.stopper.abort(new JobStopped("lost"));
        this.#directive = told.directive;
        if (told.directive === "terminate") this.stop();
        // Early answers are for what was said above; the pause bounds how often they come.
        await sleep(100, signal);
      } catch (why) {
        if (signal.aborted) return;
        if (controller.signal.aborted) continue;
        await this.#recover(why);
      } finally {
        unlink();
      }
    }
  }

  /** Lets running jobs end for a while, then hands them back. */
  async #wind(): Promise<void> {
    await within(this.#runs, (this.options.grace ?? 0) * 1_000);
    for (const job of this.running.values()) job.stopper.abort(new JobStopped("handed back"));
    // A handler that ignores its signal is left behind: leaving returns its job.
    await within(this.#runs, LATE);
  }

  async #leave(): Promise<void> {
    await this.client.core.request("post", "/api/v1/workers/{worker_id}/leave",
      { repeatable: true, retryFor: 5_000, path: { worker_id: this.#id } }).catch((why: unknown) => {
      // The claims of a worker that could not leave end by themselves.
      if (!(why instanceof EntenteError)) throw why;
    });
  }
}

function stopped(job: RunningJob<never, never> | RunningJob): JobStopped["why"] | undefined {
  return job.signal.reason instanceof JobStopped ? job.signal.reason.why : undefined;
}

/** Waits for all of them, but not for longer than this. */
async function within(all: Iterable<Promise<void>>, milliseconds: number): Promise<void> {
  const timer = new AbortController();
  await Promise.race([Promise.all(all), sleep(milliseconds, timer.signal).catch(() => undefined)]);
  timer.abort();
}
