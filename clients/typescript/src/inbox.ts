// An agent's inbox: what reached it, each entry once per reader, at a position that the server keeps.

import type { Sending } from "./core.js";
import type { Entente } from "./client.js";
import { EventStream } from "./streams.js";
import type { Following } from "./streams.js";
import type { InboxEntry, InboxPage } from "./types.js";
import { check } from "./waiting.js";

export interface ReadOptions extends Sending {
  /** Levels, separated by commas: `wake`, `next`, `digest`. */
  attention?: string;
  /** A `next` of a page, to read after instead of the reader's own position. */
  since?: string;
  /** Whether the entries of the level `digest` come one by one; otherwise they are counted. */
  expand?: boolean;
  limit?: number;
  /** Seconds to wait if there are no entries, up to 120. */
  wait?: number;
}

/** Longest long poll in seconds. */
const POLL = 25;

/** The inbox of an agent, for one reader. */
export class Inbox {
  constructor(
    readonly client: Entente,
    /** The agent; defaults to the client's. */
    readonly agentId?: string,
    /** The reader's name: each one has a position of its own. */
    readonly reader = "default",
  ) {}

  async #path(): Promise<{ agent_id: string }> {
    return { agent_id: this.agentId ?? (await this.client.agent()) };
  }

  /** Reads what the reader has not marked. The first read opens the inbox. */
  async read({ attention, since, expand, limit, wait, ...sending }: ReadOptions = {}): Promise<InboxPage> {
    const query = { reader: this.reader, ...(attention !== undefined && { attention }), ...(since !== undefined && { since }),
      ...(expand !== undefined && { expand }), ...(limit !== undefined && { limit }), ...(wait !== undefined && { wait }) };
    const timeout = sending.timeout ?? ((wait ?? 0) + 30) * 1_000;
    return this.client.core.request("get", "/api/v1/agents/{agent_id}/inbox", { ...sending, path: await this.#path(), query, timeout });
  }

  /** Marks all entries up to a place. */
  async mark(place: number, sending: Sending = {}): Promise<void> {
    const body = { place, reader: this.reader };
    await this.client.core.request("post", "/api/v1/agents/{agent_id}/inbox/seen", { repeatable: true, ...sending, path: await this.#path(), body });
  }

  /** Yields entries for ever, one by one. Who asks for the next entry has handled the last one: it is marked then, and an entry
   *  that was not handled comes again at the next start. */
  async *entries(options: { attention?: string; expand?: boolean; signal?: AbortSignal; onMissed?: (missed: number) => void } = {}): AsyncGenerator<InboxEntry> {
    const { onMissed, ...reading } = options;
    for (;;) {
      check(options.signal);
      const page = await this.read({ expand: true, ...reading, wait: POLL });
      if (page.missed > 0) onMissed?.(page.missed);
      let done = page.seen;
      try {
        for (const entry of page.entries) {
          yield entry;
          done = Math.max(done, entry.place);
        }
        done = Math.max(done, page.next_place);
      } finally {
        if (done > page.seen) await this.mark(done, { signal: undefined });
      }
    }
  }

  /** Follows the inbox as a stream: `entry` for each entry, `ring` for one that rang again. Following marks nothing. */
  async follow(following: Following & { attention?: string } = {}): Promise<EventStream<InboxEntry>> {
    const { attention } = following;
    const query = { reader: this.reader, ...(attention !== undefined && { attention }) };
    return new EventStream(this.client.core, "/api/v1/agents/{agent_id}/inbox/stream", { path: await this.#path(), query }, following);
  }
}
