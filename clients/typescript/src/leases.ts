// Leases with fencing (RFC-0003): one agent at a time changes a part of an intent's state, and nothing that comes late counts.

import type { Entente } from "./client.js";
import type { Sending } from "./core.js";
import { EntenteError } from "./errors.js";
import type { LeaseRecord } from "./types.js";
import { sleep, unref } from "./waiting.js";

export interface AcquireOptions extends Sending {
  /** Seconds that the lease lasts without a renewal; it is renewed at a third of them. Defaults to 60. */
  duration?: number;
  /** Seconds to wait in the queue while another agent holds the scope; defaults to 0. */
  wait?: number;
}

/** Longest wait of one request in seconds; the place in the queue is kept until the next one. */
const ROUND = 25;
/** Pause in milliseconds after a request that the server did not queue, because a program of the same agent holds the lease. */
const PAUSE = 1_000;

/** A lease that is held and renewed until it is disposed of. */
export class Lease implements AsyncDisposable {
  /** The lease as it was acquired or last renewed. */
  record: LeaseRecord;
  /** A client whose writes take effect only while the lease is held. */
  readonly under: Entente;
  /** Aborted as soon as the lease is known to be lost. */
  readonly signal: AbortSignal;
  readonly #client: Entente;
  readonly #lost = new AbortController();
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(client: Entente, record: LeaseRecord, readonly duration: number) {
    this.#client = client;
    this.record = record;
    this.under = client.under({ lease: record });
    this.signal = this.#lost.signal;
    this.#plan();
  }

  get id(): string {
    return this.record.id;
  }

  get fencingToken(): number {
    return this.record.fencing_token;
  }

  #path(): { intent_id: string; lease_id: string } {
    return { intent_id: this.record.intent_id, lease_id: this.record.id };
  }

  #plan(): void {
    this.#timer = setTimeout(() => {
      const renewed = () => {
        if (!this.signal.aborted) this.#plan();
      };
      this.renew({ retryFor: this.duration * 600 }).then(renewed, (why: unknown) => this.#lost.abort(why));
    }, (this.duration * 1_000) / 3);
    // A program may end while a lease waits for its renewal.
    unref(this.#timer);
  }

  /** Renews the lease, which happens by itself, too. */
  async renew(sending: Sending = {}): Promise<void> {
    const body = { duration_seconds: this.duration };
    this.record = await this.#client.core.request("patch", "/api/v1/intents/{intent_id}/leases/{lease_id}",
      { repeatable: true, ...sending, path: this.#path(), body });
  }

  /** Releases the lease. One that has ended already, or a server that is away, is no error: the lease ends by itself. */
  async release(sending: Sending = {}): Promise<void> {
    clearTimeout(this.#timer);
    try {
      await this.#client.core.request("delete", "/api/v1/intents/{intent_id}/leases/{lease_id}", { ...sending, path: this.#path() });
    } catch (why) {
      if (!(why instanceof EntenteError)) throw why;
    } finally {
      this.#lost.abort(new Error("The lease was released."));
    }
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.release();
  }
}

/** The leases of intents. */
export class Leases {
  constructor(readonly client: Entente) {}

  /** Acquires a lease; use it with `await using`, or release it. Throws `lease_held` if the scope stays taken. */
  async acquire(intentId: string, scope: string, { duration = 60, wait = 0, ...sending }: AcquireOptions = {}): Promise<Lease> {
    const end = Date.now() + wait * 1_000;
    const body = { scope, duration_seconds: duration };
    for (;;) {
      const left = Math.max(0, Math.ceil((end - Date.now()) / 1_000));
      const query = { wait: Math.min(left, ROUND) };
      const asked = Date.now();
      const timeout = sending.timeout ?? (query.wait + 30) * 1_000;
      try {
        const record = await this.client.core.request("post", "/api/v1/intents/{intent_id}/leases",
          { ...sending, path: { intent_id: intentId }, query, body, timeout });
        return new Lease(this.client, record, duration);
      } catch (refused) {
        const isTaken = refused instanceof EntenteError && refused.status === 409;
        if (!isTaken || Date.now() >= end) throw refused;
        if (Date.now() - asked < PAUSE) await sleep(Math.min(PAUSE, end - Date.now()), sending.signal);
      }
    }
  }

  /** Does something under a lease, and releases it. `under` is a client whose writes are refused once the lease is lost. */
  async hold<T>(intentId: string, scope: string, work: (under: Entente, lease: Lease) => Promise<T>, options: AcquireOptions = {}): Promise<T> {
    const lease = await this.acquire(intentId, scope, options);
    try {
      return await work(lease.under, lease);
    } finally {
      await lease.release();
    }
  }

  /** Lists the active leases of an intent. */
  async list(intentId: string, sending: Sending = {}): Promise<LeaseRecord[]> {
    const found = await this.client.core.request("get", "/api/v1/intents/{intent_id}/leases",
      { ...sending, path: { intent_id: intentId }, query: {} });
    return (Array.isArray(found) ? found : (found as { leases: LeaseRecord[] }).leases) as LeaseRecord[];
  }
}
