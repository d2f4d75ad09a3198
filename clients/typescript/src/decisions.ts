// Decisions (binding moments): ask one person one question, and wait for the answer that binds.

import type { Entente } from "./client.js";
import type { Schemas, Sending } from "./core.js";
import type { Moment } from "./types.js";

/** The question: what the agent found, what it recommends, and two to four options. */
export interface Question {
  /** The agent's position in one sentence, answer first. */
  synopsis: string;
  findings: string[];
  recommendations: string[];
  /** Further detail available on request. */
  offer: string;
  question: {
    stem: string;
    options: { label: string; reasoning: string }[];
    /** Index of the option that the agent recommends. */
    recommended_idx: number;
    /** Whether the person may answer in their own words, or refuse the question; both by default. */
    hatches?: { free_text: boolean; dialogue: boolean };
  };
  meta?: { decision_class?: string; calibration_note?: string };
}

export type AskPerson = Omit<Schemas["NewMoment"], "binding_moment" | "principal_id">;

/** Longest wait of one request in seconds. */
const ROUND = 25;
const OPEN = ["open", "deliberating"];

/** A question to a person. */
export class Decision {
  constructor(readonly client: Entente, public moment: Moment) {}

  get id(): string {
    return this.moment.id;
  }

  /** The answer: `option` with `option_idx`, `free_text` with `answer`, `dialogue` with `objection`; none if there is no answer. */
  get resolution(): NonNullable<Moment["resolution"]> | undefined {
    return this.moment.resolution ?? undefined;
  }

  /** The label of the chosen option, if the person chose one. */
  get choice(): string | undefined {
    const index = this.resolution?.option_idx;
    return index == null ? undefined : this.moment.binding_moment?.question.options[index]?.label;
  }

  /** Waits until the person has answered or the question is over: silence approves nothing. Returns the decision as it is after
   *  `seconds`, if those are given. */
  async wait({ seconds, ...sending }: Sending & { seconds?: number } = {}): Promise<this> {
    const end = seconds === undefined ? Infinity : Date.now() + seconds * 1_000;
    while (OPEN.includes(this.moment.state) && this.resolution === undefined) {
      const left = Math.ceil((end - Date.now()) / 1_000);
      if (left <= 0) break;
      const query = { wait: Math.min(left, ROUND), seen: this.moment.version };
      const timeout = sending.timeout ?? (query.wait + 30) * 1_000;
      this.moment = await this.client.core.request("get", "/api/v1/moments/{moment_id}", { ...sending, path: { moment_id: this.id }, query, timeout });
    }
    return this;
  }

  /** Confirms the answer; its words are deleted some time after that. */
  async acknowledge(sending: Sending = {}): Promise<this> {
    this.moment = await this.client.core.request("post", "/api/v1/moments/{moment_id}/ack",
      { repeatable: true, ...sending, path: { moment_id: this.id } });
    return this;
  }

  /** Takes the question back. */
  async withdraw(reason: string, sending: Sending = {}): Promise<this> {
    this.moment = await this.client.core.request("post", "/api/v1/moments/{moment_id}/withdraw",
      { ...sending, path: { moment_id: this.id }, body: { reason } });
    return this;
  }
}

/** Questions to people. */
export class Decisions {
  constructor(readonly client: Entente) {}

  /** Asks a person; `wait` of what it returns waits for the answer. */
  async ask(person: string, question: Question, more: AskPerson & Sending = {} as AskPerson): Promise<Decision> {
    const { signal, idempotencyKey, timeout, retryFor, ...others } = more;
    const sending = { ...(signal && { signal }), ...(idempotencyKey && { idempotencyKey }), ...(timeout && { timeout }),
      ...(retryFor !== undefined && { retryFor }) };
    const body = { ...others, principal_id: person, binding_moment: question as unknown as Record<string, unknown> } as Schemas["NewMoment"];
    return new Decision(this.client, await this.client.core.request("post", "/api/v1/moments", { ...sending, body }));
  }

  /** Continues with a question that was asked before, in another process perhaps. */
  async get(id: string, sending: Sending = {}): Promise<Decision> {
    return new Decision(this.client, await this.client.core.request("get", "/api/v1/moments/{moment_id}",
      { ...sending, path: { moment_id: id }, query: {} }));
  }
}
