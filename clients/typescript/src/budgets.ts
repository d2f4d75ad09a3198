// Budgets: limits that many share, and amounts that are reserved before they are spent.

import type { Entente } from "./client.js";
import { type Schemas, type Sending, randomId } from "./core.js";
import { EntenteError } from "./errors.js";
import type { Budget } from "./types.js";

type Amounts = Record<string, number | string>;

/** Amounts that were taken from every budget that pays for a call. Disposing of it releases what was not settled. */
export class Reservation implements AsyncDisposable {
  #isOver = false;

  constructor(readonly client: Entente, readonly record: Schemas["SpendReservation"]) {}

  get id(): string {
    return this.record.reservation_id ?? "";
  }

  /** Charges what the call cost, in place of what was reserved. */
  async settle(cost: Amounts, sending: Sending = {}): Promise<Schemas["SpendReservation"]> {
    const settled = await this.client.core.request("post", "/api/v1/spend/reservations/{reservation_id}/settle",
      { repeatable: true, ...sending, path: { reservation_id: this.id }, body: { cost } as Schemas["SpendSettlement"] });
    this.#isOver = true;
    return settled;
  }

  /** Charges nothing. */
  async release(sending: Sending = {}): Promise<void> {
    await this.client.core.request("delete", "/api/v1/spend/reservations/{reservation_id}", { ...sending, path: { reservation_id: this.id } });
    this.#isOver = true;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#isOver) return;
    // What nobody settles is released after its time.
    await this.release().catch((why: unknown) => {
      if (!(why instanceof EntenteError)) throw why;
    });
  }
}

/** The budgets that the key may see; creating one needs the scope `admin`. */
export class Budgets {
  constructor(readonly client: Entente) {}

  create(budget: Schemas["NewBudget"], sending: Sending = {}): Promise<Budget> {
    return this.client.core.request("post", "/api/v1/budgets", { ...sending, body: budget });
  }

  get(id: string, sending: Sending = {}): Promise<Budget> {
    return this.client.core.request("get", "/api/v1/budgets/{budget_id}", { ...sending, path: { budget_id: id } });
  }

  async list(scope?: string, sending: Sending = {}): Promise<Budget[]> {
    const query = scope === undefined ? {} : { scope };
    return (await this.client.core.request("get", "/api/v1/budgets", { ...sending, query })).budgets;
  }

  /** Reserves the cost of a call before it is made, or refuses it with `BUDGET_EXHAUSTED`. Repeated after a lost answer, it
   *  reserves once. */
  async reserve(reserve: Amounts, call: Omit<Schemas["NewSpendReservation"], "reserve"> = {}, sending: Sending = {}): Promise<Reservation> {
    const body = { call_id: randomId(), ...call, reserve } as Schemas["NewSpendReservation"];
    return new Reservation(this.client, await this.client.core.request("post", "/api/v1/spend/reservations", { repeatable: true, ...sending, body }));
  }
}
