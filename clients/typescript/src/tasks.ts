// Tasks (RFC-0012): created, claimed by one agent, and ended under that claim. Every step is a turn, so that it happens once.

import type { Entente } from "./client.js";
import type { JsonObject, Schemas, Sending } from "./core.js";
import { EntenteError } from "./errors.js";
import type { NewTask, Task } from "./types.js";

type Verb = Schemas["TurnTaskVerb"];

/** A task that this agent has claimed. Disposing of it returns it, unless it has ended. */
export class TaskClaim implements AsyncDisposable {
  /** A client whose writes take effect only while the claim holds. */
  readonly under: Entente;
  #isOver = false;

  constructor(readonly client: Entente, public task: Task) {
    this.under = client.under({ claim: { id: task.id, token: this.token } });
  }

  get token(): number {
    return this.task.claim_token ?? 0;
  }

  /** Says that the work begins. */
  start(sending: Sending = {}): Promise<Task> {
    return this.#do("start", {}, sending);
  }

  /** Completes the task: those that wait for it become ready. */
  complete(output: JsonObject = {}, artifacts: string[] = [], sending: Sending = {}): Promise<Task> {
    return this.#end("complete", { output, artifacts }, sending);
  }

  /** Reports that the attempt failed; the task is tried again while it has attempts left. */
  fail(error: string, sending: Sending = {}): Promise<Task> {
    return this.#end("fail", { error }, sending);
  }

  /** Says that the work cannot go on for now. */
  block(reason: string, sending: Sending = {}): Promise<Task> {
    return this.#do("block", { reason }, sending);
  }

  unblock(sending: Sending = {}): Promise<Task> {
    return this.#do("unblock", {}, sending);
  }

  /** Returns the task: others may claim it, and the attempt does not count. */
  release(sending: Sending = {}): Promise<Task> {
    return this.#end("release", {}, sending);
  }

  async #do(verb: Verb, more: Partial<Schemas["TurnTask"]>, sending: Sending): Promise<Task> {
    this.task = await step(this.client, { verb, task_id: this.task.id, claim_token: this.token, ...more }, sending);
    return this.task;
  }

  async #end(verb: Verb, more: Partial<Schemas["TurnTask"]>, sending: Sending): Promise<Task> {
    const ended = await this.#do(verb, more, sending);
    this.#isOver = true;
    return ended;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#isOver) return;
    // A claim that was lost is another agent's now.
    await this.release().catch((why: unknown) => {
      if (!(why instanceof EntenteError)) throw why;
    });
  }
}

async function step(client: Entente, task: Schemas["TurnTask"], sending: Sending): Promise<Task> {
  const { done } = await client.turn({ tasks: [task] }, sending);
  return done.tasks[0] as Task;
}

/** The tasks of intents. */
export class Tasks {
  constructor(readonly client: Entente) {}

  /** Creates a task. */
  create(intentId: string, task: Omit<NewTask, "intent_id">, sending: Sending = {}): Promise<Task> {
    return this.client.core.request("post", "/api/v1/intents/{intent_id}/tasks", { ...sending, path: { intent_id: intentId }, body: task });
  }

  get(id: string, sending: Sending = {}): Promise<Task> {
    return this.client.core.request("get", "/api/v1/tasks/{task_id}", { ...sending, path: { task_id: id } });
  }

  async list(intentId: string, sending: Sending = {}): Promise<Task[]> {
    return this.client.core.request("get", "/api/v1/intents/{intent_id}/tasks", { ...sending, path: { intent_id: intentId }, query: {} });
  }

  /** Claims a task that is ready; throws `claim_conflict` if another agent was faster. */
  async claim(id: string, sending: Sending = {}): Promise<TaskClaim> {
    return new TaskClaim(this.client, await step(this.client, { verb: "claim", task_id: id }, sending));
  }
}
