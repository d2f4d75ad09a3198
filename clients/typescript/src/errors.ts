// Errors: what the server refused, and what never got an answer.

/** A faulty member of a request. */
export interface FieldError {
  type: string;
  loc: (string | number)[];
  pointer?: string;
  msg: string;
}

/** What to do about a code of the server, where its message does not say it already. */
const ADVICE: Record<string, string> = {
  unauthenticated: "Pass a valid key as `apiKey`.",
  may_not_act_as: "Pass the `agentId` that the key belongs to, or a key whose `act_as` covers it.",
  lease_held: "Wait for the scope with `wait`, or take another one.",
  lease_ended: "Stop the work under the lease, and acquire it again.",
  claim_conflict: "Drop the task: another agent has it.",
  CLAIM_LOST: "Drop the job: another worker has it.",
  stale_epoch: "Stop: a later process of the agent has taken its place.",
  idempotency_mismatch: "Use a new `idempotencyKey` for a new request.",
  loop_stopped: "Stop answering: the agents only repeat each other.",
};

function advised(status: number, code: string): string {
  if (ADVICE[code]) return ADVICE[code];
  if (status === 0) return "Check the URL and that the server runs; the same request may succeed later.";
  if (status === 404) return "Check the id, and that the key may see the object: what it may not see looks missing.";
  if (status === 409 || status === 412) return "Read the object again, and decide anew.";
  if (status === 429 || status >= 500) return "Send the same request again later.";
  return "Correct the request.";
}

/** A request that the server refused, or that it never answered (`status` 0). */
export class EntenteError extends Error {
  override readonly name: string = "EntenteError";
  /** The HTTP status; 0 if there was no answer. */
  readonly status: number;
  /** A stable word for programs, such as `not_found` or `lease_ended`. */
  readonly code: string;
  /** What to do. */
  readonly advice: string;
  /** Each faulty member of the request, with its place. */
  readonly errors: FieldError[];
  /** The id under which the server's log has the request. */
  readonly requestId: string | undefined;
  /** Seconds after which the same request may succeed. */
  readonly retryAfter: number | undefined;
  /** The whole answer. */
  readonly body: Record<string, unknown>;

  constructor(status: number, body: Record<string, unknown>, retryAfter?: number, options?: ErrorOptions) {
    const code = typeof body.code === "string" ? body.code : status === 0 ? "unreachable" : `http_${status}`;
    super(typeof body.message === "string" ? body.message : `The server answered ${status}.`, options);
    this.status = status;
    this.code = code;
    this.advice = advised(status, code);
    this.errors = Array.isArray(body.errors) ? (body.errors as FieldError[]) : [];
    this.requestId = typeof body.request_id === "string" ? body.request_id : undefined;
    this.retryAfter = retryAfter;
    this.body = body;
  }
}

/** No answer came: the server may or may not have done what it was asked. */
export class ConnectionError extends EntenteError {
  override readonly name = "ConnectionError";

  constructor(message: string, cause?: unknown) {
    super(0, { code: "unreachable", message }, undefined, { cause });
  }
}

/** Nobody answered a request in time (RFC-0021 §3); it has expired, or is about to. */
export class MessageTimeoutError extends Error {
  override readonly name = "MessageTimeoutError";

  constructor(
    /** The request's id. */
    readonly requestId: string,
    to: string,
    seconds: number,
  ) {
    super(`\`${to}\` did not answer within ${seconds} s.`);
  }
}

/** Reads a refusal from a response. */
export async function refusal(response: Response): Promise<EntenteError> {
  const text = await response.text().catch(() => "");
  let body: Record<string, unknown> = {};
  try {
    const parsed: unknown = JSON.parse(text);
    if (parsed !== null && typeof parsed === "object") body = parsed as Record<string, unknown>;
  } catch {
    // A proxy answered, not the server.
    body = { message: text.slice(0, 200) || response.statusText };
  }
  return new EntenteError(response.status, body, retryAfter(response.headers));
}

function retryAfter(headers: Headers): number | undefined {
  const value = headers.get("retry-after");
  if (value === null) return undefined;
  const seconds = Number(value);
  if (Number.isFinite(seconds)) return Math.max(0, seconds);
  const time = Date.parse(value);
  return Number.isNaN(time) ? undefined : Math.max(0, (time - Date.now()) / 1000);
}
