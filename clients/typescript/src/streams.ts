// Streams of server-sent events that survive the loss of their connection: each event once, in order, without a gap.

import type { Core, JsonObject, Sending } from "./core.js";
import { ConnectionError, EntenteError } from "./errors.js";
import { check, linked, pause, sleep } from "./waiting.js";

/** What a reader will not get, because it was evicted or expired before it was read. */
export interface Missed {
  missed: number;
  /** Whether the number is only the most that it can be. */
  truncated: boolean;
  oldest?: number;
  newest?: number;
  channel_id?: string;
}

/** An event of a stream. */
export interface StreamEvent<T = JsonObject> {
  /** Resumes the stream after this event, on any server. */
  id: string;
  /** Its type, such as `channel_message`. */
  type: string;
  data: T;
  /** What was missed just before it. */
  missed?: Missed;
}

/** Where a stream begins, and what ends it. */
export interface Following {
  /** Resumes after this event. */
  lastEventId?: string | undefined;
  signal?: AbortSignal | undefined;
  /** Told of what was missed, at once. */
  onMissed?: (missed: Missed) => void;
  /** Milliseconds of silence after which a connection counts as dead; the server says something every five minutes. */
  idleTimeout?: number;
}

const IDLE = 330_000;

interface Frame {
  id?: string;
  type?: string;
  data?: string;
  retry?: number;
  comment?: string;
}

/** Yields the frames of a body; a frame that breaks off is none (HTML Standard, server-sent events). */
async function* frames(body: ReadableStream<Uint8Array>, alive: () => void): AsyncGenerator<Frame> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let text = "";
  let frame: Frame = {};
  try {
    for (;;) {
      const { done, value } = await reader.read().catch((why: unknown) => {
        throw new ConnectionError("The stream broke off.", why);
      });
      if (done) return;
      alive();
      text += decoder.decode(value, { stream: true });
      const lines = text.split(/\r\n|\n|\r(?!$)/);
      text = lines.pop() ?? "";
      for (const line of lines) {
        if (line !== "") {
          read(line, frame);
          continue;
        }
        yield frame;
        frame = {};
      }
    }
  } finally {
    reader.cancel().catch(() => undefined);
  }
}

function read(line: string, frame: Frame): void {
  const at = line.indexOf(":");
  const name = at < 0 ? line : line.slice(0, at);
  const value = at < 0 ? "" : line.slice(at + 1).replace(/^ /, "");
  if (name === "data") frame.data = frame.data === undefined ? value : `${frame.data}\n${value}`;
  else if (name === "id") frame.id = value;
  else if (name === "event") frame.type = value;
  else if (name === "retry" && /^\d+$/.test(value)) frame.retry = Number(value);
  else if (name === "" && value.startsWith("missed ")) frame.comment = value.slice("missed ".length);
}

/** A stream: iterate over it, and stop iterating to close it. It resumes by itself until the server refuses it. */
export class EventStream<T = JsonObject> implements AsyncIterable<StreamEvent<T>> {
  /** The position that was reached: store it to resume in another process. */
  lastEventId: string | undefined;
  /** How many messages were missed since the stream began. */
  missed = 0;
  /** Resolves as soon as the stream is open: what happens from then on is on it. */
  readonly opened: Promise<void>;
  #open: () => void = () => undefined;
  #fail: (why: unknown) => void = () => undefined;
  readonly #core: Core;
  readonly #path: string;
  readonly #given: { path?: object; query?: object } & Sending;
  readonly #following: Following;
  readonly #isLast: (event: StreamEvent<T>) => boolean;

  constructor(core: Core, path: string, given: { path?: object; query?: object }, following: Following = {},
    isLast: (event: StreamEvent<T>) => boolean = () => false) {
    this.#core = core;
    this.#path = path;
    this.#given = given;
    this.#following = following;
    this.#isLast = isLast;
    this.lastEventId = following.lastEventId;
    this.opened = new Promise((resolve, reject) => {
      this.#open = resolve;
      this.#fail = reject;
    });
    this.opened.catch(() => undefined);
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<StreamEvent<T>> {
    const { signal } = this.#following;
    let retry = 1_000;
    for (let attempt = 0; ; ) {
      const { controller, unlink } = linked(signal);
      const late = () => controller.abort(new ConnectionError("The stream was silent for too long."));
      let timer = setTimeout(late, this.#following.idleTimeout ?? IDLE);
      const alive = () => {
        clearTimeout(timer);
        timer = setTimeout(late, this.#following.idleTimeout ?? IDLE);
      };
      try {
        const response = await this.#connect(controller.signal);
        let missed = this.#told(response.headers);
        this.#open();
        for await (const frame of frames(response.body ?? new ReadableStream(), alive)) {
          attempt = 0;
          retry = frame.retry ?? retry;
          if (frame.comment !== undefined) missed = this.#tell(JSON.parse(frame.comment) as Missed);
          const event = this.#event(frame, missed);
          if (event === undefined) continue;
          missed = undefined;
          yield event;
          if (this.#isLast(event)) return;
        }
      } catch (why) {
        check(signal);
        if (!(why instanceof EntenteError) || !isPassing(why)) {
          this.#fail(why);
          throw why;
        }
      } finally {
        clearTimeout(timer);
        controller.abort();
        unlink();
      }
      // The server asks for this pause; clients that were cut off together do not come back together.
      await sleep(Math.max(pause(attempt, retry / 2), 0), signal);
      attempt += 1;
    }
  }

  #connect(signal: AbortSignal): Promise<Response> {
    const headers = this.lastEventId === undefined ? {} : { "last-event-id": this.lastEventId };
    return this.#core.open(this.#path, { ...this.#given, headers, signal });
  }

  /** Returns the event of a frame; a frame without one moves the position alone. */
  #event(frame: Frame, missed: Missed | undefined): StreamEvent<T> | undefined {
    if (frame.id !== undefined) this.lastEventId = frame.id;
    if (frame.data === undefined) return undefined;
    const event = { id: this.lastEventId ?? "", type: frame.type ?? "message", data: JSON.parse(frame.data) as T };
    return missed === undefined ? event : { ...event, missed };
  }

  #told(headers: Headers): Missed | undefined {
    const number = (name: string) => Number(headers.get(name) ?? 0);
    if (number("entente-missed") === 0) return undefined;
    const truncated = headers.get("entente-truncated") === "true";
    return this.#tell({
      missed: number("entente-missed"), truncated, oldest: number("entente-oldest"), newest: number("entente-newest"),
    });
  }

  #tell(missed: Missed): Missed {
    this.missed += missed.missed;
    this.#following.onMissed?.(missed);
    return missed;
  }
}

/** Whether a stream that was refused may be open later. */
function isPassing({ status }: EntenteError): boolean {
  return status === 0 || status === 429 || status >= 500;
}
