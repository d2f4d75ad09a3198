// Envelopes through the mailbox gateway: send signed or unsigned ones, receive until they are acknowledged.

import type { Entente } from "./client.js";
import type { JsonObject, Schemas, Sending } from "./core.js";
import { ulid } from "./envelopes.js";
import type { Envelope, EnvelopeKey } from "./envelopes.js";
import { EntenteError } from "./errors.js";
import { check } from "./waiting.js";

/** What to send: the gateway's members have defaults. */
export type NewEnvelope = Partial<Envelope> & Pick<Envelope, "to" | "type" | "intent" | "payload">;
export type MailboxItem = Omit<Schemas["MailboxItem"], "envelope"> & { envelope: Envelope };

/** Longest long poll in seconds. */
const POLL = 25;

/** The mail of one entity. */
export class Mail {
  constructor(readonly client: Entente) {}

  /** Registers the public half of a signing key; a server accepts one only over a connection that nobody can change. */
  registerKey(key: EnvelopeKey, sending: Sending & { notAfter?: string } = {}): Promise<Schemas["RegistrationBody"]> {
    const { notAfter, ...others } = sending;
    const body = { kid: key.kid, algorithm: "ed25519", public_key: key.publicKey, ...(notAfter && { not_after: notAfter }) };
    return this.client.core.request("post", "/api/v1/aee/keys", { ...others, body: body as Schemas["NewEnvelopeKey"] });
  }

  /** Completes an envelope: id, sender, time and thread. */
  async compose(envelope: NewEnvelope): Promise<Envelope> {
    const id = envelope.id ?? ulid();
    return { v: "1", id, from: await this.client.agent(), ts: new Date(this.client.core.now()).toISOString(), corr: id, priority: "normal", ...envelope };
  }

  /** Sends an envelope, signed if there is a key. Its id makes it one, however often it is sent. */
  async send(envelope: NewEnvelope, { key, ...sending }: Sending & { key?: EnvelopeKey } = {}): Promise<Schemas["AnsweredEnvelope"]> {
    const whole = await this.compose(envelope);
    const body = key ? await key.sign(whole) : whole;
    try {
      return await this.client.core.request("post", "/api/v1/aee/envelopes",
        { repeatable: true, ...sending, body: body as unknown as Schemas["Envelope"] });
    } catch (refused) {
      // It arrived, and the answer was lost.
      if (refused instanceof EntenteError && refused.code === "duplicate_id" && refused.body.receipt) {
        return refused.body.receipt as Schemas["AnsweredEnvelope"];
      }
      throw refused;
    }
  }

  /** Answers an envelope, in its thread. */
  reply(to: Envelope, payload: unknown, { type = "result", ...sending }: Sending & { key?: EnvelopeKey; type?: "result" | "error" } = {}): Promise<Schemas["AnsweredEnvelope"]> {
    return this.send({ to: to.from, type, intent: to.intent, corr: to.corr, reply_to: to.id, payload }, sending);
  }

  /** Reads a page of the mailbox: by default what is not acknowledged. */
  async fetch({ after, limit, wait, ...sending }: Sending & { after?: number; limit?: number; wait?: number } = {}): Promise<MailboxItem[]> {
    const query = { ...(after !== undefined && { after }), ...(limit !== undefined && { limit }), ...(wait !== undefined && { wait }) };
    const timeout = sending.timeout ?? ((wait ?? 0) + 30) * 1_000;
    const page = await this.client.core.request("get", "/api/v1/aee/mailboxes/{entity}",
      { ...sending, path: { entity: await this.client.agent() }, query, timeout });
    return page.items as unknown as MailboxItem[];
  }

  /** Acknowledges every envelope up to a number. */
  async acknowledge(seq: number, sending: Sending = {}): Promise<void> {
    await this.client.core.request("post", "/api/v1/aee/mailboxes/{entity}/ack",
      { repeatable: true, ...sending, path: { entity: await this.client.agent() }, body: { up_to: seq } as unknown as Schemas["MailboxAck"] });
  }

  /** Yields envelopes for ever. Who asks for the next one has handled the last one: it is acknowledged then. */
  async *receive({ signal }: { signal?: AbortSignal } = {}): AsyncGenerator<MailboxItem> {
    for (;;) {
      check(signal);
      for (const item of await this.fetch({ wait: POLL, ...(signal && { signal }) })) {
        yield item;
        await this.acknowledge(item.seq);
      }
    }
  }
}

export type { JsonObject };
