// Jobs (ARCP 1.1) from the side of whoever wants something done: submit, follow, wait, cancel.

import type { Entente } from "./client.js";
import type { JsonObject, Schemas, Sending } from "./core.js";
import { EventStream } from "./streams.js";
import type { Following, StreamEvent } from "./streams.js";
import type { JobRecord } from "./types.js";

/** An event of a job, in its envelope. */
export type JobEvent = Schemas["JobEnvelope"];

/** A job that did not end as a success. */
export class JobError extends Error {
  override readonly name = "JobError";

  constructor(
    readonly jobId: string,
    /** A code of ARCP §12. */
    readonly code: string,
    message: string,
    readonly payload: JsonObject,
  ) {
    super(message);
  }
}

/** A submitted job. */
export class Job {
  constructor(
    readonly client: Entente,
    readonly id: string,
    /** The session that submitted it, which may cancel it. */
    readonly sessionId?: string,
  ) {}

  /** Reads the job. */
  record(sending: Sending = {}): Promise<JobRecord> {
    return this.client.core.request("get", "/api/v1/jobs/{job_id}", { ...sending, path: { job_id: this.id } });
  }

  /** Follows the job's events until it ends, each once. */
  events(following: Following = {}): EventStream<JobEvent> {
    const isLast = ({ data }: StreamEvent<JobEvent>) => data.type === "job.result" || data.type === "job.error";
    return new EventStream(this.client.core, "/api/v1/jobs/{job_id}/events", { path: { job_id: this.id } }, following, isLast);
  }

  /** Waits for the end. Returns the result, or throws a `JobError`. */
  async result<T = unknown>(following: Following = {}): Promise<T> {
    for await (const { data } of this.events(following)) {
      if (data.type === "job.error") {
        const { code, message } = data.payload as { code?: string; message?: string };
        throw new JobError(this.id, code ?? "INTERNAL_ERROR", message ?? "The job failed.", data.payload);
      }
    }
    const sending = following.signal ? { signal: following.signal } : {};
    return await this.client.core.request("get", "/api/v1/jobs/{job_id}/result", { ...sending, path: { job_id: this.id } }) as T;
  }

  /** Asks the worker to stop; the job ends after `grace` seconds in any case. */
  async cancel(reason?: string, grace?: number, sending: Sending = {}): Promise<void> {
    const body = { reason: reason ?? null, grace_sec: grace ?? null, session_id: this.sessionId ?? null };
    await this.client.core.request("post", "/api/v1/jobs/{job_id}/cancel", { repeatable: true, ...sending, path: { job_id: this.id }, body });
  }
}

/** The jobs of this principal. */
export class Jobs {
  constructor(readonly client: Entente) {}

  /** Submits a job; it is accepted once, and runs as soon as a worker has room. */
  async submit(job: Schemas["JobSubmit"], sending: Sending = {}): Promise<Job> {
    const accepted = await this.client.core.request("post", "/api/v1/jobs", { ...sending, body: job });
    return new Job(this.client, accepted.job_id, accepted.session_id ?? undefined);
  }

  /** Continues with a job that was submitted before. */
  job(id: string, sessionId?: string): Job {
    return new Job(this.client, id, sessionId);
  }
}
