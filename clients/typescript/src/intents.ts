// Intents (RFC-0001): the goals that agents work on together, their state and their log.

import type { Entente } from "./client.js";
import type { JsonObject, Schemas, Sending } from "./core.js";
import { EntenteError } from "./errors.js";
import type { Intent, LogEvent, NewIntent } from "./types.js";

/** A change of a state: `set`, `append` or `remove` at a path. */
export type Patch = { op: "set" | "append" | "remove"; path: string; value?: unknown };

/** Changes that meet another one are computed anew this often. */
const TRIES = 10;

/** Intents that the key may see. */
export class Intents {
  constructor(readonly client: Entente) {}

  create(intent: NewIntent | string, sending: Sending = {}): Promise<Intent> {
    const body = typeof intent === "string" ? { title: intent } : intent;
    return this.client.core.request("post", "/api/v1/intents", { ...sending, body: body as NewIntent });
  }

  get(id: string, sending: Sending = {}): Promise<Intent> {
    return this.client.core.request("get", "/api/v1/intents/{intent_id}", { ...sending, path: { intent_id: id } });
  }

  /** Lists a page of intents, newest first. */
  async list(query: { status?: Intent["status"]; created_by?: string; agent_id?: string; before?: string; limit?: number } = {}, sending: Sending = {}): Promise<Intent[]> {
    return (await this.client.core.request("get", "/api/v1/intents", { ...sending, query })).intents;
  }

  /** Changes the state. `change` is called with the intent as it is, and again if another agent was faster; a list of patches does
   *  not depend on it. */
  async patch(id: string, change: Patch[] | ((intent: Intent) => Patch[]), sending: Sending = {}): Promise<Intent> {
    return this.#versioned(id, async (intent, headers) => {
      const patches = typeof change === "function" ? change(intent) : change;
      return this.client.core.request("post", "/api/v1/intents/{intent_id}/state",
        { ...sending, headers, path: { intent_id: id }, body: { patches } as Schemas["StateBody"] });
    }, sending);
  }

  /** Changes the status. */
  async setStatus(id: string, status: Intent["status"], reason?: string, sending: Sending = {}): Promise<Intent> {
    return this.#versioned(id, (_, headers) => this.client.core.request("post", "/api/v1/intents/{intent_id}/status",
      { ...sending, headers, path: { intent_id: id }, body: { status, reason: reason ?? null } }), sending);
  }

  async #versioned(id: string, write: (intent: Intent, headers: Record<string, string>) => Promise<Intent>, sending: Sending): Promise<Intent> {
    const signal = sending.signal ? { signal: sending.signal } : {};
    for (let tries = 1; ; tries += 1) {
      const intent = await this.get(id, signal);
      try {
        return await write(intent, { ...sending.headers, "if-match": String(intent.version) });
      } catch (refused) {
        const isLate = refused instanceof EntenteError && refused.status === 409 && "current_version" in refused.body;
        if (!isLate || tries === TRIES) throw refused;
      }
    }
  }

  /** Assigns an agent. */
  assign(id: string, agentId: string, role?: string, sending: Sending = {}): Promise<Schemas["AssignmentBody"]> {
    return this.client.core.request("post", "/api/v1/intents/{intent_id}/agents",
      { ...sending, path: { intent_id: id }, body: { agent_id: agentId, role: role ?? null } });
  }

  /** Records an event in the log. */
  record(id: string, eventType: string, payload: JsonObject = {}, sending: Sending = {}): Promise<LogEvent> {
    return this.client.core.request("post", "/api/v1/intents/{intent_id}/events",
      { ...sending, path: { intent_id: id }, body: { event_type: eventType, payload } });
  }

  /** Lists events, newest first. */
  async events(id: string, query: { event_type?: string; since?: string; limit?: number; offset?: number } = {}, sending: Sending = {}): Promise<LogEvent[]> {
    return this.client.core.request("get", "/api/v1/intents/{intent_id}/events", { ...sending, path: { intent_id: id }, query });
  }
}
