// Generated from openapi/entente.json by scripts/generate.mjs; do not edit.

export interface paths {
    "/.well-known/did.json": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get this server's DID document (`did:web`)
         * @description Not found unless federation is configured.
         */
        get: operations["did_document"];
    };
    "/.well-known/openintent-compat.json": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get the protocol compatibility
         * @description Lists the implemented RFCs with their gaps. Requires no API key.
         */
        get: operations["get_compatibility"];
    };
    "/.well-known/openintent-federation.json": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get the federation manifest
         * @description Not found unless federation is configured.
         */
        get: operations["federation_manifest"];
    };
    "/.well-known/openintent.json": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Describe this server
         * @description Requires no API key.
         */
        get: operations["discover"];
    };
    "/api/v1/admin/checkpoints": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Take a checkpoint
         * @description Covers the log up to its current end and is signed with the server's key. Requires the scope `admin`. Refused if
         *     the log's hash chain is broken.
         */
        post: operations["create_checkpoint"];
    };
    "/api/v1/admin/checkpoints/{checkpoint_id}/anchor": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Store a witness's receipt for a checkpoint
         * @description Requires the scope `admin`. The server contacts no witness itself: an operator's program follows
         *     `log.checkpoint.created` on the system log, has the Merkle root witnessed, and posts the receipt here. A later
         *     receipt replaces an earlier one.
         */
        post: operations["anchor_checkpoint"];
    };
    "/api/v1/aee/approvals": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List the tasks that wait for a person
         * @description A task with `requires.human_approval` whose recipient is not a person waits for a person's approval. Requires a
         *     person's key; a person's own tasks are not listed. The order is fair: the oldest task of each principal, then the
         *     second of each, and so on. Decided and expired tasks drop out of the list and later ones move up, so start again
         *     from the first page after a decision.
         */
        get: operations["list_approvals"];
    };
    "/api/v1/aee/approvals/{envelope_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Approve or decline a task
         * @description Requires a person's own key; the task's sender may not decide. `approve` delivers the task to its recipients'
         *     mailboxes; `decline` ends it, and the server sends an `error` with `E_DECLINED` to the sender. A task is decided
         *     once: a later decision is refused with 409.
         */
        post: operations["decide_approval"];
    };
    "/api/v1/aee/bridges": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List bridges
         * @description With the position each has reached. Requires the scope `admin`.
         */
        get: operations["list_bridges"];
    };
    "/api/v1/aee/bridges/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Set up a bridge
         * @description `jobs` turns tasks for an entity into jobs; their events come back as `stream`, `result` and `error`. The jobs work
         *     for the bridge's `intent_id`, or for the intent that a task names in `entente.intent_id`; the bridge's agent needs
         *     write access to it, and to an intent that a task names its sender too. `mirror` posts envelopes for an entity or a `bus.…` on a channel, with their senders in
         *     `metadata.envelope`, and of an entity also the answers that end its tasks. `export` sends the messages of a channel
         *     on as envelopes.
         *     A bridge has the permissions of the key that set it up, and pauses when that key ends. It carries each item once,
         *     and skips items that a bridge created.
         */
        put: operations["put_bridge"];
        /**
         * Remove a bridge
         * @description Items that it already carried stay. Jobs that it created go on, but their events are no longer forwarded.
         */
        delete: operations["delete_bridge"];
    };
    "/api/v1/aee/buses/{bus}/subscriptions/{entity}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Subscribe to a bus
         * @description From now on, envelopes sent to the `bus.…` are put into the entity's mailbox, except those that the entity sends
         *     itself. Repeating the call has no effect.
         */
        put: operations["subscribe_bus"];
        /** Unsubscribe from a bus */
        delete: operations["unsubscribe_bus"];
    };
    "/api/v1/aee/conformance": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get the AEE conformance claim
         * @description Lists the clauses with the tests that prove them.
         */
        get: operations["conformance"];
    };
    "/api/v1/aee/envelopes": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Send an envelope
         * @description The body is the envelope; it is stored and delivered byte for byte. 202: it was put into its recipient's mailbox.
         *     200: it was a task for the server itself (`aee.*`), and `reply` is the response. Sending the same envelope again
         *     returns 409 `duplicate_id` with the first `receipt`, so that a retry is safe.
         */
        post: operations["send_envelope"];
    };
    "/api/v1/aee/envelopes/batch": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Send several envelopes
         * @description A JSON array of up to 100 envelopes, or one envelope per line (NDJSON). They are processed in order and
         *     independently: a refused envelope does not affect the others.
         */
        post: operations["send_envelopes"];
    };
    "/api/v1/aee/envelopes/{envelope_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Read an envelope
         * @description Visible to its sender, its recipient, and entities that received it in a mailbox.
         */
        get: operations["get_envelope"];
    };
    "/api/v1/aee/keys": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List an entity's signing keys
         * @description Returns all keys it ever had, oldest first. The API key must be allowed to act as the entity, or have the scope
         *     `admin`.
         */
        get: operations["list_envelope_keys"];
        /**
         * Register a signing key
         * @description For envelopes whose `from` is the entity. Registering the same key again returns the existing one. A key is never
         *     changed and its name never reused: to rotate, register the next key while the current one is still valid, sign
         *     with the new one, and revoke the old one.
         */
        post: operations["register_envelope_key"];
    };
    "/api/v1/aee/keys/{kid}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Revoke a signing key
         * @description Takes effect immediately on every server, and permanently: envelopes that the key signed and that were not yet
         *     accepted are refused.
         */
        delete: operations["revoke_envelope_key"];
    };
    "/api/v1/aee/logs": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List log lines
         * @description Returns lines sent by the caller's principal, oldest first. Large lines can make a page shorter than `limit`:
         *     continue from its last `seq` until a page is empty.
         */
        get: operations["list_envelope_log_lines"];
        /**
         * Store log lines
         * @description One JSON object per line: the five members of MVE-5, or a whole envelope. Lines are stored for later inspection,
         *     delivered to no one, and not verified. Lines are independent: a refused line does not affect the others.
         */
        post: operations["keep_envelope_log_lines"];
    };
    "/api/v1/aee/mailboxes/{entity}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Read a mailbox
         * @description Returns envelopes in order of arrival: those after `after`, which defaults to those not yet acknowledged.
         *     With `wait`, responds as soon as there is an envelope, or with an empty page when the time is over.
         */
        get: operations["read_mailbox"];
        /**
         * Open a mailbox
         * @description Creates a mailbox for another name that the key may act as; principals and agents always have one.
         *     Idempotent.
         */
        put: operations["open_mailbox"];
    };
    "/api/v1/aee/mailboxes/{entity}/ack": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Acknowledge envelopes
         * @description An acknowledged envelope is returned only to clients that request its number explicitly. Idempotent.
         */
        post: operations["ack_mailbox"];
    };
    "/api/v1/aee/mailboxes/{entity}/pick": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Pick the most pressing envelopes
         * @description Selects among the envelopes that are neither acknowledged nor held, by priority and age. A priority counts
         *     as a head start in seconds (low 0, normal 30, high 120, urgent 600), so an envelope that has waited longer
         *     than this difference comes first.
         */
        post: operations["pick_mailbox"];
    };
    "/api/v1/aee/rules": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List the envelope rules
         * @description Returns the rules for the senders and recipients between which envelopes may pass (AEE §11.5). Needs the
         *     scope `admin`.
         */
        get: operations["list_envelope_rules"];
    };
    "/api/v1/aee/rules/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Set an envelope rule
         * @description Replaces the rule of that name, if any, and applies to every envelope accepted from then on. Needs the
         *     scope `admin`.
         */
        put: operations["set_envelope_rule"];
        /**
         * Remove an envelope rule
         * @description Needs the scope `admin`.
         */
        delete: operations["remove_envelope_rule"];
    };
    "/api/v1/aee/schemas": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List the payload schemas
         * @description Returns the published schemas and the protocol's own (AEE §9.2).
         */
        get: operations["list_envelope_schemas"];
    };
    "/api/v1/aee/schemas/envelope/aee-v1.schema.json": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get the envelope schema
         * @description Returns the structural rules of AEE 1 (§3.1) as JSON Schema 2020-12.
         */
        get: operations["get_envelope_schema"];
    };
    "/api/v1/aee/schemas/intents/{file}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get a payload schema
         * @description Returned byte for byte as published.
         */
        get: operations["get_payload_schema"];
        /**
         * Publish a payload schema
         * @description Takes a self-contained JSON Schema 2020-12 document of up to 64 KiB: references may only point into it,
         *     and patterns may not use look-around. The first publisher owns the schemas of an intent; an admin may
         *     change any. Only an admin may set the policy `enforce`.
         */
        put: operations["publish_payload_schema"];
        /**
         * Withdraw a payload schema
         * @description Allowed for its publisher and for admins.
         */
        delete: operations["withdraw_payload_schema"];
    };
    "/api/v1/aee/stream": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Follow a mailbox
         * @description A stream of server-sent events. Each frame's `id` is the envelope's number; `Last-Event-ID` resumes after
         *     it, without a gap or a repetition, on any server. Without it, the stream begins with the envelopes not yet
         *     acknowledged.
         */
        get: operations["follow_mailbox"];
    };
    "/api/v1/aee/subscriptions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List an entity's bus subscriptions */
        get: operations["list_bus_subscriptions"];
    };
    "/api/v1/aee/threads/{corr}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Read a thread
         * @description Returns the envelopes of one `corr` that the caller is a party to, oldest first, as a tree of answers. A
         *     page holds up to 4 MiB; it may be empty and still have a `next_cursor`, if others have written many
         *     envelopes under the same `corr`.
         */
        get: operations["get_thread"];
    };
    "/api/v1/agents": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List agents
         * @description Ordered by id.
         */
        get: operations["list_agents"];
        /**
         * Register an agent (RFC-0016's path)
         * @description Same as `POST /agents/register`, but responds with 201.
         */
        post: operations["register_agent_rfc"];
    };
    "/api/v1/agents/register": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Register an agent
         * @description Or renew its record, which the same principal may do at any time. Registration is optional: it gives an agent a
         *     role to be addressed by, and heartbeat monitoring.
         */
        post: operations["register_agent"];
    };
    "/api/v1/agents/{agent_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Get an agent's record */
        get: operations["get_agent"];
        /**
         * Deregister an agent
         * @description Removes the agent from the members of every channel, expires requests that wait for it alone, and notifies those
         *     channels (RFC-0021 §7.2).
         */
        delete: operations["deregister_agent"];
    };
    "/api/v1/agents/{agent_id}/drain": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Drain an agent
         * @description The agent gets no new work addressed to its role and finishes the work it has. If it declared
         *     `drain_timeout_seconds`, it is deregistered after that time.
         */
        post: operations["drain_agent"];
    };
    "/api/v1/agents/{agent_id}/endpoint": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get an agent's webhook
         * @description An agent that registers with an http or https `endpoint` receives the events that concern it there (RFC-0021 §2.4.3). The
         *     secret is shown to callers that may act as the agent.
         */
        get: operations["get_agent_endpoint"];
    };
    "/api/v1/agents/{agent_id}/grants": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List the grants of an agent
         * @description Returns all of them to the agent itself and to admins; others see those of their own vaults. Newest first,
         *     at most 1,000: pass the id of the last one as `after` to get the next page.
         */
        get: operations["list_agent_grants"];
    };
    "/api/v1/agents/{agent_id}/heartbeat": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Send a heartbeat
         * @description Returns an unhealthy agent to active. A dead or deregistered agent must register again.
         */
        post: operations["heartbeat"];
    };
    "/api/v1/agents/{agent_id}/identity": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Get an agent's identity */
        get: operations["get_identity"];
        /**
         * Register an agent's key
         * @description Returns a challenge; the key becomes valid once the challenge is signed with it. Requires a caller that may act as
         *     the agent.
         */
        post: operations["register_identity"];
    };
    "/api/v1/agents/{agent_id}/identity/challenge": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Complete a registration
         * @description With the signed challenge, which is valid once.
         */
        post: operations["complete_identity_challenge"];
    };
    "/api/v1/agents/{agent_id}/identity/revoke": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Revoke an agent's key
         * @description Takes effect immediately and permanently. Requires a caller that may act as the agent, or the scope `admin`. The
         *     agent can then register another key.
         */
        post: operations["revoke_identity"];
    };
    "/api/v1/agents/{agent_id}/identity/rotate": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Rotate an agent's key
         * @description Signed with the current key; a lost key must be revoked instead.
         */
        post: operations["rotate_identity"];
    };
    "/api/v1/agents/{agent_id}/identity/verify": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Verify a signature
         * @description Of an agent over a payload. An invalid signature is no error: `valid` is false, and `reason` tells why.
         */
        post: operations["verify_signature"];
    };
    "/api/v1/agents/{agent_id}/inbox": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Read an agent's inbox
         * @description Messages, envelopes, ends of jobs, decisions and tasks that reached the agent, after the position that the server keeps for
         *     the reader. The position moves only when the reader marks entries seen (`POST …/inbox/seen`), so a page that was lost is
         *     read again. The first read opens the inbox, which begins then.
         *
         *     A new reader begins where the furthest reader of the same levels has got to. `missed` counts entries that are not there
         *     any more. Entries refer to objects: a message is included, as far as the agent may still read it.
         */
        get: operations["read_inbox"];
        /**
         * Open an agent's inbox, or set it up anew
         * @description Replaces all settings. An inbox begins when it is opened.
         */
        put: operations["put_inbox"];
        /**
         * Close an inbox
         * @description Deletes its entries and readers. The messages, jobs and other objects that the entries refer to stay.
         */
        delete: operations["close_inbox"];
    };
    "/api/v1/agents/{agent_id}/inbox/seen": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Mark entries of an inbox seen
         * @description Moves the reader's position. A smaller place than before changes nothing. Entries that a reader of the level `wake` has
         *     seen ring no more.
         */
        post: operations["mark_inbox_seen"];
    };
    "/api/v1/agents/{agent_id}/inbox/settings": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Get an inbox's settings and readers */
        get: operations["get_inbox"];
    };
    "/api/v1/agents/{agent_id}/inbox/stream": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Follow an inbox
         * @description A stream of server-sent events: `entry` for each entry, `ring` for one that rang again because no reader has seen it. Each
         *     frame's `id` is a position; `Last-Event-ID` resumes after it, on any server. Without it, the stream begins at the reader's
         *     position. Entries of the level `digest` come one by one. Following marks nothing seen.
         */
        get: operations["follow_inbox"];
    };
    "/api/v1/agents/{agent_id}/memory": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List and search an agent's memory
         * @description Sorted by last change, newest first; with `q`, by relevance. Of another agent's memory, returns only the
         *     entries that it shares on intents that the caller can read.
         */
        get: operations["list_memory"];
    };
    "/api/v1/agents/{agent_id}/memory/changes": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List the changes to an agent's memory
         * @description Returns the last 1,000 changes, oldest first, including those of evicted and expired entries. Allowed for
         *     the agent's own memory only.
         */
        get: operations["list_memory_changes"];
    };
    "/api/v1/agents/{agent_id}/record": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Get an agent's record (the reference server's path) */
        get: operations["get_agent_record"];
    };
    "/api/v1/agents/{agent_id}/sessions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Get the latest session of an agent */
        get: operations["get_agent_session"];
        /**
         * Open a session of an agent
         * @description For a process that begins to act as the agent. The response has the session's epoch, one higher than before. Writes with
         *     `Entente-Epoch` take effect only while it is the agent's latest: from this response on, an earlier process of the agent
         *     that was paused, cut off or forgotten is refused with `stale_epoch`, on all servers. Other requests are not concerned,
         *     unless the agent is `strict`. With `Entente-Epoch`, the session is opened only if that one is the latest.
         */
        post: operations["open_agent_session"];
    };
    "/api/v1/agents/{agent_id}/status": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Change an agent's status
         * @description `deregistered` has the same effect as `DELETE /agents/{agent_id}`.
         */
        patch: operations["set_agent_status"];
    };
    "/api/v1/agents/{agent_id}/subscribe": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Follow an agent (the SDK's path)
         * @description Same as `/subscribe/agents/{agent_id}`, with the SDK's event names, and by default only with the events that its
         *     agents act on: `AGENT_ASSIGNED`, `STATE_CHANGED`, `STATUS_CHANGED` and `LEASE_RELEASED`. `?event_types=*` adds the
         *     others.
         */
        get: operations["follow_agent_sdk"];
    };
    "/api/v1/arcp/agents": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List the agents that run jobs
         * @description Lists agents whether or not a worker is online. `/agents` lists the running agents; an agent may be in both.
         */
        get: operations["list_inventory"];
    };
    "/api/v1/arcp/agents/{name}/queue": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get the queue of an agent's jobs
         * @description For the agent's owner and keys with the scope `admin`.
         */
        get: operations["get_job_queue"];
        /**
         * Open, pause or drain the queue of an agent's jobs
         * @description The change holds on every server at once; jobs that run go on. The system log records who made it. For the agent's owner and
         *     keys with the scope `admin`.
         */
        put: operations["change_job_queue"];
    };
    "/api/v1/arcp/agents/{name}/versions/{version}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Register an agent's version
         * @description The first principal to register a name owns it. Repeating a registration changes nothing.
         */
        put: operations["register_agent_version"];
    };
    "/api/v1/arcp/limits": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List limits of running jobs
         * @description Returns all limits for a key with the scope `admin`; otherwise those of the caller's agents, and the caller's own.
         */
        get: operations["list_job_limits"];
    };
    "/api/v1/arcp/limits/{scope}/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Limit running jobs
         * @description Limits how many jobs of an agent (its owner may), or of a principal (the scope `admin` may), run at once or start within a
         *     time, on all servers together. Replaces earlier limits. Jobs that run count, and go on; the others wait.
         */
        put: operations["set_job_limits"];
        /** Remove limits of running jobs */
        delete: operations["remove_job_limits"];
    };
    "/api/v1/audit": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List the events of the system log
         * @description Covers principals, keys and agents, newest first. Requires the scope `admin`.
         */
        get: operations["list_audit"];
    };
    "/api/v1/audit/verify": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Verify the hash chain of the system log
         * @description Requires the scope `admin`.
         */
        get: operations["verify_audit"];
    };
    "/api/v1/budgets": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List budgets
         * @description With their use in the present window. Callers without the scope `admin` see those that pay for their own work.
         *     The list of an intent's scope also has the intent's `max_cost`.
         */
        get: operations["list_budgets"];
        /**
         * Create a budget
         * @description Needs the scope `admin`. From then on, every cost in its unit that its scope incurs is charged to it, whichever way it is
         *     reported, once; and an amount that is reserved before it is spent is taken from all budgets that pay for it, or from
         *     none. Costs reported on other servers within half a second may not be charged yet.
         */
        post: operations["create_budget"];
    };
    "/api/v1/budgets/{budget_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get a budget
         * @description With its use in the present window, and a forecast for the end of that.
         */
        get: operations["get_budget"];
        /**
         * Close a budget
         * @description Needs the scope `admin`. It limits nothing any more; amounts reserved of it can still be settled.
         */
        delete: operations["close_budget"];
        /**
         * Change a budget
         * @description Needs the scope `admin`. A new limit holds for the present window too.
         */
        patch: operations["change_budget"];
    };
    "/api/v1/budgets/{budget_id}/raise": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Raise a budget in its present window
         * @description Needs the scope `admin`. The next window has the old limit again.
         */
        post: operations["raise_budget"];
    };
    "/api/v1/bundles": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List imported bundles
         * @description Needs the scope `admin`.
         */
        get: operations["list_bundles"];
        /**
         * Import a bundle
         * @description Needs the scope `admin`. The body is a file that another server wrote (`GET /intents/{intent_id}/export`). It is
         *     verified line by line as it arrives, and refused if a line is changed, missing or out of place. It becomes a record that
         *     admins read and export again, byte for byte; not an intent of this server: nobody writes to it, and its jobs do not run.
         *     The same file is imported once.
         */
        post: operations["import_bundle"];
    };
    "/api/v1/bundles/{bundle_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get an imported bundle
         * @description Needs the scope `admin`. `…/file` has all of it.
         */
        get: operations["get_bundle"];
        /**
         * Remove an imported bundle
         * @description Needs the scope `admin`.
         */
        delete: operations["remove_bundle"];
    };
    "/api/v1/bundles/{bundle_id}/file": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get the file of an imported bundle
         * @description Needs the scope `admin`. Byte for byte as it was imported, so that its seal holds.
         */
        get: operations["get_bundle_file"];
    };
    "/api/v1/bundles/{bundle_id}/lines": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List lines of an imported bundle
         * @description Needs the scope `admin`. A page ends early when it is large; the next one follows the last `number`.
         */
        get: operations["list_bundle_lines"];
    };
    "/api/v1/channels/{channel_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Get a channel */
        get: operations["get_channel"];
        /**
         * Close and delete a channel
         * @description Allowed to the same callers as changing it. It can no longer be found; audited messages stay in the intent's log.
         */
        delete: operations["delete_channel"];
        /**
         * Change a channel
         * @description Allowed to the channel's creator and to coordinators and admins of the intent.
         */
        patch: operations["change_channel"];
    };
    "/api/v1/channels/{channel_id}/ask": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Ask and wait for the answer
         * @description Sends a request and returns its response, or several of them with `expect`, as soon as they have arrived; at the
         *     timeout it returns the responses so far. The status is 200 in each case: `outcome` tells them apart.
         */
        post: operations["ask"];
    };
    "/api/v1/channels/{channel_id}/messages": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List a channel's messages
         * @description Returns the messages after `since`, or else the newest; oldest first in both cases. With `wait`, responds as soon as there
         *     is a message, or with an empty list when the time is over. Pass the header `Entente-Next-Cursor` as `since` to continue. A
         *     page holds at most 4 MiB of messages, or 256 KiB while other large responses to the same key are still unread;
         *     `Entente-Has-More` marks a truncated page. Without `since`, truncation drops the older messages. With a message id or a
         *     cursor as `since`, `Entente-Missed` tells how many messages were evicted or expired before this reader came.
         */
        get: operations["list_messages"];
        /**
         * Send a message
         * @description Responds once the message is durably stored. A directed message is visible only to its sender, its addressees and the
         *     channel's managers.
         */
        post: operations["send_message"];
    };
    "/api/v1/channels/{channel_id}/messages/batch": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Send several messages
         * @description Messages are independent: a refused one does not affect the others. With an `Idempotency-Key`, a retry sends only
         *     the messages that were not sent before.
         */
        post: operations["send_messages"];
    };
    "/api/v1/channels/{channel_id}/messages/{message_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Get a message */
        get: operations["get_message"];
        /**
         * Mark a message read
         * @description Allowed for the message's addressees. Idempotent.
         */
        patch: operations["mark_message_read"];
    };
    "/api/v1/channels/{channel_id}/messages/{message_id}/reply": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Reply to a message
         * @description Sends a response to the request's sender, with the request's id as `correlation_id` (RFC-0021 §3). Only the addressees of
         *     a directed request can reply to it.
         */
        post: operations["reply_to_message"];
    };
    "/api/v1/channels/{channel_id}/subscribe": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Follow a channel (the SDK's path)
         * @description Same as `/subscribe/channels/{channel_id}`, with the SDK's event names.
         */
        get: operations["follow_channel_sdk"];
    };
    "/api/v1/checkpoints": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List checkpoints
         * @description Newest first. Returns checkpoints of logs that the caller can read; with the scope `admin`, of all logs.
         */
        get: operations["list_checkpoints"];
    };
    "/api/v1/checkpoints/{checkpoint_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Get a checkpoint */
        get: operations["get_checkpoint"];
    };
    "/api/v1/checkpoints/{checkpoint_id}/proof/{event_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Prove that a checkpoint covers an event */
        get: operations["get_merkle_proof"];
    };
    "/api/v1/contact-points/push-key": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Get the server's key for push messages */
        get: operations["get_push_key"];
    };
    "/api/v1/contact-points/{contact_point_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Get a contact point */
        get: operations["get_contact_point"];
        /**
         * Remove a contact point
         * @description For the person, and for admins. Items that the person was still to be told of there are not told.
         */
        delete: operations["remove_contact_point"];
        /**
         * Change a contact point
         * @description Settings take effect at once, also for items that the person is still to be told of. Switching a contact point on
         *     tries it again after failures.
         */
        patch: operations["change_contact_point"];
    };
    "/api/v1/contact-points/{contact_point_id}/confirm": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Confirm a contact point
         * @description With the code that was sent to its address: valid for a day, and for five attempts.
         */
        post: operations["confirm_contact_point"];
    };
    "/api/v1/contact-points/{contact_point_id}/test": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Try a contact point
         * @description Sends a message there, whatever its settings. The contact point shows the outcome: `last_sent_at`, `last_error`.
         */
        post: operations["test_contact_point"];
    };
    "/api/v1/coordinators": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Appoint a coordinator
         * @description Requires admin access to the intent. Each role of an intent is held by one coordinator at a time, as long as it
         *     sends heartbeats. A silent coordinator is replaced by the next appointment; a responsive one only if `replaces`
         *     names it.
         */
        post: operations["create_coordinator_lease"];
    };
    "/api/v1/coordinators/{coordinator_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Get a coordinator */
        get: operations["get_coordinator_lease"];
        /**
         * Change a coordinator
         * @description Under its version. The intent's admins and the supervisor may pause and resume the coordinator and change its
         *     guardrails; the coordinator itself may only finish.
         */
        patch: operations["update_coordinator"];
    };
    "/api/v1/coordinators/{coordinator_id}/heartbeat": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Send a coordinator's heartbeat
         * @description Requires being the appointed agent; takes no body. A heartbeat returns an unresponsive coordinator to active,
         *     until its appointment has ended.
         */
        post: operations["coordinator_heartbeat"];
    };
    "/api/v1/credentials": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List credentials
         * @description Lists the credentials provisioned for jobs (ARCP §9.8), oldest first, each with all its generations. Requires the
         *     scope `admin`.
         */
        get: operations["list_credentials"];
        /**
         * Store a credential in a vault
         * @description The secret is sealed and never shown again: only the server uses it, when an agent with a grant calls a
         *     tool. A retry with the same idempotency key returns the first response, even if its secret differs.
         */
        post: operations["create_credential"];
    };
    "/api/v1/credentials/{credential_id}/retry": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Retry a revocation
         * @description Immediately retries the revocations of a credential that failed, restarting their schedule. Has no effect on a
         *     credential with no revocation pending. Requires the scope `admin`.
         */
        post: operations["retry_credential"];
    };
    "/api/v1/credentials/{tool_credential_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get a credential
         * @description Returns the credential without its secret. Allowed for the vault's owner and for admins.
         */
        get: operations["get_credential"];
        /**
         * Change, rotate or revoke a credential
         * @description A new `secret` replaces the old one immediately, for every call that begins afterwards. `If-Match` with
         *     the `version` is optional; with it, only one of two concurrent rotations succeeds.
         */
        patch: operations["change_credential"];
    };
    "/api/v1/credentials/{tool_credential_id}/grants": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List the grants of a credential
         * @description Allowed for the vault's owner and for admins. Newest first, at most 1,000: pass the id of the last one as
         *     `after` to get the next page.
         */
        get: operations["list_credential_grants"];
    };
    "/api/v1/decisions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List coordinators' decisions
         * @description By appointment (`coordinator_id`) or by intent (`intent_id`). Returns a bare array, newest first.
         */
        get: operations["list_coordinator_decisions"];
        /**
         * Record a coordinator's decision
         * @description Requires being the appointed agent, which must not be paused. Refused if a guardrail does not permit the decision.
         */
        post: operations["create_decision_record"];
    };
    "/api/v1/escalations": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List escalations
         * @description Escalations on intents that the caller can read, and those assigned to the caller; newest first. A full page may
         *     be followed by another: request it with `before`.
         */
        get: operations["list_escalations"];
    };
    "/api/v1/escalations/{escalation_id}/resolve": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Resolve an escalation
         * @description An escalation assigned to a person is resolved by that person alone, with their own key.
         */
        post: operations["resolve_escalation"];
    };
    "/api/v1/events": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List a trace's events
         * @description Returns the trace's events on every intent that the caller can read, oldest first. An event belongs to the
         *     trace of the request that recorded it (header `traceparent`), or to the trace that it was posted with. Events that
         *     retention has deleted are not listed; if it deletes some between two pages, `offset` counts without them.
         */
        get: operations["list_trace"];
    };
    "/api/v1/ext-authz": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Judge a request for a gateway (Envoy `ext_authz`)
         * @description Envoy's HTTP authorization service with `path_prefix: /api/v1/ext-authz`: 200 lets the request pass, anything else is its
         *     answer. The request's own key is asked for; the headers `x-entente-intent`, `-job`, `-model`, `-tool`, `-provider`, `-call-id`,
         *     `-expires-in`, `-unsettled` and `-reserve` (`USD=0.02`, several separated by commas) say what it is about: the gateway sets
         *     them, and removes those that its clients send. With an amount, the answer has the header `x-entente-reservation`, to settle
         *     by.
         */
        get: operations["ext_authz"];
    };
    "/api/v1/ext-authz/{path}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Judge a request for a gateway, whatever its method and path */
        get: operations["ext_authz_path"];
    };
    "/api/v1/federation/agents": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List the exported agents
         * @description Agents that the operator exports and that are not declared private: those visible to everyone, or those visible to
         *     one peer if the key is that peer's or the request names it.
         */
        get: operations["list_federated_agents"];
    };
    "/api/v1/federation/callbacks": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Receive a peer's callback about a dispatched intent
         * @description Signed or authenticated like a delivery. A repeated callback is processed once; it becomes an event on the
         *     intent's log.
         */
        post: operations["federation_callback"];
    };
    "/api/v1/federation/dispatch": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Dispatch an intent to a peer
         * @description Responds once the dispatch is stored. It is sent immediately, and again until the peer has responded. The outcome
         *     is recorded on the intent's log.
         */
        post: operations["federation_dispatch"];
    };
    "/api/v1/federation/dispatches/{dispatch_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Get a dispatch */
        get: operations["get_federation_dispatch"];
    };
    "/api/v1/federation/receive": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Receive an intent from a peer
         * @description Signed with the peer's key, or sent with an API key of the principal whose id is the peer's DID. A repeated
         *     delivery is processed once and gets the same response.
         */
        post: operations["federation_receive"];
    };
    "/api/v1/federation/status": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get the status of federation
         * @description Lists the peers and counts the caller's own dispatches and deliveries.
         */
        get: operations["federation_status"];
    };
    "/api/v1/grants": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Grant the use of a credential
         * @description Allowed for the vault's owner and, with `delegated_from`, for an agent that delegates a grant of its own.
         *     A delegated grant never exceeds its parent: calls under it also obey every grant above it.
         */
        post: operations["create_tool_grant"];
    };
    "/api/v1/grants/{grant_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get a grant
         * @description Allowed for its holder, its grantor and the vault's owner.
         */
        get: operations["get_tool_grant"];
        /**
         * Revoke a grant
         * @description Takes effect immediately and also revokes the grants delegated from it. Allowed for its grantor, the
         *     vault's owner, admins, and its holder, which thereby gives it up.
         */
        delete: operations["revoke_grant"];
        /**
         * Suspend, resume or revoke a grant
         * @description While a grant is suspended, no call can begin under it or under the grants delegated from it. Allowed for
         *     its grantor and the vault's owner; admins can suspend.
         */
        patch: operations["change_tool_grant"];
    };
    "/api/v1/grants/{grant_id}/invocations": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List the invocations of a grant
         * @description Newest first; `before` with the last id gets the next page. Visible to the grant's holder, its giver, and the
         *     vault's owner. For the Python SDK, which does not know the status `running`, calls are listed once they are over.
         */
        get: operations["list_invocations"];
    };
    "/api/v1/hooks/{trigger_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Receive a webhook for a trigger
         * @description Needs no key: the sender signs with the trigger's secret, in the format of Standard Webhooks 1.0 or
         *     GitHub. A delivery (`webhook-id`) is accepted once.
         */
        post: operations["receive_webhook"];
    };
    "/api/v1/hooks/{trigger_id}/{token}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Receive a webhook from a sender that cannot sign
         * @description A secret token at the end of the URL authenticates the sender (`verify: "token"`).
         */
        post: operations["receive_webhook_by_token"];
    };
    "/api/v1/intents": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List intents
         * @description Intents that the caller can read, newest first. A page has at most 4 MiB of states; `Entente-Has-More` tells that
         *     it was cut short, and `before` continues after it.
         */
        get: operations["list_intents"];
        /** Create an intent */
        post: operations["create_intent"];
    };
    "/api/v1/intents/{intent_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Get an intent */
        get: operations["get_intent"];
    };
    "/api/v1/intents/{intent_id}/access-requests": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List the requests for access to an intent
         * @description Admins of the intent see all requests; other callers see their own.
         */
        get: operations["list_access_requests"];
        /**
         * Ask for access to an intent
         * @description Requires no access to the intent.
         */
        post: operations["request_access"];
    };
    "/api/v1/intents/{intent_id}/access-requests/{request_id}/approve": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Approve a request for access
         * @description Creates the access entry. A request that was already decided is reported as not found.
         */
        post: operations["approve_access_request"];
    };
    "/api/v1/intents/{intent_id}/access-requests/{request_id}/deny": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Deny a request for access */
        post: operations["deny_access_request"];
    };
    "/api/v1/intents/{intent_id}/acl": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get an intent's access list
         * @description A list that was never set is open and empty: everyone may do everything except change the list.
         */
        get: operations["get_acl"];
        /**
         * Replace an intent's access list
         * @description Requires the caller to be the intent's creator, to have an admin entry, or to hold the scope `admin`.
         */
        put: operations["replace_acl"];
    };
    "/api/v1/intents/{intent_id}/acl/entries": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Grant access to an intent */
        post: operations["grant_access"];
    };
    "/api/v1/intents/{intent_id}/acl/entries/{entry_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Revoke access to an intent
         * @description Takes effect immediately, including on open streams.
         */
        delete: operations["revoke_access"];
    };
    "/api/v1/intents/{intent_id}/agents": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List the agents assigned to an intent */
        get: operations["list_assignments"];
        /**
         * Assign an agent to an intent
         * @description An agent that is assigned itself hands the intent on by assigning another: `delegated_by` then names it.
         */
        post: operations["assign_agent"];
    };
    "/api/v1/intents/{intent_id}/agents/{agent_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Remove an agent from an intent */
        delete: operations["unassign_agent"];
    };
    "/api/v1/intents/{intent_id}/ancestors": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List the ancestors of an intent */
        get: operations["list_ancestors"];
    };
    "/api/v1/intents/{intent_id}/approvals": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List an intent's requests for approval
         * @description Newest first. If a page is full there may be more: request the next one with `before`.
         */
        get: operations["list_intent_approvals"];
        /**
         * Request an approval
         * @description Requests approval of an action before it is performed. The intent's governance policy names the approvers;
         *     if it names nobody, admins of the intent may approve and, with a quorum, the agents assigned to it. Nobody
         *     approves their own request, unless the policy allows it.
         */
        post: operations["request_approval"];
    };
    "/api/v1/intents/{intent_id}/approvals/{approval_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Get a request for approval */
        get: operations["get_approval_status"];
    };
    "/api/v1/intents/{intent_id}/approvals/{approval_id}/approve": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Approve a request
         * @description With a quorum, the request stays `pending` until enough agents have approved, each once. The body is
         *     optional.
         */
        post: operations["approve_approval"];
    };
    "/api/v1/intents/{intent_id}/approvals/{approval_id}/deny": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Deny a request for approval
         * @description The requesting agent may withdraw its request this way. The body is optional.
         */
        post: operations["deny_approval"];
    };
    "/api/v1/intents/{intent_id}/arbitrate": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Ask for arbitration
         * @description An admin of the intent resolves the request by recording a decision that names it.
         */
        post: operations["request_arbitration"];
    };
    "/api/v1/intents/{intent_id}/arbitrations": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List the requests for arbitration on an intent */
        get: operations["list_arbitrations"];
    };
    "/api/v1/intents/{intent_id}/attachments": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List an intent's attachments
         * @description Returns all of them, oldest first; an intent has at most 1,000.
         */
        get: operations["list_attachments"];
        /**
         * Attach a file to an intent
         * @description By reference: the server stores the URL and neither fetches nor checks the file.
         */
        post: operations["add_attachment"];
    };
    "/api/v1/intents/{intent_id}/attachments/{attachment_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Remove an attachment from an intent
         * @description The file itself is not touched. Allowed to the agent that added it and to admins of the intent.
         */
        delete: operations["delete_attachment"];
    };
    "/api/v1/intents/{intent_id}/blocked": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List the blocked parts of an intent
         * @description With their unfinished dependencies. A part with an abandoned dependency is blocked too.
         */
        get: operations["list_blocked_intents"];
    };
    "/api/v1/intents/{intent_id}/channels": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List an intent's channels
         * @description Open channels come first. All readers of the intent see names and members; only members can read messages.
         */
        get: operations["list_channels"];
        /** Open a channel on an intent */
        post: operations["create_channel"];
    };
    "/api/v1/intents/{intent_id}/channels/{name}/messages": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Send a message to a channel by its name
         * @description Opens the channel for everyone with access to the intent if no open channel has the name (RFC-0021 §1.4).
         */
        post: operations["send_message_by_name"];
    };
    "/api/v1/intents/{intent_id}/children": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List the parts of an intent */
        get: operations["list_children"];
        /**
         * Create a part of an intent
         * @description As `POST /intents`, with the intent of the path as the parent. Requires admin access to the parent (RFC-0011).
         */
        post: operations["create_child_intent"];
    };
    "/api/v1/intents/{intent_id}/coordinator-decisions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List the decisions of an intent's coordinators
         * @description Returns a bare array, newest first.
         */
        get: operations["list_decision_records"];
    };
    "/api/v1/intents/{intent_id}/coordinators": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List an intent's coordinators
         * @description Returns a bare array of the latest 1,000, oldest first.
         */
        get: operations["list_coordinator_leases"];
    };
    "/api/v1/intents/{intent_id}/costs": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List an intent's costs and their sums
         * @description The list is paged, oldest first; the sums always cover all costs.
         */
        get: operations["list_costs"];
        /** Record a cost of work on an intent */
        post: operations["record_cost"];
    };
    "/api/v1/intents/{intent_id}/decisions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List the decisions on an intent */
        get: operations["list_decisions"];
        /**
         * Record a decision
         * @description Requires admin access to the intent. A decision is permanent; with `arbitration_id` it resolves that request.
         */
        post: operations["record_decision"];
    };
    "/api/v1/intents/{intent_id}/dependencies": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List the dependencies of an intent */
        get: operations["list_dependencies"];
        /**
         * Add a dependency to an intent
         * @description Under its version. Refused with 400 if the intent would wait for itself, directly or through others.
         */
        post: operations["add_dependency"];
    };
    "/api/v1/intents/{intent_id}/dependencies/{dependency_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Remove a dependency of an intent */
        delete: operations["remove_dependency"];
    };
    "/api/v1/intents/{intent_id}/dependents": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List the dependents of an intent */
        get: operations["list_dependents"];
    };
    "/api/v1/intents/{intent_id}/descendants": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List the descendants of an intent
         * @description Its parts, their parts, and so on. Intents below one that the caller cannot read are not included.
         */
        get: operations["list_descendants"];
    };
    "/api/v1/intents/{intent_id}/escalations": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List an intent's escalations
         * @description Newest first. A full page may be followed by another: request it with `before`.
         */
        get: operations["list_intent_escalations"];
        /**
         * Escalate to a person
         * @description Puts an intent before a person. An assigned person alone resolves the escalation, with their own key; an
         *     unassigned one is resolved by any person with read access to the intent, except its originator.
         */
        post: operations["escalate_to_human"];
    };
    "/api/v1/intents/{intent_id}/events": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List an intent's events
         * @description Newest first. A page has at most 4 MiB; `Entente-Has-More` tells that it was cut short, and `offset` continues
         *     after it. The last page says in `Entente-Deleted-Events` how many older events retention has deleted, if any.
         */
        get: operations["list_events"];
        /**
         * Append an event
         * @description Of any type. The event is marked as `posted` to distinguish it from the server's own.
         */
        post: operations["append_event"];
    };
    "/api/v1/intents/{intent_id}/events/verify": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Verify an intent's chain
         * @description Checks that every event is at its position, links to the previous one and has the hash of its content; that the
         *     last event is where the log ended; that every checkpoint still holds; and that every verified proof is still its
         *     actor's (RFC-0018, RFC-0019).
         */
        get: operations["verify_events"];
    };
    "/api/v1/intents/{intent_id}/export": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Export an intent
         * @description As a bundle: lines of canonical JSON with its log, messages, jobs, money, decisions and children, as far as the caller may
         *     read them; the last line is the server's attestation of all of them (DSSE, in-toto). `entente verify` checks it without a
         *     server. A response that ends without that line is not whole. An admin also gets the latest imported bundle of another
         *     server's intent, byte for byte.
         */
        get: operations["export_intent"];
    };
    "/api/v1/intents/{intent_id}/failures": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List the failures on an intent
         * @description Oldest first, in pages. If another page follows, the header `Entente-Next-Cursor` is its `after`.
         */
        get: operations["list_failures"];
        /**
         * Record a failed attempt at an intent
         * @description `retry` in the response has the consequence under the intent's retry policy. An agent assigned to the intent is
         *     notified when its pause is over, by an assignment with `retry_attempt` and `last_error`.
         */
        post: operations["record_failure"];
    };
    "/api/v1/intents/{intent_id}/governance": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Get an intent's governance policy */
        get: operations["get_governance_policy"];
        /**
         * Set an intent's governance policy
         * @description Replaces the previous policy immediately. Allowed to the intent's creator and to those with an admin entry on its
         *     access list. Members: `completion_mode` (`auto`, `require_approval`, `quorum`), `quorum_threshold`, `write_scope`
         *     (`any`, `assigned_only`), `allowed_agents`, `max_cost`, `require_status_reason`, `approvers`,
         *     `allow_self_approval`, `escalate_to`; others are stored but ignored.
         */
        put: operations["set_governance_policy"];
        /**
         * Remove an intent's governance policy
         * @description Allowed to the same callers as setting it, and recorded on the intent's log.
         */
        delete: operations["remove_governance_policy"];
    };
    "/api/v1/intents/{intent_id}/graph": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get the graph of an intent
         * @description The intent, its descendants, the dependencies of any of these, and so on, as far as the caller can read them.
         */
        get: operations["get_intent_graph"];
    };
    "/api/v1/intents/{intent_id}/handover": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Hand work over to another agent
         * @description Passes an agent's part of the intent on in one transaction: its assignment and role, its tasks and its leases, with a note, the
         *     state of the work and references, which the event `handover.made` has. Claims and fencing tokens are renewed:
         *     requests of the former agent under the old ones are refused. The other agent finds the hand-over in its inbox and on
         *     its stream.
         */
        post: operations["hand_over"];
    };
    "/api/v1/intents/{intent_id}/leases": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List the leases on an intent
         * @description Returns the active leases, oldest first; at most the last 1,000.
         */
        get: operations["list_leases"];
        /**
         * Acquire a lease
         * @description Until the lease ends, no other agent can acquire its scope or an overlapping one, or patch that part of
         *     the state. A lease never outlives its holder's access to the intent. A write with `Entente-Lease: <id>; token=<fencing_token>`,
         *     whatever it is about, takes effect only while the lease is held; otherwise it is refused with `lease_ended`.
         *
         *     With `wait`, the request takes a place in the queue while the scope is held, and gets the lease in its turn: nobody who
         *     came later gets an overlapping scope before it, on any server. When the time is up it is refused, and its place is kept for
         *     some seconds: repeat the request to go on waiting.
         */
        post: operations["acquire_lease"];
    };
    "/api/v1/intents/{intent_id}/leases/waiting": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List the requests that wait for leases on an intent */
        get: operations["list_lease_waits"];
    };
    "/api/v1/intents/{intent_id}/leases/{lease_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Release a lease
         * @description Its holder releases the lease; a creator or admin of the intent revokes it. Repeating the request changes
         *     nothing.
         */
        delete: operations["release_lease"];
        /**
         * Renew a lease
         * @description Allowed for the holder while the lease is active. A lease that has ended must be acquired anew.
         */
        patch: operations["renew_lease"];
    };
    "/api/v1/intents/{intent_id}/lineages": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List an intent's lineages
         * @description A lineage is a message and all that followed from it. The list has those in which somebody answered somebody, newest
         *     first, for 30 days after their last message. A lineage with messages on closed channels is for those who are members
         *     of all of them, and for whoever manages the intent.
         */
        get: operations["list_lineages"];
    };
    "/api/v1/intents/{intent_id}/lineages/{lineage_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Get a lineage */
        get: operations["get_lineage"];
    };
    "/api/v1/intents/{intent_id}/lineages/{lineage_id}/release": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Let a lineage go on
         * @description For whoever manages the intent. Its agents may send again, on all servers within a second, and their messages until
         *     now are no evidence any more. One that nothing is done about is returned as it is.
         */
        post: operations["release_lineage"];
    };
    "/api/v1/intents/{intent_id}/loop-policy": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get an intent's policy for loops
         * @description The members that were set for this intent, and the policy in force: missing members are the server's.
         */
        get: operations["get_loop_policy"];
        /**
         * Set an intent's policy for loops
         * @description Replaces the members that were set before; `{}` is the server's policy. For the intent's creator, those with an admin entry
         *     on its access list, and operators. The server counts hops itself: the parent of a message is the request that it answers,
         *     else the last message that its sender was sent on the intent within `window_seconds`; a person's message is always
         *     new. An answer returns to who asked, and an agent's message to everybody is sent to nobody, unless `broadcasts` is
         *     set. A loop is a lineage of at least `hops` hops, of whose last 16 messages at least `repeats` repeat an earlier
         *     one; so a long dialogue with something to say is none. A storm is over one of the other limits. Then the steps
         *     follow, each after `patience` more messages: `tell` records `loop.found`; `slow` lets the lineage's agents send a
         *     message each `slow_seconds` (429, `loop_slowed`); `stop` refuses their messages on this intent (409, `loop_stopped`)
         *     until somebody outside of the lineage sends them something.
         */
        put: operations["set_loop_policy"];
    };
    "/api/v1/intents/{intent_id}/memory": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List the memory shared on an intent
         * @description Sorted by last change, newest first.
         */
        get: operations["list_intent_memory"];
    };
    "/api/v1/intents/{intent_id}/plans": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List an intent's plans
         * @description Oldest first.
         */
        get: operations["list_plans"];
        /**
         * Create a plan for an intent
         * @description Same as `POST /plans`, on the RFC's path.
         */
        post: operations["create_intent_plan"];
    };
    "/api/v1/intents/{intent_id}/portfolios": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List the portfolios that contain an intent
         * @description Returns those visible to the caller, newest first.
         */
        get: operations["list_intent_portfolios"];
    };
    "/api/v1/intents/{intent_id}/ready": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List the ready parts of an intent
         * @description Those that are neither completed nor abandoned, and whose dependencies are all completed.
         */
        get: operations["list_ready_intents"];
    };
    "/api/v1/intents/{intent_id}/retry-policy": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Get an intent's retry policy */
        get: operations["get_retry_policy"];
        /**
         * Set an intent's retry policy
         * @description Changing the policy resets the failure counts.
         */
        put: operations["set_retry_policy"];
    };
    "/api/v1/intents/{intent_id}/state": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Change an intent's state
         * @description Under its version: send the one you last read in `If-Match`. Send either patches or members to merge; they apply
         *     all or not at all. Parts under another agent's lease cannot be changed (RFC-0003).
         */
        post: operations["patch_state"];
    };
    "/api/v1/intents/{intent_id}/status": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Change an intent's status
         * @description Under its version. `completed` and `abandoned` close the intent's channels and expire pending messages there
         *     (RFC-0021 §7.1).
         */
        post: operations["set_intent_status"];
    };
    "/api/v1/intents/{intent_id}/strict": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Make an intent strict
         * @description From then on, every write of an agent on the intent has to name the epoch of its session (`Entente-Epoch`), by
         *     whichever way it comes; otherwise it is refused with `epoch_required`. People and services that act in their own
         *     names are not concerned. Requires the caller to be the intent's creator, to have an admin entry, or to hold the
         *     scope `admin`.
         */
        put: operations["set_intent_strict"];
    };
    "/api/v1/intents/{intent_id}/subscribe": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Follow an intent (the SDK's path)
         * @description Same as `/subscribe/intents/{intent_id}`, with the SDK's event names (`STATE_CHANGED` and so on).
         */
        get: operations["follow_intent_sdk"];
    };
    "/api/v1/intents/{intent_id}/suspend": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Suspend an intent
         * @description The suspension lasts until a person answers, the time limit passes, or the intent's status is changed. The
         *     question is put to that person as a binding moment; the answer is stored in the intent's state under
         *     `_suspension`, where the SDK looks for it.
         */
        post: operations["suspend_intent"];
    };
    "/api/v1/intents/{intent_id}/suspend/respond": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Answer an intent's question
         * @description Only a person may answer, with a login or a key of their own. If the question was put to a person, only
         *     that person may answer, which closes the binding moment. If nobody could be asked, the intent's admins and
         *     the person named by the operator may answer, except the asker. Repeating the same answer is treated as a
         *     retry.
         */
        post: operations["respond_to_suspension"];
    };
    "/api/v1/intents/{intent_id}/suspensions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List an intent's questions */
        get: operations["list_suspensions"];
    };
    "/api/v1/intents/{intent_id}/tasks": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List an intent's tasks
         * @description Oldest first.
         */
        get: operations["list_tasks"];
        /**
         * Create a task of an intent
         * @description Same as `POST /tasks`, on the RFC's path.
         */
        post: operations["create_intent_task"];
    };
    "/api/v1/invocations": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Report a call
         * @description One that an agent made itself under a grant it holds. It is marked as reported and counts towards the grant's
         *     hourly limit. Members with the names of secrets (`password`, `token` …) are not stored.
         */
        post: operations["record_invocation"];
    };
    "/api/v1/jobs": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List jobs
         * @description Lists the caller's jobs, and everybody's to a key with the scope `admin`. A job fulfils all conditions. A page may be shorter
         *     than its limit although more follow: `next_cursor` says whether they do.
         */
        get: operations["list_jobs"];
        /**
         * Submit a job
         * @description Accepts the job immediately, whether or not a worker is connected. Repeating the same `idempotency_key`
         *     (or `Idempotency-Key` header) with the same parameters returns the same job, with status 200. Cancelling
         *     the job requires its `session_id` or a key with the scope `admin`.
         */
        post: operations["submit_job"];
    };
    "/api/v1/jobs/claim": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Claim jobs
         * @description Takes pending jobs: those of the highest priority, the principals that submitted them in turns, the oldest of each
         *     first. With `wait_sec`, responds as soon as there is one. A claim lasts until
         *     `claim_expires_at`, which heartbeats extend. If the client disconnects before the response, no job is taken.
         *     With an `idempotency_key` a claim can be repeated whose response was lost on the way. A write with `Entente-Claim: <job
         *     id>; token=<claim_token>`, whatever it is about, takes effect only while the job is held by that claim.
         */
        post: operations["claim_jobs"];
    };
    "/api/v1/jobs/counts": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Count jobs
         * @description Counts the jobs that `GET /jobs` with the same conditions lists, by status.
         */
        get: operations["count_jobs"];
    };
    "/api/v1/jobs/events": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Follow all of the caller's jobs
         * @description Streams the events of all jobs that the caller submitted, from now on. `Last-Event-ID` resumes after that frame.
         */
        get: operations["follow_jobs"];
    };
    "/api/v1/jobs/rerun": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Run all jobs of a search again
         * @description Runs one page of the jobs that a search finds again, as `POST /jobs/{job_id}/rerun` does; `next_cursor` goes on. Jobs that
         *     another request has run again are left out, so nothing runs twice. The same request again makes no further jobs.
         */
        post: operations["rerun_jobs"];
    };
    "/api/v1/jobs/{job_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get a job
         * @description Returns the job's status, lease, remaining budget, the worker that runs it and, once it has ended, its result or error.
         */
        get: operations["get_job"];
    };
    "/api/v1/jobs/{job_id}/attempts": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List the attempts at a job
         * @description Each attempt with its worker and its outcome: a failed one with its error, and when the next one could begin.
         */
        get: operations["list_job_attempts"];
    };
    "/api/v1/jobs/{job_id}/authorize": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Authorize an operation
         * @description Call this before performing the operation (ARCP §9.3). The checks, in order: the job has not been cancelled, its
         *     lease has not expired, the lease covers the target, and no budget counter is exhausted. With `reserve`, the
         *     amounts are reserved or the call is refused.
         */
        post: operations["authorize_operation"];
    };
    "/api/v1/jobs/{job_id}/cancel": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Cancel a job
         * @description Allowed for the session that submitted the job and for keys with the scope `admin`. A pending job ends
         *     immediately. A running job is asked to stop, and is ended after the grace period whether or not its worker
         *     reacts.
         */
        post: operations["cancel_job"];
    };
    "/api/v1/jobs/{job_id}/checkpoint": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Store a job's checkpoint
         * @description Stores how far the work is, in place of the previous checkpoint. The next attempt at the job receives it with its
         *     claim: after the loss of this worker, a retried failure, or a release. A report of events may carry it too.
         */
        put: operations["store_job_checkpoint"];
    };
    "/api/v1/jobs/{job_id}/credentials/{credential_id}/rotate": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Rotate a job's credential
         * @description Revokes the previous value immediately. Followers of the job see a `status` event without the value; only the
         *     session that submitted the job receives the value (ARCP §9.8.2).
         */
        post: operations["rotate_job_credential"];
    };
    "/api/v1/jobs/{job_id}/delegate": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Delegate a part of a job
         * @description Creates a child job in the same session, with a part of the job's authority (ARCP §9.4, §10). Repeating the call
         *     with the same `delegate_id` creates no second child.
         */
        post: operations["delegate_job"];
    };
    "/api/v1/jobs/{job_id}/error": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Report that a job failed
         * @description Ends the job as `error`, `cancelled` or `timed_out`, depending on the code, unless the job's `retry` has another attempt
         *     for it: then the job waits until `next_attempt_at`, and its followers get a `status` event with the phase `retrying`.
         *     The same report again has the same answer; a different one is 409 `CLAIM_LOST`, and the first stands.
         */
        post: operations["report_job_error"];
    };
    "/api/v1/jobs/{job_id}/events": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Follow a job, or read its events
         * @description With `Accept: text/event-stream`, returns a stream, which ends with the job; otherwise a page. Each frame's `id` is the
         *     event's number; `Last-Event-ID` or `from_event_seq` resumes after it, without a gap or a repetition, on any server.
         */
        get: operations["job_events"];
        /**
         * Report events of a job
         * @description Stores all of the events or none. Costs are deducted from the budget in the same transaction. A `tool_call` or
         *     `delegate` that the job's authority does not cover is answered with a `tool_result` event and listed in `denied`. A
         *     `tool_call` of `fs.read`, `fs.write` or `net.fetch` is judged as that operation on its `path` or `url`, if the lease
         *     names its capability. A `delegate` with a `delegate_id` and without a `child_job_id` creates the child (ARCP §10),
         *     as `POST /jobs/{job_id}/delegate` does, and lists it in `children`; the events before it are stored first.
         */
        post: operations["report_job_events"];
    };
    "/api/v1/jobs/{job_id}/release": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Release a job
         * @description Another worker may claim it immediately.
         */
        post: operations["release_job"];
    };
    "/api/v1/jobs/{job_id}/rerun": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Run a job again
         * @description Submits an ended job again for its submitter: the same agent and version, input, authority, intent and labels; the times of its
         *     lease and its run begin anew. The new job has `rerun_of`, and a dead letter is resolved by it. Allowed for the submitter and for
         *     keys with the scope `admin`. A delegated job is not run again, because its parent's budget paid for it.
         */
        post: operations["rerun_job"];
    };
    "/api/v1/jobs/{job_id}/reservations/{reservation_id}/release": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Release a reservation */
        post: operations["release_reservation"];
    };
    "/api/v1/jobs/{job_id}/reservations/{reservation_id}/settle": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Settle a reservation
         * @description A reservation that ended with its claim or its job can be settled for a day more, under the token of that claim: its
         *     cost is charged all the same, so a late settlement is not lost.
         */
        post: operations["settle_reservation"];
    };
    "/api/v1/jobs/{job_id}/resolve": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Resolve a dead letter
         * @description Says that somebody has looked after a failed job, which then leaves the list of open dead letters. Resolving it again changes
         *     nothing. Allowed for the submitter and for keys with the scope `admin`.
         */
        post: operations["resolve_job"];
    };
    "/api/v1/jobs/{job_id}/result": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get a job's result
         * @description Returns an inline result as JSON and a streamed result as its assembled bytes.
         */
        get: operations["get_job_result"];
        /**
         * Report a job's result
         * @description Ends the job. A streamed result must be complete; a job's result is either inline or streamed (ARCP §8.4).
         *     A job whose cancellation was requested ends as cancelled all the same. The same report again has the same answer;
         *     a different one is 409 `CLAIM_LOST`, and the first stands.
         */
        post: operations["report_job_result"];
    };
    "/api/v1/jobs/{job_id}/signals": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List the signals of a job
         * @description Returns the signals with their acknowledgements: about 256 KiB of them at once; the next page begins after the last `seq`.
         */
        get: operations["list_job_signals"];
        /**
         * Send a signal to a job
         * @description Keeps the signal in order for the worker that runs the job, and for the next one until a worker acknowledges it. A job that
         *     waits for a worker takes signals as well. Allowed for the submitter and for keys with the scope `admin`.
         */
        post: operations["signal_job"];
    };
    "/api/v1/jobs/{job_id}/signals/ack": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Acknowledge signals of a job
         * @description For the worker that holds the job. Signals that it does not acknowledge are given to the next attempt.
         */
        post: operations["acknowledge_job_signals"];
    };
    "/api/v1/jobs/{job_id}/signals/wait": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Wait for signals of a job
         * @description For the worker that holds the job. With `wait_sec`, responds as soon as there is a signal or the job has to stop. Heartbeats do
         *     the same for all jobs of a worker (`signals_after`).
         */
        post: operations["wait_for_job_signals"];
    };
    "/api/v1/jobs/{job_id}/tree": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get a job with its children
         * @description Costs are counted by job since this server's release that introduced trees.
         */
        get: operations["get_job_tree"];
    };
    "/api/v1/keys/{key_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Revoke a key
         * @description Takes effect immediately on every server and closes open streams. Allowed for keys of the caller's own
         *     principal and, with the scope `admin`, for any key.
         */
        delete: operations["revoke_key"];
    };
    "/api/v1/keys/{key_id}/rotate": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Rotate a key
         * @description Creates a new key with the same powers and ends the old one after the overlap. A key can rotate itself;
         *     the scope `admin` can rotate any key.
         */
        post: operations["rotate_key"];
    };
    "/api/v1/log-filter": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get the log filter
         * @description The filter of the process that answers: another server of the same database has its own. Requires the scope `admin`.
         */
        get: operations["get_log_filter"];
        /**
         * Change the log filter for a while
         * @description Concerns the process that answers, until the time is over, it is changed again, or the process ends. Requires the scope
         *     `admin`.
         */
        put: operations["set_log_filter"];
        /**
         * Put the configured log filter into force again
         * @description Requires the scope `admin`.
         */
        delete: operations["reset_log_filter"];
    };
    "/api/v1/memory": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Create a memory entry
         * @description The key must be free in its namespace. An entry with a scope belongs to a task or an intent: agents that
         *     can read the intent see it too, unless it is `restricted`, and `working` memory is archived when the task
         *     or intent is over. A namespace holds up to 1,000 active entries. Beyond that, a new entry evicts the least
         *     recently used entry that is neither pinned nor `semantic`, lower priorities first; `evicted` lists it.
         */
        post: operations["create_memory"];
    };
    "/api/v1/memory/{memory_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get a memory entry
         * @description Allowed for the agent's own entries, and for entries that others share on an intent that the caller can
         *     read.
         */
        get: operations["get_memory"];
        /**
         * Delete a memory entry
         * @description Deletes the entry and its earlier versions. Allowed for the agent's own entries only.
         */
        delete: operations["delete_memory"];
        /**
         * Change a memory entry
         * @description Requires the version last read in `If-Match`. Agents change their own entries; any agent that can write to
         *     an intent may correct its `semantic` entries. Missing and null fields stay unchanged, except that null
         *     clears `ttl`, `expires_at` and `sensitivity`. Agent, namespace, key, type and scope never change.
         */
        patch: operations["update_memory"];
    };
    "/api/v1/memory/{memory_id}/versions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List the versions of a memory entry
         * @description Returns the current version and up to ten earlier ones, newest first, each with its author and time.
         *     Allowed for the agent's own entries only.
         */
        get: operations["list_memory_versions"];
    };
    "/api/v1/moments": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List moments
         * @description Returns the moments that the caller asked or is asked, newest first; with the scope `admin`, everyone's, without the
         *     person's text. Entries carry only the number of messages; get a single moment for their text. Filtered lists are scanned
         *     in portions: a page may be short or empty and still have a `next_cursor`. Continue until it is null.
         */
        get: operations["list_moments"];
        /**
         * Ask a person
         * @description The answer arrives through `GET …?wait=`, the stream or a webhook. Weaknesses of the question are listed in `lints`, but
         *     it is asked anyway; withdraw it to ask a better one. After a refusal, deliberate first, then set `supersedes` and
         *     `objection_response`.
         */
        post: operations["emit_moment"];
    };
    "/api/v1/moments/deliberations": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Deliberate with a person
         * @description Shares the agent's thinking in place of a question that it cannot commit to yet. It costs nothing and asks nothing.
         */
        post: operations["deliberate"];
    };
    "/api/v1/moments/inbox": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List the moments in the caller's inbox
         * @description Returns the open questions and deliberations addressed to the caller as a person, earliest deadline first, without the
         *     messages' text.
         */
        get: operations["moments_inbox"];
    };
    "/api/v1/moments/rates": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get the quality rates of agents' questions
         * @description Based on the questions that the caller may see: how often each agent retracts its framing, is refused as a question, or
         *     closes hatches. Each rate has a flag that is set when the rate is too high (binding moment §5.9, §11.2, §11.3).
         */
        get: operations["moment_rates"];
    };
    "/api/v1/moments/stream": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Follow moments
         * @description A stream of server-sent `moment` events. Each carries the current state of a moment that the caller asked or is asked,
         *     whenever it changes. `Last-Event-ID` resumes, on any server; of several changes of one moment only the last is sent.
         */
        get: operations["follow_moments"];
    };
    "/api/v1/moments/{moment_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get a moment
         * @description With `wait`, responds when the moment changes: it waits while the question is open and has no new message or, with `seen`,
         *     while that is its version. A moment that is over for good (`resolved`, `withdrawn`, `expired`, `closed`, and `superseded`
         *     once its objection is settled) is returned immediately. A refused question that another one replaced may come back, and is
         *     waited for.
         */
        get: operations["get_moment"];
    };
    "/api/v1/moments/{moment_id}/ack": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Acknowledge an answer
         * @description Allowed for the agent that asked. Confirms that it has received the answer; from then on, the texts of
         *     both are retained only for the period that the server's operator has configured.
         */
        post: operations["acknowledge_moment"];
    };
    "/api/v1/moments/{moment_id}/close": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Close a deliberation
         * @description Allowed for the addressed person. Closing also lifts the restrictions that the refusal placed on the
         *     agent.
         */
        post: operations["close_moment"];
    };
    "/api/v1/moments/{moment_id}/receipt": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get the receipt of an answer
         * @description The server's attestation (DSSE, in-toto) of which answer was given, by whom and when, over the digest of the question that
         *     was seen. It has no words of the person. The same answer has the same receipt, as long as the server's key stays.
         */
        get: operations["get_moment_receipt"];
    };
    "/api/v1/moments/{moment_id}/resolution": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Answer a question
         * @description Allowed only for the addressed person, with a key of their own. The first answer counts; repeating it is
         *     treated as a retry.
         */
        post: operations["resolve_moment"];
    };
    "/api/v1/moments/{moment_id}/view": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Record that a question was viewed
         * @description Records the first view by the addressed person; repeated views, and views by other readers, change
         *     nothing.
         */
        post: operations["view_moment"];
    };
    "/api/v1/moments/{moment_id}/withdraw": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Withdraw a question
         * @description Allowed for the agent that asked. A refused question cannot be withdrawn.
         */
        post: operations["withdraw_moment"];
    };
    "/api/v1/moments/{moment_id}/words": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Add a message to a moment
         * @description The author and the moment's state determine the kind of message: a person asks for detail while the
         *     question is open, and replies during a deliberation; the agent provides detail, or deliberates. No message
         *     is an answer.
         */
        post: operations["say_about_moment"];
    };
    "/api/v1/people": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List the people who can be asked
         * @description Needs the scope `moments:write`, as asking does.
         */
        get: operations["list_people"];
    };
    "/api/v1/people/{principal_id}/account": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Release a person from the account of the provider
         * @description Requires the same rights as setting the password. The account, with which the person logged in at the operator's OpenID
         *     Connect provider, opens nothing any more, and everybody who is logged in as that person is logged out. The next
         *     account that names the person may become that person at its first login.
         */
        delete: operations["release_account"];
    };
    "/api/v1/people/{principal_id}/contact-points": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List a person's contact points
         * @description For the person, and for admins.
         */
        get: operations["list_contact_points"];
        /**
         * Create a contact point
         * @description Tells the person there what waits for them: decisions, tasks to approve, entries of their inbox. Messages have a link to the
         *     page, where the person decides after logging in; an answer to a message reaches nobody. Needs the person's own login:
         *     nobody else sets where a person is told.
         *
         *     A mail address is told nothing until it is confirmed with the code that is sent there (`POST …/confirm`). Up to 10 contact
         *     points of a person; a removed one counts for a day.
         */
        post: operations["create_contact_point"];
    };
    "/api/v1/people/{principal_id}/links": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Create a one-time login link for a person
         * @description Requires the same rights as setting the password. The link opens a page with a button; the first visitor
         *     to press it is logged in and decides as that person. The person's answers name the principal that created
         *     the link. Revoking the key that created the link voids it.
         */
        post: operations["make_link"];
    };
    "/api/v1/people/{principal_id}/password": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Set a person's password
         * @description Needs the scope `admin` and the power to act as that person; an agent's key never has it. Logs out every
         *     browser that is logged in as that person. The person can decide nothing with this password until they have
         *     logged in with it and chosen another. Only its argon2id hash is stored.
         */
        put: operations["set_password"];
    };
    "/api/v1/plans": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Create a plan */
        post: operations["create_plan"];
    };
    "/api/v1/plans/{plan_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Get a plan */
        get: operations["get_plan"];
        /**
         * Change a plan
         * @description Requires the version last read in `If-Match`. When a plan ends, its open tasks end too.
         */
        patch: operations["update_plan"];
    };
    "/api/v1/plans/{plan_id}/activate": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Activate a plan */
        post: operations["activate_plan"];
    };
    "/api/v1/plans/{plan_id}/checkpoints/{checkpoint_id}/approve": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Approve a checkpoint
         * @description The plan continues.
         */
        post: operations["approve_plan_checkpoint"];
    };
    "/api/v1/plans/{plan_id}/checkpoints/{checkpoint_id}/reject": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Reject a checkpoint
         * @description The plan pauses until somebody resumes it.
         */
        post: operations["reject_plan_checkpoint"];
    };
    "/api/v1/plans/{plan_id}/pause": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Pause a plan
         * @description No task of the plan can be claimed until the plan is resumed; tasks already claimed continue.
         */
        post: operations["pause_plan"];
    };
    "/api/v1/plans/{plan_id}/resume": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Resume a plan */
        post: operations["resume_plan"];
    };
    "/api/v1/portfolios": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List portfolios
         * @description Returns the caller's own portfolios, newest first; with the scope `admin`, everyone's.
         */
        get: operations["list_portfolios"];
        /**
         * Create a portfolio
         * @description Visible only to its creator and to keys with the scope `admin`.
         */
        post: operations["create_portfolio"];
    };
    "/api/v1/portfolios/{portfolio_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get a portfolio
         * @description Returns the portfolio with the intents that the caller can read and their aggregate status. Many intents
         *     are paged; the aggregate status always covers all of them.
         */
        get: operations["get_portfolio"];
    };
    "/api/v1/portfolios/{portfolio_id}/intents": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List a portfolio's intents
         * @description Many intents are paged; the aggregate status always covers all of them.
         */
        get: operations["list_portfolio_intents"];
        /**
         * Add an intent to a portfolio
         * @description The caller must be able to read the intent. If the portfolio already contains it, its role and priority
         *     are changed.
         */
        post: operations["add_portfolio_intent"];
    };
    "/api/v1/portfolios/{portfolio_id}/intents/{intent_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Remove an intent from a portfolio */
        delete: operations["remove_portfolio_intent"];
    };
    "/api/v1/portfolios/{portfolio_id}/status": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Change a portfolio's status
         * @description Does not change the portfolio's intents.
         */
        patch: operations["set_portfolio_status"];
    };
    "/api/v1/portfolios/{portfolio_id}/subscribe": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Follow a portfolio (the SDK's path) */
        get: operations["follow_portfolio_sdk"];
    };
    "/api/v1/principals": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List principals
         * @description Needs the scope `admin`. Sorted by id.
         */
        get: operations["list_principals"];
        /**
         * Create a principal
         * @description Needs the scope `admin`. A principal grants no access by itself; create a key for it.
         */
        post: operations["create_principal"];
    };
    "/api/v1/principals/me": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get the current principal
         * @description Returns the record of the key in use, and the agent that the request acts as.
         */
        get: operations["whoami"];
    };
    "/api/v1/principals/{principal_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get a principal
         * @description Returns the caller's own principal or, with the scope `admin`, any.
         */
        get: operations["get_principal"];
    };
    "/api/v1/principals/{principal_id}/keys": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List a principal's keys
         * @description Returns the caller's own keys or, with the scope `admin`, those of any principal. Records only: the
         *     secrets are not stored.
         */
        get: operations["list_keys"];
        /**
         * Create a key
         * @description Needs the scope `admin`. A key cannot create a stronger key: it grants only scopes it has itself, and
         *     creates keys only for principals it may act as. A key created for another person cannot make that person's
         *     decisions. The secret is in this response only; the server stores nothing but hashes of it.
         */
        post: operations["create_key"];
    };
    "/api/v1/principals/{principal_id}/quotas": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get the quotas of a principal
         * @description With their use; requests and bytes as this server counts them. For the principal itself, also as `me`, and for admins.
         */
        get: operations["get_principal_quotas"];
        /**
         * Set the quotas of a principal
         * @description Needs the scope `admin`. Replaces those set before; an empty object takes them back. They hold for all keys and agents of
         *     the principal, on all servers within a second. A request beyond one is 429 with `Retry-After`, or 403 `storage_full`;
         *     keys with the scope `admin` are counted and never refused.
         */
        put: operations["put_principal_quotas"];
    };
    "/api/v1/search": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Search messages, events and jobs
         * @description By words, newest first. `q` has words that a result must all have, `"words in this order"`, `or` between two words, and
         *     `-word` for words that it must not have. Words are compared as they are written, in lower case and without stemming,
         *     because texts of agents mix languages; `job.error` and `2026-11-27` are found by their parts. Searched are string values of
         *     payloads, types, senders and actors, and of jobs the agent, the labels and the error; the input of a job is found by its own
         *     principal only. The first 64 KiB of words of each are indexed, within a moment after they are written.
         *
         *     Each result is one that the caller can read by its own GET: of its intents, of channels that it takes part in, its own
         *     jobs, and with the scope `admin` everybody's jobs and the system log.
         */
        get: operations["search"];
    };
    "/api/v1/server/config": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get the server's configuration
         * @description As far as it concerns clients. Requires no API key.
         */
        get: operations["get_server_config"];
    };
    "/api/v1/server/keys": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List the server's signing keys
         * @description Requires no API key. Store `did` where it cannot be changed together with the database, and pass it to `entente
         *     verify --server-key`.
         */
        get: operations["server_keys"];
    };
    "/api/v1/spend": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Report spending
         * @description Every cost once, whichever way it was reported: by jobs, on intents, or by gateways. Callers without the scope `admin`
         *     see the costs of their own principal.
         */
        get: operations["report_spend"];
    };
    "/api/v1/spend/reservations": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Reserve the cost of a call
         * @description Before a gateway calls a model or a tool. The amounts are taken from every budget that pays for the call, or from none;
         *     the call is refused when it is stopped (`stopped`), when a budget has too little left (`BUDGET_EXHAUSTED`), or when one
         *     restricts the model or tool (`PERMISSION_DENIED`). Needs the scope `jobs:work` or `tools:use`.
         */
        post: operations["reserve_spend"];
    };
    "/api/v1/spend/reservations/{reservation_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Release a reservation
         * @description For a call that was not made, or cost nothing.
         */
        delete: operations["release_spend"];
    };
    "/api/v1/spend/reservations/{reservation_id}/settle": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Settle a reservation
         * @description The cost is charged, and the reserved amounts are released, at once. A cost above the reserved amount is charged in
         *     full, and so is one whose reservation has expired or was released: the money is spent. If the reserved amount was
         *     charged when the reservation expired, only the part above it is charged. Settling again changes nothing.
         */
        post: operations["settle_spend"];
    };
    "/api/v1/stops": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List stops
         * @description The stops in force, or with `lifted=true` all. Callers without the scope `admin` see the one that stops them.
         */
        get: operations["list_stops"];
        /**
         * Stop a subject
         * @description Needs the scope `admin`. Within a second, on all servers: new jobs, claims, operations and reservations, messages,
         *     events, envelopes, intents, dispatches and tool calls of the subject are refused with `stopped`; its running jobs are
         *     told to end and are ended after the grace time of a cancellation; their credentials are revoked. Work under way may
         *     be reported and settled, and people may answer. Pending jobs wait until the stop is lifted.
         */
        post: operations["make_stop"];
    };
    "/api/v1/stops/{stop_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get a stop
         * @description Needs the scope `admin`.
         */
        get: operations["get_stop"];
        /**
         * Lift a stop
         * @description Needs the scope `admin`. Jobs that were told to end stay so. Lifting it again changes nothing.
         */
        delete: operations["lift_stop"];
    };
    "/api/v1/subscribe": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Follow everything visible to the caller */
        get: operations["follow_all"];
    };
    "/api/v1/subscribe/agents/{agent_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Follow an agent
         * @description Streams the agent's assignments, the intents that it is assigned to, messages to it, and status changes of
         *     its own messages. Without `Last-Event-ID` it begins with the agent's open assignments, each as the event that
         *     announced it.
         */
        get: operations["follow_agent"];
    };
    "/api/v1/subscribe/channels/{channel_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Follow a channel
         * @description A stream that resumes tells how many messages were evicted or expired meanwhile. If that happens to messages of an open stream
         *     before they were sent, a comment tells it before the next event: `: missed {"channel_id":…,"missed":3,"truncated":false,"oldest":4,"newest":9}`.
         */
        get: operations["follow_channel"];
    };
    "/api/v1/subscribe/intents/{intent_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Follow an intent
         * @description Streams the intent's messages (those that the caller may see), receipts and events. Every frame has an
         *     `id:`; `Last-Event-ID` resumes without a gap or a repetition, on any server.
         */
        get: operations["follow_intent"];
    };
    "/api/v1/subscribe/portfolios/{portfolio_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Follow a portfolio
         * @description Streams the events on those of its intents that the caller can read, as intents are added and removed, and
         *     the events of the portfolio itself.
         */
        get: operations["follow_portfolio"];
    };
    "/api/v1/subscriptions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List subscriptions
         * @description Returns the subscriptions of the caller's principal, oldest first.
         */
        get: operations["list_subscriptions"];
        /**
         * Subscribe to webhooks
         * @description Events visible to the subscriber are sent to `webhook_url` as they happen, signed as Standard Webhooks specifies. The
         *     secret is shown only in this response; repeating the request with the same `Idempotency-Key` does not show it again.
         */
        post: operations["subscribe"];
    };
    "/api/v1/subscriptions/{subscription_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Get a subscription */
        get: operations["get_subscription"];
        /**
         * Delete a subscription
         * @description Nothing more is sent, including queued deliveries.
         */
        delete: operations["delete_subscription"];
        /**
         * Change a subscription
         * @description Omitted fields stay unchanged. From then on, the visibility of the key that made the change applies.
         */
        patch: operations["change_subscription"];
    };
    "/api/v1/subscriptions/{subscription_id}/deliveries": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List a subscription's deliveries
         * @description Newest first, each with its attempts.
         */
        get: operations["list_deliveries"];
    };
    "/api/v1/subscriptions/{subscription_id}/ping": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Test a subscription
         * @description Sends a signed `ping`. With `wait`, responds after the first attempt, or after that many seconds.
         */
        post: operations["ping_subscription"];
    };
    "/api/v1/subscriptions/{subscription_id}/replay": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Replay past events
         * @description Queues again everything since a time that the subscriber may see now, under the same ids: the receiver recognises
         *     items it already has by `webhook-id`. Events that retention has deleted are not sent. Runs in the background.
         */
        post: operations["replay_subscription"];
    };
    "/api/v1/subscriptions/{subscription_id}/rotate": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Rotate a subscription's secret
         * @description Both secrets sign during the overlap, so that the receiver can be updated without a gap. The new secret is shown only in
         *     this response.
         */
        post: operations["rotate_subscription_secret"];
    };
    "/api/v1/tasks": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Create a task
         * @description The response says `pending`; a task without open dependencies becomes `ready` immediately, under the same version.
         */
        post: operations["create_task"];
    };
    "/api/v1/tasks/{task_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Get a task */
        get: operations["get_task"];
        /**
         * Change a task
         * @description Requires the version last read in `If-Match`. A claimed task can be changed by its agent and by the managers of the
         *     intent. The status `failed` is final; to report a failed attempt, use `POST /tasks/{task_id}/fail`.
         */
        patch: operations["update_task"];
    };
    "/api/v1/tasks/{task_id}/block": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Block a task
         * @description The task waits until it is unblocked. Its assignee keeps it.
         */
        post: operations["block_task"];
    };
    "/api/v1/tasks/{task_id}/cancel": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Cancel a task
         * @description Tasks that depend on it are blocked.
         */
        post: operations["cancel_task"];
    };
    "/api/v1/tasks/{task_id}/claim": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Claim a task
         * @description The task must be ready. Of several concurrent claims one succeeds; the others fail with
         *     `claim_conflict`. Send the `claim_token` of the response with later actions: they fail once the claim
         *     is lost. Other writes name it as well: `Entente-Claim: <task id>; token=<claim_token>`.
         */
        post: operations["claim_task"];
    };
    "/api/v1/tasks/{task_id}/complete": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Complete a task
         * @description Tasks that depend on it become ready, and channels scoped to it close (RFC-0021 §7.3).
         */
        post: operations["complete_task"];
    };
    "/api/v1/tasks/{task_id}/delegate": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Delegate a task
         * @description Reserves the task for another agent, which is notified and can claim it.
         */
        post: operations["delegate_task"];
    };
    "/api/v1/tasks/{task_id}/escalate": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Escalate a task
         * @description Hands the task to a decision maker and blocks it until it is unblocked.
         */
        post: operations["escalate_task"];
    };
    "/api/v1/tasks/{task_id}/fail": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Report that an attempt failed
         * @description The task is retried after a pause while it has attempts left; then it fails for good.
         */
        post: operations["fail_task"];
    };
    "/api/v1/tasks/{task_id}/progress": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Report progress on a task
         * @description Records and publishes the report without changing the task. Further fields are allowed.
         */
        post: operations["report_task_progress"];
    };
    "/api/v1/tasks/{task_id}/release": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Release a task
         * @description The assignee returns the task: it can be claimed again, and the attempt is not counted.
         */
        post: operations["release_task"];
    };
    "/api/v1/tasks/{task_id}/skip": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Skip a task
         * @description Marks the task as not needed. Tasks that depend on it are blocked until they are unblocked, because
         *     only a completed dependency counts.
         */
        post: operations["skip_task"];
    };
    "/api/v1/tasks/{task_id}/start": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Start a task
         * @description The agent that claimed the task begins to work on it; the time limit of the attempt restarts.
         */
        post: operations["start_task"];
    };
    "/api/v1/tasks/{task_id}/unblock": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Unblock a task
         * @description The task resumes where it was. It no longer waits for dependencies that will never be completed.
         */
        post: operations["unblock_task"];
    };
    "/api/v1/teams": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List teams
         * @description Needs the scope `admin`.
         */
        get: operations["list_teams"];
    };
    "/api/v1/teams/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get a team
         * @description For its members and for admins.
         */
        get: operations["get_team"];
        /**
         * Create a team, or replace its members
         * @description Needs the scope `admin`. The budgets of a team pay the costs of its members, and a stop of it stops all of them.
         */
        put: operations["put_team"];
        /**
         * Remove a team
         * @description Needs the scope `admin`. A team that an open budget or a stop in force names cannot be removed.
         */
        delete: operations["remove_team"];
    };
    "/api/v1/teams/{name}/quotas": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get the quotas of a team
         * @description With their use; requests and bytes as this server counts them. For its members and for admins.
         */
        get: operations["get_team_quotas"];
        /**
         * Set the quotas of a team
         * @description Needs the scope `admin`. Limits the use of its members together; members also have quotas of their own. Otherwise as
         *     the quotas of a principal.
         */
        put: operations["put_team_quotas"];
    };
    "/api/v1/tools/invoke": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Call a tool
         * @description The server chooses the agent's grant, makes the request described by the credential's connection with a secret
         *     that the agent never sees, and records the result. A failure of the tool is reported with 200 and `status`,
         *     because the call was made and recorded; a call that may not begin is refused. With an idempotency key a tool is
         *     called only once, even if its result was lost.
         */
        post: operations["invoke_tool"];
    };
    "/api/v1/triggers": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List triggers
         * @description Returns the caller's own triggers, oldest first; with the scope `admin`, everyone's.
         */
        get: operations["list_triggers"];
        /**
         * Create a trigger
         * @description The trigger creates intents as the acting agent, with the powers of this key or of the keys that replace
         *     it by rotation. A schedule uses `cron`, `every_seconds` or `at`; an event trigger uses `event` and
         *     `filter`; webhooks are received at its `webhook_url`.
         */
        post: operations["create_trigger"];
    };
    "/api/v1/triggers/{trigger_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Get a trigger */
        get: operations["get_trigger"];
        /**
         * Delete a trigger
         * @description Intents that the trigger created remain.
         */
        delete: operations["delete_trigger"];
        /**
         * Change a trigger
         * @description Requires the version last read in `If-Match`. From then on, the trigger creates intents with the powers of
         *     this key, and its schedule restarts. With the scope `admin`, triggers of others can be switched on and
         *     off.
         */
        patch: operations["update_trigger"];
    };
    "/api/v1/triggers/{trigger_id}/fire": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Fire a trigger manually
         * @description Behaves as if the trigger's condition had been met, whatever its type: creates the intent, unless one of
         *     the same type is open and deduplication forbids another.
         */
        post: operations["fire_trigger"];
    };
    "/api/v1/triggers/{trigger_id}/firings": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List a trigger's firings (alternative path)
         * @description Same as `GET /triggers/{trigger_id}/history`.
         */
        get: operations["list_trigger_firings"];
    };
    "/api/v1/triggers/{trigger_id}/history": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List a trigger's firings
         * @description Newest first; firings older than thirty days are deleted.
         */
        get: operations["list_trigger_history"];
    };
    "/api/v1/triggers/{trigger_id}/secret": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Rotate a webhook trigger's secret
         * @description The old secret stops working immediately, and so does a URL that contains the old token.
         */
        post: operations["rotate_trigger_secret"];
    };
    "/api/v1/turn": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Take a turn
         * @description Does in one transaction all that an agent does between two calls of its model: marks entries seen and messages read,
         *     sends messages and mail, appends events, works on tasks, settles reservations, reports on its jobs and ends them,
         *     keeps its claims and takes new jobs. All of it happens or nothing: if one part is refused, the error says which, and
         *     nothing took effect. With an `Idempotency-Key`, a turn whose response was lost can be repeated: it happens once, and
         *     the response has the same `done`. The inbox is read after the turn.
         */
        post: operations["take_turn"];
    };
    "/api/v1/vaults": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List the caller's vaults
         * @description Returns all vaults of the acting agent, oldest first; an owner has at most a hundred.
         */
        get: operations["list_vaults"];
        /**
         * Create a vault
         * @description A vault holds credentials of services that agents use but never see. Refused while the server has no key
         *     to seal them with.
         */
        post: operations["create_vault"];
    };
    "/api/v1/vaults/{vault_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get a vault
         * @description Allowed for the vault's owner and for admins.
         */
        get: operations["get_vault"];
        /**
         * Remove a vault
         * @description Immediately revokes its credentials, discards their secrets and withdraws all grants of them.
         */
        delete: operations["remove_vault"];
    };
    "/api/v1/verify/consistency": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Compare two checkpoints of a log */
        get: operations["verify_consistency"];
    };
    "/api/v1/waits": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List who waits for whom
         * @description Requests whose sender waits in a call (`/ask`), leases with a queue, tasks for those that they depend on, jobs for those
         *     that they delegated, and questions to people; and the deadlocks among them. A plain request that nobody waits for is no
         *     wait. An admin sees all; anybody else the waits on intents that it may read, and those of its own agents. A deadlock
         *     is recorded as `deadlock.found` in the log of each intent that it concerns, and its end as `deadlock.cleared`.
         */
        get: operations["list_waits"];
    };
    "/api/v1/workers": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List workers
         * @description Returns the caller's own workers; with the scope `admin`, everyone's. Each has the jobs that it runs, since when, and
         *     when their claims expire.
         */
        get: operations["list_workers"];
        /** Register a worker */
        post: operations["register_worker"];
    };
    "/api/v1/workers/{worker_id}/directive": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Send a directive to a worker
         * @description The worker receives it with its next heartbeat: `quiet` to claim no more jobs, `terminate` to end.
         */
        post: operations["direct_worker"];
    };
    "/api/v1/workers/{worker_id}/heartbeat": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Send a heartbeat */
        post: operations["worker_heartbeat"];
    };
    "/api/v1/workers/{worker_id}/leave": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Deregister a worker
         * @description The jobs that the worker still holds become available to others immediately.
         */
        post: operations["worker_leave"];
    };
    "/health": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Check that the process is alive (ARCP form)
         * @description As `/healthz`, in the form that ARCP's client libraries expect.
         */
        get: operations["simple"];
    };
    "/healthz": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Check that the process is alive
         * @description Responds as long as the process runs, whatever the state of the database.
         */
        get: operations["alive"];
    };
    "/metrics": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get the metrics
         * @description `OpenMetrics` text, for Prometheus.
         */
        get: operations["metrics"];
    };
    "/readyz": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Check that the server is ready for requests
         * @description It is not ready while it drains before stopping, and while it cannot read or write. The check reads from the
         *     database and writes a row the way messages, jobs and envelopes are written; each has 1.5 seconds. A result is
         *     reused for half a second.
         */
        get: operations["ready"];
    };
}
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        /** @description `areq_` and a ULID */
        AccessRequestId: string;
        /** @description An intent's access control list. */
        AclBody: {
            /** @description The policy for principals without an entry. */
            default_policy: components["schemas"]["Policy"];
            /** @description The entries. */
            entries: components["schemas"]["EntryBody"][];
            /** @description The intent. */
            intent_id: components["schemas"]["IntentId"];
            /**
             * @description Whether writes of agents on the intent have to name the epochs of their sessions (`Entente-Epoch`); left out if
             *     they have not.
             */
            strict?: boolean;
        };
        /** @description An agent's record. */
        AgentBody: {
            /** @description The id the agent acts under. */
            agent_id: string;
            /** @description Same as `metadata`, under the reference server's name. */
            agent_metadata: {
                [key: string]: unknown;
            };
            /** @description The agent's capabilities. */
            capabilities: string[];
            /** @description The agent's declared capacity. */
            capacity?: {
                [key: string]: unknown;
            } | null;
            /**
             * Format: int64
             * @description The load the agent last reported.
             */
            current_load: number;
            /**
             * Format: int32
             * @description Seconds that draining may take.
             */
            drain_timeout_seconds?: number | null;
            /** @description The URL at which the agent can be reached. */
            endpoint?: string | null;
            heartbeat_config?: components["schemas"]["HeartbeatConfig"] | null;
            last_heartbeat_at?: components["schemas"]["WireTime"] | null;
            /** @description Client-defined metadata. */
            metadata: {
                [key: string]: unknown;
            };
            /** @description A display name. */
            name?: string | null;
            /** @description The principal that registered the agent. */
            principal_id: string;
            /** @description When the agent last registered. */
            registered_at: components["schemas"]["WireTime"];
            /** @description The role the agent can be addressed by. */
            role_id?: string | null;
            /** @description The agent's lifecycle status. */
            status: components["schemas"]["AgentStatus"];
            /** @description The tasks the agent last reported as in progress. */
            tasks_in_progress: string[];
            /**
             * Format: int64
             * @description The record's version; increases with each change.
             */
            version: number;
        };
        /** @description The latest session of an agent. */
        AgentSession: {
            /** @description The agent. */
            agent_id: string;
            /**
             * Format: int64
             * @description Its epoch, from 1: the value of `Entente-Epoch` in the writes of this session.
             */
            epoch: number;
            /** @description When it was opened. */
            opened_at: components["schemas"]["WireTime"];
            /** @description Principal that opened it. */
            opened_by: string;
            /** @description Whether every write of the agent has to name its epoch. */
            strict: boolean;
        };
        /**
         * @description The stage of an agent's lifecycle.
         * @enum {string}
         */
        AgentStatus: "registering" | "active" | "draining" | "unhealthy" | "dead" | "deregistered";
        /** @description A status change. */
        AgentStatusChange: {
            /** @description The new status. */
            status: components["schemas"]["AgentStatus"];
        };
        /** @description The terms on which a version runs jobs. Omitted members stay as they are. */
        AgentVersionTerms: {
            /** @description Whether a bare name stands for this version. The first version of a name is the default. */
            default?: boolean | null;
            /**
             * Format: int64
             * @description How many workers may be lost on one job: 1 to 100; defaults to 5.
             */
            max_attempts?: number | null;
            /**
             * Format: int64
             * @description Maximum runtime of a job in seconds.
             */
            max_runtime_sec?: number | null;
            on_lost?: components["schemas"]["OnLost"] | null;
            /** @description Whether a job without `model.use` in its lease may use no model (ARCP §9.7). */
            requires_model_use?: boolean | null;
            retry?: components["schemas"]["JobRetry"] | null;
        };
        /** @description Aggregate status of intents; those that the caller cannot read are not counted. */
        AggregateStatus: {
            /** @description Number of intents in each status that occurs. */
            by_status: {
                [key: string]: unknown;
            };
            /**
             * Format: int64
             * @description Percentage of completed intents, rounded down.
             */
            completion_percentage: number;
            /**
             * Format: int64
             * @description Number of intents.
             */
            total: number;
        };
        /**
         * @description The algorithm of an envelope's signature (AEE §8).
         * @enum {string}
         */
        Algorithm: "ed25519" | "HS256";
        /** @enum {string} */
        All: "all";
        /** @description All ancestors of an intent. */
        AncestorList: {
            /** @description The intents, nearest first, up to the first that the caller cannot read. */
            ancestors: components["schemas"]["IntentBody"][];
        };
        /** @description An external witness's receipt for a checkpoint. */
        AnchorBody: {
            /** @description When the witness saw the checkpoint. */
            anchored_at: components["schemas"]["WireTime"];
            /** @description The witness. */
            provider: string;
            /** @description Where the witness publishes the receipt. */
            reference: string;
            /** @description The receipt itself. */
            timestamp_proof: string;
            /** @description The kind of witness. */
            type: string;
        };
        /** @description A receipt, with the response if the server itself was the recipient. */
        AnsweredEnvelope: {
            /** @description The deadline for answers to a task. */
            deadline?: string | null;
            /**
             * Format: int32
             * @description Number of mailboxes that it was delivered to.
             */
            delivered: number;
            /** @description The priority that it is delivered with. */
            effective_priority: components["schemas"]["Priority"];
            /** @description The envelope's id. */
            id: string;
            /** @description When it was ingested. */
            received_at: string;
            /** @description The server's response, an envelope. */
            reply?: {
                [key: string]: unknown;
            } | null;
            /**
             * Format: int64
             * @description Its number in its recipient's mailbox; absent for a channel.
             */
            seq?: number | null;
            /** @description The envelope's status. */
            status: components["schemas"]["ReceiptStatus"];
            /** @description The proof of its sender. */
            verified: components["schemas"]["EnvelopeVerified"];
            /** @description The violations of SHOULDs. */
            warnings: components["schemas"]["Warning"][];
        };
        /** @description An event to append. */
        AppendBody: {
            /** @description The agent that caused the event; defaults to the acting agent. */
            actor?: string | null;
            /** @description The event's type: one of the protocol's or a client-defined one. */
            event_type: string;
            /** @description The event that caused it. */
            parent_event_id?: string | null;
            /** @description The event's payload. */
            payload?: {
                [key: string]: unknown;
            } | null;
            /** @description The actor's signature (RFC-0018); checked if its type is `Ed25519Signature2026` and the actor has an identity. */
            proof?: {
                [key: string]: unknown;
            } | null;
            /** @description The trace it belongs to: 32 hexadecimal digits. */
            trace_id?: string | null;
        };
        /** @description A task that waits for a person's approval. */
        Approval: {
            /** @description Until when a response to the task counts. */
            deadline?: string | null;
            /** @description The priority used for its delivery. */
            effective_priority: components["schemas"]["Priority"];
            /** @description The envelope as received. */
            envelope: {
                [key: string]: unknown;
            };
            /** @description The task's id. */
            id: string;
            /** @description The envelope that the gateway derived this one from. */
            original_id?: string | null;
            /** @description When it was accepted. */
            received_at: string;
            /** @description The entities that are to perform the task. */
            respondents: string[];
            /** @description The evidence for its sender's identity. */
            verified: components["schemas"]["EnvelopeVerified"];
            /** @description Deviations that were tolerated. */
            warnings: components["schemas"]["Warning"][];
        };
        /** @description A person's decision about a task. */
        ApprovalAnswer: {
            /** @description `approve` or `decline`. */
            decision: components["schemas"]["ApprovalDecision"];
            /** @description The reason. With `decline` it is passed on to the sender. */
            reason?: string | null;
        };
        /** @description A recorded decision about a task. */
        ApprovalDecided: {
            /** @description When it was decided. */
            decided_at: string;
            /** @description The person that decided. */
            decided_by: string;
            /** @description The decision. */
            decision: components["schemas"]["ApprovalDecision"];
            /** @description Number of mailboxes the task was delivered to. */
            delivered: number;
            /** @description The task's id. */
            id: string;
        };
        /**
         * @description A person's decision on a task.
         * @enum {string}
         */
        ApprovalDecision: "approve" | "decline";
        /** @description `apr_` and a ULID */
        ApprovalId: string;
        /** @description A request for arbitration. */
        ArbitrationBody: {
            /** @description Context for the arbiter. */
            context: {
                [key: string]: unknown;
            };
            /** @description When the request was made. */
            created_at: components["schemas"]["WireTime"];
            decision_id?: components["schemas"]["DecisionId"] | null;
            /** @description The request's id. */
            id: components["schemas"]["ArbitrationId"];
            /** @description The intent. */
            intent_id: components["schemas"]["IntentId"];
            /** @description The status as a human-readable sentence. */
            message: string;
            /** @description The options to choose from. */
            options: unknown[];
            /** @description Why arbitration is needed. */
            reason: string;
            /** @description The agent that asks for arbitration. */
            requester_id: string;
            /** @description Same as `requester_id`, under the RFC's name. */
            requestor: string;
            /** @description The outcome of the decision that resolved the request. */
            resolution?: string | null;
            resolved_at?: components["schemas"]["WireTime"] | null;
            /** @description The request's status. */
            status: components["schemas"]["ArbitrationStatus"];
        };
        /** @description `arb_` and a ULID */
        ArbitrationId: string;
        /** @description The requests for arbitration on an intent. */
        ArbitrationList: {
            /** @description The requests, oldest first. */
            arbitrations: components["schemas"]["ArbitrationBody"][];
        };
        /**
         * @description The status of an arbitration request.
         * @enum {string}
         */
        ArbitrationStatus: "pending" | "resolved";
        /** @description A question to ask. */
        AskBody: {
            expect?: components["schemas"]["Expect"] | null;
            /** @description Hints for routing and tracing. */
            metadata?: {
                [key: string]: unknown;
            } | null;
            /** @description The question: an object of up to 256 KiB; defaults to `{}`, required in strict mode. */
            payload?: {
                [key: string]: unknown;
            } | null;
            /** @description The agent that asks; defaults to the acting agent. */
            sender?: string | null;
            /**
             * Format: int32
             * @description Seconds to wait, 1 to 120; defaults to 30. The request expires when the wait ends.
             */
            timeout?: number | null;
            /** @description The recipient: an agent, `role:…` or `*`. */
            to?: string | null;
        };
        /** @description The result of an ask. */
        AskReply: {
            /**
             * @description `complete`; `timeout`, with the responses so far; `expired` if nobody can respond any more; or `interrupted`
             *     if the server is stopping, in which case the request stays pending.
             */
            outcome: string;
            /** @description The request that was sent. */
            request: components["schemas"]["MessageBody"];
            response?: components["schemas"]["MessageBody"] | null;
            /** @description All responses, in order of arrival. */
            responses: components["schemas"]["MessageBody"][];
        };
        /** @description An agent to assign. */
        AssignBody: {
            /** @description The agent. */
            agent_id: string;
            /** @description The agent's role; defaults to `worker`. A `coordinator` manages the intent's channels. */
            role?: string | null;
        };
        /** @description An agent's assignment to an intent. */
        AssignmentBody: {
            /** @description The agent. */
            agent_id: string;
            /** @description When it was assigned. */
            assigned_at: components["schemas"]["WireTime"];
            /** @description The agent that was assigned to the intent itself and handed it on; null for every other assignment. */
            delegated_by?: string | null;
            /** @description The assignment's id. */
            id: components["schemas"]["AssignmentId"];
            /** @description The intent. */
            intent_id: components["schemas"]["IntentId"];
            /** @description The agent's role on the intent. */
            role: string;
        };
        /** @description `asg_` and a ULID */
        AssignmentId: string;
        /** @description A file attached to an intent by reference. */
        Attachment: {
            /** @description The file's digest, as declared by the uploader; not checked. */
            content_hash?: string | null;
            /** @description Same as `mime_type`, under another name. */
            content_type: string;
            /** @description Same as `created_at`, under the SDK's name. */
            createdAt: components["schemas"]["WireTime"];
            /** @description When it was added. */
            created_at: components["schemas"]["WireTime"];
            /** @description Same as `uploaded_by`, under the reference server's name. */
            created_by: string;
            /** @description The file's name. */
            filename: string;
            /** @description The attachment's id. */
            id: components["schemas"]["AttachmentId"];
            /** @description The intent. */
            intent_id: components["schemas"]["IntentId"];
            /** @description Client-defined metadata. */
            metadata: {
                [key: string]: unknown;
            };
            /** @description The file's media type. */
            mime_type: string;
            /**
             * Format: int64
             * @description The size in bytes, as declared by the uploader.
             */
            size: number;
            /**
             * Format: int64
             * @description Same as `size`, under another name.
             */
            size_bytes: number;
            /** @description The file's URL. The server never fetches it. */
            storage_url: string;
            /** @description The agent that added the attachment. */
            uploaded_by: string;
            /** @description Same as `storage_url`, under another name. */
            url: string;
        };
        /** @description `file_` and a ULID */
        AttachmentId: string;
        /** @description A delivery attempt. */
        AttemptBody: {
            /** @description When it was made. */
            at: components["schemas"]["WireTime"];
            /** @description The reason for a failed attempt. */
            error?: string | null;
            /** @description The attempt's id. */
            id: components["schemas"]["AttemptId"];
            /**
             * Format: int32
             * @description Duration in milliseconds.
             */
            milliseconds: number;
            /** @description The beginning of the response body. */
            response?: string | null;
            /**
             * Format: int32
             * @description The receiver's HTTP status; null if it did not respond.
             */
            status?: number | null;
        };
        /** @description `att_` and a ULID */
        AttemptId: string;
        /**
         * @description How soon an agent should look at an entry.
         * @enum {string}
         */
        Attention: "digest" | "next" | "wake";
        /** @description A signed statement: a DSSE envelope. */
        Attestation: {
            /** @description The statement, in base64. */
            payload: string;
            /** @description Media type of the statement. */
            payloadType: string;
            /** @description One signature. */
            signatures: components["schemas"]["AttestationSignature"][];
        };
        /** @description The signature of an attestation. */
        AttestationSignature: {
            /** @description Signing key, as a `did:key`. */
            keyid: string;
            /** @description Signature over DSSE's pre-authentication encoding, in base64. */
            sig: string;
        };
        /**
         * @description Authentication method of a credential.
         * @enum {string}
         */
        AuthType: "api_key" | "oauth2_token" | "oauth2_client_credentials" | "bearer_token" | "basic_auth" | "connection_string" | "custom";
        /** @description The basis of a person's key. */
        Authority: {
            /** @description How the key came about. */
            basis: components["schemas"]["AuthorityBasis"];
            /**
             * @description The maker of the credential that first let the person in: the link, the password before their own, or
             *     the key; null if it was not recorded.
             */
            let_in_by?: string | null;
        };
        /**
         * @description How a person's key came about.
         * @enum {string}
         */
        AuthorityBasis: "one_time_link" | "own_password" | "given_password" | "provider_account" | "seeded_key" | "given_key";
        /** @description Several messages to send. */
        BatchBody: {
            /** @description The messages, up to 1,000, in sending order. */
            messages: components["schemas"]["SendBody"][];
        };
        /** @description The outcome for one message of a batch. */
        BatchItem: {
            error?: components["schemas"]["ProblemBody"] | null;
            /** @description The message's index in the batch, from 0. */
            index: number;
            message?: components["schemas"]["MessageBody"] | null;
        };
        /** @description The outcome of a batch. */
        BatchReply: {
            /** @description Number of messages refused. */
            refused: number;
            /** @description The outcome of each message, in the order of the batch. */
            results: components["schemas"]["BatchItem"][];
            /** @description Number of messages sent. */
            sent: number;
        };
        /** @description A part that waits. */
        BlockedIntent: {
            /**
             * Format: double
             * @description The agents' confidence, 0 to 1.
             */
            confidence: number;
            /** @description The constraints on the work. */
            constraints: {
                [key: string]: unknown;
            };
            /** @description When it was created. */
            created_at: components["schemas"]["WireTime"];
            /** @description The agent that created it. */
            created_by: string;
            /** @description The intents it waits for. */
            depends_on: components["schemas"]["IntentId"][];
            /** @description The goal in full. */
            description: string;
            /** @description The governance policy (RFC-0013), as its author wrote it. */
            governance_policy?: {
                [key: string]: unknown;
            } | null;
            /** @description The intent's id. */
            id: components["schemas"]["IntentId"];
            /** @description Its abandoned dependencies. The part cannot become ready until they are resumed or removed. */
            lost: components["schemas"]["IntentId"][];
            parent_id?: components["schemas"]["IntentId"] | null;
            parent_intent_id?: components["schemas"]["IntentId"] | null;
            /** @description The current state. */
            state: {
                [key: string]: unknown;
            };
            /** @description The intent's status. */
            status: components["schemas"]["IntentStatus"];
            /** @description The goal in one line. */
            title: string;
            /** @description When it last changed. */
            updated_at: components["schemas"]["WireTime"];
            /**
             * Format: int64
             * @description The version, which guards writes: send it in `If-Match`.
             */
            version: number;
            /** @description Its unfinished dependencies. */
            waits_for: components["schemas"]["IntentId"][];
        };
        /** @description The parts that wait. */
        BlockedList: {
            /** @description The parts that are not finished and wait for something, oldest first. */
            blocked: components["schemas"]["BlockedIntent"][];
        };
        /**
         * @description Form of the bodies that a receiver gets.
         * @enum {string}
         */
        BodyFormat: "standard" | "cloudevents";
        /** @description An event and its position in the chain. */
        Boundary: {
            /** @description The event's hash. */
            event_hash: string;
            /** @description The event. */
            event_id: components["schemas"]["EventId"];
            /**
             * Format: int64
             * @description The event's sequence number in the chain.
             */
            sequence: number;
        };
        /** @description A fault in a chain. */
        Break: {
            /** @description The checkpoint that shows the fault, if one does; the event is then the last that it covers. */
            checkpoint_id?: string | null;
            /** @description The event's id. */
            event_id: components["schemas"]["EventId"];
            /** @description Description of the fault. */
            reason: string;
            /**
             * Format: int64
             * @description The sequence of the event at fault.
             */
            sequence: number;
        };
        /** @description A bridge and its direction. */
        Bridge: components["schemas"]["JobsBridge"] | components["schemas"]["MirrorBridge"] | components["schemas"]["ExportBridge"];
        /** @description A question as asked: four slots that inform, four that bind. */
        Brief: {
            /** @description Supporting observations, one per entry. */
            findings: string[];
            meta?: components["schemas"]["Meta"] | null;
            /** @description Further detail available on request. */
            offer: string;
            /** @description The decision to be made. */
            question: components["schemas"]["Question"];
            /** @description Recommended actions, one per entry. */
            recommendations: string[];
            /** @description The agent's position in one sentence, answer first. */
            synopsis: string;
        };
        /** @description A budget with its use in the present window. */
        Budget: {
            closed_at?: components["schemas"]["WireTime"] | null;
            /** @description When it was created. */
            created_at: components["schemas"]["WireTime"];
            /** @description Principal that created it. */
            created_by: string;
            /** @description Its id. */
            id: components["schemas"]["BudgetId"];
            /**
             * Format: double
             * @description The limit of each window.
             */
            limit: number;
            /** @description Its name. */
            name: string;
            /** @description Whose spending it limits. */
            scope: string;
            /** @description Shares of the limit, and the consequences of spending them. */
            thresholds: components["schemas"]["BudgetThreshold"][];
            /** @description Time zone in which its windows begin. */
            time_zone: string;
            /** @description The unit. */
            unit: string;
            /** @description Its use in the present window. */
            usage: components["schemas"]["BudgetUsage"];
            /** @description How often it begins anew. */
            window: components["schemas"]["BudgetWindow"];
        };
        /** @description The person to ask. */
        BudgetAsk: {
            /** @description Name of the person's principal. */
            person: string;
        };
        /** @description Models and tools that are still allowed; `*` in a pattern stands for any characters. */
        BudgetDegrade: {
            /** @description Patterns of the models that may be used; absent restricts none. */
            models?: string[] | null;
            /** @description Patterns of the tools that may be called; absent restricts none. */
            tools?: string[] | null;
        };
        /** @description `bgt_` and a ULID */
        BudgetId: string;
        /** @description A page of budgets. */
        BudgetList: {
            /** @description The budgets, oldest first. */
            budgets: components["schemas"]["Budget"][];
            cost_limit?: components["schemas"]["CostLimit"] | null;
        };
        /** @description Changes of a budget; absent members stay. */
        BudgetPatch: {
            limit?: components["schemas"]["NumberOrText"] | null;
            /** @description Its name. */
            name?: string | null;
            /** @description Shares of the limit, and the consequences of spending them. */
            thresholds?: components["schemas"]["BudgetThreshold"][] | null;
        };
        /** @description An amount by which a limit is raised. */
        BudgetRaise: {
            /** @description The amount, above zero. */
            amount: components["schemas"]["NumberOrText"];
        };
        /** @description A share of a budget's limit, and the actions taken once it is spent. An event is always recorded. */
        BudgetThreshold: {
            ask?: components["schemas"]["BudgetAsk"] | null;
            degrade?: components["schemas"]["BudgetDegrade"] | null;
            /**
             * Format: int32
             * @description The share in per cent of the limit, 1 to 1000. At 100 it also counts as reached when a reservation is refused.
             */
            percent: number;
            /** @description Stops the budget's scope, until somebody lifts the stop. */
            stop?: boolean;
        };
        /** @description The use of a budget in a window. */
        BudgetUsage: {
            ends_at?: components["schemas"]["WireTime"] | null;
            /**
             * Format: double
             * @description Costs at the end of the window, if they go on as since the begin; null without an end, and at first.
             */
            forecast?: number | null;
            /**
             * Format: double
             * @description The amount that can still be reserved; below zero when costs that nobody reserved exceed the limit.
             */
            left: number;
            /**
             * Format: double
             * @description The limit of this window, with all raises.
             */
            limit: number;
            /**
             * Format: double
             * @description Amounts reserved for work under way.
             */
            reserved: number;
            /**
             * Format: double
             * @description Costs.
             */
            spent: number;
            /** @description Begin of the window. */
            starts_at: components["schemas"]["WireTime"];
        };
        /**
         * @description The window of a budget: how often it begins anew.
         * @enum {string}
         */
        BudgetWindow: "total" | "hour" | "day" | "week" | "month";
        /** @description An imported bundle. */
        Bundle: {
            /**
             * Format: int64
             * @description Size of the file in bytes.
             */
            bytes: number;
            /** @description When it was written. */
            exported_at: components["schemas"]["WireTime"];
            /** @description The agent that wrote it: the file has the records that this agent could read there. */
            exported_by: string;
            /** @description Its id on this server. */
            id: components["schemas"]["BundleId"];
            /** @description When it was imported. */
            imported_at: components["schemas"]["WireTime"];
            /** @description Agent that imported it. */
            imported_by: string;
            /** @description The intent, on the server that wrote the bundle. */
            intent_id: components["schemas"]["IntentId"];
            /**
             * Format: int32
             * @description Number of its lines.
             */
            lines: number;
            /** @description SHA-256 of the file, hexadecimal. */
            sha256: string;
            /** @description The key of the server that sealed it, as a `did:key`. */
            signed_by: string;
            /** @description Title of the intent. */
            title: string;
        };
        /** @description `bdl_` and a ULID */
        BundleId: string;
        /** @description A line of an imported bundle. */
        BundleLine: {
            /** @description Its kind: `bundle`, `event`, `message` and so on; `seal` for the last. */
            kind: string;
            /** @description Its text, as it is hashed. */
            line: string;
            /**
             * Format: int32
             * @description Its place in the file, from 1.
             */
            number: number;
        };
        /** @description A page of lines. */
        BundleLines: {
            /** @description The lines, in the order of the file; none at its end. */
            lines: components["schemas"]["BundleLine"][];
        };
        /** @description A page of imported bundles. */
        BundleList: {
            /** @description The bundles, newest first. */
            bundles: components["schemas"]["Bundle"][];
        };
        /** @description An entity's subscription to a bus. */
        BusSubscription: {
            /** @description The bus. */
            bus: string;
            /** @description When it subscribed. */
            created_at: string;
            /** @description The subscribed entity. */
            entity: string;
        };
        /** @description A challenge to sign. */
        ChallengeBody: {
            /** @description 32 random bytes in base64url without padding. */
            challenge: string;
            /** @description When the challenge expires. */
            challenge_expires_at: components["schemas"]["WireTime"];
        };
        /** @description A change to a channel; omitted members stay as they are. */
        ChangeBody: {
            member_policy?: components["schemas"]["MemberPolicy"] | null;
            /** @description The complete new list of members. */
            members?: string[] | null;
            /** @description The complete new options. */
            options?: {
                [key: string]: unknown;
            } | null;
            status?: components["schemas"]["ChannelStatus"] | null;
        };
        /** @description A channel. */
        ChannelBody: {
            closed_at?: components["schemas"]["WireTime"] | null;
            /** @description When it was opened. */
            created_at: components["schemas"]["WireTime"];
            /** @description The agent that opened it. */
            created_by: string;
            /** @description The channel's id. */
            id: components["schemas"]["ChannelId"];
            /** @description The intent it is attached to. */
            intent_id: components["schemas"]["IntentId"];
            last_message_at?: components["schemas"]["WireTime"] | null;
            /** @description Whether only listed members may take part. */
            member_policy: components["schemas"]["MemberPolicy"];
            /** @description The listed members. */
            members: string[];
            /**
             * Format: int64
             * @description Number of messages ever sent.
             */
            message_count: number;
            /** @description Its name, unique among the intent's open channels. */
            name: string;
            /** @description The options as given; in strict mode, with defaults filled in. */
            options?: {
                [key: string]: unknown;
            } | null;
            /** @description Whether the channel accepts messages. */
            status: components["schemas"]["ChannelStatus"];
            /** @description The task it is scoped to. */
            task_id?: string | null;
        };
        /** @description `chan_` and a ULID */
        ChannelId: string;
        /**
         * @description Whether a channel accepts messages.
         * @enum {string}
         */
        ChannelStatus: "open" | "closed";
        /** @description A checkpoint. */
        CheckpointBody: {
            anchor?: components["schemas"]["AnchorBody"] | null;
            /** @description The checkpoint's id. */
            checkpoint_id: components["schemas"]["CheckpointId"];
            /** @description When it was taken. The signed form writes this time with `Z`, whatever the client's dialect. */
            created_at: components["schemas"]["WireTime"];
            /**
             * Format: int64
             * @description Number of events covered.
             */
            event_count: number;
            /**
             * Format: int64
             * @description Sequence number of the first event covered.
             */
            first_sequence: number;
            intent_id?: components["schemas"]["IntentId"] | null;
            /**
             * Format: int64
             * @description Sequence number of the last event covered.
             */
            last_sequence: number;
            /** @description The Merkle root over the hashes of the covered events. */
            merkle_root: string;
            /** @description The kind of log it covers. */
            scope: components["schemas"]["CheckpointScope"];
            /** @description The key's signature over the canonical form (RFC 8785) of all other members, in base64url. */
            signature: string;
            /** @description The server key that signed it. */
            signed_by: string;
        };
        /** @description `chk_` and a ULID */
        CheckpointId: string;
        /**
         * @description The kind of log that a checkpoint covers.
         * @enum {string}
         */
        CheckpointScope: "intent" | "server";
        /** @description The parts of an intent. */
        ChildList: {
            /** @description The parts that the caller can read, oldest first. */
            children: components["schemas"]["IntentBody"][];
        };
        /** @description One of the answers. */
        Choice: {
            /** @description The action that the option stands for. */
            label: string;
            /** @description Reason to choose it. */
            reasoning: string;
        };
        /** @description An answer that is none of the question's choices (RFC-0025 §8), as clients of the reference server read it. */
        ChoiceDetail: {
            /** @description Always `invalid_choice`. */
            error: string;
            /** @description The description as a sentence. */
            message: string;
            /** @description The choices that the question takes. */
            valid_choices: components["schemas"]["ValidChoice"][];
        };
        /** @description The AEE conformance claim. */
        Claim: {
            /** @description The AEE version. */
            aee_version: string;
            /** @description The claims, clause by clause. */
            clauses: components["schemas"]["ConformanceClause"][];
            /** @description Extensions beyond the specification. */
            extensions: string[];
            /** @description The conformance level of the envelopes this server sends, and of those it accepts at `/aee/envelopes`. */
            level: string;
            /** @description The conformance level of the lines accepted at `/aee/logs`. */
            logs: string;
            /** @description The specification text. */
            text: string;
        };
        /** @description A claim's token. */
        ClaimToken: {
            /** @description The claim's token. */
            claim_token: string;
            /** @description The reason, for the server's log. */
            reason?: string | null;
        };
        /** @description A job claimed by a worker. */
        ClaimedJob: {
            /** @description The agent to run the job as. */
            agent: string;
            /**
             * Format: int32
             * @description Attempt number, starting at 1.
             */
            attempt: number;
            /** @description The job's remaining budget. */
            budget?: {
                [key: string]: unknown;
            } | null;
            /** @description The progress that an earlier attempt stored last; continue from it. */
            checkpoint?: unknown;
            /** @description When the claim expires, unless a heartbeat extends it. */
            claim_expires_at: string;
            /** @description The token that every report must carry. */
            claim_token: string;
            /** @description The credentials provisioned for the job. */
            credentials: components["schemas"]["Credential"][];
            /** @description When the job times out. */
            deadline?: string | null;
            /** @description The delegation's name. */
            delegate_id?: string | null;
            /** @description The job's input. */
            input: unknown;
            intent_id?: components["schemas"]["IntentId"] | null;
            /** @description The job. */
            job_id: components["schemas"]["JobId"];
            /** @description The job's authority: the capabilities it may use. */
            lease: {
                [key: string]: unknown;
            };
            lease_constraints?: components["schemas"]["LeaseConstraints"] | null;
            parent_job_id?: components["schemas"]["JobId"] | null;
            /** @description The agent that submitted the job. */
            principal: string;
            /** @description The id under which a result can be streamed. */
            result_id: components["schemas"]["ResultId"];
            /** @description Signals that no worker has acknowledged, in order; absent if there are none. */
            signals?: components["schemas"]["JobSignal"][];
            /** @description The trace id, to be passed on (ARCP §11). */
            trace_id: string;
        };
        /** @description The jobs claimed by a worker. */
        ClaimedJobs: {
            /** @description The jobs; empty if none became available in time. */
            jobs: components["schemas"]["ClaimedJob"][];
        };
        /**
         * @description Reason of a refusal: the `code` member of every error body.
         *
         *     The list is closed; clients may switch on it.
         * @enum {string}
         */
        Code: "invalid_json" | "invalid_request" | "invalid_parameter" | "if_match_required" | "precondition_required" | "unauthenticated" | "scope_missing" | "may_not_act_as" | "forbidden" | "access_closed" | "not_a_member" | "bad_signature" | "not_found" | "method_not_allowed" | "gone" | "version_conflict" | "duplicate_name" | "already_registered" | "already_exists" | "claim_conflict" | "identity_exists" | "channel_closed" | "message_expired" | "intent_resolved" | "lease_held" | "lease_ended" | "idempotency_mismatch" | "request_timeout" | "too_large" | "too_deep" | "nul_character" | "unprocessable" | "already_expired" | "not_a_request" | "bad_proof" | "no_recipient" | "dependency_circle" | "invalid_transition" | "PERMISSION_DENIED" | "LEASE_SUBSET_VIOLATION" | "JOB_NOT_FOUND" | "DUPLICATE_KEY" | "AGENT_NOT_AVAILABLE" | "AGENT_VERSION_NOT_AVAILABLE" | "CANCELLED" | "LEASE_EXPIRED" | "BUDGET_EXHAUSTED" | "RESUME_WINDOW_EXPIRED" | "CLAIM_LOST" | "JOB_ENDED" | "NO_RESULT" | "RESULT_TOO_LARGE" | "invalid_envelope" | "unsupported_version" | "mve5_not_routable" | "outside_window" | "duplicate_id" | "reply_mismatch" | "task_closed" | "sig_unverifiable" | "signature_required" | "from_mismatch" | "unknown_recipient" | "reserved_namespace" | "intent_not_allowed" | "payload_invalid" | "reference_hash_mismatch" | "invalid_moment" | "deliberation_required" | "same_question" | "digest_mismatch" | "moment_not_open" | "not_the_principal" | "hatch_closed" | "circumstances_changed" | "governance_violation" | "already_decided" | "stopped" | "stale_epoch" | "epoch_required" | "loop_stopped" | "loop_slowed" | "rate_limited" | "storage_full" | "too_many_streams" | "unavailable" | "internal";
        /** @description How much of the protocol this server implements. */
        Compatibility: {
            /** @description Every feature, and whether it is served. */
            features: {
                [key: string]: unknown;
            };
            /** @description The missing parts of the partially implemented RFCs. */
            gaps: {
                [key: string]: unknown;
            };
            /** @description The implementation's name. */
            implementation: string;
            /** @description The RFCs that are implemented at least partially. */
            rfcCompliance: {
                [key: string]: unknown;
            };
            /** @description The implementation's version. */
            version: string;
        };
        /**
         * @description How an intent may become `completed`.
         * @enum {string}
         */
        CompletionMode: "auto" | "require_approval" | "quorum";
        /** @description The claim for one clause. */
        ConformanceClause: {
            /** @description The clause. */
            clause: string;
            /** @description `done`, `decided` or `later`, with the details. */
            status: string;
            /** @description The tests that prove it, as `file::function`. */
            tests: string[];
        };
        /** @description The result of comparing two checkpoints: whether the log only grew between them. */
        ConsistencyBody: {
            boundary_event?: components["schemas"]["Boundary"] | null;
            /** @description Whether the log reproduces both roots and both signatures are valid. */
            consistent: boolean;
            /** @description The earlier checkpoint. */
            from_checkpoint: components["schemas"]["CheckpointId"];
            /** @description The reason, if it is not consistent. */
            reason?: string | null;
            /** @description The later checkpoint. */
            to_checkpoint: components["schemas"]["CheckpointId"];
        };
        /** @description Restrictions on the use of a grant; unknown ones are refused, because they could not be enforced. */
        Constraints: {
            /** @description Hosts that may be called, including their subdomains. */
            allowed_hosts?: string[] | null;
            /**
             * @description Allowed parameters with their allowed values: a value, a text with `*`, a list of those, or null for any value.
             *
             *     Other parameters are refused.
             */
            allowed_parameters?: {
                [key: string]: unknown;
            } | null;
            /**
             * @description Denied parameters with their denied values, in the same form.
             *
             *     Also matches items of lists, and texts of equal meaning.
             */
            denied_parameters?: {
                [key: string]: unknown;
            } | null;
            /** @description Addresses and ranges that the agent may call from, as seen by the server: behind a proxy, the proxy's address. */
            ip_allowlist?: string[] | null;
            /**
             * Format: double
             * @description Maximum cost of a call; not enforced, because the server knows no prices, but available to clients that report costs.
             */
            max_cost_per_invocation?: number | null;
            /**
             * Format: int32
             * @description Maximum number of calls in any hour.
             */
            max_invocations_per_hour?: number | null;
        };
        /**
         * @description Kind of a contact point.
         * @enum {string}
         */
        ContactKind: "mail" | "slack" | "teams" | "ntfy" | "web_push";
        /** @description A contact point of a person. */
        ContactPoint: {
            /** @description Whether it is told of items that wait for the person; before it is confirmed, only its code is sent there. */
            active: boolean;
            /** @description The mail address, or of a URL, which is a secret, only the host. */
            address: string;
            confirmed_at?: components["schemas"]["WireTime"] | null;
            /** @description When it was created. */
            created_at: components["schemas"]["WireTime"];
            /** @description Why it is told nothing, if it was switched off: by its person, or because it is gone or failed for days. */
            disabled_reason?: string | null;
            /** @description Id of the contact point. */
            id: string;
            /** @description Kind. */
            kind: components["schemas"]["ContactKind"];
            /** @description Name that the person gave it. */
            label?: string | null;
            /** @description The last error, if messages fail now. */
            last_error?: string | null;
            last_error_at?: components["schemas"]["WireTime"] | null;
            last_sent_at?: components["schemas"]["WireTime"] | null;
            /** @description The person. */
            principal_id: string;
            /** @description The topics it is told of, when, and whether with quotes. */
            settings: components["schemas"]["ContactSettings"];
        };
        /** @description A change of a contact point; members that are absent stay. */
        ContactPointChange: {
            /** @description Whether it is told of items that wait for the person; before it is confirmed, only its code is sent there. */
            active?: boolean | null;
            /** @description A name for it; empty for none. */
            label?: string | null;
            settings?: components["schemas"]["ContactSettings"] | null;
        };
        /** @description The code that was sent to a contact point. */
        ContactPointCode: {
            /** @description The code. */
            code: string;
        };
        /** @description A page of contact points. */
        ContactPointList: {
            /** @description The contact points, oldest first. */
            contact_points: components["schemas"]["ContactPoint"][];
        };
        /** @description A person's settings for a contact point. */
        ContactSettings: {
            /**
             * Format: int32
             * @description Seconds for which something has to wait before this contact point is told, up to a week. A second contact point
             *     with a longer time is told only of items that the person has left waiting.
             * @default 0
             */
            after_seconds: number;
            /** @default null */
            digest: components["schemas"]["NotificationDigest"] | null;
            /** @default null */
            quiet_hours: components["schemas"]["QuietHours"] | null;
            /**
             * @description Whether messages quote words of agents: the questions. Defaults to true, and to false for `ntfy`, whose topics
             *     everybody can read who knows their names.
             * @default null
             */
            quotes: boolean | null;
            /**
             * Format: int32
             * @description Seconds after which this contact point is told again of items that still wait, 60 to a week, at most ten times;
             *     null for never.
             * @default null
             */
            remind_seconds: number | null;
            /**
             * @description Topics that are told at once. Defaults to `decision` and `approval`.
             * @default [
             *       "decision",
             *       "approval"
             *     ]
             */
            topics: components["schemas"]["NotificationTopic"][];
        };
        /** @description An agent's appointment as coordinator. */
        Coordinator: {
            /** @description The appointed agent. */
            agent_id: string;
            /** @description The agent that made the appointment. */
            appointed_by: string;
            /** @description The kind of coordinator. */
            coordinator_type: components["schemas"]["CoordinatorType"];
            ended_at?: components["schemas"]["WireTime"] | null;
            expires_at?: components["schemas"]["WireTime"] | null;
            /** @description When the appointment was made. */
            granted_at: components["schemas"]["WireTime"];
            /** @description The guardrails, as given. */
            guardrails?: {
                [key: string]: unknown;
            } | null;
            /**
             * Format: int32
             * @description Seconds between heartbeats. After two silent intervals the coordinator is unresponsive; after five its
             *     appointment ends.
             */
            heartbeat_interval_seconds: number;
            /** @description The appointment's id. */
            id: components["schemas"]["CoordinatorId"];
            /** @description The intent. */
            intent_id: components["schemas"]["IntentId"];
            last_heartbeat?: components["schemas"]["WireTime"] | null;
            /** @description Same as `metadata`, under the reference server's name. */
            lease_metadata: {
                [key: string]: unknown;
            };
            /** @description Client-defined metadata. */
            metadata: {
                [key: string]: unknown;
            };
            /** @description Always null, because coordinators are appointed to intents. */
            portfolio_id?: string | null;
            /** @description The role it is appointed to. */
            role: string;
            /** @description Always `intent`. */
            scope: string;
            /** @description The current status. */
            status: components["schemas"]["CoordinatorStatus"];
            /** @description The agent that supervises the coordinator. */
            supervisor_id: string;
            /**
             * Format: int64
             * @description The version, which guards writes; increases with each change except heartbeats.
             */
            version: number;
        };
        /** @description The response to a coordinator's heartbeat. */
        CoordinatorBeat: {
            /** @description The coordinator's status. */
            coordinator_status: components["schemas"]["CoordinatorStatus"];
            expires_at?: components["schemas"]["WireTime"] | null;
            /** @description When the next heartbeat is due. */
            next_heartbeat_at: components["schemas"]["WireTime"];
            /** @description Always `ok`. */
            status: string;
        };
        /** @description A coordinator's decision. */
        CoordinatorDecision: {
            /** @description The coordinator that decided. */
            agent_id: string;
            /** @description The alternatives that were considered. */
            alternatives_considered: {
                [key: string]: unknown;
            }[];
            /**
             * Format: double
             * @description The coordinator's confidence, 0 to 1.
             */
            confidence?: number | null;
            /** @description The appointment. */
            coordinator_id: components["schemas"]["CoordinatorId"];
            /** @description Same as `timestamp`, under the usual name. */
            created_at: components["schemas"]["WireTime"];
            /** @description The kind of decision. */
            decision_type: components["schemas"]["CoordinatorDecisionType"];
            /** @description The decision's id. */
            id: components["schemas"]["DecisionRecordId"];
            /** @description The intent. */
            intent_id: components["schemas"]["IntentId"];
            /** @description The reasoning behind it. */
            rationale: string;
            /** @description The decision in brief. */
            summary: string;
            /** @description When it was decided. */
            timestamp: components["schemas"]["WireTime"];
            /** @description Always `coordinator.decision`. */
            type: string;
        };
        /**
         * @description The subject of a coordinator's decision (RFC-0013 §4.2).
         * @enum {string}
         */
        CoordinatorDecisionType: "plan_created" | "plan_modified" | "task_assigned" | "task_delegated" | "escalation_initiated" | "escalation_resolved" | "checkpoint_evaluated" | "failure_handled" | "guardrail_approached" | "coordinator_handoff";
        /** @description `coord_` and a ULID */
        CoordinatorId: string;
        /** @description A change to an appointment. */
        CoordinatorPatch: {
            /** @description The guardrails; null removes them. */
            guardrails?: {
                [key: string]: unknown;
            } | null;
            /** @description The reason for the change. */
            reason?: string | null;
            status?: components["schemas"]["CoordinatorStatus"] | null;
        };
        /**
         * @description The status of a coordinator.
         * @enum {string}
         */
        CoordinatorStatus: "registering" | "active" | "paused" | "unresponsive" | "failed_over" | "completing" | "completed";
        /**
         * @description The kind of coordinator.
         * @enum {string}
         */
        CoordinatorType: "llm" | "human" | "composite" | "system";
        /** @description A cost of work on an intent. */
        Cost: {
            /** @description The agent that incurred it. */
            agent_id: string;
            /**
             * Format: double
             * @description The exact amount.
             */
            amount: number;
            /** @description Same as `metadata`, under the reference server's name. */
            cost_metadata: {
                [key: string]: unknown;
            };
            /** @description The kind of resource used. */
            cost_type: string;
            /** @description The cost's id. */
            id: components["schemas"]["CostId"];
            /** @description The intent. */
            intent_id: components["schemas"]["IntentId"];
            /** @description Client-defined metadata. */
            metadata: {
                [key: string]: unknown;
            };
            /** @description The model used. */
            model?: string | null;
            /** @description The provider of the resource. */
            provider?: string | null;
            /** @description Same as `recorded_at`, under the SDK's name. */
            recordedAt: components["schemas"]["WireTime"];
            /** @description When it was recorded. */
            recorded_at: components["schemas"]["WireTime"];
            /** @description The amount's unit. */
            unit: string;
        };
        /** @description `cost_` and a ULID */
        CostId: string;
        /** @description The `max_cost` of an intent and its use. */
        CostLimit: {
            /** @description The intent. */
            intent_id: components["schemas"]["IntentId"];
            /**
             * Format: double
             * @description The limit, in each unit separately.
             */
            limit: number;
            /** @description Its use, in each unit that has costs or reservations. */
            usage: components["schemas"]["CostLimitUsage"][];
        };
        /** @description Use of an intent's `max_cost` in one unit. */
        CostLimitUsage: {
            /**
             * Format: double
             * @description The rest of the limit; zero if it is exceeded.
             */
            left: number;
            /**
             * Format: double
             * @description The reserved amounts that are not costs yet.
             */
            reserved: number;
            /**
             * Format: double
             * @description The sum of the costs.
             */
            spent: number;
            /** @description The unit. */
            unit: string;
        };
        /** @description A page of an intent's costs, with the sums of all of them. */
        CostList: {
            /** @description The costs, oldest first. */
            costs: components["schemas"]["Cost"][];
            /**
             * Format: int64
             * @description The `after` of the next page; null on the last page.
             */
            next?: number | null;
            /** @description The sums of all the intent's costs, including other pages; read at the same moment as the page. */
            summary: components["schemas"]["CostSummary"];
        };
        /**
         * @description The sums of an intent's costs. Different units are never added together: a sum that would span several units is
         *     null, and each unit has its own sums under `units`.
         */
        CostSummary: {
            /** @description The sums by agent. */
            by_agent: {
                [key: string]: unknown;
            };
            /** @description The sums by model; costs without a model are left out. */
            by_model: {
                [key: string]: unknown;
            };
            /** @description The sums by type. */
            by_type: {
                [key: string]: unknown;
            };
            /**
             * Format: int64
             * @description Number of costs.
             */
            count: number;
            /**
             * Format: double
             * @description The sum of all costs, if they share one unit; 0 if there are none.
             */
            total?: number | null;
            /** @description The unit that all costs share. */
            unit?: string | null;
            /** @description The sums of each unit. */
            units: {
                [key: string]: components["schemas"]["CostUnit"];
            };
        };
        /** @description The sums of the costs in one unit. */
        CostUnit: {
            /** @description The sums by agent. */
            by_agent: {
                [key: string]: unknown;
            };
            /** @description The sums by model; costs without a model are left out. */
            by_model: {
                [key: string]: unknown;
            };
            /** @description The sums by type. */
            by_type: {
                [key: string]: unknown;
            };
            /**
             * Format: int64
             * @description Number of costs.
             */
            count: number;
            /**
             * Format: double
             * @description The sum of all costs.
             */
            total: number;
        };
        /** @description A credential as shown to its job's submitter and worker (§9.8.1). */
        Credential: {
            /** @description The constraints that the other side enforces itself. */
            constraints?: unknown;
            /** @description The URL it is valid for. */
            endpoint: string;
            /** @description Its id, stable over rotations. */
            id: string;
            /** @description The protocol of that endpoint. */
            profile?: string | null;
            /** @description `bearer`. */
            scheme: string;
            /** @description The secret. */
            value: string;
        };
        /** @description `cred_` and a ULID */
        CredentialId: string;
        /** @description One generation of a credential provisioned for a job, without its value. */
        CredentialRecord: {
            /** @description When it was requested. */
            asked_at: components["schemas"]["WireTime"];
            /**
             * Format: int32
             * @description Number of attempts to revoke it.
             */
            attempts: number;
            /** @description The credential. */
            credential_id: components["schemas"]["CredentialId"];
            ended_at?: components["schemas"]["WireTime"] | null;
            /**
             * Format: int32
             * @description Number of this value of the credential, from 1; each rotation adds one.
             */
            generation: number;
            /** @description The job it was provisioned for. */
            job_id: components["schemas"]["JobId"];
            /** @description The latest error. */
            last_error?: string | null;
            next_attempt_at?: components["schemas"]["WireTime"] | null;
            /** @description The provisioner, by its name in the operator's file. */
            provisioner: string;
            /** @description The value's state; `stuck` requires a person to act. */
            state: components["schemas"]["CredentialState"];
        };
        /** @description A rotated credential. */
        CredentialRotated: {
            /** @description The credential with its new value. */
            credential: components["schemas"]["Credential"];
            /**
             * Format: int64
             * @description Number of the event that announces the rotation.
             */
            last_event_seq: number;
        };
        /** @description A credential rotation. */
        CredentialRotation: {
            /** @description The claim's token. */
            claim_token: string;
            /** @description The new value, if the worker has one; otherwise the credential's provisioner creates it. */
            value?: string | null;
        };
        /**
         * @description The state of one value of a credential.
         * @enum {string}
         */
        CredentialState: "minting" | "live" | "revoking" | "revoked" | "stuck";
        /**
         * @description Status of a credential.
         * @enum {string}
         */
        CredentialStatus: "active" | "expired" | "revoked";
        /**
         * @description The state of a dead letter.
         * @enum {string}
         */
        DeadLetterState: "open" | "resolved";
        /** @description A deadlock: agents that wait for one another, so that none of them goes on. */
        Deadlock: {
            /** @description The agents. */
            agents: string[];
            found_at?: components["schemas"]["WireTime"] | null;
            id?: components["schemas"]["DeadlockId"] | null;
            /** @description Its waits. */
            waits: components["schemas"]["Wait"][];
        };
        /** @description `deadlock_` and a ULID */
        DeadlockId: string;
        /** @description A decision about an access request. */
        DecisionBody: {
            /** @description The principal that decides; defaults to the acting agent. */
            decided_by?: string | null;
            expires_at?: components["schemas"]["GivenTime"] | null;
            permission?: components["schemas"]["Level"] | null;
            /** @description The reason for the decision. */
            reason?: string | null;
        };
        /** @description `dec_` and a ULID */
        DecisionId: string;
        /** @description The decisions on an intent. */
        DecisionList: {
            /** @description The decisions, oldest first. */
            decisions: components["schemas"]["DecisionRecord"][];
        };
        /** @description A decision. */
        DecisionRecord: {
            arbitration_id?: components["schemas"]["ArbitrationId"] | null;
            /** @description When the decision was recorded. */
            created_at: components["schemas"]["WireTime"];
            /** @description Same as `decision_maker_id`, under the RFC's name. */
            decided_by: string;
            /** @description Same as `outcome`, under the RFC's name. */
            decision: string;
            /** @description The agent that decided. */
            decision_maker_id: string;
            /** @description The kind of decision. */
            decision_type: string;
            /** @description The evidence the decision rests on. */
            evidence: unknown[];
            /** @description The decision's id. */
            id: components["schemas"]["DecisionId"];
            /** @description The intent. */
            intent_id: components["schemas"]["IntentId"];
            /** @description The outcome. */
            outcome: string;
            /** @description Same as `reasoning`, under the RFC's name. */
            rationale: string;
            /** @description The reasoning behind the outcome. */
            reasoning: string;
        };
        /** @description `drec_` and a ULID */
        DecisionRecordId: string;
        /** @description The confirmation that a channel was deleted. */
        DeletedBody: {
            /** @description The channel. */
            channel_id: components["schemas"]["ChannelId"];
            /** @description Always `closed`. */
            status: string;
        };
        /** @description The response to a deletion. */
        DeletedMemory: {
            /** @description Id of the deleted entry. */
            entry_id: components["schemas"]["MemoryId"];
            /** @description Always `deleted`. */
            status: string;
        };
        /** @description A webhook delivery. */
        DeliveryBody: {
            /** @description The attempts, oldest first. */
            attempts: components["schemas"]["AttemptBody"][];
            /** @description When it was queued. */
            created_at: components["schemas"]["WireTime"];
            /** @description The type of the delivered item. */
            event_type: string;
            finished_at?: components["schemas"]["WireTime"] | null;
            next_attempt_at?: components["schemas"]["WireTime"] | null;
            /** @description The delivery's status. */
            status: components["schemas"]["DeliveryStatus"];
            /** @description The header `webhook-id`: the id of the delivered item. */
            webhook_id: string;
        };
        /**
         * @description Status of a delivery.
         * @enum {string}
         */
        DeliveryStatus: "waiting" | "delivered" | "failed" | "dropped";
        /** @description All descendants of an intent. */
        DescendantList: {
            /** @description The intents that the caller can read and reach, oldest first. */
            descendants: components["schemas"]["IntentBody"][];
        };
        /**
         * @description The description of an error: a sentence, the list of faults in a body of the wrong shape, a governance violation or
         *     a wrong choice, as clients of the reference server read it (OI-3.5.2).
         */
        Detail: string | components["schemas"]["FieldError"][] | components["schemas"]["GovernanceDetail"] | components["schemas"]["ChoiceDetail"];
        /**
         * @description The format of times and names in responses, for clients that cannot read the standard (OI-3.6, OI-5.6).
         * @enum {string}
         */
        Dialect: "standard" | "openintent-py";
        /** @description A DID document. */
        DidDocument: {
            /** @description The JSON-LD contexts. */
            "@context": string[];
            /** @description The method for signatures. */
            assertionMethod: string[];
            /** @description The method for authentication. */
            authentication: string[];
            /** @description The DID. */
            id: string;
            /** @description The key that the server signs with. */
            verificationMethod: components["schemas"]["DidMethod"][];
        };
        /** @description A key in a DID document. */
        DidMethod: {
            /** @description The DID of the key's owner. */
            controller: string;
            /** @description The key's id. */
            id: string;
            /** @description The key in base64, as the OpenIntent SDK reads it. */
            publicKeyBase64: string;
            /** @description The key in the encoding of `did:key`. */
            publicKeyMultibase: string;
            /** @description The key's type. */
            type: string;
        };
        /**
         * @description Directive for a worker, returned with its heartbeat.
         * @enum {string}
         */
        Directive: "run" | "quiet" | "terminate";
        /**
         * @description Reason why a receiver is disabled.
         * @enum {string}
         */
        DisabledReason: "asked" | "gone" | "failing" | "backlog";
        /** @description An implemented RFC. */
        DiscoveredRfc: {
            /** @description How much of it is implemented. */
            compliance: components["schemas"]["RfcCompliance"];
            /** @description The RFC's number. */
            rfc: string;
            /** @description The RFC's subject. */
            title: string;
        };
        /** @description A description of this server. */
        Discovery: {
            /** @description The headers that carry the API key; either works. */
            authentication: string[];
            /** @description The served features. */
            capabilities: string[];
            /** @description The paths of the server's endpoints. */
            endpoints: {
                [key: string]: unknown;
            };
            /** @description The implementation's name. */
            implementation: string;
            /** @description The implementation's version. */
            implementationVersion: string;
            /** @description The path of the OpenAPI document. */
            openApiUrl: string;
            /** @description The protocol's name. */
            protocol: string;
            /** @description The same RFCs, as links into the API documentation. */
            rfcUrls: string[];
            /** @description The implemented RFCs. */
            rfcs: components["schemas"]["DiscoveredRfc"][];
            /** @description The protocol's version. */
            version: string;
        };
        /** @description `disp_` and a ULID */
        DispatchId: string;
        /**
         * @description The kind of an edge.
         * @enum {string}
         */
        EdgeKind: "parent" | "dependency";
        /** @description The policy in force on an intent. */
        EffectivePolicy: {
            /** @description Whether a requester may approve its own request. */
            allow_self_approval: boolean;
            /** @description If not empty: the only agents that may be assigned to the intent or work on it. */
            allowed_agents: string[];
            /** @description If not empty: the only ones that may approve and vote. */
            approvers: string[];
            /** @description The condition for becoming `completed`. */
            completion_mode: components["schemas"]["CompletionMode"];
            /** @description The person that receives escalations without an assignee. */
            escalate_to?: string | null;
            /**
             * Format: double
             * @description The maximum cost.
             */
            max_cost?: number | null;
            /**
             * Format: double
             * @description With `quorum`: the fraction of voters that must approve.
             */
            quorum_threshold: number;
            /** @description Whether each status change needs a reason. */
            require_status_reason: boolean;
            /** @description The agents that may work on the intent. */
            write_scope: components["schemas"]["WriteScope"];
        };
        /** @description The response to a question that was asked. */
        EmittedMoment: {
            acknowledged_at?: components["schemas"]["WireTime"] | null;
            /** @description Agent that asks. */
            agent_id: string;
            binding_moment?: components["schemas"]["Brief"] | null;
            /** @description Correlation id chosen by the agent. */
            corr?: string | null;
            /** @description When the moment was created. */
            created_at: components["schemas"]["WireTime"];
            /** @description Class of the decision. */
            decision_class?: string | null;
            /** @description Same as `envelope_digest`. */
            digest?: string | null;
            /** @description Reason for the withdrawal or closing. */
            end_reason?: string | null;
            ended_at?: components["schemas"]["WireTime"] | null;
            /** @description SHA-256 over the canonical slots (RFC 8785), which an answer must name. */
            envelope_digest?: string | null;
            escalation?: components["schemas"]["MomentEscalation"] | null;
            expires_at?: components["schemas"]["WireTime"] | null;
            /** @description Text for clients that cannot display the slots. */
            fallback_text?: string | null;
            first_viewed_at?: components["schemas"]["WireTime"] | null;
            /** @description Justification for a closed hatch. */
            hatch_justification?: string | null;
            /** @description Whether the person may answer in their own words, and refuse the question. */
            hatches: components["schemas"]["Hatches"];
            /** @description Moment id. */
            id: components["schemas"]["MomentId"];
            intent_id?: components["schemas"]["IntentId"] | null;
            job?: components["schemas"]["MomentJob"] | null;
            job_id?: components["schemas"]["JobId"] | null;
            /** @description Remarks of the linter on the question; not part of it. */
            lints: components["schemas"]["MomentLint"][];
            /** @description Why the stored slots cannot be read, if so; they are then omitted, and the moment cannot be answered. */
            malformed?: string | null;
            /** @description Same as `id`. */
            moment_id: components["schemas"]["MomentId"];
            /** @description How the objection to the replaced question was addressed. */
            objection_response?: string | null;
            /** @description Person to whom the question is addressed. */
            principal_id: string;
            /** @description Revision of the specification that the slots follow. */
            profile: string;
            resolution?: components["schemas"]["MomentResolution"] | null;
            scrubbed_at?: components["schemas"]["WireTime"] | null;
            /** @description State of the moment. */
            state: components["schemas"]["MomentState"];
            superseded_by?: components["schemas"]["MomentId"] | null;
            supersedes?: components["schemas"]["MomentId"] | null;
            /** @description State of the job or intent in which an answer is valid. */
            valid_while: components["schemas"]["ValidWhile"];
            /**
             * Format: int64
             * @description Version, which grows with every change.
             */
            version: number;
            /** @description Warnings to the agent about its question. */
            warnings: components["schemas"]["MomentWarning"][];
            /** @description The messages, oldest first; omitted in lists, unless there are none. */
            words?: components["schemas"]["MomentWord"][] | null;
            /** @description Number of messages. */
            words_count: number;
        };
        /**
         * @description How a key ended.
         * @enum {string}
         */
        End: "rotated" | "revoked" | "replaced";
        /** @description `sub_` and a ULID */
        EndpointId: string;
        /**
         * @description Origin of a receiver.
         * @enum {string}
         */
        EndpointKind: "subscription" | "agent" | "mailbox";
        /** @description An entry of an access control list. */
        EntryBody: {
            expires_at?: components["schemas"]["WireTime"] | null;
            /** @description When it was granted. */
            granted_at: components["schemas"]["WireTime"];
            /** @description The principal that granted it. */
            granted_by: string;
            /** @description The entry's id. */
            id: components["schemas"]["EntryId"];
            /** @description The intent. */
            intent_id: components["schemas"]["IntentId"];
            /** @description The access level granted. */
            permission: components["schemas"]["Level"];
            /** @description The principal granted access. */
            principal_id: string;
            /** @description The kind of principal. */
            principal_type: string;
            /** @description Why it was granted. */
            reason?: string | null;
        };
        /** @description `acl_` and a ULID */
        EntryId: string;
        /** @description An envelope (AEE §3). Other members are stored and passed on. */
        Envelope: {
            /** @description The id of the thread it belongs to, of at least 8 characters. */
            corr: string;
            /** @description The sender: an entity that the key may act as. */
            from: string;
            /** @description The envelope's id: 8 to 128 printable characters; a ULID or UUID is recommended. */
            id: string;
            /** @description The intent: a dotted name for the subject. */
            intent: string;
            /** @description The content, whose shape depends on the intent. */
            payload: {
                [key: string]: unknown;
            };
            /** @description The priority. */
            priority: components["schemas"]["Priority"];
            /** @description The id of the envelope it answers; required on a result or error. */
            reply_to?: string | null;
            /** @description Requirements on the recipient: `timeout_ms`, `human_approval` and others. */
            requires?: {
                [key: string]: unknown;
            } | null;
            /**
             * @description The signature, in the profile `aee-jcs-1`. Where the operator allows it, one of the draft's own form (`alg`,
             *     `kid`, `value`) is passed on unverified, and its envelope counts as unsigned.
             */
            sig?: {
                [key: string]: unknown;
            } | null;
            /** @description The recipient: an entity, or a channel `bus.…`. */
            to: string;
            /** @description The trace it belongs to: `trace_id` and `span_id`. */
            trace?: {
                [key: string]: unknown;
            } | null;
            /** @description When it was written (RFC 3339). */
            ts: string;
            /** @description The envelope's type. */
            type: components["schemas"]["EnvelopeType"];
            /** @description Always `1`. */
            v: string;
        };
        /** @description The outcome for one envelope of a batch. */
        EnvelopeItem: {
            accepted?: components["schemas"]["AnsweredEnvelope"] | null;
            error?: components["schemas"]["ProblemBody"] | null;
            /** @description The envelope's index in the batch, from 0. */
            index: number;
        };
        /** @description A key that signs envelopes. */
        EnvelopeKeyBody: {
            /** @description The only algorithm the key may be used with. */
            algorithm: components["schemas"]["Algorithm"];
            /** @description When it was registered. */
            created_at: components["schemas"]["WireTime"];
            /** @description The principal that registered it. */
            created_by: string;
            /** @description The entity whose envelopes it signs: those with this `from`. */
            entity: string;
            /** @description The key's name among the entity's keys. */
            kid: string;
            not_after?: components["schemas"]["WireTime"] | null;
            /** @description When the key becomes valid. */
            not_before: components["schemas"]["WireTime"];
            /** @description The public half; null for HS256, whose secret is not returned. */
            public_key?: string | null;
            revoked_at?: components["schemas"]["WireTime"] | null;
            /** @description The key's lifecycle status. */
            status: components["schemas"]["EnvelopeKeyStatus"];
        };
        /**
         * @description The stage of a key's lifecycle.
         * @enum {string}
         */
        EnvelopeKeyStatus: "pending" | "active" | "expired" | "revoked";
        /** @description A respondent of a task. */
        EnvelopePair: {
            /** @description Entity that is to answer. */
            respondent: string;
            /** @description State of the exchange. */
            status: components["schemas"]["PairStatus"];
        };
        /** @description The receipt for an ingested envelope. */
        EnvelopeReceipt: {
            /** @description The deadline for answers to a task. */
            deadline?: string | null;
            /**
             * Format: int32
             * @description Number of mailboxes that it was delivered to.
             */
            delivered: number;
            /** @description The priority that it is delivered with. */
            effective_priority: components["schemas"]["Priority"];
            /** @description The envelope's id. */
            id: string;
            /** @description When it was ingested. */
            received_at: string;
            /**
             * Format: int64
             * @description Its number in its recipient's mailbox; absent for a channel.
             */
            seq?: number | null;
            /** @description The envelope's status. */
            status: components["schemas"]["ReceiptStatus"];
            /** @description The proof of its sender. */
            verified: components["schemas"]["EnvelopeVerified"];
            /** @description The violations of SHOULDs. */
            warnings: components["schemas"]["Warning"][];
        };
        /** @description The rejection of an envelope by an entity (`aee.context.refute`). */
        EnvelopeRefutation: {
            /** @description When the envelope was rejected. */
            at: string;
            /** @description Entity that rejects the envelope. */
            entity: string;
            /** @description Reason for the rejection. */
            reason: string;
        };
        /** @description A rule. */
        EnvelopeRule: {
            /** @description Intents that may pass; if not empty, no others may. */
            allow?: string[];
            /** @description Intents that may not pass. */
            deny?: string[];
            /** @description Senders that the rule applies to: a pattern over dotted names, `**` for all. */
            from?: string;
            max_priority?: components["schemas"]["Priority"] | null;
            /** @description Name of the rule. */
            name: string;
            /**
             * @description JSON Pointers to the parts of the payload to leave out: the gateway then delivers an envelope of its
             *     own that refers to the original, never the original.
             */
            redact?: string[];
            /** @description Whether only signed envelopes may pass. */
            require_signature?: boolean;
            /** @description Recipients that the rule applies to. */
            to?: string;
            /** @description When the rule was last set. */
            updated_at: components["schemas"]["WireTime"];
            /** @description Principal that last set the rule. */
            updated_by: string;
        };
        /** @description The rules. */
        EnvelopeRuleList: {
            /** @description The rules, sorted by name. */
            rules: components["schemas"]["EnvelopeRule"][];
        };
        /** @description A payload schema. */
        EnvelopeSchema: {
            /** @description The intent (purpose) of the envelopes. */
            intent: string;
            /** @description Path of the schema relative to `/api/v1/aee/schemas/`. */
            path: string;
            /** @description Treatment of payloads that do not match. */
            policy: components["schemas"]["Strictness"];
            /** @description Envelope type: task, result or error. */
            type: components["schemas"]["EnvelopeType"];
            updated_at?: components["schemas"]["WireTime"] | null;
            /** @description Principal that published the schema; null for the protocol's own. */
            updated_by?: string | null;
        };
        /** @description The schemas. */
        EnvelopeSchemaList: {
            /** @description The schemas, sorted by intent. */
            schemas: components["schemas"]["EnvelopeSchema"][];
        };
        /** @description A thread. */
        EnvelopeThread: {
            /** @description The thread's `corr`. */
            corr: string;
            /** @description The envelopes, oldest first; each follows the one that it answers, one level deeper. */
            envelopes: components["schemas"]["ThreadEnvelope"][];
            /** @description Cursor of the next page; null if there are no more envelopes. */
            next_cursor?: string | null;
        };
        /**
         * @description The type of an envelope (AEE §4).
         * @enum {string}
         */
        EnvelopeType: "task" | "result" | "event" | "error" | "stream";
        /** @description The proof of an envelope's sender, with its key. */
        EnvelopeVerified: {
            /** @description The kind of proof. */
            by: components["schemas"]["Voucher"];
            /** @description The sender's key, if the envelope is signed. */
            kid?: string | null;
            scope?: components["schemas"]["SignatureScope"] | null;
            sig?: components["schemas"]["SignatureCheck"] | null;
        };
        /** @description A batch of envelopes. */
        Envelopes: components["schemas"]["Envelope"][];
        /** @description The outcome of a batch. */
        EnvelopesReply: {
            /** @description Number of envelopes accepted. */
            accepted: number;
            /** @description Number of envelopes refused. */
            refused: number;
            /** @description The outcome of each envelope, in the order of the batch. */
            results: components["schemas"]["EnvelopeItem"][];
        };
        /** @description An escalation. */
        Escalation: {
            /** @description The assigned person, who alone may resolve it; null if unassigned. */
            assigned_to?: string | null;
            /** @description Context for the person who resolves it. */
            context: {
                [key: string]: unknown;
            };
            /** @description When it was made. */
            created_at: components["schemas"]["WireTime"];
            /** @description The agent that escalated. */
            escalated_by: string;
            /** @description The escalation's id. */
            id: components["schemas"]["EscalationId"];
            /** @description The intent. */
            intent_id: components["schemas"]["IntentId"];
            /** @description How important it is. */
            priority: components["schemas"]["EscalationPriority"];
            /** @description Why it was escalated. */
            reason: string;
            /** @description The resolution. */
            resolution?: string | null;
            /** @description Notes on the resolution. */
            resolution_notes?: string | null;
            resolved_at?: components["schemas"]["WireTime"] | null;
            /** @description The person that resolved it. */
            resolved_by?: string | null;
            /** @description The escalation's status. */
            status: components["schemas"]["EscalationStatus"];
            /** @description How urgent it is. */
            urgency: components["schemas"]["EscalationPriority"];
        };
        /** @description `esc_` and a ULID */
        EscalationId: string;
        /** @description A page of escalations. */
        EscalationList: {
            /** @description The escalations, the newest first. */
            escalations: components["schemas"]["Escalation"][];
        };
        /**
         * @description The importance, or the urgency, of an escalation.
         * @enum {string}
         */
        EscalationPriority: "low" | "medium" | "high" | "critical";
        /** @description The resolution of an escalation. */
        EscalationResolution: {
            /** @description Notes on the resolution. */
            notes?: string | null;
            /** @description The resolution. */
            resolution: string;
            /** @description The person that resolves it; defaults to the acting agent. */
            resolved_by?: string | null;
        };
        /**
         * @description The status of an escalation.
         * @enum {string}
         */
        EscalationStatus: "pending" | "resolved" | "expired";
        /** @description A log entry. */
        EventBody: {
            /** @description The agent or principal that caused the event. */
            actor: string;
            /** @description When it happened. */
            created_at: components["schemas"]["WireTime"];
            /** @description The event's hash, over its canonical form (RFC 8785). */
            event_hash: string;
            /** @description The event's type. */
            event_type: string;
            /** @description The event's id. */
            id: components["schemas"]["EventId"];
            intent_id?: components["schemas"]["IntentId"] | null;
            /** @description The actual type, if the client's library cannot read it. */
            original_event_type?: string | null;
            /** @description The event that caused it. */
            parent_event_id?: string | null;
            /** @description The event's payload. */
            payload: {
                [key: string]: unknown;
            };
            /** @description Whether a client posted the event. The server then vouches for its actor and time, but not for its content. */
            posted: boolean;
            /** @description The hash of the previous event. */
            previous_event_hash?: string | null;
            /** @description The actor's signature. */
            proof?: {
                [key: string]: unknown;
            } | null;
            /** @description Whether the server has checked the signature; omitted if there is none. */
            proof_verified?: boolean | null;
            /**
             * Format: int64
             * @description The event's position in the chain, from 1.
             */
            sequence: number;
            /** @description The trace it belongs to. */
            trace_id?: string | null;
        };
        /** @description `evt_` and a ULID */
        EventId: string;
        /** @description An entry that was evicted for a new one. */
        EvictedMemory: {
            /** @description Entry id. */
            id: components["schemas"]["MemoryId"];
            /** @description Key, in the same namespace. */
            key: string;
            /**
             * Format: int64
             * @description Version at the time of the eviction.
             */
            version: number;
        };
        /** @description How many responses to wait for. */
        Expect: number | components["schemas"]["All"];
        /** @description Messages of a channel become envelopes. */
        ExportBridge: {
            /** @description The channel of an intent. */
            channel_id: components["schemas"]["ChannelId"];
            /** @description The `intent` of the envelopes. */
            intent: string;
            /** @enum {string} */
            kind: "export";
            /** @description The recipient: an entity, or a `bus.…`. */
            to: string;
        };
        /** @description A failed attempt. */
        Failure: {
            /** @description The agent whose attempt failed. */
            agent_id: string;
            /**
             * Format: int32
             * @description Number of the failed attempt.
             */
            attempt_number: number;
            /** @description Same as `created_at`, under the SDK's name. */
            createdAt: components["schemas"]["WireTime"];
            /** @description When it was recorded. */
            created_at: components["schemas"]["WireTime"];
            /** @description The kind of failure. */
            error_code?: string | null;
            /** @description The error message. */
            error_message?: string | null;
            /** @description Same as `error_code`, under another name. */
            error_type?: string | null;
            /** @description The failure's id. */
            id: components["schemas"]["FailureId"];
            /** @description The intent. */
            intent_id: components["schemas"]["IntentId"];
            /** @description Client-defined metadata. */
            metadata: {
                [key: string]: unknown;
            };
            /** @description Whether another attempt may succeed. */
            recoverable: boolean;
            resolvedAt?: components["schemas"]["WireTime"] | null;
            resolved_at?: components["schemas"]["WireTime"] | null;
            /** @description The consequence of the failure. */
            retry: components["schemas"]["FailureRetry"];
            retryScheduledAt?: components["schemas"]["WireTime"] | null;
            retry_scheduled_at?: components["schemas"]["WireTime"] | null;
        };
        /** @description `fail_` and a ULID */
        FailureId: string;
        /** @description The consequence of a failure. */
        FailureRetry: {
            /** @description The agent that retries. */
            agent_id?: string | null;
            announced_at?: components["schemas"]["WireTime"] | null;
            at?: components["schemas"]["WireTime"] | null;
            /**
             * Format: int32
             * @description Number of the retry, from 1.
             */
            attempt?: number | null;
            /**
             * @description `again`: the agent should try again; `own`: the agent retries on its own schedule; `handed_over`: another
             *     agent takes over; `nothing`: no retry.
             */
            decision: string;
            reason?: components["schemas"]["NoRetry"] | null;
        };
        /**
         * @description An error of ARCP.
         * @enum {string}
         */
        Fault: "PERMISSION_DENIED" | "LEASE_SUBSET_VIOLATION" | "JOB_NOT_FOUND" | "DUPLICATE_KEY" | "AGENT_NOT_AVAILABLE" | "AGENT_VERSION_NOT_AVAILABLE" | "CANCELLED" | "TIMEOUT" | "RESUME_WINDOW_EXPIRED" | "HEARTBEAT_LOST" | "LEASE_EXPIRED" | "BUDGET_EXHAUSTED" | "INVALID_REQUEST" | "UNAUTHENTICATED" | "INTERNAL_ERROR";
        /** @description An exported agent. */
        FederatedAgent: {
            /** @description The agent's id. */
            agent_id: string;
            /** @description The agent's capabilities. */
            capabilities: string[];
            /** @description The server's DID. */
            server_did?: string | null;
            /** @description The URL of the agent's server, which is this one. */
            server_url: string;
            /** @description The agent's current status. */
            status: components["schemas"]["AgentStatus"];
            /** @description The agent's visibility. */
            visibility: components["schemas"]["FederationVisibility"];
        };
        /** @description The exported agents. */
        FederatedAgents: {
            /** @description The agents, ordered by id. */
            agents: components["schemas"]["FederatedAgent"][];
            /** @description The `after` of the next page; null on the last page. */
            next?: string | null;
        };
        /** @description A progress report of a peer. */
        FederationCallback: {
            /** @description The peer's statement on how the work was done. */
            attestation?: {
                [key: string]: unknown;
            } | null;
            /** @description The dispatch. */
            dispatch_id: string;
            /** @description The kind of news. */
            event_type: components["schemas"]["FederationNews"];
            /** @description Repeated callbacks with the same key are recorded once; defaults to a hash of the contents. */
            idempotency_key?: string | null;
            /**
             * Format: int64
             * @description Number of state members left out because they were too large.
             */
            omitted?: number | null;
            /** @description The details. */
            state_delta?: {
                [key: string]: unknown;
            } | null;
            /** @description The trace that it belongs to. */
            trace_id?: string | null;
        };
        /** @description The rights of the peer on the work, and for passing it on (RFC-0023). */
        FederationDelegationScope: {
            /** @description The denied operations, which take precedence. */
            denied_operations?: string[];
            /** @description When it ends. */
            expires_at?: string | null;
            /**
             * Format: int64
             * @description Number of times that it may be passed on.
             */
            max_delegation_depth?: number;
            /** @description The allowed operations. */
            permissions?: string[];
        };
        /** @description A delivery from a peer; unknown members are covered by the signature and otherwise ignored. */
        FederationDelivery: {
            /** @description The agent of this server that is to do the work. */
            agent_id?: string | null;
            /** @description Where the peer wants to receive callbacks: a URL of its own server. */
            callback_url?: string | null;
            delegation_scope?: components["schemas"]["FederationDelegationScope"] | null;
            /** @description The peer's id for the delivery; repeated deliveries with the same id are processed once. */
            dispatch_id: string;
            /** @description The policy to be observed here. */
            federation_policy?: {
                [key: string]: unknown;
            } | null;
            /** @description The intent's constraints. */
            intent_constraints?: {
                [key: string]: unknown;
            } | null;
            /** @description The intent's description. */
            intent_description?: string | null;
            /** @description The peer's own intent. */
            intent_id: string;
            /** @description The intent's state so far. */
            intent_state?: {
                [key: string]: unknown;
            } | null;
            /** @description The intent's title. */
            intent_title: string;
            /** @description The sender, by URL or DID. */
            source_server: string;
            /** @description The addressee; required in a signed delivery. */
            target_server?: string | null;
            /** @description The trace that it belongs to. */
            trace_context?: {
                [key: string]: unknown;
            } | null;
        };
        /** @description A dispatch of an intent to a peer. */
        FederationDispatch: {
            /** @description The peer's agent that was requested. */
            agent_id?: string | null;
            /** @description When it was dispatched. */
            created_at: components["schemas"]["WireTime"];
            /** @description The dispatch's id. */
            dispatch_id: components["schemas"]["DispatchId"];
            ended_at?: components["schemas"]["WireTime"] | null;
            /** @description When the peer was last heard from about it. */
            heard_at: components["schemas"]["WireTime"];
            /** @description The intent. */
            intent_id: components["schemas"]["IntentId"];
            /** @description The latest news, human-readable. */
            message: string;
            /** @description The peer's id of its copy of the intent. */
            remote_intent_id?: string | null;
            /** @description The agent that dispatched it. */
            requested_by: string;
            /** @description The detailed state. */
            state: components["schemas"]["FederationDispatchState"];
            /** @description `pending`, `accepted` or `rejected`: whether the peer has accepted the intent. */
            status: string;
            /** @description The peer. */
            target_server: string;
        };
        /**
         * @description The state of a dispatch.
         * @enum {string}
         */
        FederationDispatchState: "pending" | "accepted" | "rejected" | "dead" | "completed" | "failed";
        /** @description Paths relative to the server's URL. */
        FederationEndpoints: {
            /** @description The list of exported agents. */
            agents: string;
            /** @description The endpoint where peers report on our work. */
            callbacks: string;
            /** @description The endpoint where our own clients give work to peers. */
            dispatch: string;
            /** @description The endpoint where peers give us work. */
            receive: string;
            /** @description The status of federation. */
            status: string;
        };
        /** @description The response to a peer's callback. */
        FederationHeard: {
            /** @description The dispatch it was about. */
            dispatch_id: components["schemas"]["DispatchId"];
            /** @description The event it reported. */
            event_type: components["schemas"]["FederationNews"];
            /** @description Always true. */
            received: boolean;
        };
        /** @description This server's description for other servers. */
        FederationManifest: {
            /** @description The paths of the federation endpoints. */
            endpoints: components["schemas"]["FederationEndpoints"];
            /** @description Always empty, because the list of peers is not public. `GET /api/v1/federation/status` lists them. */
            peers: string[];
            /** @description The protocol's version. */
            protocol_version: string;
            /** @description The Ed25519 key that the server signs with, in base64. */
            public_key: string;
            /** @description The server's DID; its document is at `/.well-known/did.json`. */
            server_did: string;
            /** @description The server's URL. */
            server_url: string;
            /** @description The supported RFCs. */
            supported_rfcs: string[];
            /** @description The policy for trusting peers. */
            trust_policy: string;
            /** @description The visibility of agents for which the operator configured nothing. */
            visibility_default: components["schemas"]["FederationVisibility"];
        };
        /**
         * @description The kind of news in a callback.
         * @enum {string}
         */
        FederationNews: "state_delta" | "status_changed" | "attestation" | "budget_warning" | "completed" | "failed";
        /**
         * @description A part of an intent that may be sent to a peer, in addition to its title.
         * @enum {string}
         */
        FederationPart: "description" | "state" | "constraints";
        /** @description A peer server. */
        FederationPeer: {
            /** @description Whether we may give it work. */
            dispatch_to: boolean;
            /** @description The first of the peer's public keys, in base64. */
            public_key?: string | null;
            /** @description Whether it may give us work. */
            receive_from: boolean;
            /** @description The peer's relationship to this server. */
            relationship: components["schemas"]["FederationRelationship"];
            /** @description The peer's DID. */
            server_did: string;
            /** @description The peer's URL. */
            server_url: string;
            /** @description The parts of an intent that are shared with it, besides titles. */
            share: components["schemas"]["FederationPart"][];
            /** @description The policy for trusting it. */
            trust_policy: string;
        };
        /** @description The response to a peer's delivery. */
        FederationReceipt: {
            /** @description Whether the intent was accepted. */
            accepted: boolean;
            /** @description The peer's id of the dispatch. */
            dispatch_id: string;
            local_intent_id?: components["schemas"]["IntentId"] | null;
            /** @description A human-readable explanation. */
            message: string;
        };
        /**
         * @description The relationship to a peer; informative only, as the peer's rights are in its other members.
         * @enum {string}
         */
        FederationRelationship: "peer" | "upstream" | "downstream";
        /** @description The status of federation. */
        FederationStatus: {
            /**
             * Format: int64
             * @description Number of unfinished dispatches of the caller; for admins, of all.
             */
            active_dispatches: number;
            /** @description Whether federation is configured. */
            enabled: boolean;
            /** @description Number of peers. */
            peer_count: number;
            /** @description The peers. */
            peers: components["schemas"]["FederationPeer"][];
            /** @description This server's DID. */
            server_did?: string | null;
            /**
             * Format: int64
             * @description Number of stored dispatches of the caller; for admins, of all.
             */
            total_dispatches: number;
            /**
             * Format: int64
             * @description Number of stored deliveries that the caller received from peers, or sent as a peer; for admins, of all.
             */
            total_received: number;
            /** @description The policy for trusting peers. */
            trust_policy: string;
        };
        /**
         * @description The audience of an agent (RFC-0022), declared as `federation_visibility` in its metadata; it can only be
         *     more private than the operator's configuration.
         * @enum {string}
         */
        FederationVisibility: "public" | "unlisted" | "private";
        /** @description A fault in a request; gives its location in two forms, because clients read one or the other. */
        FieldError: {
            /** @description Location: `["body", "payload"]`. */
            loc: string[];
            /** @description Description of the fault and of the expected value. */
            msg: string;
            /** @description Location in the body, as a JSON Pointer (RFC 6901); absent for faults elsewhere. */
            pointer?: string | null;
            /** @description Kind of fault, a stable term such as `missing` or `too_long`. */
            type: string;
        };
        /** @description The result of firing a trigger. */
        FiredTrigger: {
            /**
             * Format: int64
             * @description Number of intents that the trigger has created.
             */
            fire_count: number;
            /** @description Firing id. */
            firing_id: components["schemas"]["FiringId"];
            intent_id?: components["schemas"]["IntentId"] | null;
            /** @description Why no intent was created. */
            reason?: string | null;
            /** @description `fired`, `waiting` or `skipped`. */
            status: components["schemas"]["TriggerFiringStatus"];
            /** @description The trigger. */
            trigger_id: components["schemas"]["TriggerId"];
        };
        /** @description `fire_` and a ULID */
        FiringId: string;
        /** @description A portfolio with its contents. */
        FullPortfolio: {
            /** @description Aggregate status of the portfolio's intents. */
            aggregate_status: components["schemas"]["AggregateStatus"];
            /** @description Same as `created_at`. */
            createdAt: components["schemas"]["WireTime"];
            /** @description Same as `created_by`. */
            createdBy: string;
            /** @description When the portfolio was created. */
            created_at: components["schemas"]["WireTime"];
            /** @description Agent that owns the portfolio. */
            created_by: string;
            /** @description Purpose of the portfolio. */
            description?: string | null;
            /** @description Same as `governance_policy`. */
            governancePolicy: components["schemas"]["PortfolioRules"];
            /** @description Rules of the client, stored as given; `require_all_completed` is enforced. */
            governance_policy: components["schemas"]["PortfolioRules"];
            /** @description Portfolio id. */
            id: components["schemas"]["PortfolioId"];
            /** @description The intents that the caller can read, highest priority first. */
            intents: components["schemas"]["IntentBody"][];
            /** @description Their memberships, in the same order. */
            memberships: components["schemas"]["PortfolioMembership"][];
            /** @description Metadata, an object of the client's own. */
            metadata: {
                [key: string]: unknown;
            };
            /** @description Name of the portfolio. */
            name: string;
            /** @description Status of the portfolio. */
            status: components["schemas"]["PortfolioStatus"];
            /** @description Same as `updated_at`. */
            updatedAt: components["schemas"]["WireTime"];
            /** @description When the portfolio's status or set of intents last changed. */
            updated_at: components["schemas"]["WireTime"];
        };
        /**
         * @description Status of a checkpoint.
         * @enum {string}
         */
        GateStatus: "pending" | "reached" | "approved" | "rejected";
        /** @description A governance policy; missing and null members take their defaults */
        GivenPolicy: {
            [key: string]: unknown;
        };
        /**
         * Format: date-time
         * @description RFC 3339, UTC, microseconds
         */
        GivenTime: string;
        /** @description A request for approval. */
        GovernanceApproval: {
            /**
             * @description Action to approve; `complete` is consumed by the completion of an intent whose policy requires an
             *     approval.
             */
            action: string;
            /** @description Agents that have approved; a quorum needs several. */
            approved_by: string[];
            /** @description Context for the approvers. */
            context: {
                [key: string]: unknown;
            };
            /** @description When the approval was requested. */
            created_at: components["schemas"]["WireTime"];
            decided_at?: components["schemas"]["WireTime"] | null;
            /** @description Agent that last approved or denied. */
            decided_by?: string | null;
            /** @description Notes on the decision. */
            decision_notes?: string | null;
            /** @description Approval id. */
            id: components["schemas"]["ApprovalId"];
            /** @description The intent. */
            intent_id: components["schemas"]["IntentId"];
            /** @description Reason for the request. */
            reason: string;
            /** @description Agent that requests the approval. */
            requested_by: string;
            /** @description Status of the approval. */
            status: components["schemas"]["GovernanceApprovalStatus"];
            used_at?: components["schemas"]["WireTime"] | null;
            /** @description Agent that used the approval; it cannot be used again. */
            used_by?: string | null;
        };
        /** @description A decision on a request for approval. */
        GovernanceApprovalDecision: {
            /** @description Agent that decides; defaults to the acting agent. */
            decided_by?: string | null;
            /** @description Notes on the decision. */
            notes?: string | null;
        };
        /** @description A page of requests for approval. */
        GovernanceApprovalList: {
            /** @description The requests, newest first. */
            approvals: components["schemas"]["GovernanceApproval"][];
        };
        /**
         * @description Status of an approval.
         * @enum {string}
         */
        GovernanceApprovalStatus: "pending" | "approved" | "denied" | "expired";
        /** @description A governance violation (RFC-0013), as clients of the reference server read it. */
        GovernanceDetail: {
            /** @description Always `governance_violation`. */
            error: string;
            /** @description With `completion_mode`: number of approvals granted. */
            granted?: number | null;
            /** @description The description as a sentence. */
            message: string;
            mode?: components["schemas"]["CompletionMode"] | null;
            /** @description With `completion_mode`: number of approvals required. */
            required?: number | null;
            /** @description The member of the policy that forbids the action. */
            rule: components["schemas"]["GovernanceRule"];
        };
        /**
         * @description The member of a policy that forbids an action.
         * @enum {string}
         */
        GovernanceRule: "write_scope" | "allowed_agents" | "completion_mode" | "require_status_reason" | "max_cost";
        /** @description A violation of a policy, for programs. */
        GovernanceViolation: {
            /** @description With `completion_mode`: number of approvals granted. */
            granted?: number | null;
            mode?: components["schemas"]["CompletionMode"] | null;
            /** @description With `completion_mode`: number of approvals required. */
            required?: number | null;
            /** @description The member of the policy that forbids the action. */
            rule: components["schemas"]["GovernanceRule"];
        };
        /** @description An entry to create. */
        GrantBody: {
            expires_at?: components["schemas"]["GivenTime"] | null;
            /** @description Ignored, as `id`. */
            granted_at?: string | null;
            /** @description Ignored, as `id`. */
            granted_by?: string | null;
            /** @description Ignored: the SDK sends an entry as it reads it (OI-3.2.6), and the server sets this. */
            id?: string | null;
            /** @description Ignored, as `id`. */
            intent_id?: string | null;
            permission?: components["schemas"]["Level"] | null;
            /** @description The principal to grant access to. */
            principal_id: string;
            /** @description The kind of principal; defaults to `agent`. */
            principal_type?: string | null;
            /** @description Why it is granted. */
            reason?: string | null;
        };
        /**
         * @description Whether the vault's owner gave the grant, or a holder passed it on.
         * @enum {string}
         */
        GrantSource: "direct" | "delegated";
        /**
         * @description Status of a grant.
         * @enum {string}
         */
        GrantStatus: "active" | "expired" | "revoked" | "suspended";
        /** @description A graph of intents. */
        GraphBody: {
            /** @description The aggregate status of the intents. */
            aggregate_status: components["schemas"]["AggregateStatus"];
            /** @description The edges between them. */
            edges: components["schemas"]["GraphEdge"][];
            /** @description The intents, starting with the requested one. */
            nodes: components["schemas"]["GraphNode"][];
            /** @description The requested intent. */
            root_id: components["schemas"]["IntentId"];
        };
        /** @description An edge of a graph, in the direction in which work proceeds. */
        GraphEdge: {
            /** @description The parent, or the dependency. */
            from: components["schemas"]["IntentId"];
            /** @description The part, or the dependent. */
            to: components["schemas"]["IntentId"];
            /** @description The kind of edge. */
            type: components["schemas"]["EdgeKind"];
        };
        /** @description An intent in a graph. */
        GraphNode: {
            /** @description The intents it waits for. */
            depends_on: components["schemas"]["IntentId"][];
            /** @description The intent's id. */
            id: components["schemas"]["IntentId"];
            parent_id?: components["schemas"]["IntentId"] | null;
            parent_intent_id?: components["schemas"]["IntentId"] | null;
            /** @description The intent's status. */
            status: components["schemas"]["IntentStatus"];
            /** @description The goal in one line. */
            title: string;
            /**
             * Format: int64
             * @description The intent's version.
             */
            version: number;
        };
        /** @description A task that was handed over. */
        HandedTask: {
            /**
             * Format: int64
             * @description The new claim; null for a task that is only kept for the agent.
             */
            claim_token?: number | null;
            /** @description The task. */
            task_id: components["schemas"]["TaskId"];
        };
        /** @description The work that was handed over. */
        Handover: {
            /** @description The agent that handed over. */
            from: string;
            /** @description The intent. */
            intent_id: components["schemas"]["IntentId"];
            /** @description The leases, with new fencing tokens: the old ones hold no longer. */
            leases: components["schemas"]["Lease"][];
            /** @description Its role on the intent. */
            role: string;
            /**
             * Format: int64
             * @description Number of the event `handover.made` in the intent's log.
             */
            seq: number;
            /** @description The tasks, with new claims: the old ones hold no longer. */
            tasks: components["schemas"]["HandedTask"][];
            /** @description The agent that took over. */
            to: string;
        };
        /** @description The two ways to answer otherwise; both are open by default. */
        Hatches: {
            /** @description Whether the principal may refuse the question. */
            dialogue: boolean;
            /** @description Whether the principal may answer in their own words. */
            free_text: boolean;
        };
        /** @description The server's state. */
        Health: {
            /** @description Parts that are away without a loss: `bus` if other servers' changes are found by polling instead of wake-ups. */
            degraded?: string[];
            /** @description The writers that fail: `messages`, `jobs` or `envelopes`. */
            failed?: string[];
            /** @description `ok`, `draining`, `database_unreachable` if the server cannot read, or `not_writing` if a writer fails. */
            status: string;
            /** @description The server's version. */
            version: string;
        };
        /** @description A heartbeat. */
        HeartbeatBody: {
            /**
             * Format: int64
             * @description The agent's current load.
             */
            current_load?: number;
            /** @description Ignored: the server derives the status from the arrival of heartbeats. */
            status?: string | null;
            /** @description The tasks the agent is working on. */
            tasks_in_progress?: string[];
        };
        /** @description The heartbeat interval, and how long silence is tolerated. */
        HeartbeatConfig: {
            /**
             * Format: int32
             * @description Seconds of silence after which it counts as dead.
             * @default 300
             */
            dead_after_seconds: number;
            /**
             * Format: int32
             * @description Seconds between two heartbeats.
             * @default 30
             */
            interval_seconds: number;
            /**
             * Format: int32
             * @description Seconds of silence after which the agent counts as unhealthy.
             * @default 90
             */
            unhealthy_after_seconds: number;
        };
        /** @description The response to a heartbeat: the reference server's members and RFC-0016's together (OI-9.4). */
        HeartbeatReply: {
            /** @description Always true. */
            acknowledged: boolean;
            /** @description The agent's current status. */
            agent_status: components["schemas"]["AgentStatus"];
            /** @description When the next heartbeat is due. */
            next_heartbeat_at: components["schemas"]["WireTime"];
            /** @description Commands for the agent; always empty for now. */
            pending_commands: string[];
            /** @description The server's current time. */
            server_timestamp: components["schemas"]["WireTime"];
            /** @description Always `ok`. */
            status: string;
        };
        /** @description A job that a worker holds. */
        HeldBody: {
            /** @description Token of the claim. */
            claim_token: string;
            /** @description The job. */
            job_id: string;
            /**
             * Format: int64
             * @description Number of the last signal of the job that the worker knows, 0 for none: the response then has those after it. If it is
             *     absent, the worker gets no signals with its heartbeats.
             */
            signals_after?: number | null;
            /**
             * @description Whether the worker already knows that the job must stop, so that the request does not return early for
             *     it.
             */
            stopping?: boolean;
        };
        /** @description An agent's identity. */
        IdentityBody: {
            /** @description The agent. */
            agent_id: string;
            /** @description The same key as a decentralised identifier. */
            did: string;
            /** @description Always `Ed25519`. */
            key_algorithm: string;
            key_expires_at?: components["schemas"]["WireTime"] | null;
            /** @description All keys, each with its period of validity. */
            keys: components["schemas"]["KeySpan"][];
            /** @description Always empty; present for clients that read it. */
            metadata: {
                [key: string]: unknown;
            };
            /** @description The earlier keys, oldest first. */
            previous_keys: string[];
            /** @description The agent's latest key. */
            public_key: string;
            /** @description When the agent registered; rotations do not change it. */
            registered_at: components["schemas"]["WireTime"];
            revoked_at?: components["schemas"]["WireTime"] | null;
            /** @description The latest key's status. */
            status: components["schemas"]["KeyStatus"];
        };
        /** @description An open inbox. */
        Inbox: {
            /** @description The agent. */
            agent_id: string;
            /**
             * Format: int64
             * @description Number of stored entries.
             */
            entries: number;
            /**
             * Format: int64
             * @description Number of entries that were evicted unseen because the inbox was full.
             */
            evicted: number;
            /**
             * Format: int64
             * @description Place of the newest entry ever.
             */
            newest: number;
            /** @description When it was opened. */
            opened_at: components["schemas"]["WireTime"];
            /** @description Its readers. */
            readers: components["schemas"]["InboxReader"][];
            /** @description Settings of its agent. */
            settings: components["schemas"]["InboxSettings"];
        };
        /** @description The entries of the level `digest`, collected. */
        InboxDigest: {
            /**
             * Format: int64
             * @description Number of entries.
             */
            count: number;
            /**
             * Format: int64
             * @description Number of entries of other sources.
             */
            others: number;
            /** @description Up to 50 sources (channels and senders), the one with the newest entry first. */
            sources: components["schemas"]["InboxDigestSource"][];
        };
        /** @description The entries of one source of a digest. */
        InboxDigestSource: {
            /**
             * Format: int64
             * @description Number of entries.
             */
            count: number;
            /** @description Kind of the objects. */
            kind: components["schemas"]["InboxEntryKind"];
            newest?: components["schemas"]["InboxEntry"] | null;
        };
        /** @description An entry of an inbox. */
        InboxEntry: {
            /** @description When it happened. */
            at: components["schemas"]["WireTime"];
            /** @description How soon to look at it: as it was given, or `next` instead of `wake` in quiet hours. */
            attention: components["schemas"]["Attention"];
            channel_id?: components["schemas"]["ChannelId"] | null;
            /** @description Whether the object was deleted since. */
            gone?: boolean;
            intent_id?: components["schemas"]["IntentId"] | null;
            /** @description Kind of the object. */
            kind: components["schemas"]["InboxEntryKind"];
            message?: components["schemas"]["MessageBody"] | null;
            /**
             * Format: int64
             * @description Its place in the inbox, from 1 without gaps.
             */
            place: number;
            /** @description Id of the message, envelope, job, decision, task or intent; absent if it is withheld. */
            reference?: string | null;
            /**
             * Format: int32
             * @description How often it rang again because no reader has seen it.
             */
            rings: number;
            /** @description Agent, entity or person that it comes from. */
            sender?: string | null;
            /** @description What happened: the type of a message or an envelope, the status of a job, the event of a decision or a task. */
            what: string;
            /** @description Whether the agent or its key may not read the object any more. */
            withheld?: boolean;
        };
        /**
         * @description Kind of the object that an entry refers to.
         * @enum {string}
         */
        InboxEntryKind: "message" | "mail" | "job" | "decision" | "task";
        /** @description A page of an inbox. */
        InboxPage: {
            /** @description The agent. */
            agent_id: string;
            digest?: components["schemas"]["InboxDigest"] | null;
            /** @description The entries in order; before them those that rang again. */
            entries: components["schemas"]["InboxEntry"][];
            /** @description Position after which the page begins. */
            from: string;
            /** @description Whether there is more now. */
            has_more: boolean;
            /**
             * Format: int64
             * @description Number of entries after `from` that expired or were evicted before this read.
             */
            missed: number;
            /**
             * Format: int64
             * @description Place of the newest entry ever.
             */
            newest: number;
            /** @description Position after the page: `place` of `seen`, or `since` of the next page. */
            next: string;
            /**
             * Format: int64
             * @description Place of that position, to mark the page seen.
             */
            next_place: number;
            /**
             * Format: int64
             * @description Place of the oldest entry in the inbox.
             */
            oldest?: number | null;
            /** @description Whether these are quiet hours. */
            quiet: boolean;
            /** @description The reader. */
            reader: string;
            /**
             * Format: int64
             * @description Place up to which the reader has marked entries seen.
             */
            seen: number;
            /** @description Number of entries on the page that the agent may not read any more. */
            withheld: number;
        };
        /** @description A reader of an inbox. */
        InboxReader: {
            /** @description Levels that it reads. */
            attention: components["schemas"]["Attention"][];
            /**
             * Format: int64
             * @description Place up to which it has marked entries seen.
             */
            place: number;
            /** @description Its name. */
            reader: string;
            /** @description When it last marked entries or, to the hour, read. */
            used_at: components["schemas"]["WireTime"];
        };
        /** @description The entries that a reader has seen. */
        InboxSeen: {
            /**
             * Format: int64
             * @description Every entry up to this place: `next_place` of a page.
             */
            place: number;
            /** @description Name of the reader; defaults to `default`. */
            reader?: string | null;
        };
        /** @description An agent's settings for its inbox. */
        InboxSettings: {
            /**
             * @description Levels of entries whose sender asks for none, by `request`, `response`, `notify`, `broadcast` (messages to
             *     everybody), `mail`, `job`, `decision` and `task`.
             * @default {}
             */
            attention: {
                [key: string]: components["schemas"]["Attention"];
            };
            /**
             * @description Agents and roles (`role:…`) whose messages and envelopes may wake; null for all, an empty list for none.
             * @default null
             */
            may_wake: string[] | null;
            /** @default null */
            quiet_hours: components["schemas"]["QuietHours"] | null;
            /**
             * Format: int32
             * @description Seconds after which an entry that should wake and that no reader has seen rings again: 10 to 86,400; defaults to 300.
             * @default null
             */
            rearm_seconds: number | null;
        };
        /**
         * @description The part of a task that becomes the job's input.
         * @enum {string}
         */
        Input: "payload" | "envelope";
        /** @description An intent. */
        IntentBody: {
            /**
             * Format: double
             * @description The agents' confidence, 0 to 1.
             */
            confidence: number;
            /** @description The constraints on the work. */
            constraints: {
                [key: string]: unknown;
            };
            /** @description When it was created. */
            created_at: components["schemas"]["WireTime"];
            /** @description The agent that created it. */
            created_by: string;
            /** @description The intents it waits for. */
            depends_on: components["schemas"]["IntentId"][];
            /** @description The goal in full. */
            description: string;
            /** @description The governance policy (RFC-0013), as its author wrote it. */
            governance_policy?: {
                [key: string]: unknown;
            } | null;
            /** @description The intent's id. */
            id: components["schemas"]["IntentId"];
            parent_id?: components["schemas"]["IntentId"] | null;
            parent_intent_id?: components["schemas"]["IntentId"] | null;
            /** @description The current state. */
            state: {
                [key: string]: unknown;
            };
            /** @description The intent's status. */
            status: components["schemas"]["IntentStatus"];
            /** @description The goal in one line. */
            title: string;
            /** @description When it last changed. */
            updated_at: components["schemas"]["WireTime"];
            /**
             * Format: int64
             * @description The version, which guards writes: send it in `If-Match`.
             */
            version: number;
        };
        /** @description The intents that an intent waits for. */
        IntentDependencyList: {
            /** @description The intents that the caller can read, oldest first. */
            dependencies: components["schemas"]["IntentBody"][];
        };
        /** @description The intents that wait for an intent. */
        IntentDependentList: {
            /** @description The intents that the caller can read, oldest first. */
            dependents: components["schemas"]["IntentBody"][];
        };
        /** @description An intent's governance policy. */
        IntentGovernance: {
            /** @description The policy in force, defaults included. */
            effective_policy: components["schemas"]["EffectivePolicy"];
            /** @description The policy as its author wrote it; empty if there is none. */
            governance_policy: {
                [key: string]: unknown;
            };
            /** @description The intent. */
            intent_id: components["schemas"]["IntentId"];
            /**
             * Format: int64
             * @description The intent's version, to be sent in `If-Match`.
             */
            version: number;
        };
        /** @description `intent_` and a ULID */
        IntentId: string;
        /** @description A page of intents. */
        IntentList: {
            /** @description The intents, the newest first. */
            intents: components["schemas"]["IntentBody"][];
        };
        /** @description An intent's policy for loops and storms. */
        IntentLoopPolicy: {
            /** @description The policy in force, with the server's members. */
            effective_policy: components["schemas"]["LoopPolicy"];
            /** @description The intent. */
            intent_id: components["schemas"]["IntentId"];
            /** @description The members that were set. */
            policy: components["schemas"]["LoopPolicyAsk"];
        };
        /**
         * @description The stage of an intent's lifecycle.
         * @enum {string}
         */
        IntentStatus: "draft" | "active" | "blocked" | "suspended_awaiting_input" | "completed" | "abandoned";
        /** @description A status change. */
        IntentStatusChange: {
            /** @description The reason. */
            reason?: string | null;
            /** @description The new status. */
            status: components["schemas"]["IntentStatus"];
        };
        /** @description Whether an intent is strict. */
        IntentStrictness: {
            /** @description Whether writes of agents on the intent have to name the epochs of their sessions. */
            strict: boolean;
        };
        /** @description The agents that run jobs. */
        Inventory: {
            /** @description The agents, ordered by name. */
            agents: components["schemas"]["InventoryAgent"][];
        };
        /** @description An agent that runs jobs, as in `session.welcome`. */
        InventoryAgent: {
            /** @description The version that a bare name stands for. */
            default?: string | null;
            /** @description The agent's name. */
            name: string;
            /** @description The agent's versions, in order of first registration. */
            versions: string[];
        };
        /** @description `inv_` and a ULID */
        InvocationId: string;
        /**
         * @description The status of a call.
         * @enum {string}
         */
        InvocationStatus: "running" | "success" | "denied" | "error";
        /** @description The payload of `job.accepted` (§7.1). */
        JobAccepted: {
            /** @description When it was accepted. */
            accepted_at: string;
            /** @description The agent, with its resolved version. */
            agent: string;
            /** @description The budget by currency. */
            budget?: {
                [key: string]: unknown;
            } | null;
            /** @description The credentials provisioned for it; shown to its submitter only. */
            credentials?: components["schemas"]["Credential"][];
            /** @description The delegation's name. */
            delegate_id?: string | null;
            /** @description The intent that it works for. */
            intent_id?: string | null;
            /** @description The job. */
            job_id: components["schemas"]["JobId"];
            /** @description The permissions of the job. */
            lease: {
                [key: string]: unknown;
            };
            lease_constraints?: components["schemas"]["LeaseConstraints"] | null;
            parent_job_id?: components["schemas"]["JobId"] | null;
            session_id?: components["schemas"]["SessionId"] | null;
            /** @description The trace. */
            trace_id: string;
        };
        /** @description An attempt at a job. */
        JobAttempt: {
            /**
             * Format: int32
             * @description Number of the attempt, starting at 1.
             */
            attempt: number;
            /** @description When the worker claimed the job. */
            claimed_at: string;
            code?: components["schemas"]["Fault"] | null;
            /** @description When the attempt ended; absent while it runs. */
            ended_at?: string | null;
            /** @description The failure in words. */
            message?: string | null;
            /** @description When the next attempt could begin; absent if none was to follow. */
            next_attempt_at?: string | null;
            /** @description How it went. */
            outcome: components["schemas"]["JobAttemptOutcome"];
            /** @description Name of the worker; absent if it has left. */
            worker?: string | null;
            /** @description The worker that claimed the job. */
            worker_id: components["schemas"]["WorkerId"];
        };
        /**
         * @description How an attempt went.
         * @enum {string}
         */
        JobAttemptOutcome: "running" | "lost" | "failed" | "success" | "cancelled" | "timed_out";
        /** @description The attempts at a job. */
        JobAttempts: {
            /** @description The attempts, oldest first; one whose worker handed the job back is none. */
            attempts: components["schemas"]["JobAttempt"][];
            checkpoint?: components["schemas"]["JobCheckpoint"] | null;
            /**
             * Format: int32
             * @description Number of failures that another attempt followed.
             */
            failures: number;
            /** @description The job. */
            job_id: components["schemas"]["JobId"];
            /** @description When the job may be claimed again; absent if it may be at once, is claimed, or has ended. */
            not_before?: string | null;
            retry?: components["schemas"]["JobRetry"] | null;
        };
        /** @description A job, with its terminal payload once it has ended. */
        JobBody: {
            /** @description The agent, with its resolved version. */
            agent: string;
            /**
             * Format: int32
             * @description How many times the job has been claimed.
             */
            attempt: number;
            /**
             * @description Questions to people that the job waits for, as `moments/{moment_id}` ids; the job is
             *     `awaiting_decision` while there is one.
             */
            awaiting_decision: components["schemas"]["MomentId"][];
            /** @description The remaining budget by currency. */
            budget?: {
                [key: string]: unknown;
            } | null;
            /** @description When the job ends at the latest, if cancellation has been requested. */
            cancel_due_at?: string | null;
            /** @description Whether cancellation has been requested. */
            cancel_requested: boolean;
            claim?: components["schemas"]["JobHolder"] | null;
            concurrency?: components["schemas"]["JobConcurrency"] | null;
            /** @description Cost of the job itself, by currency; `/jobs/{job_id}/tree` adds its children's. */
            cost?: {
                [key: string]: unknown;
            };
            /** @description When the job was accepted. */
            created_at: string;
            /** @description The status. */
            current_status: components["schemas"]["JobStatus"];
            /** @description When the job times out. */
            deadline?: string | null;
            /** @description When the job ended. */
            ended_at?: string | null;
            failure?: components["schemas"]["JobFailure"] | null;
            /** @description The intent that the job works on. */
            intent_id?: string | null;
            /** @description The job. */
            job_id: components["schemas"]["JobId"];
            /** @description Labels of the submission. */
            labels?: {
                [key: string]: string;
            };
            /**
             * Format: int64
             * @description Number of the job's last event; numbering is per job.
             */
            last_event_seq: number;
            /** @description The permissions of the job. */
            lease: {
                [key: string]: unknown;
            };
            lease_constraints?: components["schemas"]["LeaseConstraints"] | null;
            /** @description When the job may be claimed; absent if it may be at once. `GET /jobs/{job_id}/attempts` has its attempts. */
            not_before?: string | null;
            parent_job_id?: components["schemas"]["JobId"] | null;
            /** @description Agent that submitted the job. */
            principal: string;
            /**
             * Format: int32
             * @description Jobs with a higher priority start first; 0 is normal.
             */
            priority: number;
            /** @description When the job times out unless a worker claims it. */
            queue_deadline?: string | null;
            rerun_of?: components["schemas"]["JobId"] | null;
            /** @description The jobs that run this one again, oldest first; the first 100. */
            reruns?: components["schemas"]["JobId"][];
            retry?: components["schemas"]["JobRetry"] | null;
            session_id?: components["schemas"]["SessionId"] | null;
            signals?: components["schemas"]["SignalMarks"] | null;
            /** @description The same as `current_status`. */
            status: components["schemas"]["JobStatus"];
            /** @description Payload of the job's `job.result` or `job.error`, once it has ended. */
            terminal?: {
                [key: string]: unknown;
            } | null;
            /** @description The trace. */
            trace_id: string;
        };
        /** @description A job's remaining budget. */
        JobBudget: {
            /** @description The remaining amounts, by currency. */
            budget: {
                [key: string]: unknown;
            };
        };
        /** @description The session that cancels a job, and the reason. */
        JobCancel: {
            /**
             * Format: int64
             * @description Seconds that the worker has to stop, 0 to 3,600; defaults to the server's setting. A second request may shorten them.
             */
            grace_sec?: number | null;
            /** @description Reason for the cancellation. */
            reason?: string | null;
            /** @description The session that submitted the job; optional for a key with the scope `admin`. */
            session_id?: string | null;
        };
        /** @description A cancelled job. */
        JobCancelled: {
            /** @description Job id. */
            job_id: components["schemas"]["JobId"];
            /** @description Reason for the cancellation. */
            reason: string;
            /** @description Status of the job: `running` until its worker has stopped. */
            status: components["schemas"]["JobStatus"];
        };
        /** @description The checkpoint of a job, without its content, which only its workers get. */
        JobCheckpoint: {
            /**
             * Format: int32
             * @description The attempt that stored it.
             */
            attempt: number;
            /**
             * Format: int32
             * @description Its size in bytes.
             */
            bytes: number;
            /** @description When it was stored. */
            saved_at: string;
        };
        /** @description A child job that a `delegate` event created. */
        JobChild: {
            /** @description Name of the delegation. */
            delegate_id: string;
            /** @description Index of the event in the request. */
            index: number;
            /** @description The child job. */
            job_id: components["schemas"]["JobId"];
        };
        /** @description A worker's request for jobs. */
        JobClaim: {
            /** @description The agents to take jobs for; defaults to all of the worker's agents. */
            agents?: string[] | null;
            /**
             * @description The claim's key: after a lost answer the same key returns the same jobs and tokens again, those that the worker still
             *     holds. Use a new one for each claim.
             */
            idempotency_key?: string | null;
            /**
             * Format: int64
             * @description Maximum number of jobs; defaults to 1.
             */
            max?: number | null;
            /**
             * Format: double
             * @description Seconds to wait if no job is pending: up to 120, defaults to 0.
             */
            wait_sec?: number | null;
            /** @description The worker. */
            worker_id: string;
        };
        /** @description The limits of a job's concurrency key, which its principal's jobs share. */
        JobConcurrency: {
            /**
             * @description The key, such as `deploy/shop`: of jobs of one principal with the same key, only so many run at once, of whichever
             *     agents.
             */
            key: string;
            /**
             * Format: int64
             * @description How many jobs with the key may run at once: 1 to 10,000.
             */
            max_running?: number | null;
            /**
             * Format: int64
             * @description How many jobs with the key may start within `per_sec` seconds.
             */
            max_starts?: number | null;
            /**
             * Format: int64
             * @description The seconds within which `max_starts` jobs may start: 1 to 86,400.
             */
            per_sec?: number | null;
        };
        /** @description The number of jobs that a search finds. */
        JobCounts: {
            /** @description The number by status. */
            by_status: {
                [key: string]: number;
            };
            /** @description Whether all were counted: of more than 100,000 candidates the newest are, and the numbers are lower bounds. */
            complete: boolean;
            /**
             * Format: int64
             * @description The number of all.
             */
            total: number;
        };
        /** @description A part of a job to delegate to another agent. */
        JobDelegation: {
            /** @description The agent: a name, or `name@version`. */
            agent: string;
            /** @description The claim's token. */
            claim_token: string;
            concurrency?: components["schemas"]["JobConcurrency"] | null;
            /** @description The delegation's name. A child job is created once per name. */
            delegate_id?: string | null;
            /** @description The child's input. */
            input?: unknown;
            lease_constraints?: components["schemas"]["LeaseConstraints"] | null;
            /** @description The child's authority; at most its parent's. */
            lease_request?: {
                [key: string]: string[];
            } | null;
            /**
             * Format: int64
             * @description Seconds after which the child times out.
             */
            max_runtime_sec?: number | null;
            /**
             * Format: int64
             * @description Jobs with a higher priority start first: -100 to 100; defaults to the parent's.
             */
            priority?: number | null;
        };
        /** @description A reported operation that the job is not authorised to perform. */
        JobDenial: {
            /** @description Id of the call. */
            call_id?: string | null;
            /** @description Error code. */
            code: string;
            /** @description Index of the event in the request. */
            index: number;
            /** @description Message for people. */
            message: string;
        };
        /**
         * @description The description of a job for its observers: the payload of `job.subscribed` (§7.6), without the members
         *     about the subscription.
         */
        JobDescription: {
            /** @description The agent, with its resolved version. */
            agent: string;
            /** @description The remaining budget by currency. */
            budget?: {
                [key: string]: unknown;
            } | null;
            /** @description The status. */
            current_status: components["schemas"]["JobStatus"];
            /** @description The job. */
            job_id: components["schemas"]["JobId"];
            /** @description The permissions of the job. */
            lease: {
                [key: string]: unknown;
            };
            lease_constraints?: components["schemas"]["LeaseConstraints"] | null;
            parent_job_id?: components["schemas"]["JobId"] | null;
            /** @description The trace. */
            trace_id: string;
        };
        /** @description An event in an ARCP envelope, numbered per job. */
        JobEnvelope: {
            /** @description Always `1.1`. */
            arcp: string;
            /**
             * Format: int64
             * @description The event's number in the job, from 1.
             */
            event_seq: number;
            /** @description The envelope's id. */
            id: components["schemas"]["MessageId"];
            /** @description The job. */
            job_id: components["schemas"]["JobId"];
            /** @description The event's payload. */
            payload: {
                [key: string]: unknown;
            };
            /** @description A session id for clients that require one: the job's id with the prefix `sess_`. */
            session_id: string;
            /** @description The job's trace id. */
            trace_id: string;
            /** @description `job.event`, `job.result` or `job.error`. */
            type: string;
        };
        /** @description A page of a job's events. */
        JobEventList: {
            /** @description The events, oldest first. */
            events: components["schemas"]["JobEnvelope"][];
            /** @description Whether more events follow. */
            has_more: boolean;
            /** @description The job. */
            job_id: components["schemas"]["JobId"];
            /**
             * Format: int64
             * @description Number of the last event on this page: `from_event_seq` of the next page.
             */
            last_event_seq: number;
            /** @description The job's status. */
            status: components["schemas"]["JobStatus"];
        };
        /** @description The failed end of a job, which is a dead letter until somebody resolves it or runs the job again. */
        JobFailure: {
            /** @description Error code (ARCP §12). */
            code: string;
            /** @description Whether the job is an open dead letter: failed, tried by nothing again, and not resolved. */
            is_dead_letter: boolean;
            /** @description Note of that agent. */
            note?: string | null;
            /** @description When it was resolved. */
            resolved_at?: string | null;
            /** @description Agent that resolved it. */
            resolved_by?: string | null;
        };
        /** @description The worker that runs a job. */
        JobHolder: {
            /** @description Agent or service that registered the worker; absent if the worker has left. */
            agent?: string | null;
            /** @description When the claim expires, unless a heartbeat of the worker extends it; then the job goes to another worker or fails. */
            expires_at: string;
            /**
             * Format: int64
             * @description Seconds since then.
             */
            heartbeat_age_sec?: number | null;
            /** @description When the worker last sent a heartbeat or claimed; absent if it has left. */
            last_heartbeat_at?: string | null;
            /** @description When the worker claimed the job. */
            since: string;
            /** @description Name of the worker; absent if it has left. */
            worker?: string | null;
            /** @description The worker. */
            worker_id: components["schemas"]["WorkerId"];
        };
        /** @description `job_` and a ULID */
        JobId: string;
        /** @description The limits of an agent's or a principal's jobs. */
        JobLimit: {
            /**
             * Format: int64
             * @description The highest priority that a principal may ask for: 0 to 100. Only for principals.
             * @default null
             */
            max_priority: number | null;
            /**
             * Format: int64
             * @description How many jobs may run at once: 1 to 10,000; no limit if it is absent.
             * @default null
             */
            max_running: number | null;
            /**
             * Format: int64
             * @description How many jobs may start within `per_sec` seconds: 1 to 10,000; needs `per_sec`.
             * @default null
             */
            max_starts: number | null;
            /** @description The agent or principal. */
            name: string;
            /**
             * Format: int64
             * @description The seconds within which `max_starts` jobs may start: 1 to 86,400.
             * @default null
             */
            per_sec: number | null;
            /**
             * Format: int64
             * @description How many of these jobs run now.
             */
            running: number;
            /** @description `agent`: jobs of all versions of the agent. `principal`: jobs that the principal submitted. */
            scope: string;
            /** @description When they were set. */
            set_at: string;
            /** @description Who set the limits. */
            set_by: string;
        };
        /** @description Limits of running jobs. */
        JobLimitList: {
            /** @description The limits, ordered by scope and name. */
            limits: components["schemas"]["JobLimit"][];
        };
        /** @description Limits of the jobs that pass one gate. */
        JobLimits: {
            /**
             * Format: int64
             * @description The highest priority that a principal may ask for: 0 to 100. Only for principals.
             * @default null
             */
            max_priority: number | null;
            /**
             * Format: int64
             * @description How many jobs may run at once: 1 to 10,000; no limit if it is absent.
             * @default null
             */
            max_running: number | null;
            /**
             * Format: int64
             * @description How many jobs may start within `per_sec` seconds: 1 to 10,000; needs `per_sec`.
             * @default null
             */
            max_starts: number | null;
            /**
             * Format: int64
             * @description The seconds within which `max_starts` jobs may start: 1 to 86,400.
             * @default null
             */
            per_sec: number | null;
        };
        /** @description A page of jobs. */
        JobList: {
            /** @description The jobs, newest first. */
            jobs: components["schemas"]["JobSummary"][];
            /** @description Cursor of the next page; null on the last page. */
            next_cursor?: string | null;
        };
        /** @description A job in a list: an item of `session.jobs` (§6.6). */
        JobListed: {
            /** @description The agent, with its resolved version. */
            agent: string;
            /** @description When it was accepted. */
            created_at: string;
            /** @description The job. */
            job_id: components["schemas"]["JobId"];
            /**
             * Format: int64
             * @description The number of its last event, in the numbering of the submitting session.
             */
            last_event_seq: number;
            /** @description The permissions of the job. */
            lease: {
                [key: string]: unknown;
            };
            parent_job_id?: components["schemas"]["JobId"] | null;
            /** @description The status. */
            status: components["schemas"]["JobStatus"];
            /** @description The same, under the Python SDK's name. */
            submitted_at: string;
            /** @description The trace. */
            trace_id: string;
        };
        /** @description An operation that a worker is about to perform. */
        JobOperation: {
            /** @description The id of the tool call. With it, a refusal is also recorded as a `tool_result` event. */
            call_id?: string | null;
            /** @description A capability namespace of ARCP §9.2. */
            capability: string;
            /** @description The claim's token. */
            claim_token: string;
            /** @description Amounts to reserve for the operation, by currency. If they cannot all be reserved, the operation is refused. */
            reserve?: {
                [key: string]: unknown;
            } | null;
            /** @description The target: a path, a URL or a name; for `cost.budget`, the currency. */
            target: string;
        };
        /** @description The decision to allow an operation. */
        JobOperationAllowed: {
            /** @description The job's remaining budget. */
            budget: {
                [key: string]: unknown;
            };
            /** @description Always `allow`. */
            decision: string;
            reservation_id?: components["schemas"]["ReservationId"] | null;
        };
        /** @description The body of every error: the members of RFC 9457 and those that existing clients read. */
        JobProblemBody: {
            /**
             * @description The error code: ARCP's (§12), or one of this API's own where ARCP has none.
             * @enum {string}
             */
            code: "AGENT_NOT_AVAILABLE" | "AGENT_VERSION_NOT_AVAILABLE" | "BUDGET_EXHAUSTED" | "CANCELLED" | "CLAIM_LOST" | "DUPLICATE_KEY" | "INTERNAL_ERROR" | "INVALID_REQUEST" | "JOB_ENDED" | "JOB_NOT_FOUND" | "LEASE_EXPIRED" | "LEASE_SUBSET_VIOLATION" | "METHOD_NOT_ALLOWED" | "NOT_FOUND" | "NO_RESULT" | "PERMISSION_DENIED" | "RATE_LIMITED" | "REQUEST_TIMEOUT" | "RESUME_WINDOW_EXPIRED" | "TOO_MANY_STREAMS" | "UNAUTHENTICATED" | "UNAVAILABLE" | "claim_conflict" | "epoch_required" | "lease_ended" | "stale_epoch";
            /**
             * Format: int64
             * @description On a version conflict: the current version.
             */
            current_version?: number | null;
            /** @description The description of this occurrence. */
            detail: components["schemas"]["Detail"];
            /** @description The faulty members of the body. */
            errors: components["schemas"]["FieldError"][];
            existing_lease?: components["schemas"]["Lease"] | null;
            /** @description A sentence that describes the error and the next step. */
            message: string;
            receipt?: components["schemas"]["EnvelopeReceipt"] | null;
            /** @description The request's id, which the server's log also has; empty within a batch. */
            request_id: string;
            /** @description On the job resources: whether the same request may be sent again unchanged. */
            retryable: boolean | null;
            /**
             * Format: int32
             * @description The HTTP status.
             */
            status: number;
            /** @description The meaning of the code. */
            title: string;
            /** @description `urn:entente:problem:` followed by the code. */
            type: string;
            /** @description On an answer that is none of a question's choices (RFC-0025 §8): the values that it takes. */
            valid_choices?: string[] | null;
        };
        /** @description The queue of an agent's jobs. */
        JobQueue: {
            /** @description The agent: `name` for all of its versions, or `name@version`. Both may be stopped apart from each other. */
            agent: string;
            /** @description When it was changed last. */
            changed_at?: string | null;
            /** @description Agent that changed it last; null if nobody did since it was opened. */
            changed_by?: string | null;
            /**
             * Format: int64
             * @description Number of its jobs that wait for a worker; at most 10,000 are counted of a version.
             */
            pending: number;
            /** @description Why, as stated with the change. */
            reason?: string | null;
            /**
             * Format: int64
             * @description Number of its jobs that run; at most 10,000 are counted. A draining queue is empty once both are 0.
             */
            running: number;
            /** @description State of the queue. */
            state: components["schemas"]["QueueState"];
        };
        /** @description A change of a queue. */
        JobQueueChange: {
            /** @description Why, for people. */
            reason?: string | null;
            /** @description `open`, `paused` (accepts jobs and gives out none) or `draining` (accepts none and finishes those that it has). */
            state: components["schemas"]["QueueState"];
        };
        /** @description A released job. */
        JobReleased: {
            /** @description The job. */
            job_id: components["schemas"]["JobId"];
            /** @description The job's status: `pending`, or its final status if it was to stop. */
            status: components["schemas"]["JobStatus"];
        };
        /** @description The response to a worker's report. */
        JobReported: {
            /** @description Remaining budget. */
            budget: {
                [key: string]: unknown;
            };
            /** @description When the server ends the job, if its worker has not; absent unless cancellation was requested. */
            cancel_due_at?: string | null;
            /** @description Whether cancellation has been requested. */
            cancel_requested: boolean;
            /** @description Children that the `delegate` events created. */
            children: components["schemas"]["JobChild"][];
            /** @description Operations that the job is not authorised to perform. */
            denied: components["schemas"]["JobDenial"][];
            /**
             * Format: int64
             * @description Number of the job's last event.
             */
            last_event_seq: number;
            /** @description Whether the lease has expired, which ends the job. */
            lease_expired: boolean;
            /**
             * @description When the next attempt at the job may begin; present if the report was a failure that is retried, so that the job has
             *     not ended.
             */
            next_attempt_at?: string | null;
        };
        /** @description How a job is run again. */
        JobRerun: {
            /** @description Whether today's default version of the agent runs it, rather than the version that ran it. */
            default_version?: boolean;
            /** @description Under the same key the job is run again once; the same as the header `Idempotency-Key`. */
            idempotency_key?: string | null;
        };
        /** @description A job that runs another one again. */
        JobRerunItem: {
            /** @description The new job. */
            job_id: components["schemas"]["JobId"];
            /** @description Whether the same request made it before. */
            repeated: boolean;
            /** @description The job that is run again. */
            rerun_of: components["schemas"]["JobId"];
        };
        /** @description A job that cannot be run again. */
        JobRerunRefusal: {
            /** @description Error code. */
            code: components["schemas"]["Code"];
            /** @description The job. */
            job_id: components["schemas"]["JobId"];
            /** @description The reason, and the next step. */
            message: string;
        };
        /** @description A search for jobs to run again. A job fulfils all conditions. */
        JobRerunSearch: {
            /** @description Only jobs of this agent: `name` or `name@version`. */
            agent?: string | null;
            /** @description Only jobs accepted after this time, RFC 3339. */
            created_after?: string | null;
            /** @description Only jobs accepted before this time, RFC 3339. */
            created_before?: string | null;
            /** @description `next_cursor` of the previous page. */
            cursor?: string | null;
            dead_letter?: components["schemas"]["DeadLetterState"] | null;
            /** @description Whether today's default versions of the agents run the jobs. */
            default_version?: boolean;
            /** @description Only list the jobs that would be run again. */
            dry_run?: boolean;
            /** @description Only jobs that ended with this error code (ARCP §12). */
            error_code?: string | null;
            /** @description Under the same key each job is run again once, however often the request is sent; required unless `dry_run` is set. */
            idempotency_key?: string | null;
            /** @description Only jobs with these labels. */
            labels?: {
                [key: string]: string;
            };
            /**
             * Format: int32
             * @description Maximum number of jobs that this request runs again: 1 to 200; defaults to 50.
             */
            limit?: number | null;
            /** @description Only jobs that this agent submitted. */
            principal?: string | null;
            /** @description Only jobs in these statuses, all of them final; defaults to `error` and `timed_out`. */
            status?: components["schemas"]["JobStatus"][];
            /** @description Only jobs of this trace. */
            trace_id?: string | null;
        };
        /** @description The jobs of one page that are run again. */
        JobReruns: {
            /** @description Whether all of them were counted; otherwise `found` is a lower bound. */
            complete: boolean;
            /** @description Whether nothing was run again. */
            dry_run: boolean;
            /**
             * Format: int64
             * @description Number of jobs that the search finds on all pages.
             */
            found: number;
            /** @description Cursor of the next page; null on the last page. */
            next_cursor?: string | null;
            /** @description Jobs of this page that cannot be run again. */
            refused: components["schemas"]["JobRerunRefusal"][];
            /** @description The new jobs; empty for a dry run. */
            reruns: components["schemas"]["JobRerunItem"][];
            /** @description The jobs of this page that are run again, or would be. */
            selected: components["schemas"]["JobId"][];
            /** @description Jobs of this page that another request has run again already; they are left out. */
            skipped: components["schemas"]["JobId"][];
        };
        /** @description A note on a dead letter. */
        JobResolution: {
            /** @description Note for people on how it was resolved. */
            note?: string | null;
        };
        /** @description The treatment of a job that its worker reports as failed. Absent members have their defaults. */
        JobRetry: {
            /**
             * @description Codes of ARCP §12 that are retried. Defaults to those that ARCP calls retryable. A worker's `retryable` in its report
             *     decides instead, for all codes but `LEASE_EXPIRED`, `BUDGET_EXHAUSTED` and `CANCELLED`, which are never retried.
             * @default null
             */
            codes: components["schemas"]["Fault"][] | null;
            /**
             * Format: double
             * @description Growth of the delay with each failure, 1 to 10; defaults to 2.
             * @default 2
             */
            factor: number;
            /**
             * Format: int32
             * @description Milliseconds between the first failure and the next attempt, up to a day; defaults to 1,000.
             * @default 1000
             */
            initial_delay_ms: number;
            /**
             * @description Whether delays are shortened at random, by up to a half; defaults to true.
             * @default true
             */
            jitter: boolean;
            /**
             * Format: int32
             * @description How many attempts may fail, the last of them for good: 1 to 100; defaults to 3. With 1 nothing is retried. Attempts
             *     whose worker was lost do not count: the version's `max_attempts` limits them.
             * @default 3
             */
            max_attempts: number;
            /**
             * Format: int32
             * @description Longest delay in milliseconds, up to a day; defaults to 300,000.
             * @default 300000
             */
            max_delay_ms: number;
        };
        /** @description The actual cost of an operation. */
        JobSettlement: {
            /** @description The claim's token. */
            claim_token: string;
            /** @description The cost by currency, deducted in place of the reserved amounts. */
            cost?: {
                [key: string]: unknown;
            };
        };
        /** @description A signal to a job. */
        JobSignal: {
            /** @description When a worker acknowledged it. */
            acknowledged_at?: string | null;
            /**
             * Format: int32
             * @description The attempt in which it was acknowledged.
             */
            attempt?: number | null;
            /** @description Its name. */
            name: string;
            /** @description Its payload. */
            payload?: unknown;
            /** @description Agent that sent it. */
            sender: string;
            /** @description When it was sent. */
            sent_at: string;
            /**
             * Format: int64
             * @description Number of the signal in the job, from 1.
             */
            seq: number;
        };
        /** @description A worker's acknowledgement of signals. */
        JobSignalAck: {
            /** @description The claim's token. */
            claim_token: string;
            /**
             * Format: int64
             * @description Number of the last signal that the worker has taken: it and all before it are acknowledged.
             */
            seq: number;
        };
        /** @description The last acknowledged signal. */
        JobSignalAcked: {
            /**
             * Format: int64
             * @description Number of the last acknowledged signal.
             */
            acknowledged: number;
        };
        /** @description The signals for a worker. */
        JobSignalDelivery: {
            /**
             * Format: int64
             * @description Number of the last acknowledged signal.
             */
            acknowledged: number;
            /** @description When the server ends the job, if its worker has not; absent unless cancellation was requested. */
            cancel_due_at?: string | null;
            /** @description Whether the job has to stop. */
            cancel_requested: boolean;
            /** @description The signals, in order; empty if none came in time. */
            signals: components["schemas"]["JobSignal"][];
        };
        /** @description A worker's request for the signals of a job. */
        JobSignalWait: {
            /**
             * Format: int64
             * @description Only signals after this number; defaults to the last acknowledged one.
             */
            after?: number | null;
            /** @description The claim's token. */
            claim_token: string;
            /**
             * Format: double
             * @description Seconds to wait if there is none: up to 120, defaults to 0.
             */
            wait_sec?: number | null;
        };
        /** @description A page of a job's signals. */
        JobSignals: {
            /** @description The signals, in order. */
            signals: components["schemas"]["JobSignal"][];
        };
        /**
         * @description The status of a job.
         * @enum {string}
         */
        JobStatus: "pending" | "running" | "success" | "error" | "cancelled" | "timed_out";
        /** @description The payload of `job.submit`, and the body of its REST resource. */
        JobSubmit: {
            /** @description The agent: a name, or `name@version`. */
            agent: string;
            concurrency?: components["schemas"]["JobConcurrency"] | null;
            /** @description The delegation's name, chosen by the parent's agent. */
            delegate_id?: string | null;
            /** @description Submissions with the same key and parameters are the same job (ARCP §7.2). */
            idempotency_key?: string | null;
            /** @description The input: any JSON. */
            input?: unknown;
            /** @description The intent that the job works for; its progress is shown there (beyond ARCP). */
            intent_id?: string | null;
            /** @description Texts by keys to find the job by: up to 16, such as `{"team": "billing"}` (beyond ARCP). */
            labels?: {
                [key: string]: unknown;
            } | null;
            lease_constraints?: components["schemas"]["LeaseConstraints"] | null;
            /** @description The permissions and budget of the job: patterns by namespace (ARCP §9.2). */
            lease_request?: {
                [key: string]: string[];
            } | null;
            /**
             * Format: int64
             * @description Seconds after its acceptance at which the job times out.
             */
            max_runtime_sec?: number | null;
            /** @description The delegating job. */
            parent_job_id?: string | null;
            /**
             * Format: int64
             * @description Jobs with a higher priority start first: -100 to 100 (beyond ARCP). Defaults to that of the delegating job, otherwise
             *     to 0.
             */
            priority?: number | null;
            /**
             * Format: int64
             * @description Seconds that the job may wait for a worker (beyond ARCP), each time that it waits; then it times out.
             */
            queue_timeout_sec?: number | null;
            retry?: components["schemas"]["JobRetry"] | null;
            /**
             * @description When the job may start, RFC 3339 (beyond ARCP): it is accepted at once and not claimed before. Its `max_runtime_sec`
             *     counts from then.
             */
            start_at?: string | null;
            "x-entente"?: components["schemas"]["JobSubmitBeyond"] | null;
        };
        /** @description The members of `job.submit` beyond ARCP, for clients that send them apart from ARCP's own. */
        JobSubmitBeyond: {
            /** @default null */
            concurrency: components["schemas"]["JobConcurrency"] | null;
            /** @description Same as the member `labels` of the request. */
            labels?: {
                [key: string]: unknown;
            } | null;
            /**
             * Format: int64
             * @description Same as the member `priority` of the request.
             * @default null
             */
            priority: number | null;
            /**
             * Format: int64
             * @description Same as the member `queue_timeout_sec` of the request.
             * @default null
             */
            queue_timeout_sec: number | null;
            /** @default null */
            retry: components["schemas"]["JobRetry"] | null;
            /**
             * @description Same as the member `start_at` of the request.
             * @default null
             */
            start_at: string | null;
        };
        /** @description A job in a list. */
        JobSummary: {
            /** @description The agent, with its resolved version. */
            agent: string;
            claim?: components["schemas"]["JobHolder"] | null;
            /** @description Cost of the job itself, by currency, without its children's. */
            cost?: {
                [key: string]: unknown;
            };
            /** @description When it was accepted. */
            created_at: string;
            /** @description When the job ended. */
            ended_at?: string | null;
            failure?: components["schemas"]["JobFailure"] | null;
            /** @description The job. */
            job_id: components["schemas"]["JobId"];
            /** @description Labels of the submission. */
            labels?: {
                [key: string]: string;
            };
            /**
             * Format: int64
             * @description The number of its last event, in the numbering of the submitting session.
             */
            last_event_seq: number;
            /** @description The permissions of the job. */
            lease: {
                [key: string]: unknown;
            };
            parent_job_id?: components["schemas"]["JobId"] | null;
            /** @description Agent that submitted the job; like the members below only for those who may see all of the job. */
            principal?: string | null;
            /**
             * Format: int32
             * @description Jobs with a higher priority start first; 0 is normal.
             */
            priority: number;
            rerun_of?: components["schemas"]["JobId"] | null;
            session_id?: components["schemas"]["SessionId"] | null;
            /** @description The status. */
            status: components["schemas"]["JobStatus"];
            /** @description The same, under the Python SDK's name. */
            submitted_at: string;
            /** @description The trace. */
            trace_id: string;
        };
        /** @description A job with all that it delegated, directly and through its children. */
        JobTree: {
            /** @description Number of jobs by status. */
            by_status: {
                [key: string]: number;
            };
            /** @description Whether the whole tree was read: of one with 10,000 jobs or more, numbers and sums are lower bounds. */
            complete: boolean;
            /** @description Number of jobs in the tree. */
            count: number;
            /** @description The jobs, parents before their children; the first is the root. */
            jobs: components["schemas"]["JobTreeNode"][];
            /** @description Cost of all jobs of the tree, by currency. */
            total_cost: {
                [key: string]: unknown;
            };
        };
        /** @description A job in a tree. */
        JobTreeNode: {
            /** @description Agent that runs it. */
            agent: string;
            /** @description Its own cost, by currency. */
            cost: {
                [key: string]: unknown;
            };
            /** @description When it was accepted. */
            created_at: string;
            /** @description Name of the delegation. */
            delegate_id?: string | null;
            /**
             * Format: int32
             * @description Number of its ancestors in the tree.
             */
            depth: number;
            /** @description When it ended. */
            ended_at?: string | null;
            /** @description The job. */
            job_id: components["schemas"]["JobId"];
            parent_job_id?: components["schemas"]["JobId"] | null;
            /** @description Its status. */
            status: components["schemas"]["JobStatus"];
            /** @description Cost of this job and all jobs below it, by currency. */
            total_cost: {
                [key: string]: unknown;
            };
        };
        /** @description Tasks become jobs, and the results of those jobs become the answers. */
        JobsBridge: {
            /** @description The agent that runs the jobs: a name, or `name@version`. */
            agent: string;
            /** @description The entity that receives the tasks and sends the answers. */
            entity: string;
            /** @description The input of the jobs. */
            input?: components["schemas"]["Input"];
            intent_id?: components["schemas"]["IntentId"] | null;
            /** @description The entity's intents to convert: patterns over dotted names. */
            intents: string[];
            /** @enum {string} */
            kind: "jobs";
            /** @description The lease of the jobs, that is their permissions and budget: patterns by namespace (ARCP §9.2). */
            lease?: {
                [key: string]: string[];
            } | null;
        };
        /** @description A bridge. */
        KeptBridge: {
            /** @description The agent or entity the bridge acts as. */
            acts_as: string;
            /** @description The traffic it carries. */
            bridge: components["schemas"]["Bridge"];
            /** @description When it was set up. */
            created_at: string;
            /** @description The principal whose key gives the bridge its permissions. */
            created_by: string;
            /** @description The bridge's name. */
            name: string;
            /**
             * Format: int64
             * @description Number of the last item processed in the bridge's mailbox or channel; for a bus, the transaction's number.
             */
            place: number;
            /** @description Why the bridge is paused; null while it runs. */
            problem?: string | null;
        };
        /** @description An envelope with the gateway's metadata. */
        KeptEnvelope: {
            /** @description Until when a response to the task counts. */
            deadline?: string | null;
            /** @description The priority used for its delivery. */
            effective_priority: components["schemas"]["Priority"];
            /** @description The envelope as received. */
            envelope: {
                [key: string]: unknown;
            };
            /** @description The envelope that the gateway derived this one from. */
            original_id?: string | null;
            /** @description When it was accepted. */
            received_at: string;
            /** @description The evidence for its sender's identity. */
            verified: components["schemas"]["EnvelopeVerified"];
            /** @description Deviations that were tolerated. */
            warnings: components["schemas"]["Warning"][];
        };
        /** @description A stored line. */
        KeptLine: {
            /** @description The line, byte for byte. */
            line: {
                [key: string]: unknown;
            };
            /** @description When it was received. */
            received_at: components["schemas"]["WireTime"];
            /**
             * Format: int64
             * @description The line's number; increases with each line.
             */
            seq: number;
        };
        /** @description The record of an API key. */
        KeyBody: {
            /** @description Agents that the key may act as, besides its principal; `*` matches any run of characters. */
            act_as: string[];
            authority?: components["schemas"]["Authority"] | null;
            /** @description When the key was created. */
            created_at: components["schemas"]["WireTime"];
            /** @description Principal that created the key. */
            created_by: string;
            dialect?: components["schemas"]["Dialect"] | null;
            expires_at?: components["schemas"]["WireTime"] | null;
            /** @description Id of the record. */
            id: components["schemas"]["KeyId"];
            /** @description Label of the key's purpose. */
            label?: string | null;
            last_used_at?: components["schemas"]["WireTime"] | null;
            /** @description Public part of the key, by which keys can be told apart. */
            prefix: string;
            /** @description The principal that owns the key. */
            principal_id: string;
            /**
             * Format: int32
             * @description Requests per second; null uses the server's setting, 0 means no limit.
             */
            rate_per_second?: number | null;
            revoked_at?: components["schemas"]["WireTime"] | null;
            rotated_from?: components["schemas"]["KeyId"] | null;
            /** @description Scopes that the key grants. */
            scopes: components["schemas"]["Scope"][];
        };
        /** @description `key_` and a ULID */
        KeyId: string;
        /** @description The reason for a revocation. */
        KeyRevocation: {
            /** @description The reason. */
            reason?: string | null;
        };
        /** @description A key rotation. Other members may be added; they are signed too. */
        KeyRotation: {
            /** @description Always `rotate`. */
            action: string;
            key_expires_at?: components["schemas"]["GivenTime"] | null;
            /** @description The new key. */
            new_public_key: string;
            /** @description The new key's signature over the same, as proof of possession. */
            new_signature?: string | null;
            /** @description The current key. */
            old_public_key: string;
            /** @description The old key's signature over the canonical form of the body without its signatures. */
            signature: string;
        };
        /** @description A key of an agent. */
        KeySpan: {
            /** @description The same key as a decentralised identifier. */
            did: string;
            ended_at?: components["schemas"]["WireTime"] | null;
            ended_by?: components["schemas"]["End"] | null;
            expires_at?: components["schemas"]["WireTime"] | null;
            /** @description The public key. */
            public_key: string;
            /** @description The key's lifecycle status. */
            status: components["schemas"]["KeyStatus"];
            /** @description When the key became valid. */
            valid_from: components["schemas"]["WireTime"];
        };
        /**
         * @description The stage of a key's lifecycle.
         * @enum {string}
         */
        KeyStatus: "active" | "expired" | "revoked" | "superseded";
        /**
         * @description Kind of a principal.
         * @enum {string}
         */
        Kind: "human" | "agent" | "service";
        /** @description A lease. */
        Lease: {
            /** @description When the lease was acquired. */
            acquired_at: components["schemas"]["WireTime"];
            /** @description Agent that holds the lease. */
            agent_id: string;
            /** @description The same time, under the name that the SDK uses. */
            created_at: components["schemas"]["WireTime"];
            /** @description When the lease ends; it holds nothing from that instant on. */
            expires_at: components["schemas"]["WireTime"];
            /**
             * Format: int64
             * @description Increases with every lease on the intent: of two holders of a scope, the later has the larger token.
             */
            fencing_token: number;
            /** @description Lease id. */
            id: components["schemas"]["LeaseId"];
            /** @description The intent. */
            intent_id: components["schemas"]["IntentId"];
            released_at?: components["schemas"]["WireTime"] | null;
            /** @description The scope, as the holder wrote it. */
            scope: string;
            /** @description Status of the lease. */
            status: components["schemas"]["LeaseStatus"];
        };
        /** @description The `lease_constraints` of a job. */
        LeaseConstraints: {
            /** @description When the lease ends: RFC 3339, UTC with `Z`, in the future. */
            expires_at?: string | null;
        };
        /** @description The response to a release. */
        LeaseEnd: {
            /** @description The lease. */
            lease: components["schemas"]["Lease"];
            /** @description Message for people. */
            message: string;
        };
        /** @description `lease_` and a ULID */
        LeaseId: string;
        /** @description The leases on an intent. */
        LeaseList: {
            /** @description The leases, oldest first. */
            leases: components["schemas"]["Lease"][];
        };
        /** @description The queue for leases on an intent. */
        LeaseQueue: {
            /** @description The waiting requests; the first one has the first turn. */
            waiting: components["schemas"]["LeaseWait"][];
        };
        /** @description Options of a lease renewal. */
        LeaseRenewal: {
            /**
             * Format: int64
             * @description Duration from now: 1 to 604,800 seconds; defaults to 300.
             */
            duration_seconds?: number | null;
        };
        /**
         * @description The stage of a lease's lifecycle; clients know no others (OI-3.7.2).
         * @enum {string}
         */
        LeaseStatus: "active" | "released" | "expired" | "revoked";
        /** @description A request that waits for a lease. */
        LeaseWait: {
            /** @description Agent that waits. */
            agent_id: string;
            /** @description The scope that it waits for, as it wrote it. */
            scope: string;
            /** @description Since when it waits. */
            since: components["schemas"]["WireTime"];
        };
        /** @description The leases on an intent, oldest first: an object, or a bare array on request. */
        Leases: components["schemas"]["LeaseList"] | components["schemas"]["Lease"][];
        /**
         * @description An access level (`permission` on the wire); each level includes the ones before it.
         * @enum {string}
         */
        Level: "read" | "write" | "admin";
        /** @description The outcome for one line. */
        LineOutcome: {
            error?: components["schemas"]["ProblemBody"] | null;
            /** @description The line's index in the body, from 0; blank lines count. */
            index: number;
            /** @description Whether the line was stored. */
            ok: boolean;
        };
        /** @description A message and all that followed from it. */
        Lineage: {
            /** @description Agents that sent some, up to 64; people are not counted in. */
            agents: string[];
            cause?: components["schemas"]["LoopCause"] | null;
            /** @description When the first message was sent. */
            first_at: components["schemas"]["WireTime"];
            /**
             * Format: int64
             * @description The most hops from the first message to any other.
             */
            hops: number;
            /** @description Its id. */
            id: components["schemas"]["LineageId"];
            /** @description The intent. */
            intent_id: components["schemas"]["IntentId"];
            /** @description When the last message was sent. */
            last_at: components["schemas"]["WireTime"];
            /**
             * Format: int64
             * @description Number of messages.
             */
            messages: number;
            /** @description The last 64 pairs that talked, the latest at the end. */
            pairs: components["schemas"]["LineagePair"][];
            /**
             * Format: int64
             * @description Of the last 16 messages, those that repeat an earlier one.
             */
            repeats: number;
            /** @description Its first message. */
            root: components["schemas"]["LineageRoot"];
            /** @description `running`, `told`, `slowed`, `stopped`; or `ended`: it was stopped, and its agents have something else to do. */
            state: components["schemas"]["LineageState"];
        };
        /** @description `lin_` and a ULID */
        LineageId: string;
        /** @description A page of lineages. */
        LineageList: {
            /** @description The lineages, newest first. */
            lineages: components["schemas"]["Lineage"][];
        };
        /** @description Messages of one agent to another, or to everybody (`*`). */
        LineagePair: {
            /** @description The sender. */
            from: string;
            /**
             * Format: int64
             * @description Number of messages.
             */
            messages: number;
            /** @description The recipient. */
            to: string;
        };
        /** @description The first message of a lineage. */
        LineageRoot: {
            /** @description Its channel. */
            channel_id: components["schemas"]["ChannelId"];
            /** @description Its id. */
            message_id: components["schemas"]["MessageId"];
            /** @description Who sent it. */
            sender: string;
        };
        /**
         * @description State of a lineage.
         * @enum {string}
         */
        LineageState: "running" | "told" | "slowed" | "stopped" | "ended";
        /** @description The outcome for all lines. */
        LinesReply: {
            /** @description Number of lines stored. */
            kept: number;
            /** @description Number of lines refused. */
            refused: number;
            /** @description The outcome of each line, in the order of the body. */
            results: components["schemas"]["LineOutcome"][];
        };
        /** @description A one-time link to create. */
        Link: {
            /** @description Whether a login with this link also covers operations that need the scope `admin`. */
            admin?: boolean;
            /**
             * Format: int32
             * @description Seconds until the unopened link expires: up to a week; defaults to one day.
             */
            expires_in?: number | null;
            /** @description The page that the link opens; defaults to the inbox. */
            leads_to?: string | null;
        };
        /**
         * @description Severity of a lint.
         * @enum {string}
         */
        LintLevel: "info" | "warn";
        /** @description The log filter of a server's process. */
        LogFilter: {
            /** @description The configured filter (`ENTENTE_LOG`). */
            configured: string;
            /** @description The filter in force. */
            filter: string;
            /**
             * Format: int64
             * @description Seconds until the configured filter is in force again; null if it is.
             */
            seconds_left?: number | null;
        };
        /**
         * @description Action of the server against a loop or a storm. A later one includes the earlier ones.
         * @enum {string}
         */
        LoopAction: "tell" | "slow" | "stop";
        /**
         * @description Reason why a lineage counts as a loop or a storm.
         * @enum {string}
         */
        LoopCause: "loop" | "lineage_rate" | "pair_rate" | "fan_out";
        /** @description Limits that define loops and storms, and the steps against them. */
        LoopPolicy: {
            /**
             * @description Whether an agent may also act because of another's message to everybody on the intent. Without it, agents that
             *     announce the same thing again and again are no loop; a person's message to everybody reaches each in any case.
             */
            broadcasts: boolean;
            /** @description Whether loops and storms are looked for. */
            enabled: boolean;
            /**
             * Format: int32
             * @description Messages that one agent sends because of one message, above which they are a storm; 0 for no limit.
             */
            fan_out: number;
            /**
             * Format: int32
             * @description Hops of a lineage from which on it may be a loop.
             */
            hops: number;
            /**
             * Format: int32
             * @description Messages of one lineage within a minute above which they are a storm; 0 for no limit.
             */
            lineage_per_minute: number;
            /** @description Steps against a loop, one after the other. */
            loop_steps: components["schemas"]["LoopAction"][];
            /**
             * Format: int32
             * @description Messages of one agent to another, in one lineage within a minute, above which they are a storm; 0 for no limit.
             */
            pair_per_minute: number;
            /**
             * Format: int32
             * @description Messages of the lineage from one step to the next, if it goes on.
             */
            patience: number;
            /**
             * Format: int32
             * @description How many of its last 16 messages repeat an earlier one, in a loop.
             */
            repeats: number;
            /**
             * Format: int32
             * @description Seconds between two messages of an agent that is slowed.
             */
            slow_seconds: number;
            /** @description Steps against a storm, one after the other. */
            storm_steps: components["schemas"]["LoopAction"][];
            /**
             * Format: int32
             * @description Seconds within which an agent acts because of a message that it was sent. After them it begins a new lineage.
             */
            window_seconds: number;
        };
        /** @description A policy as it is written: missing and null members are the server's. */
        LoopPolicyAsk: {
            /** @description As in the policy. */
            broadcasts?: boolean | null;
            /** @description Whether loops and storms are looked for. */
            enabled?: boolean | null;
            /**
             * Format: int32
             * @description As in the policy: up to a million.
             */
            fan_out?: number | null;
            /**
             * Format: int32
             * @description As in the policy: 2 to 10,000.
             */
            hops?: number | null;
            /**
             * Format: int32
             * @description As in the policy: up to a million.
             */
            lineage_per_minute?: number | null;
            /** @description As in the policy: some of `tell`, `slow`, `stop`, in this order. */
            loop_steps?: components["schemas"]["LoopAction"][] | null;
            /**
             * Format: int32
             * @description As in the policy: up to a million.
             */
            pair_per_minute?: number | null;
            /**
             * Format: int32
             * @description As in the policy: 1 to 10,000.
             */
            patience?: number | null;
            /**
             * Format: int32
             * @description As in the policy: 2 to 16.
             */
            repeats?: number | null;
            /**
             * Format: int32
             * @description As in the policy: 1 to 3,600.
             */
            slow_seconds?: number | null;
            /** @description As in the policy: some of `tell`, `slow`, `stop`, in this order. */
            storm_steps?: components["schemas"]["LoopAction"][] | null;
            /**
             * Format: int32
             * @description As in the policy: 10 to 86,400.
             */
            window_seconds?: number | null;
        };
        /** @description A newly created entry. */
        MadeMemoryEntry: {
            /** @description Agent that owns the entry. */
            agent_id: string;
            archived_at?: components["schemas"]["WireTime"] | null;
            /** @description When the entry was created. */
            created_at: components["schemas"]["WireTime"];
            /** @description Agent that last corrected the entry, for `semantic` memory. */
            curated_by?: string | null;
            /** @description The entries that were evicted for it. */
            evicted: components["schemas"]["EvictedMemory"][];
            expires_at?: components["schemas"]["WireTime"] | null;
            /** @description Entry id. */
            id: components["schemas"]["MemoryId"];
            /** @description Key, unique in the namespace. */
            key: string;
            /** @description Kind of memory. */
            memory_type: components["schemas"]["MemoryType"];
            /** @description Namespace, private to its agent. */
            namespace: string;
            /** @description Whether the entry is exempt from eviction. */
            pinned: boolean;
            /** @description Priority against eviction. */
            priority: components["schemas"]["MemoryPriority"];
            scope?: components["schemas"]["MemoryScope"] | null;
            sensitivity?: components["schemas"]["MemorySensitivity"] | null;
            /** @description The entry's tags. */
            tags: string[];
            /** @description Lifetime, as the client wrote it. */
            ttl?: string | null;
            /** @description When the entry last changed. */
            updated_at: components["schemas"]["WireTime"];
            /** @description Agent that made the last change. */
            updated_by: string;
            /** @description The value. */
            value: {
                [key: string]: unknown;
            };
            /**
             * Format: int64
             * @description Version that guards writes: send it in `If-Match`.
             */
            version: number;
        };
        /** @description The progress of a mailbox. */
        Mailbox: {
            /**
             * Format: int64
             * @description Every envelope up to this number has been acknowledged.
             */
            acked_seq: number;
            /** @description Entity that owns the mailbox. */
            entity: string;
            /**
             * Format: int64
             * @description Number of the last envelope in the mailbox.
             */
            last_seq: number;
        };
        /** @description The envelopes to acknowledge; exactly one of the two fields. */
        MailboxAck: {
            /** @description The envelopes with these numbers. */
            seqs?: number[] | null;
            /**
             * Format: int64
             * @description Every envelope up to this number.
             */
            up_to?: number | null;
        };
        /** @description An envelope in a mailbox. */
        MailboxItem: {
            /** @description Until when a response to the task counts. */
            deadline?: string | null;
            /** @description The priority used for its delivery. */
            effective_priority: components["schemas"]["Priority"];
            /** @description The envelope as received. */
            envelope: {
                [key: string]: unknown;
            };
            /** @description End of the hold by the client that picked the envelope. */
            held_until?: string | null;
            /** @description The envelope that the gateway derived this one from. */
            original_id?: string | null;
            /** @description When it was accepted. */
            received_at: string;
            /**
             * Format: int64
             * @description Number of the envelope in the mailbox.
             */
            seq: number;
            /** @description The evidence for its sender's identity. */
            verified: components["schemas"]["EnvelopeVerified"];
            /** @description Deviations that were tolerated. */
            warnings: components["schemas"]["Warning"][];
        };
        /** @description A page of a mailbox. */
        MailboxPage: {
            /**
             * Format: int64
             * @description Every envelope up to this number has been acknowledged.
             */
            acked_seq: number;
            /** @description Entity that owns the mailbox. */
            entity: string;
            /** @description The envelopes, in order of arrival. */
            items: components["schemas"]["MailboxItem"][];
            /**
             * Format: int64
             * @description Number of the last envelope in the mailbox.
             */
            last_seq: number;
            /**
             * Format: int64
             * @description Number of the last envelope on this page: `after` of the next page.
             */
            next_after: number;
        };
        /** @description Options of a pick. */
        MailboxPick: {
            /**
             * Format: int32
             * @description Seconds for which other clients cannot pick these envelopes: 0 to 3,600; defaults to 60.
             *
             *     Acknowledge them within this time.
             */
            hold_sec?: number | null;
            /**
             * Format: int32
             * @description Maximum number of envelopes: 1 to 100; defaults to 1.
             */
            max?: number | null;
        };
        /**
         * @description The rule that decides which agents may take part in a channel (RFC-0021 §1.2).
         * @enum {string}
         */
        MemberPolicy: "explicit" | "intent";
        /** @description `mem_` and a ULID */
        MembershipId: string;
        /**
         * @description Role of an intent in a portfolio.
         * @enum {string}
         */
        MembershipRole: "primary" | "member" | "dependency";
        /** @description A change of an entry; missing fields stay unchanged. */
        MemoryChange: {
            expires_at?: components["schemas"]["WireTime"] | null;
            /** @description Whether the entry is exempt from eviction. */
            pinned?: boolean | null;
            priority?: components["schemas"]["MemoryPriority"] | null;
            sensitivity?: components["schemas"]["MemorySensitivity"] | null;
            /** @description The complete new list of tags. */
            tags?: string[] | null;
            ttl?: components["schemas"]["NumberOrText"] | null;
            /** @description The whole new value. */
            value?: {
                [key: string]: unknown;
            } | null;
        };
        /** @description An entry of an agent's memory. */
        MemoryEntry: {
            /** @description Agent that owns the entry. */
            agent_id: string;
            archived_at?: components["schemas"]["WireTime"] | null;
            /** @description When the entry was created. */
            created_at: components["schemas"]["WireTime"];
            /** @description Agent that last corrected the entry, for `semantic` memory. */
            curated_by?: string | null;
            expires_at?: components["schemas"]["WireTime"] | null;
            /** @description Entry id. */
            id: components["schemas"]["MemoryId"];
            /** @description Key, unique in the namespace. */
            key: string;
            /** @description Kind of memory. */
            memory_type: components["schemas"]["MemoryType"];
            /** @description Namespace, private to its agent. */
            namespace: string;
            /** @description Whether the entry is exempt from eviction. */
            pinned: boolean;
            /** @description Priority against eviction. */
            priority: components["schemas"]["MemoryPriority"];
            scope?: components["schemas"]["MemoryScope"] | null;
            sensitivity?: components["schemas"]["MemorySensitivity"] | null;
            /** @description The entry's tags. */
            tags: string[];
            /** @description Lifetime, as the client wrote it. */
            ttl?: string | null;
            /** @description When the entry last changed. */
            updated_at: components["schemas"]["WireTime"];
            /** @description Agent that made the last change. */
            updated_by: string;
            /** @description The value. */
            value: {
                [key: string]: unknown;
            };
            /**
             * Format: int64
             * @description Version that guards writes: send it in `If-Match`.
             */
            version: number;
        };
        /** @description A change to an agent's memory. */
        MemoryEvent: {
            /** @description When the change was made. */
            changed_at: components["schemas"]["WireTime"];
            /** @description Agent that made the change. */
            changed_by: string;
            /** @description Id of the changed entry. */
            entry_id: components["schemas"]["MemoryId"];
            /** @description Key of the entry. */
            key: string;
            /** @description Kind of memory. */
            memory_type: components["schemas"]["MemoryType"];
            /** @description Namespace of the entry. */
            namespace: string;
            /**
             * Format: int64
             * @description Number of the change, gapless per agent.
             */
            number: number;
            /**
             * Format: int64
             * @description Version of the entry at that time.
             */
            version: number;
            /** @description `created`, `updated`, `deleted`, `evicted`, `expired`. */
            what: string;
        };
        /** @description `mem_` and a ULID */
        MemoryId: string;
        /**
         * @description Eviction priority: among evictable entries, lower priorities are evicted first.
         * @enum {string}
         */
        MemoryPriority: "low" | "normal" | "high";
        /** @description The task or intent that a memory entry belongs to. */
        MemoryScope: {
            intent_id?: components["schemas"]["IntentId"] | null;
            task_id?: components["schemas"]["TaskId"] | null;
        };
        /**
         * @description Sensitivity of an entry; the first three levels are labels for its readers.
         * @enum {string}
         */
        MemorySensitivity: "public" | "internal" | "confidential" | "restricted";
        /**
         * @description Type of a memory entry (RFC-0015).
         * @enum {string}
         */
        MemoryType: "working" | "episodic" | "semantic";
        /** @description The current or an earlier version of an entry. */
        MemoryVersion: {
            /** @description When this version was written. */
            changed_at: components["schemas"]["WireTime"];
            /** @description Agent that wrote this version. */
            changed_by: string;
            expires_at?: components["schemas"]["WireTime"] | null;
            /** @description Whether the entry was exempt from eviction. */
            pinned: boolean;
            /** @description Priority against eviction. */
            priority: components["schemas"]["MemoryPriority"];
            sensitivity?: components["schemas"]["MemorySensitivity"] | null;
            /** @description Tags in this version. */
            tags: string[];
            /** @description Lifetime, as the client wrote it. */
            ttl?: string | null;
            /** @description Value in this version. */
            value: {
                [key: string]: unknown;
            };
            /**
             * Format: int64
             * @description Version number.
             */
            version: number;
        };
        /** @description A message. */
        MessageBody: {
            /** @description The channel. */
            channel_id: components["schemas"]["ChannelId"];
            correlation_id?: components["schemas"]["MessageId"] | null;
            /** @description When the message was sent. */
            created_at: components["schemas"]["WireTime"];
            expires_at?: components["schemas"]["WireTime"] | null;
            /** @description Message id; also the cursor that continues after the message. */
            id: components["schemas"]["MessageId"];
            /** @description Type of the message. */
            message_type: components["schemas"]["MessageType"];
            /** @description Hints for routing and tracing; null if there are none, in strict mode `{}`. */
            metadata?: {
                [key: string]: unknown;
            } | null;
            /** @description Content of the message. */
            payload: {
                [key: string]: unknown;
            };
            read_at?: components["schemas"]["WireTime"] | null;
            /** @description Agent that sent the message. */
            sender: string;
            /** @description Status of the message. */
            status: components["schemas"]["MessageStatus"];
            /** @description Addressee: an agent, `role:…`, `*`, or null if the message is not directed. */
            to?: string | null;
        };
        /** @description `msg_` and a ULID */
        MessageId: string;
        /**
         * @description Delivery status of a message (RFC-0021 §2.5).
         * @enum {string}
         */
        MessageStatus: "pending" | "delivered" | "read" | "expired";
        /** @description A new status of a message. */
        MessageStatusChange: {
            /** @description New status; only `read` can be set. */
            status: components["schemas"]["MessageStatus"];
        };
        /**
         * @description Purpose of a message (RFC-0021 §2.3).
         * @enum {string}
         */
        MessageType: "request" | "response" | "notify" | "broadcast";
        /** @description Additional information about a question. */
        Meta: {
            /** @description Correction of the agent's earlier framing of the matter. */
            calibration_note?: string | null;
            /** @description Class of the decision, named by the asking agent. */
            decision_class?: string | null;
        };
        /** @description Envelopes are shown on a channel. */
        MirrorBridge: {
            /** @description Alternatively the bus (`bus.…`) to mirror. */
            bus?: string | null;
            /** @description The channel of an intent. */
            channel_id: components["schemas"]["ChannelId"];
            /** @description The entity to mirror the mailbox of. */
            entity?: string | null;
            /** @enum {string} */
            kind: "mirror";
        };
        /** @description A question to a person, or a deliberation with one, and its outcome. */
        Moment: {
            acknowledged_at?: components["schemas"]["WireTime"] | null;
            /** @description Agent that asks. */
            agent_id: string;
            binding_moment?: components["schemas"]["Brief"] | null;
            /** @description Correlation id chosen by the agent. */
            corr?: string | null;
            /** @description When the moment was created. */
            created_at: components["schemas"]["WireTime"];
            /** @description Class of the decision. */
            decision_class?: string | null;
            /** @description Same as `envelope_digest`. */
            digest?: string | null;
            /** @description Reason for the withdrawal or closing. */
            end_reason?: string | null;
            ended_at?: components["schemas"]["WireTime"] | null;
            /** @description SHA-256 over the canonical slots (RFC 8785), which an answer must name. */
            envelope_digest?: string | null;
            escalation?: components["schemas"]["MomentEscalation"] | null;
            expires_at?: components["schemas"]["WireTime"] | null;
            /** @description Text for clients that cannot display the slots. */
            fallback_text?: string | null;
            first_viewed_at?: components["schemas"]["WireTime"] | null;
            /** @description Justification for a closed hatch. */
            hatch_justification?: string | null;
            /** @description Whether the person may answer in their own words, and refuse the question. */
            hatches: components["schemas"]["Hatches"];
            /** @description Moment id. */
            id: components["schemas"]["MomentId"];
            intent_id?: components["schemas"]["IntentId"] | null;
            job?: components["schemas"]["MomentJob"] | null;
            job_id?: components["schemas"]["JobId"] | null;
            /** @description Remarks of the linter on the question; not part of it. */
            lints: components["schemas"]["MomentLint"][];
            /** @description Why the stored slots cannot be read, if so; they are then omitted, and the moment cannot be answered. */
            malformed?: string | null;
            /** @description Same as `id`. */
            moment_id: components["schemas"]["MomentId"];
            /** @description How the objection to the replaced question was addressed. */
            objection_response?: string | null;
            /** @description Person to whom the question is addressed. */
            principal_id: string;
            /** @description Revision of the specification that the slots follow. */
            profile: string;
            resolution?: components["schemas"]["MomentResolution"] | null;
            scrubbed_at?: components["schemas"]["WireTime"] | null;
            /** @description State of the moment. */
            state: components["schemas"]["MomentState"];
            superseded_by?: components["schemas"]["MomentId"] | null;
            supersedes?: components["schemas"]["MomentId"] | null;
            /** @description State of the job or intent in which an answer is valid. */
            valid_while: components["schemas"]["ValidWhile"];
            /**
             * Format: int64
             * @description Version, which grows with every change.
             */
            version: number;
            /** @description The messages, oldest first; omitted in lists, unless there are none. */
            words?: components["schemas"]["MomentWord"][] | null;
            /** @description Number of messages. */
            words_count: number;
        };
        /** @description An answer. */
        MomentAnswer: {
            /** @description Digest of the question that the person saw. */
            envelope_digest: string;
            /** @description One of the three kinds of resolution. */
            resolution: components["schemas"]["Resolution"];
        };
        /** @description The escalation of a moment to a second person. */
        MomentEscalation: {
            /** @description When the escalation takes effect. */
            at: components["schemas"]["WireTime"];
            /** @description The second person. */
            to: string;
            told_at?: components["schemas"]["WireTime"] | null;
        };
        /** @description `bm_` and a ULID */
        MomentId: string;
        /** @description State of the job that waits for a moment. */
        MomentJob: {
            deadline?: components["schemas"]["WireTime"] | null;
            lease_expires_at?: components["schemas"]["WireTime"] | null;
            /** @description Status of the job. */
            status?: string | null;
        };
        /** @description A remark about a question, made when it was asked. */
        MomentLint: {
            /** @description JSON Pointer to the place in the question. */
            at: string;
            /** @description Stable code of the remark. */
            code: string;
            /** @description Severity. */
            level: components["schemas"]["LintLevel"];
            /** @description Explanation in plain words. */
            note: string;
        };
        /** @description A page of moments. */
        MomentList: {
            /** @description The moments. */
            moments: components["schemas"]["Moment"][];
            next_cursor?: components["schemas"]["MomentId"] | null;
        };
        /** @description Quality rates of an agent's questions. */
        MomentRates: {
            /** @description Agent. */
            agent_id: string;
            /** @description Number of answered questions among them. */
            answered: number;
            /** @description Number of questions examined. */
            asked: number;
            /** @description Questions with a calibration note among the last 50; flagged above 20 % of at least 10. */
            calibration_notes: components["schemas"]["Rate"];
            /** @description The decision class of the questions; null for all questions. */
            decision_class?: string | null;
            /** @description Questions with a closed hatch among the last 50; flagged above 20 % of at least 10. */
            hatches_closed: components["schemas"]["Rate"];
            /** @description Number of near duplicates of refused questions among them. */
            near_duplicates: number;
            /** @description Refused questions among the last 20 that were answered and could be refused; flagged above 25 % of at least 10. */
            refused: components["schemas"]["Rate"];
        };
        /** @description Reason for withdrawing or closing a moment. */
        MomentReason: {
            /** @description The reason, as free text. */
            reason?: string | null;
        };
        /** @description An answer. */
        MomentResolution: {
            /** @description Answer in the person's own words. */
            answer?: string | null;
            authority?: components["schemas"]["Authority"] | null;
            /** @description The key used for the answer. */
            key_id: components["schemas"]["KeyId"];
            /** @description Kind of the answer. */
            kind: components["schemas"]["ResolutionKind"];
            /** @description The person's objection to the question. */
            objection?: string | null;
            /** @description Index of the chosen option, from 0. */
            option_idx?: number | null;
            /** @description When the question was answered. */
            resolved_at: components["schemas"]["WireTime"];
            /** @description The answering person. */
            resolved_by: string;
            /** @description Interface through which the question was answered. */
            resolved_via: components["schemas"]["Via"];
        };
        /**
         * @description State of a moment.
         * @enum {string}
         */
        MomentState: "open" | "deliberating" | "resolved" | "withdrawn" | "expired" | "superseded" | "closed";
        /** @description A warning about a new question that is not a fault of it. */
        MomentWarning: {
            /** @description Stable code of the warning. */
            code: string;
            /** @description Explanation in plain words. */
            note: string;
        };
        /** @description A message of a moment. */
        MomentWord: {
            /** @description Author of the message. */
            author: string;
            /** @description Kind of message. */
            kind: components["schemas"]["WordKind"];
            /**
             * Format: int32
             * @description Position in the thread, from 1.
             */
            n: number;
            /** @description When the message was written. */
            said_at: components["schemas"]["WireTime"];
            /** @description The text; null once the contents have been scrubbed. */
            text?: string | null;
        };
        /** @description An access request to make. */
        NewAccessRequest: {
            /** @description The principal's capabilities. */
            capabilities?: string[];
            /** @description The principal that asks for access; defaults to the acting agent. */
            principal_id?: string | null;
            /** @description The kind of principal; defaults to `agent`. */
            principal_type?: string | null;
            /** @description Why access is needed. */
            reason?: string;
            requested_permission?: components["schemas"]["Level"] | null;
        };
        /** @description A session to open. */
        NewAgentSession: {
            /** @description Whether every write of the agent has to name its epoch from now on; absent leaves that as it is, at first no. */
            strict?: boolean | null;
        };
        /** @description A witness's receipt for a checkpoint. */
        NewAnchor: {
            anchored_at?: components["schemas"]["GivenTime"] | null;
            /** @description The witness. */
            provider: string;
            /** @description Where the witness publishes the receipt. */
            reference?: string;
            /** @description The receipt itself, as text. */
            timestamp_proof?: string;
            /** @description The kind of witness; defaults to `external-timestamp`. */
            type?: string | null;
        };
        /** @description A request for arbitration to make. */
        NewArbitration: {
            /** @description Context for the arbiter. */
            context?: {
                [key: string]: unknown;
            } | null;
            /** @description The options to choose from. */
            options?: unknown[] | null;
            /** @description Why arbitration is needed. */
            reason: string;
            /** @description The agent that asks; defaults to the acting agent. */
            requested_by?: string | null;
        };
        /** @description A file to attach. */
        NewAttachment: {
            /** @description The file's digest, such as `sha256:` and hexadecimal digits. */
            content_hash?: string | null;
            /** @description The file's name, without a path. */
            filename: string;
            /** @description Client-defined metadata. */
            metadata?: {
                [key: string]: unknown;
            } | null;
            /** @description The media type; defaults to `application/octet-stream`. Also accepted as `content_type`. */
            mime_type?: string | null;
            /**
             * Format: int64
             * @description The size in bytes. Also accepted as `size_bytes`.
             */
            size?: number | null;
            /** @description The file's URL, with the scheme `https`, `http`, `s3`, `gs` or `az`. Also accepted as `url`. */
            storage_url: string;
        };
        /** @description A budget to create. */
        NewBudget: {
            /** @description The limit of each window. */
            limit: components["schemas"]["NumberOrText"];
            /** @description Its name; defaults to a description. */
            name?: string | null;
            /** @description Whose spending it limits: `system`, `team:NAME`, `principal:NAME`, `agent:NAME`, `intent:ID` or `key:ID`. */
            scope: string;
            /** @description Shares of the limit, and the consequences of spending them. */
            thresholds?: components["schemas"]["BudgetThreshold"][];
            /** @description IANA time zone in which its windows begin; defaults to UTC. */
            time_zone?: string | null;
            /** @description The unit: a currency, `tokens` …. Costs in other units are not charged to it. */
            unit: string;
            /** @description How often it begins anew; defaults to `total`. */
            window?: components["schemas"]["BudgetWindow"];
        };
        /** @description A channel to open. */
        NewChannel: {
            member_policy?: components["schemas"]["MemberPolicy"] | null;
            /** @description The members to list. */
            members?: string[];
            /** @description The channel's name. */
            name: string;
            /** @description `audit`, `ttl_seconds`, `max_messages`. */
            options?: {
                [key: string]: unknown;
            } | null;
            /** @description The task to scope it to. */
            task_id?: string | null;
        };
        /** @description The log to take a checkpoint of, named by one of the two members. */
        NewCheckpoint: {
            /** @description The intent whose log to use. */
            intent_id?: string | null;
            scope?: components["schemas"]["CheckpointScope"] | null;
        };
        /** @description A contact point to create. */
        NewContactPoint: {
            /**
             * @description A mail address; the URL of an incoming webhook of Slack or of a workflow of Teams; the URL of an ntfy server with the
             *     topic; the endpoint of a browser's push subscription.
             */
            address: string;
            /** @description Kind. */
            kind: components["schemas"]["ContactKind"];
            /** @description A name for it. */
            label?: string | null;
            push_keys?: components["schemas"]["PushKeys"] | null;
            /** @description The topics it is told of, when, and whether with quotes. */
            settings?: components["schemas"]["ContactSettings"];
        };
        /** @description An appointment to make. */
        NewCoordinator: {
            /** @description The agent to appoint. */
            agent_id: string;
            /** @description The kind of coordinator; defaults to `llm`. */
            coordinator_type?: components["schemas"]["CoordinatorType"];
            /**
             * Format: int32
             * @description Maximum duration of the appointment in seconds; `expires_at` takes precedence.
             */
            duration_seconds?: number | null;
            expires_at?: components["schemas"]["GivenTime"] | null;
            /** @description The guardrails (RFC-0013 §3). */
            guardrails?: {
                [key: string]: unknown;
            } | null;
            /**
             * Format: int32
             * @description Seconds between heartbeats, 1 to 86,400; defaults to 60.
             */
            heartbeat_interval_seconds?: number | null;
            /** @description The intent. */
            intent_id?: string | null;
            /** @description Client-defined metadata. */
            metadata?: {
                [key: string]: unknown;
            } | null;
            /** @description Not supported for portfolios; appoint a coordinator to each of their intents. */
            portfolio_id?: string | null;
            /** @description The current coordinator in this role, to be replaced. */
            replaces?: string | null;
            /**
             * @description The role, held by one agent at a time; defaults to `coordinator`, which manages the intent's channels and
             *     tasks.
             */
            role?: string | null;
            /** @description Only `intent` is supported. */
            scope?: string | null;
            /** @description The agent that supervises the coordinator; defaults to the agent that makes the appointment. */
            supervisor_id?: string | null;
        };
        /** @description A coordinator's decision to record. */
        NewCoordinatorDecision: {
            /** @description The alternatives that were considered. */
            alternatives_considered?: {
                [key: string]: unknown;
            }[] | null;
            /**
             * Format: double
             * @description The coordinator's confidence, 0 to 1.
             */
            confidence?: number | null;
            /** @description The appointment, or the appointed agent. */
            coordinator_id: string;
            /** @description The kind of decision. */
            decision_type: components["schemas"]["CoordinatorDecisionType"];
            /** @description The intent. */
            intent_id?: string | null;
            /** @description The reasoning behind it. */
            rationale?: string;
            /** @description The decision in brief. */
            summary: string;
        };
        /** @description A cost to record. */
        NewCost: {
            /** @description The agent that incurred it; defaults to the acting agent. */
            agent_id?: string | null;
            /** @description The amount: a number, or a string such as "0.10". At most 12 decimals; a number with more is rounded. */
            amount: components["schemas"]["NumberOrText"];
            /** @description The kind of resource: `tokens`, `api_call`, `compute`, `custom`, or a client-defined name. */
            cost_type: string;
            /** @description Client-defined metadata. */
            metadata?: {
                [key: string]: unknown;
            } | null;
            /** @description The model used; defaults to `metadata.model`. */
            model?: string | null;
            /** @description The provider of the resource. */
            provider?: string | null;
            /** @description The unit: a currency, `tokens`, `seconds` or another name. */
            unit: string;
        };
        /** @description A decision to record. */
        NewDecision: {
            /** @description The request for arbitration that the decision resolves. */
            arbitration_id?: string | null;
            /** @description The agent that decides; defaults to the acting agent. */
            decided_by?: string | null;
            /** @description Same as `outcome`, under the RFC's name. */
            decision?: string | null;
            /** @description The kind of decision; defaults to `arbitration`. */
            decision_type?: string | null;
            /** @description The evidence the decision rests on. */
            evidence?: unknown[] | null;
            /** @description The outcome. */
            outcome?: string | null;
            /** @description Same as `reasoning`, under the RFC's name. */
            rationale?: string | null;
            /** @description The reasoning behind the outcome. */
            reasoning?: string | null;
        };
        /** @description A deliberation. */
        NewDeliberation: {
            /** @description Agent that deliberates; defaults to the acting agent. */
            agent_id?: string | null;
            /** @description Correlation id of the caller's choice. */
            corr?: string | null;
            /** @description The intent that the deliberation concerns; defaults to the job's. */
            intent_id?: string | null;
            /** @description The job that waits for the deliberation; it must be one that the caller works on. */
            job_id?: string | null;
            /** @description The person to deliberate with. */
            principal_id: string;
            /** @description The first message. */
            text: string;
        };
        /** @description A key to register. */
        NewEnvelopeKey: {
            /** @description The algorithm to use the key with. */
            algorithm: components["schemas"]["Algorithm"];
            /** @description The entity the key belongs to; defaults to the acting agent. */
            entity?: string | null;
            /** @description The key's name, of letters, digits and `-_.:~@=+`; generated if omitted. */
            kid?: string | null;
            not_after?: components["schemas"]["GivenTime"] | null;
            not_before?: components["schemas"]["GivenTime"] | null;
            /** @description For ed25519: the public half, as `ed25519:…`, a `did:key`, or 32 bytes in Base64. */
            public_key?: string | null;
            /** @description For HS256: 32 to 64 bytes in Base64; 32 bytes are generated if omitted. */
            secret?: string | null;
        };
        /** @description An escalation to make. */
        NewEscalation: {
            /** @description The person to assign; defaults to the policy's `escalate_to`. */
            assigned_to?: string | null;
            /** @description Context for the person who resolves it. */
            context?: {
                [key: string]: unknown;
            } | null;
            /** @description The agent that escalates; defaults to the acting agent. */
            escalated_by?: string | null;
            priority?: components["schemas"]["EscalationPriority"] | null;
            /** @description Why it is escalated. */
            reason: string;
            urgency?: components["schemas"]["EscalationPriority"] | null;
        };
        /** @description A failure to record. */
        NewFailure: {
            /** @description The agent whose attempt failed; defaults to the acting agent. */
            agent_id?: string | null;
            /**
             * Format: int32
             * @description Number of the failed attempt; defaults to the next one.
             */
            attempt_number?: number | null;
            /** @description The kind of failure. Also accepted as `error_type`. */
            error_code?: string | null;
            /** @description The error message. */
            error_message?: string | null;
            /** @description Client-defined metadata. */
            metadata?: {
                [key: string]: unknown;
            } | null;
            /** @description Whether another attempt may succeed; defaults to true. */
            recoverable?: boolean | null;
            retry_scheduled_at?: components["schemas"]["GivenTime"] | null;
        };
        /** @description A dispatch to a peer. */
        NewFederationDispatch: {
            /** @description The peer's agent to assign. */
            agent_id?: string | null;
            /** @description The callback URL; if given, it must be this server's own. */
            callback_url?: string | null;
            delegation_scope?: components["schemas"]["FederationDelegationScope"] | null;
            /** @description Requirements on the peer: governance, budget, observability. */
            federation_policy?: {
                [key: string]: unknown;
            } | null;
            /** @description The intent. */
            intent_id: string;
            /** @description The peer, by URL or DID. */
            target_server: string;
            /** @description The trace it belongs to. */
            trace_context?: {
                [key: string]: unknown;
            } | null;
        };
        /** @description An approval to request. */
        NewGovernanceApproval: {
            /** @description Action to approve. */
            action: string;
            /** @description Context for the approvers. */
            context?: {
                [key: string]: unknown;
            } | null;
            /** @description Reason for the request. */
            reason?: string | null;
            /** @description Agent that requests the approval; defaults to the acting agent. */
            requested_by?: string | null;
        };
        /** @description The work to hand over, and the agent that takes over. */
        NewHandover: {
            /** @description The agent that hands over; defaults to the acting one. Who manages the intent may pass on the work of others. */
            from?: string | null;
            /** @description The leases to hand over; defaults to all that the agent holds on the intent. */
            leases?: string[] | null;
            /** @description Note for the other agent: up to 16 KiB. */
            note?: string | null;
            /** @description Up to 100 ids or addresses that the work refers to. */
            references?: string[];
            /** @description State of the work: an object of up to 64 KiB. */
            state?: {
                [key: string]: unknown;
            } | null;
            /** @description The tasks to hand over; defaults to all that the agent has on the intent. */
            tasks?: string[] | null;
            /** @description The agent that takes over. */
            to: string;
        };
        /** @description A key to register. */
        NewIdentity: {
            /** @description `Ed25519`, which is also the default. */
            key_algorithm?: string | null;
            key_expires_at?: components["schemas"]["GivenTime"] | null;
            /** @description The key: `ed25519:` and 32 bytes in base64url without padding, or a `did:key`. */
            public_key: string;
        };
        /** @description An intent to create. */
        NewIntent: {
            /** @description The constraints on the work; a list becomes the member `rules`. */
            constraints?: {
                [key: string]: unknown;
            } | null;
            /** @description The agent that creates it; defaults to the acting agent. */
            created_by?: string | null;
            /** @description The intents it waits for. */
            depends_on?: string[] | null;
            /** @description The goal in full. */
            description?: string;
            /** @description A governance policy (RFC-0013), enforced from the beginning. */
            governance_policy?: {
                [key: string]: unknown;
            } | null;
            /** @description Same as `parent_intent_id`, under the reference server's name. */
            parent_id?: string | null;
            /** @description The parent intent. */
            parent_intent_id?: string | null;
            /** @description The initial state. */
            state?: {
                [key: string]: unknown;
            } | null;
            status?: components["schemas"]["IntentStatus"] | null;
            /** @description The goal in one line. */
            title: string;
        };
        /** @description A dependency to add. */
        NewIntentDependency: {
            /** @description The intent to wait for. */
            dependency_id: string;
        };
        /** @description The progress of a job, to continue from. */
        NewJobCheckpoint: {
            /** @description The progress: any JSON of up to 100 KiB. */
            checkpoint: unknown;
            /** @description Token of the claim. */
            claim_token: string;
        };
        /** @description The error with which a job failed. */
        NewJobError: {
            /** @description Token of the claim. */
            claim_token: string;
            /** @description A code of ARCP §12; defaults to `INTERNAL_ERROR`. */
            code?: string | null;
            /** @description Further details. */
            details?: {
                [key: string]: unknown;
            } | null;
            /** @description Message for people. */
            message?: string;
            /** @description Whether the same job may be tried again; for most codes this decides over a retry. */
            retryable?: boolean | null;
        };
        /** @description An event to report. */
        NewJobEvent: {
            /** @description Body of the event. */
            body: {
                [key: string]: unknown;
            };
            /** @description Deduplication key chosen by the worker: of events with the same key only the first is stored. */
            event_key?: string | null;
            /** @description Event kind: one of ARCP §8.2, or `x-vendor.<vendor>.<kind>`. */
            kind: string;
            /** @description When the event happened; defaults to now. */
            ts?: string | null;
        };
        /** @description A batch of events of a job. */
        NewJobEvents: {
            /** @description Progress to continue from, any JSON of up to 100 KiB; stored with the events, in place of the last one. */
            checkpoint?: unknown;
            /** @description Token of the claim. */
            claim_token: string;
            /** @description Up to 1,000 events, in order. If one is invalid, none is stored. */
            events: components["schemas"]["NewJobEvent"][];
        };
        /** @description The result of a job. */
        NewJobResult: {
            /** @description Token of the claim. */
            claim_token: string;
            /** @description Inline result, up to 700 KiB; alternatively set `result_id`. */
            result?: unknown;
            /** @description Id of a streamed result. */
            result_id?: string | null;
            /**
             * Format: int64
             * @description Size of the streamed result in decoded bytes; verified if present.
             */
            result_size?: number | null;
            /** @description One-sentence summary. */
            summary?: string | null;
        };
        /** @description A signal to send. */
        NewJobSignal: {
            /** @description Under the same key the signal is stored once; the same as the header `Idempotency-Key`. */
            key?: string | null;
            /** @description Name of the signal, for the agent. */
            name: string;
            /** @description Payload: any JSON, up to 64 KiB. */
            payload?: unknown;
        };
        /** @description A key to create. */
        NewKey: {
            /** @description Agents that the key may act as, besides its principal. */
            act_as?: string[];
            dialect?: components["schemas"]["Dialect"] | null;
            expires_at?: components["schemas"]["GivenTime"] | null;
            /** @description Label of the key's purpose. */
            label?: string | null;
            /**
             * Format: int32
             * @description Requests per second; 0 means no limit.
             */
            rate_per_second?: number | null;
            /** @description Scopes to grant; defaults to every scope except `admin`. */
            scopes?: components["schemas"]["Scope"][] | null;
        };
        /** @description A newly created key. */
        NewKeyBody: {
            /** @description The key itself, returned only this once; null when a repeated request finds the key already created. */
            key?: string | null;
            /** @description The key's record. */
            record: components["schemas"]["KeyBody"];
        };
        /** @description A lease to acquire. */
        NewLease: {
            /** @description Agent that will hold the lease; defaults to the acting agent. */
            agent_id?: string | null;
            /**
             * Format: int64
             * @description Duration: 1 to 604,800 seconds; defaults to 300.
             */
            duration_seconds?: number | null;
            /**
             * @description A part of the intent's state, such as `research` or `research/sources`, including everything below it;
             *     `*` for the whole state.
             */
            scope: string;
        };
        /** @description A newly created link. */
        NewLinkBody: {
            /** @description When the link expires. */
            expires_at: components["schemas"]["WireTime"];
            /**
             * @description Path of the link on this server, returned only this once; null when a repeated request finds the link
             *     already created.
             */
            path?: string | null;
            /** @description The person whom the link logs in. */
            principal_id: string;
        };
        /** @description An entry to create. */
        NewMemoryEntry: {
            /** @description Agent that owns the entry; defaults to the acting agent. */
            agent_id?: string | null;
            expires_at?: components["schemas"]["GivenTime"] | null;
            /** @description Key, unique in the namespace. */
            key: string;
            memory_type?: components["schemas"]["MemoryType"] | null;
            /** @description Namespace; defaults to `default`. */
            namespace?: string | null;
            /** @description Whether the entry is exempt from eviction; defaults to false. */
            pinned?: boolean | null;
            priority?: components["schemas"]["MemoryPriority"] | null;
            scope?: components["schemas"]["NewMemoryScope"] | null;
            sensitivity?: components["schemas"]["MemorySensitivity"] | null;
            /** @description The entry's tags. */
            tags?: string[] | null;
            ttl?: components["schemas"]["NumberOrText"] | null;
            /** @description The value. */
            value: {
                [key: string]: unknown;
            };
        };
        /** @description The task or intent that a new entry belongs to. */
        NewMemoryScope: {
            /** @description The intent; defaults to that of the task. */
            intent_id?: string | null;
            /** @description The task. */
            task_id?: string | null;
        };
        /** @description A question to a person. */
        NewMoment: {
            /** @description Agent that asks; defaults to the acting agent. */
            agent_id?: string | null;
            /** @description The eight slots; if `question.hatches` is omitted, both hatches are open. */
            binding_moment: {
                [key: string]: unknown;
            };
            /** @description Correlation id of the caller's choice. */
            corr?: string | null;
            /**
             * Format: int32
             * @description Seconds until the escalation.
             */
            escalate_after?: number | null;
            /** @description A second person, asked as well if nobody has answered. */
            escalate_to?: string | null;
            /**
             * Format: int32
             * @description Seconds until the question expires: 60 to 2,592,000; defaults to 86,400; expiry approves nothing.
             */
            expires_in?: number | null;
            /** @description Text for clients that cannot display the slots. */
            fallback_text?: string | null;
            /** @description Justification for a closed hatch; required if a hatch is closed. */
            hatch_justification?: string | null;
            /** @description The intent that the question concerns; defaults to the job's. */
            intent_id?: string | null;
            /** @description The job that waits for the answer; it must be one that the caller works on. */
            job_id?: string | null;
            /** @description How the objection to the replaced question was addressed; shown above the question. */
            objection_response?: string | null;
            /** @description The one person who is asked. */
            principal_id: string;
            /** @description The refused question that this one replaces. */
            supersedes?: string | null;
            /** @description State of the job or intent in which an answer is valid. */
            valid_while?: components["schemas"]["ValidWhile"];
        };
        /** @description A message to add to a moment. */
        NewMomentWord: {
            /** @description Text of the message. */
            text: string;
        };
        /** @description A checkpoint to add to a plan. */
        NewPlanCheckpoint: {
            /** @description Task after which the plan reaches the checkpoint. */
            after_task?: string;
            /** @description Ignored, as `status`. */
            approved_at?: string | null;
            /** @description Ignored, as `status`. */
            approved_by?: string | null;
            /** @description Agents that may decide. */
            approvers?: string[];
            /** @description Id of the checkpoint within the plan; generated if omitted. */
            id?: string;
            /** @description Subject of the checkpoint. */
            name?: string;
            /** @description Action after the time limit; stored but not enforced. */
            on_timeout?: components["schemas"]["OnTimeout"];
            /** @description Whether the plan waits here for a decision; defaults to true. */
            requires_approval?: boolean;
            /** @description Ignored: the SDK sends a checkpoint as it reads it (OI-3.2.6), and only its decision changes this. */
            status?: string | null;
            /**
             * Format: int32
             * @description Time limit of the decision in hours; stored but not enforced.
             */
            timeout_hours?: number | null;
        };
        /** @description A new portfolio. */
        NewPortfolio: {
            /** @description Agent that owns the portfolio; defaults to the acting agent. */
            created_by?: string | null;
            /** @description Purpose of the portfolio. */
            description?: string | null;
            /**
             * @description Rules, stored as given; with `require_all_completed`, the portfolio can be completed only when all its
             *     intents are.
             */
            governance_policy?: {
                [key: string]: unknown;
            } | null;
            /** @description Metadata, an object of the client's own. */
            metadata?: {
                [key: string]: unknown;
            } | null;
            /** @description Name of the portfolio. */
            name: string;
        };
        /** @description An intent to add to a portfolio. */
        NewPortfolioMembership: {
            /** @description The intent. */
            intent_id: string;
            /**
             * Format: int32
             * @description Priority: higher ones are listed first; defaults to 0.
             */
            priority?: number | null;
            role?: components["schemas"]["MembershipRole"] | null;
        };
        /** @description A principal to create. */
        NewPrincipal: {
            /** @description Display name. */
            display_name?: string | null;
            /** @description Id: 1 to 200 bytes; by convention `agent.x`, `human.ada`, `service.ci`. */
            id: string;
            /** @description Kind of principal. */
            kind: components["schemas"]["Kind"];
        };
        /** @description Limits to set; 0 means no limit, and a member that is null or absent has the server's default. */
        NewQuotas: {
            /**
             * Format: int64
             * @description Bytes of request bodies in a minute, on each server.
             */
            bytes_per_minute?: number | null;
            /**
             * Format: int64
             * @description Requests in progress at once, on each server.
             */
            open_requests?: number | null;
            /**
             * Format: int64
             * @description Bytes stored.
             */
            storage_bytes?: number | null;
        };
        /** @description The start of a replay. */
        NewReplay: {
            /** @description The time from which events are sent again. */
            since: components["schemas"]["GivenTime"];
        };
        /** @description A retry policy to set; it replaces the previous one, and missing fields take their defaults. */
        NewRetryPolicy: {
            /**
             * Format: int32
             * @description First delay in milliseconds; defaults to 1,000.
             */
            base_delay_ms?: number | null;
            /**
             * Format: int32
             * @description Number of failures before the fallback agent takes over, 1 to 100; defaults to 3.
             */
            failure_threshold?: number | null;
            /** @description Agent that takes over after repeated failures; it must have write access to the intent. */
            fallback_agent_id?: string | null;
            /**
             * @description Whether delays are shortened at random by up to a fifth, so that simultaneous failures are not retried
             *     simultaneously; defaults to true.
             */
            jitter?: boolean | null;
            /**
             * Format: int32
             * @description Longest delay in milliseconds, up to a day; defaults to 60,000.
             */
            max_delay_ms?: number | null;
            /**
             * Format: int32
             * @description Maximum number of retries by one agent, 0 to 100; defaults to 3.
             */
            max_retries?: number | null;
            strategy?: components["schemas"]["RetryStrategy"] | null;
        };
        /** @description A call that is about to be made. */
        NewSpendReservation: {
            /** @description Agent that makes it; defaults to the acting agent. */
            agent_id?: string | null;
            /** @description The client's id for the call: while its reservation holds the amounts, the same call again gets the same one. */
            call_id?: string | null;
            /**
             * Format: int32
             * @description Seconds until the reservation expires, if nobody settles it: up to a day; defaults to ten minutes.
             */
            expires_in?: number | null;
            /** @description Intent that it is for. */
            intent_id?: string | null;
            /** @description Job that it is for: then whoever submitted the job spends, with its intent. The key must be able to act as that principal. */
            job_id?: string | null;
            /** @description Model that is called. */
            model?: string | null;
            /** @description Principal on whose behalf it is made; defaults to the key's. The key must be able to act as it. */
            principal_id?: string | null;
            /** @description Provider of the model or tool. */
            provider?: string | null;
            /** @description Amounts to reserve by unit: the most that the call can cost. Empty only asks whether it is allowed. */
            reserve?: {
                [key: string]: components["schemas"]["NumberOrText"];
            };
            /** @description Tool that is called. */
            tool?: string | null;
            /**
             * @description What happens to the amounts then: `release` (the default), or `charge`, for calls that cost even if their end is not
             *     reported.
             */
            unsettled?: components["schemas"]["Unsettled"];
        };
        /** @description A stop to make. */
        NewStop: {
            /** @description Why; those who are stopped read it. */
            reason: string;
            /** @description Who is stopped: `system`, `team:NAME`, `principal:NAME`, `agent:NAME`, `intent:ID` or `key:ID`. */
            scope: string;
        };
        /** @description A subscription to create. */
        NewSubscription: {
            /** @description Only events of this channel. */
            channel_id?: string | null;
            /**
             * @description Only events of these types, globs with `*`; defaults to all. `inbox.ring`, which must be named, sends each ring of the
             *     subscriber's open inbox: when an entry wakes, and again until it is seen, outside of quiet hours.
             */
            event_types?: string[] | null;
            expires_at?: components["schemas"]["GivenTime"] | null;
            format?: components["schemas"]["BodyFormat"] | null;
            /** @description Only events of this intent; defaults to everything visible to the subscriber. */
            intent_id?: string | null;
            /**
             * @description Sends every envelope that arrives in this entity's mailbox, instead of events; the key must be able to act as the
             *     entity.
             */
            mailbox?: string | null;
            /** @description Only events on the intents of this portfolio, as intents are added and removed. */
            portfolio_id?: string | null;
            /** @description Secret of the client's own; generated if omitted. */
            secret?: string | null;
            signature?: components["schemas"]["Scheme"] | null;
            /**
             * @description Name of a broker that the operator has configured, to which the events are published as CloudEvents instead, each once and in
             *     the order of its intent; requires the scope `admin`.
             */
            sink?: string | null;
            /** @description The subscribing agent: only events visible to it are sent; defaults to the acting agent. */
            subscriber_id?: string | null;
            /**
             * @description Topic at the `sink` (a subject of NATS, a topic of Kafka), one that the operator allows; `{intent_id}` and
             *     `{type}` are those of each event. A topic of Kafka has no `{intent_id}`: that is the key of each record.
             */
            topic?: string | null;
            /** @description URL that receives deliveries; if omitted, nothing is sent: follow a stream instead. */
            webhook_url?: string | null;
        };
        /** @description A question that suspends an intent. */
        NewSuspension: {
            /** @description Preferred delivery channel, a free-form word of the client's. */
            channel_hint?: string | null;
            /** @description Answers to choose from; a confirmation without choices offers yes and no. */
            choices?: components["schemas"]["NewSuspensionChoice"][];
            /**
             * Format: double
             * @description Confidence of the asking agent, 0 to 1.
             */
            confidence_at_suspension?: number | null;
            /** @description Context of the question, shown to the person as findings. */
            context?: {
                [key: string]: unknown;
            } | null;
            /** @description Reason for asking: the SDK's engagement decision. */
            decision_record?: {
                [key: string]: unknown;
            } | null;
            /**
             * Format: int32
             * @description Seconds until the second person is asked.
             */
            escalate_after?: number | null;
            /** @description A second person, asked as well if nobody has answered in time. */
            escalate_to?: string | null;
            /** @description Fallback when the question expires; defaults to `fail`. */
            fallback_policy?: components["schemas"]["SuspensionFallback"];
            /** @description Value of the fallback. */
            fallback_value?: unknown;
            /** @description How the objection to the replaced question was addressed. */
            objection_response?: string | null;
            /**
             * @description The person to ask; defaults to the intent's creator or first admin who is a person, else the person
             *     named by the operator.
             */
            principal_id?: string | null;
            /** @description The question. */
            question: string;
            /** @description Expected kind of answer; defaults to `choice`. */
            response_type?: components["schemas"]["SuspensionResponseType"];
            /** @description How to notify the person again (RFC-0026), in the SDK's format. */
            retry_policy?: {
                [key: string]: unknown;
            } | null;
            /** @description The refused question that this one replaces (binding moment §6.2). */
            supersedes?: string | null;
            /**
             * Format: int32
             * @description Seconds until the question expires; defaults to never.
             */
            timeout_seconds?: number | null;
        };
        /** @description An answer to choose from. */
        NewSuspensionChoice: {
            /** @description Description of the choice. */
            description?: string | null;
            /** @description Label shown to the person; defaults to the value. */
            label?: string | null;
            /** @description Metadata, an object of the client's own. */
            metadata?: {
                [key: string]: unknown;
            } | null;
            /** @description `primary` for the choice that the asking agent recommends. */
            style?: string | null;
            /** @description Value returned to the asking agent. */
            value: string;
        };
        /** @description A task to create. */
        NewTask: {
            /** @description Capabilities that an agent needs to claim the task. */
            capabilities_required?: string[] | null;
            /** @description Tasks of the same intent that must be completed first. */
            depends_on?: string[] | null;
            /** @description Full description. */
            description?: string | null;
            /** @description Input of the task. */
            input?: {
                [key: string]: unknown;
            } | null;
            /** @description The intent; not needed if the path names it. */
            intent_id?: string | null;
            /**
             * Format: int32
             * @description Maximum number of attempts, 1 to 100; defaults to 3.
             */
            max_attempts?: number | null;
            /** @description Memory policy, stored as given. */
            memory_policy?: {
                [key: string]: unknown;
            } | null;
            /** @description Metadata, an object of the client's own. */
            metadata?: {
                [key: string]: unknown;
            } | null;
            /** @description Summary of the task in one line. */
            name: string;
            /** @description The parent task. */
            parent_task_id?: string | null;
            /** @description Permissions, stored as given; defaults to `inherit`. */
            permissions?: string | null;
            /** @description The plan to add the task to. */
            plan_id?: string | null;
            /** @description Priority; defaults to `normal`. */
            priority?: string | null;
            /** @description Required tools, stored as given. */
            requires_tools?: unknown[] | null;
            /** @description Pause between attempts: `fixed:SECONDS`, `exponential:SECONDS`, or any other word for no pause. */
            retry_policy?: string | null;
            /**
             * Format: int32
             * @description Time limit of one attempt in seconds.
             */
            timeout_seconds?: number | null;
        };
        /** @description A credential to store. */
        NewToolCredential: {
            auth_type?: components["schemas"]["AuthType"] | null;
            expires_at?: components["schemas"]["GivenTime"] | null;
            /** @description Label of the credential. */
            label: string;
            /**
             * @description Address of the service and how to call it; secrets in it (`api_key`, `token`, `password` …) are
             *     removed and sealed.
             */
            metadata?: {
                [key: string]: unknown;
            };
            /** @description Scopes that can be granted. */
            scopes_available?: string[];
            /**
             * @description The secret: one text (for `basic_auth`, `user:password`), or its parts by name; it is sealed and never
             *     shown again.
             */
            secret?: unknown;
            /** @description The service that the credential is for. */
            service: string;
            /** @description The vault that receives the credential. */
            vault_id: string;
        };
        /** @description A grant to give. */
        NewToolGrant: {
            /** @description Agent that may use the credential. */
            agent_id: string;
            constraints?: components["schemas"]["Constraints"] | null;
            /** @description Further context; `tools` in it names additional tools. */
            context?: {
                [key: string]: unknown;
            };
            /** @description The credential. */
            credential_id: string;
            /** @description Whether the holder may pass the grant on. */
            delegatable?: boolean;
            /** @description The grant to delegate, which the grantor must hold. */
            delegated_from?: string | null;
            expires_at?: components["schemas"]["GivenTime"] | null;
            /** @description Agent that gives the grant; defaults to the acting agent. */
            granted_by?: string | null;
            /**
             * @description The tools, or other scopes of the credential, that the grant covers; it also covers the tool that has
             *     the name of the service.
             */
            scopes?: string[];
        };
        /** @description A new trigger or a change of one; in a change, missing fields stay unchanged and null clears a field. */
        NewTrigger: {
            condition?: components["schemas"]["NewTriggerCondition"] | null;
            /**
             * Format: int32
             * @description Seconds of rest after each firing.
             */
            cooldown_seconds?: number | null;
            deduplication?: components["schemas"]["TriggerDeduplication"] | null;
            /** @description Whether the trigger is enabled; defaults to true. */
            enabled?: boolean | null;
            intent_template?: components["schemas"]["TriggerTemplate"] | null;
            /**
             * @description The request for a job to submit in place of creating an intent, as in `POST /jobs` (beyond RFC-0017), for the types
             *     `schedule` and `webhook`; its texts may contain placeholders. A job is submitted once per due time, as the agent of
             *     the trigger, whose key needs `jobs:write`.
             */
            job?: {
                [key: string]: unknown;
            } | null;
            /**
             * Format: int32
             * @description Maximum length of the chain of triggers behind an intent that this trigger creates, 1 to 10; defaults
             *     to 10.
             */
            max_depth?: number | null;
            /**
             * Format: int64
             * @description Number of intents after which the trigger is switched off.
             */
            max_fires?: number | null;
            /** @description Name of the trigger, for people. */
            name?: string | null;
            /** @description Namespace of the trigger. */
            namespace?: string | null;
            type?: components["schemas"]["TriggerType"] | null;
        };
        /** @description The condition that fires a trigger, in a request. */
        NewTriggerCondition: {
            at?: components["schemas"]["GivenTime"] | null;
            /** @description A cron expression of five fields: minute, hour, day of the month, month, day of the week. */
            cron?: string | null;
            ends_at?: components["schemas"]["GivenTime"] | null;
            /** @description Type of the event to wait for; `*` matches any characters. */
            event?: string | null;
            /**
             * Format: int32
             * @description Interval in seconds, at least 10, instead of an expression.
             */
            every_seconds?: number | null;
            /**
             * @description Conditions on the event's members: an exact value, a pattern with `*`, or a list of alternatives; dots
             *     address nested members.
             */
            filter?: {
                [key: string]: unknown;
            } | null;
            /** @description HTTP method of the webhooks; only POST is accepted. */
            method?: string | null;
            missed?: components["schemas"]["TriggerMissed"] | null;
            /** @description Free-form label for the source of the webhooks; all of them are received at `webhook_url`. */
            path?: string | null;
            /** @description Secret of the sender, if the client chooses it: `whsec_…`, or 24 to 64 bytes; it is never shown again. */
            secret?: string | null;
            starts_at?: components["schemas"]["GivenTime"] | null;
            /** @description IANA time zone of the schedule; defaults to UTC. */
            timezone?: string | null;
            /** @description Values to copy from the webhook into the intent's state, such as `{"amount": "{{ body.amount }}"}`. */
            transform?: {
                [key: string]: unknown;
            } | null;
            verify?: components["schemas"]["TriggerVerify"] | null;
        };
        /** @description A vault to create. */
        NewVault: {
            /** @description Name of the vault. */
            name: string;
            /** @description Agent that owns the vault; defaults to the acting agent. */
            owner_id?: string | null;
        };
        /** @description A worker to register. */
        NewWorker: {
            /** @description Agents whose jobs the worker runs: `name@version`, or `name` for all versions. */
            agents: string[];
            /** @description Labels, for people. */
            labels?: {
                [key: string]: unknown;
            };
            /** @description Name of the worker, for people. */
            name: string;
            /**
             * Format: int64
             * @description How many jobs the worker runs at once; defaults to 1.
             */
            slots?: number | null;
        };
        /**
         * @description Why nothing is tried again.
         * @enum {string}
         */
        NoRetry: "no_policy" | "no_retries" | "not_recoverable" | "exhausted" | "intent_resolved";
        /** @description Topics that are collected, and when they are told. */
        NotificationDigest: {
            /** @description Local times of day, `HH:MM`, at which the collected items are told. */
            at: string[];
            /** @description Time zone by its name in the IANA database; defaults to `UTC`. */
            time_zone?: string;
            /** @description The topics. */
            topics: components["schemas"]["NotificationTopic"][];
        };
        /**
         * @description Subject matter of a notification.
         * @enum {string}
         */
        NotificationTopic: "decision" | "approval" | "inbox";
        NumberOrText: number | string;
        /**
         * @description Reaction of a plan to the permanent failure of a task.
         *
         *     Such a plan never completes; the setting determines how soon it fails.
         * @enum {string}
         */
        OnFailure: "pause_and_escalate" | "notify" | "fail" | "retry";
        /**
         * @description The treatment of a job after its worker was lost.
         * @enum {string}
         */
        OnLost: "requeue" | "fail";
        /**
         * @description Reaction to a checkpoint that is not decided in time; stored as given, not enforced.
         * @enum {string}
         */
        OnTimeout: "escalate" | "auto_approve" | "fail";
        /**
         * @description Operation of a patch.
         * @enum {string}
         */
        Op: "set" | "append" | "remove";
        /**
         * @description The status of an exchange.
         * @enum {string}
         */
        PairStatus: "held" | "open" | "closed" | "timed_out";
        /** @description A password to set. */
        Password: {
            /** @description Whether a login with this password also covers operations that need the scope `admin`. */
            admin?: boolean;
            /** @description The password: 12 characters or more. */
            password: string;
        };
        /** @description The response to setting a password. */
        PasswordSet: {
            /** @description Whether the password covers operations that need the scope `admin`. */
            admin: boolean;
            /** @description The person. */
            principal_id: string;
            /** @description When the password was set. */
            set_at: components["schemas"]["WireTime"];
        };
        /** @description One change of a state. */
        Patch: {
            /** @description Operation. */
            op: components["schemas"]["Op"];
            /** @description Path of the member. */
            path: string;
            /** @description Value; ignored by `remove`. */
            value?: unknown;
        };
        /** @description A person to whom a decision can be put. */
        Person: {
            /** @description Display name. */
            display_name?: string | null;
            /** @description Principal id, which `POST /moments` takes as `principal_id`. */
            id: string;
        };
        /** @description A page of people. */
        PersonList: {
            /** @description The people, ordered by id. */
            people: components["schemas"]["Person"][];
        };
        /** @description A new plan or a change of one; missing fields take their defaults or stay unchanged. */
        PlanAsk: {
            /** @description The complete list of its checkpoints; known checkpoints keep their status. */
            checkpoints?: components["schemas"]["NewPlanCheckpoint"][] | null;
            /** @description Conditions, stored as given. */
            conditions?: unknown[] | null;
            /** @description The intent of a new plan; not needed if the path names it. */
            intent_id?: string | null;
            /** @description Metadata, an object of the client's own. */
            metadata?: {
                [key: string]: unknown;
            } | null;
            /** @description Action on completion, stored as given. */
            on_complete?: string | null;
            on_failure?: components["schemas"]["OnFailure"] | null;
            state?: components["schemas"]["PlanState"] | null;
            /** @description The complete list of its tasks. */
            tasks?: string[] | null;
        };
        /** @description A plan. */
        PlanBody: {
            /** @description Checkpoints of the plan. */
            checkpoints: components["schemas"]["PlanCheckpoint"][];
            /** @description Conditions, stored as given. */
            conditions: unknown[];
            /** @description When the plan was created. */
            created_at: components["schemas"]["WireTime"];
            /** @description Agent that created the plan. */
            created_by: string;
            /** @description Plan id. */
            id: components["schemas"]["PlanId"];
            /** @description The intent. */
            intent_id: components["schemas"]["IntentId"];
            /** @description Metadata, an object of the client's own. */
            metadata: {
                [key: string]: unknown;
            };
            /** @description Action on completion, stored as given. */
            on_complete: string;
            /** @description Reaction to a task that has failed for good. */
            on_failure: components["schemas"]["OnFailure"];
            /** @description Same as `metadata`, under the reference server's name. */
            plan_metadata: {
                [key: string]: unknown;
            };
            /** @description State of the plan. */
            state: components["schemas"]["PlanState"];
            /** @description Tasks of the plan. */
            tasks: components["schemas"]["TaskId"][];
            /** @description When the plan last changed. */
            updated_at: components["schemas"]["WireTime"];
            /**
             * Format: int64
             * @description Version that guards writes: send it in `If-Match`.
             */
            version: number;
        };
        /** @description A checkpoint of a plan. */
        PlanCheckpoint: {
            /** @description The plan reaches the checkpoint when this task is completed. */
            after_task: string;
            approved_at?: components["schemas"]["WireTime"] | null;
            /** @description Agent that decided. */
            approved_by?: string | null;
            /** @description Agents that may decide; if empty, the managers of the intent. */
            approvers: string[];
            /** @description Id of the checkpoint within the plan. */
            id: string;
            /** @description Subject of the checkpoint. */
            name: string;
            /** @description Action after the time limit; stored but not enforced. */
            on_timeout: components["schemas"]["OnTimeout"];
            /** @description Whether the plan waits here for a decision. */
            requires_approval: boolean;
            /** @description Status of the checkpoint. */
            status: components["schemas"]["GateStatus"];
            /**
             * Format: int32
             * @description Time limit of the decision in hours; stored but not enforced.
             */
            timeout_hours?: number | null;
        };
        /** @description A decision on a checkpoint. */
        PlanCheckpointDecision: {
            /** @description Agent that decides; defaults to the acting agent. */
            decided_by?: string | null;
        };
        /** @description `plan_` and a ULID */
        PlanId: string;
        /**
         * @description State of a plan.
         * @enum {string}
         */
        PlanState: "draft" | "active" | "paused" | "completed" | "failed" | "cancelled";
        /**
         * @description The policy for principals without an entry.
         * @enum {string}
         */
        Policy: "open" | "closed";
        /**
         * @description A portfolio; times and rules appear in snake case and camel case, because the SDK reads the times in camel
         *     case only.
         */
        PortfolioBody: {
            /** @description Aggregate status of the portfolio's intents. */
            aggregate_status: components["schemas"]["AggregateStatus"];
            /** @description Same as `created_at`. */
            createdAt: components["schemas"]["WireTime"];
            /** @description Same as `created_by`. */
            createdBy: string;
            /** @description When the portfolio was created. */
            created_at: components["schemas"]["WireTime"];
            /** @description Agent that owns the portfolio. */
            created_by: string;
            /** @description Purpose of the portfolio. */
            description?: string | null;
            /** @description Same as `governance_policy`. */
            governancePolicy: components["schemas"]["PortfolioRules"];
            /** @description Rules of the client, stored as given; `require_all_completed` is enforced. */
            governance_policy: components["schemas"]["PortfolioRules"];
            /** @description Portfolio id. */
            id: components["schemas"]["PortfolioId"];
            /** @description Metadata, an object of the client's own. */
            metadata: {
                [key: string]: unknown;
            };
            /** @description Name of the portfolio. */
            name: string;
            /** @description Status of the portfolio. */
            status: components["schemas"]["PortfolioStatus"];
            /** @description Same as `updated_at`. */
            updatedAt: components["schemas"]["WireTime"];
            /** @description When the portfolio's status or set of intents last changed. */
            updated_at: components["schemas"]["WireTime"];
        };
        /** @description `folio_` and a ULID */
        PortfolioId: string;
        /** @description The contents of a portfolio. */
        PortfolioIntents: {
            /** @description Aggregate status of the intents. */
            aggregate_status: components["schemas"]["AggregateStatus"];
            /** @description The intents that the caller can read, highest priority first. */
            intents: components["schemas"]["IntentBody"][];
            /** @description Their memberships, in the same order. */
            memberships: components["schemas"]["PortfolioMembership"][];
        };
        /** @description An intent's membership in a portfolio. */
        PortfolioMembership: {
            /** @description When the intent was added. */
            added_at: components["schemas"]["WireTime"];
            /** @description Membership id. */
            id: components["schemas"]["MembershipId"];
            /** @description The intent. */
            intent_id: components["schemas"]["IntentId"];
            /** @description Same as `id`, under the reference server's name. */
            membership_id: components["schemas"]["MembershipId"];
            /** @description The portfolio. */
            portfolio_id: components["schemas"]["PortfolioId"];
            /**
             * Format: int32
             * @description Priority: higher ones are listed first.
             */
            priority: number;
            /** @description Role of the intent in the portfolio. */
            role: components["schemas"]["MembershipRole"];
        };
        /** @description The rules of a portfolio, an object of the client's own. */
        PortfolioRules: {
            [key: string]: unknown;
        };
        /**
         * @description Status of a portfolio; independent of the statuses of its intents, except under the rule
         *     `require_all_completed`.
         * @enum {string}
         */
        PortfolioStatus: "active" | "completed" | "abandoned";
        /** @description A new status of a portfolio. */
        PortfolioStatusChange: {
            /** @description New status. */
            status: components["schemas"]["PortfolioStatus"];
        };
        /** @description A principal, which can hold keys. */
        PrincipalBody: {
            /** @description When the principal was created. */
            created_at: components["schemas"]["WireTime"];
            /** @description Principal that created this one. */
            created_by: string;
            /** @description Display name. */
            display_name?: string | null;
            /** @description Id of the principal, and the name under which it acts. */
            id: string;
            /** @description Kind of principal. */
            kind: components["schemas"]["Kind"];
        };
        /**
         * @description The urgency stated by the sender (AEE §3).
         * @enum {string}
         */
        Priority: "low" | "normal" | "high" | "urgent";
        /** @description The body of every error: the members of RFC 9457 and those that existing clients read. */
        ProblemBody: {
            /** @description The code, from a closed list. */
            code: components["schemas"]["Code"];
            /**
             * Format: int64
             * @description On a version conflict: the current version.
             */
            current_version?: number | null;
            /** @description The description of this occurrence. */
            detail: components["schemas"]["Detail"];
            /** @description The faulty members of the body. */
            errors: components["schemas"]["FieldError"][];
            existing_lease?: components["schemas"]["Lease"] | null;
            /** @description A sentence that describes the error and the next step. */
            message: string;
            receipt?: components["schemas"]["EnvelopeReceipt"] | null;
            /** @description The request's id, which the server's log also has; empty within a batch. */
            request_id: string;
            /** @description On the job resources: whether the same request may be sent again unchanged. */
            retryable?: boolean | null;
            /**
             * Format: int32
             * @description The HTTP status.
             */
            status: number;
            /** @description The meaning of the code. */
            title: string;
            /** @description `urn:entente:problem:` followed by the code. */
            type: string;
            /** @description On an answer that is none of a question's choices (RFC-0025 §8): the values that it takes. */
            valid_choices?: string[] | null;
        };
        /** @description A proof that a checkpoint covers an event. */
        ProofBody: {
            /** @description The checkpoint. */
            checkpoint_id: components["schemas"]["CheckpointId"];
            /** @description The event's hash, which is the leaf. */
            event_hash: string;
            /** @description The event. */
            event_id: components["schemas"]["EventId"];
            /** @description The event's index among the leaves, from 0. */
            leaf_index: number;
            /** @description The root that the path must lead to. */
            merkle_root: string;
            /** @description The path from the leaf up: each parent is SHA-256 over left and right. */
            proof_hashes: components["schemas"]["StepBody"][];
        };
        /** @description The server's key for push messages. */
        PushKeyBody: {
            /** @description The public key, in base64url: `applicationServerKey` of a browser's subscription (RFC 8292). */
            public_key: string;
        };
        /** @description Keys of a browser's push subscription (RFC 8291 §2). */
        PushKeys: {
            /** @description The authentication secret: 16 bytes in base64url. */
            auth: string;
            /** @description The browser's public key: an uncompressed point of P-256, in base64url. */
            p256dh: string;
        };
        /** @description The decision to be made. */
        Question: {
            /** @description The two ways to answer otherwise. */
            hatches: components["schemas"]["Hatches"];
            /** @description Two to four answers. */
            options: components["schemas"]["Choice"][];
            /** @description Index of the option that the agent recommends, starting at 0. */
            recommended_idx: number;
            /** @description The question, neutral and plain. */
            stem: string;
        };
        /**
         * @description State of a queue.
         * @enum {string}
         */
        QueueState: "open" | "paused" | "draining";
        /** @description A daily stretch of local time. */
        QuietHours: {
            /** @description Agents and roles (`role:…`) that may wake in these hours too, if they may wake at all. */
            except?: string[];
            /** @description Local time at which they begin, `HH:MM`. */
            from: string;
            /** @description Time zone by its name in the IANA database; defaults to `UTC`. */
            time_zone?: string;
            /** @description Local time at which they end; before `from` for hours that include midnight. */
            to: string;
        };
        /** @description One quota and its use. */
        QuotaUse: {
            /**
             * Format: int64
             * @description The limit in force; null: none.
             */
            limit?: number | null;
            /**
             * Format: int64
             * @description The limit that an admin set, 0 for none; null: the server's default.
             */
            own?: number | null;
            /**
             * Format: int64
             * @description The amount in use; null if it is not counted, because nothing of this kind is limited.
             */
            used?: number | null;
        };
        /** @description Quotas of a principal or a team, with their use. */
        Quotas: {
            /** @description Bytes of request bodies and of sessions' frames in a minute, on each server. */
            bytes_per_minute: components["schemas"]["QuotaUse"];
            counted_at?: components["schemas"]["WireTime"] | null;
            /** @description Requests in progress at once, on each server; streams and long polls do not count. */
            open_requests: components["schemas"]["QuotaUse"];
            /** @description Whose they are: `principal:ID` or `team:NAME`. */
            scope: string;
            set_at?: components["schemas"]["WireTime"] | null;
            /** @description Admin who set limits for this scope; null: it has the server's defaults. */
            set_by?: string | null;
            /** @description Bytes stored: messages, envelopes, log lines and jobs. */
            storage_bytes: components["schemas"]["QuotaUse"];
        };
        /** @description A share of a number of questions. */
        Rate: {
            /** @description Number of matching questions. */
            count: number;
            /** @description Whether the share exceeds its threshold. */
            flagged: boolean;
            /** @description Number of questions considered. */
            of: number;
            /**
             * Format: double
             * @description The share, from 0 to 1; 0 if no questions were considered.
             */
            share: number;
        };
        /** @description How well an agent asks, or how well questions of a class are asked. */
        Rates: {
            /** @description Number of answered questions among them. */
            answered: number;
            /** @description Number of questions examined. */
            asked: number;
            /** @description Questions with a calibration note among the last 50; flagged above 20 % of at least 10. */
            calibration_notes: components["schemas"]["Rate"];
            /** @description Questions with a closed hatch among the last 50; flagged above 20 % of at least 10. */
            hatches_closed: components["schemas"]["Rate"];
            /** @description Number of near duplicates of refused questions among them. */
            near_duplicates: number;
            /** @description Refused questions among the last 20 that were answered and could be refused; flagged above 25 % of at least 10. */
            refused: components["schemas"]["Rate"];
        };
        /** @description The parts that can be worked on. */
        ReadyList: {
            /** @description The parts that are not finished and wait for nothing, oldest first. */
            ready: components["schemas"]["IntentBody"][];
        };
        /**
         * @description The status of an envelope when its receipt is issued.
         * @enum {string}
         */
        ReceiptStatus: "accepted" | "held" | "answered" | "redacted";
        /** @description An agent to register. */
        RegisterBody: {
            /** @description The id to act under. */
            agent_id: string;
            /** @description The agent's capabilities. */
            capabilities?: string[];
            /** @description The agent's capacity, as a client-defined object. */
            capacity?: {
                [key: string]: unknown;
            } | null;
            /**
             * Format: int32
             * @description Seconds that draining may take.
             */
            drain_timeout_seconds?: number | null;
            /** @description The URL at which the agent can be reached. */
            endpoint?: string | null;
            heartbeat_config?: components["schemas"]["HeartbeatConfig"] | null;
            /** @description Client-defined metadata. */
            metadata?: {
                [key: string]: unknown;
            } | null;
            /** @description A display name. */
            name?: string | null;
            /** @description The role to be addressed by. */
            role_id?: string | null;
        };
        /** @description A registered key. */
        RegistrationBody: {
            /** @description The only algorithm the key may be used with. */
            algorithm: components["schemas"]["Algorithm"];
            /** @description When it was registered. */
            created_at: components["schemas"]["WireTime"];
            /** @description The principal that registered it. */
            created_by: string;
            /** @description The entity whose envelopes it signs: those with this `from`. */
            entity: string;
            /** @description The key's name among the entity's keys. */
            kid: string;
            not_after?: components["schemas"]["WireTime"] | null;
            /** @description When the key becomes valid. */
            not_before: components["schemas"]["WireTime"];
            /** @description The public half; null for HS256, whose secret is not returned. */
            public_key?: string | null;
            revoked_at?: components["schemas"]["WireTime"] | null;
            /** @description The generated secret in Base64, returned only this once; null if none was generated. */
            secret?: string | null;
            /** @description The key's lifecycle status. */
            status: components["schemas"]["EnvelopeKeyStatus"];
        };
        /** @description The response to a removal. */
        RemovedIntent: {
            /** @description The intent. */
            intent_id: components["schemas"]["IntentId"];
            /** @description Message for people. */
            message: string;
            /** @description The portfolio. */
            portfolio_id: components["schemas"]["PortfolioId"];
        };
        /** @description The response to a deletion. */
        RemovedTrigger: {
            /** @description Always `deleted`. */
            status: string;
            /** @description Trigger id. */
            trigger_id: components["schemas"]["TriggerId"];
        };
        /** @description A replacement for the whole access control list. */
        ReplaceBody: {
            /** @description The policy for principals without an entry. */
            default_policy: components["schemas"]["Policy"];
            /** @description The entries. */
            entries?: components["schemas"]["GrantBody"][];
            /** @description Ignored: the path names the intent, and a list that was read has it (OI-3.2.6). */
            intent_id?: string | null;
            /** @description Ignored, as `intent_id`: `PUT /intents/{intent_id}/strict` sets it. */
            strict?: boolean | null;
        };
        /** @description A replay that was started. */
        ReplayBegun: {
            /** @description The time from which events are sent again. */
            since: components["schemas"]["WireTime"];
            /** @description The subscription. */
            subscription_id: components["schemas"]["EndpointId"];
        };
        /** @description A reply to a request. */
        ReplyBody: {
            /** @description Hints for routing and tracing. */
            metadata?: {
                [key: string]: unknown;
            } | null;
            /** @description Content: an object of up to 256 KiB; defaults to `{}`, required in strict mode. */
            payload?: {
                [key: string]: unknown;
            } | null;
            /** @description Agent that replies; the key must be allowed to act as it. */
            sender: string;
        };
        /** @description An access request. */
        RequestBody: {
            /** @description The principal's capabilities. */
            capabilities: string[];
            /** @description When the request was made. */
            created_at: components["schemas"]["WireTime"];
            decided_at?: components["schemas"]["WireTime"] | null;
            /** @description The principal that decided; null while pending. */
            decided_by?: string | null;
            /** @description The reason for the decision. */
            decision_reason?: string | null;
            /** @description The request's id. */
            id: components["schemas"]["AccessRequestId"];
            /** @description The intent. */
            intent_id: components["schemas"]["IntentId"];
            /** @description The principal that asks for access. */
            principal_id: string;
            /** @description The kind of principal. */
            principal_type: string;
            /** @description Why access is needed. */
            reason: string;
            /** @description The access level asked for. */
            requested_permission: components["schemas"]["Level"];
            /** @description The request's status. */
            status: components["schemas"]["RequestStatus"];
        };
        /** @description The access requests for an intent. */
        RequestList: {
            /** @description The requests, oldest first. */
            access_requests: components["schemas"]["RequestBody"][];
        };
        /**
         * @description The status of an access request.
         * @enum {string}
         */
        RequestStatus: "pending" | "approved" | "denied";
        /** @description `rsv_` and a ULID */
        ReservationId: string;
        /** @description An answer, as it is sent and as the agent receives it. */
        Resolution: {
            /** @enum {string} */
            kind: "option";
            /** @description Index of the option, starting at 0. */
            option_idx: number;
        } | {
            /** @description The answer. */
            answer: string;
            /** @enum {string} */
            kind: "free_text";
        } | {
            /** @enum {string} */
            kind: "dialogue";
            /** @description Objection to the question. */
            objection: string;
        };
        /**
         * @description Kind of answer.
         * @enum {string}
         */
        ResolutionKind: "option" | "free_text" | "dialogue";
        /** @description `res_` and a ULID */
        ResultId: string;
        /** @description How an intent is retried after a failure. */
        RetryPolicy: {
            /**
             * Format: int32
             * @description First delay in milliseconds.
             */
            base_delay_ms: number;
            /** @description Same as `created_at`, in the SDK's spelling. */
            createdAt: components["schemas"]["WireTime"];
            /** @description When the policy was first set. */
            created_at: components["schemas"]["WireTime"];
            /**
             * Format: int32
             * @description Number of failures before the fallback agent takes over.
             */
            failure_threshold: number;
            /** @description Agent that takes over after repeated failures. */
            fallback_agent_id?: string | null;
            /** @description Policy id, which stays the same when the policy is replaced. */
            id: components["schemas"]["RetryPolicyId"];
            /** @description The intent. */
            intent_id: components["schemas"]["IntentId"];
            /** @description Whether delays are shortened at random by up to a fifth. */
            jitter: boolean;
            /**
             * Format: int32
             * @description Longest delay in milliseconds.
             */
            max_delay_ms: number;
            /**
             * Format: int32
             * @description Maximum number of retries by one agent.
             */
            max_retries: number;
            /** @description Agent that last set the policy. */
            set_by: string;
            /** @description Growth of the delays. */
            strategy: components["schemas"]["RetryStrategy"];
            /** @description Same as `updated_at`, in the SDK's spelling. */
            updatedAt: components["schemas"]["WireTime"];
            /** @description When the policy was last changed; earlier failures no longer count. */
            updated_at: components["schemas"]["WireTime"];
        };
        /** @description `retry_` and a ULID */
        RetryPolicyId: string;
        /**
         * @description Growth of the delays between attempts.
         * @enum {string}
         */
        RetryStrategy: "none" | "fixed" | "linear" | "exponential";
        /**
         * @description How much of an RFC is implemented.
         * @enum {string}
         */
        RfcCompliance: "full" | "partial";
        /** @description Options of a key rotation. */
        RotateBody: {
            /**
             * Format: int32
             * @description Seconds for which the old key keeps working; defaults to one day.
             */
            overlap_seconds?: number | null;
        };
        /** @description Options of a secret rotation. */
        RotateSecret: {
            /**
             * Format: int32
             * @description Seconds during which the old secret also signs; defaults to one day.
             */
            overlap_seconds?: number | null;
        };
        /** @description A rule for a link. */
        Rule: {
            /** @description Intents that may pass; if not empty, no others may. */
            allow?: string[];
            /** @description Intents that may not pass. */
            deny?: string[];
            /** @description Senders that the rule applies to: a pattern over dotted names, `**` for all. */
            from?: string;
            max_priority?: components["schemas"]["Priority"] | null;
            /**
             * @description JSON Pointers to the parts of the payload to leave out: the gateway then delivers an envelope of its
             *     own that refers to the original, never the original.
             */
            redact?: string[];
            /** @description Whether only signed envelopes may pass. */
            require_signature?: boolean;
            /** @description Recipients that the rule applies to. */
            to?: string;
        };
        /** @description A JSON Schema (2020-12), stored byte for byte */
        SchemaDocument: {
            [key: string]: unknown;
        };
        /**
         * @description Signature scheme.
         * @enum {string}
         */
        Scheme: "v1" | "v1a";
        /**
         * @description A permission of a key; each handler names the scope that it needs.
         * @enum {string}
         */
        Scope: "intents:read" | "intents:write" | "channels:read" | "channels:write" | "agents:read" | "agents:write" | "jobs:read" | "jobs:write" | "jobs:work" | "mail:read" | "mail:write" | "moments:read" | "moments:write" | "tools:use" | "tools:manage" | "admin";
        /** @description A result. */
        SearchHit: {
            /** @description Sender of the message, actor of the event, or agent of the job. */
            agent: string;
            /** @description When it was written; of a job, when it was accepted. */
            at: string;
            channel_id?: components["schemas"]["ChannelId"] | null;
            event_id?: components["schemas"]["EventId"] | null;
            /** @description A part of its text around one of the words. */
            excerpt?: string | null;
            intent_id?: components["schemas"]["IntentId"] | null;
            job_id?: components["schemas"]["JobId"] | null;
            /** @description `message`, `event` or `job`. */
            kind: string;
            message_id?: components["schemas"]["MessageId"] | null;
            /** @description Type of the message or the event; status of the job. */
            type: string;
        };
        /** @description The times up to which records were searched. */
        SearchIndexed: {
            /** @description Jobs that were accepted before this time were searched; null while nothing is known. Most younger ones were too. */
            jobs_until?: string | null;
            /** @description Messages and events that were written before this time were searched; null while nothing is known. */
            log_until?: string | null;
        };
        /** @description A page of results. */
        SearchResults: {
            /** @description How far the search reaches: a result may be missing only if it is newer. */
            indexed: components["schemas"]["SearchIndexed"];
            /** @description Cursor of the next page; null on the last one. A page may be short, or empty, and have one. */
            next_cursor?: string | null;
            /** @description The results, newest first. */
            results: components["schemas"]["SearchHit"][];
        };
        /** @description A message to send. */
        SendBody: {
            /** @description For a response: the id of the request. */
            correlation_id?: string | null;
            expires_at?: components["schemas"]["GivenTime"] | null;
            /** @description `request`, `response`, `notify` or `broadcast`; defaults to `notify`. */
            message_type?: string | null;
            /**
             * @description Hints for routing and tracing: an object of up to 16 KiB; a `proof` in it is verified if its type is
             *     `Ed25519Signature2026` and the sender has an identity.
             */
            metadata?: {
                [key: string]: unknown;
            } | null;
            /** @description Content: an object of up to 256 KiB; defaults to `{}`, required in strict mode. */
            payload?: {
                [key: string]: unknown;
            } | null;
            /** @description Agent that sends the message; the key must be allowed to act as it. */
            sender: string;
            /** @description Addressee: an agent, `role:…` or `*`. */
            to?: string | null;
        };
        /** @description The server's configuration, as far as it concerns clients. */
        ServerConfig: {
            /** @description Every feature, and whether it is served. */
            features: {
                [key: string]: unknown;
            };
            /** @description The limits. Input over a limit is refused, never truncated. */
            limits: {
                [key: string]: unknown;
            };
            /** @description The protocol's version. */
            protocol_version: string;
            /** @description The server's version. */
            server_version: string;
            /** @description Whether RFC-0021 is followed to the letter where clients rely on deviations from it. */
            strict_rfc0021: boolean;
            /** @description How often people are asked again (RFC-0026); the server has no policy of its own. */
            suspension: {
                [key: string]: unknown;
            };
        };
        /** @description A server key. */
        ServerKeyBody: {
            /** @description When the servers first registered the key. */
            created_at: components["schemas"]["WireTime"];
            /** @description Whether this server signs with the key. */
            current: boolean;
            /** @description The key as a decentralised identifier, as used in `signed_by`. */
            did: string;
            /** @description Always `Ed25519`. */
            key_algorithm: string;
            /** @description The same key as `ed25519:` and base64url. */
            public_key: string;
        };
        /** @description The server keys. */
        ServerKeysBody: {
            /** @description Every key that signs or has signed, oldest first. */
            keys: components["schemas"]["ServerKeyBody"][];
        };
        /** @description `sess_` and a ULID */
        SessionId: string;
        /** @description A change of the log filter. */
        SetLogFilter: {
            /** @description The filter: a level, or levels by module with commas between. */
            filter: string;
            /**
             * Format: int64
             * @description Seconds until the configured filter is in force again, from 1 to 86400; 600 by default.
             */
            seconds?: number | null;
        };
        /**
         * @description Side on which a proof's hash is joined.
         * @enum {string}
         */
        Side: "left" | "right";
        /** @description Numbers of a job's signals. */
        SignalMarks: {
            /**
             * Format: int64
             * @description Number of the last acknowledged signal.
             */
            acknowledged: number;
            /**
             * Format: int64
             * @description Number of the last signal.
             */
            sent: number;
        };
        /**
         * @description The check of a signature that proves nothing here.
         * @enum {string}
         */
        SignatureCheck: "unverified";
        /**
         * @description The members that a signature covers.
         * @enum {string}
         */
        SignatureScope: "whole" | "core";
        /** @description A signed challenge. */
        SignedChallenge: {
            /** @description The challenge, as received. */
            challenge: string;
            /** @description The key's signature over the challenge's bytes or over its text, in base64url. */
            signature: string;
        };
        /** @description A signed payload. */
        SignedPayload: {
            /** @description The payload, whose canonical form (RFC 8785) was signed. */
            payload: {
                [key: string]: unknown;
            };
            /** @description The signature, in base64url. */
            signature: string;
        };
        /** @description The liveness of the process in its shortest form. */
        Simple: {
            /** @description Always true. */
            ok: boolean;
        };
        /** @description A line of a report. */
        SpendLine: {
            /** @description The agent. */
            agent_id?: string | null;
            /**
             * Format: double
             * @description The sum.
             */
            amount: number;
            /**
             * Format: int64
             * @description Number of costs.
             */
            count: number;
            /** @description The day; absent unless the report is divided by it. So with the other members. */
            day?: string | null;
            intent_id?: components["schemas"]["IntentId"] | null;
            /** @description The model; absent for costs without one. */
            model?: string | null;
            /** @description The principal. */
            principal_id?: string | null;
            /** @description The unit; different units are never added together. */
            unit: string;
        };
        /** @description A report of spending. */
        SpendReport: {
            /** @description Whether these are all lines. Otherwise ask for a shorter time, or divide it by less. */
            complete: boolean;
            /** @description Begin of the time. */
            from: components["schemas"]["WireTime"];
            /** @description The lines: by day, then the largest sums first; at most 10,000. */
            lines: components["schemas"]["SpendLine"][];
            /** @description End of the time. */
            until: components["schemas"]["WireTime"];
        };
        /** @description An allowed call. */
        SpendReservation: {
            /** @description The budgets that pay for the call, as they are now. */
            budgets: components["schemas"]["Budget"][];
            /** @description How it ended: `settled`, `released`, `expired`, or `charged` when it expired; null while it holds the amounts. */
            ended_as?: string | null;
            expires_at?: components["schemas"]["WireTime"] | null;
            reservation_id?: components["schemas"]["ReservationId"] | null;
            /** @description The reserved amounts. */
            reserve: {
                [key: string]: number;
            };
        };
        /** @description The cost of a call. */
        SpendSettlement: {
            /** @description The cost by unit; empty releases the reserved amounts. */
            cost: {
                [key: string]: components["schemas"]["NumberOrText"];
            };
            /** @description The model that was used, if it is another one. */
            model?: string | null;
        };
        /** @description A state change: patches, or members to merge. */
        StateBody: {
            /**
             * Format: int64
             * @description A lease's fencing token: the change is refused unless the acting agent still holds that lease.
             */
            fencing_token?: number | null;
            /** @description Patches, applied in order. */
            patches?: components["schemas"]["Patch"][] | null;
            /** @description Members to set in the state as they are. */
            state?: {
                [key: string]: unknown;
            } | null;
        };
        /** @description A sibling hash on the path from a leaf to the root. */
        StepBody: {
            /** @description The hash. */
            hash: string;
            /** @description The side of the previously computed hash on which this one stands. */
            position: components["schemas"]["Side"];
        };
        /** @description A stop. */
        Stop: {
            budget_id?: components["schemas"]["BudgetId"] | null;
            /** @description When it was made. */
            created_at: components["schemas"]["WireTime"];
            /** @description Principal that made it. */
            created_by: string;
            /** @description Its id. */
            id: components["schemas"]["StopId"];
            /** @description Whether it is in force. */
            in_force: boolean;
            lifted_at?: components["schemas"]["WireTime"] | null;
            /** @description Principal that lifted it. */
            lifted_by?: string | null;
            /** @description Why. */
            reason: string;
            /** @description Who is stopped. */
            scope: string;
        };
        /** @description `stop_` and a ULID */
        StopId: string;
        /** @description A page of stops. */
        StopList: {
            /** @description The stops, newest first. */
            stops: components["schemas"]["Stop"][];
        };
        /**
         * @description The treatment of an envelope with an invalid payload.
         * @enum {string}
         */
        Strictness: "off" | "warn" | "enforce";
        /** @description A webhook endpoint; fields that RFC-0006 clients read in snake case or camel case appear in both (OI-15.33). */
        SubscriptionBody: {
            /** @description Whether the endpoint has neither expired nor been disabled. */
            active: boolean;
            channel_id?: components["schemas"]["ChannelId"] | null;
            /** @description Same as `created_at`. */
            createdAt: components["schemas"]["WireTime"];
            /** @description When the subscription was created. */
            created_at: components["schemas"]["WireTime"];
            disabled_at?: components["schemas"]["WireTime"] | null;
            disabled_reason?: components["schemas"]["DisabledReason"] | null;
            /** @description Same as `event_types`. */
            eventTypes: string[];
            /** @description Only events of these types, globs with `*`; empty for all. */
            event_types: string[];
            expiresAt?: components["schemas"]["WireTime"] | null;
            expires_at?: components["schemas"]["WireTime"] | null;
            failing_since?: components["schemas"]["WireTime"] | null;
            /**
             * Format: int32
             * @description Number of failures since the last successful delivery.
             */
            failures: number;
            /** @description Form of the bodies: `standard` or `cloudevents`. */
            format: components["schemas"]["BodyFormat"];
            /** @description Subscription id. */
            id: components["schemas"]["EndpointId"];
            intentId?: components["schemas"]["IntentId"] | null;
            intent_id?: components["schemas"]["IntentId"] | null;
            /** @description Whether the endpoint was subscribed, or registered by an agent. */
            kind: components["schemas"]["EndpointKind"];
            /** @description Error of the last failure. */
            last_error?: string | null;
            last_error_at?: components["schemas"]["WireTime"] | null;
            last_success_at?: components["schemas"]["WireTime"] | null;
            /** @description For a mailbox subscription: the entity whose envelopes are sent instead of events. */
            mailbox?: string | null;
            portfolioId?: components["schemas"]["PortfolioId"] | null;
            portfolio_id?: components["schemas"]["PortfolioId"] | null;
            /** @description Public key that verifies `v1a` signatures. */
            public_key?: string | null;
            /** @description Secret that verifies signatures, shown only in the response that creates it; a `v1a` secret is never shown. */
            secret?: string | null;
            /** @description Signature scheme of deliveries (Standard Webhooks). */
            signature: components["schemas"]["Scheme"];
            /** @description For a subscription without a URL: the operator's broker that the events are published to. */
            sink?: string | null;
            /** @description Same as `subscriber_id`. */
            subscriberId: string;
            /** @description The subscribing agent: only events visible to it are sent. */
            subscriber_id: string;
            /** @description Topic at that broker. */
            topic?: string | null;
            /** @description Same as `webhook_url`. */
            webhookUrl?: string | null;
            /** @description URL that receives the deliveries. */
            webhook_url?: string | null;
        };
        /** @description A change of a subscription. */
        SubscriptionChange: {
            /** @description `false` stops deliveries; `true` resumes them, also after the endpoint was disabled because of failures. */
            active?: boolean | null;
            /** @description New list of event types. */
            event_types?: string[] | null;
            expires_at?: components["schemas"]["GivenTime"] | null;
            /** @description New URL for deliveries. */
            webhook_url?: string | null;
        };
        /** @description A present or past question of an intent. */
        Suspension: {
            /** @description Agent that asked. */
            asked_by: string;
            ended_at?: components["schemas"]["WireTime"] | null;
            expires_at?: components["schemas"]["WireTime"] | null;
            /** @description Fallback when the question expires unanswered. */
            fallback_policy: components["schemas"]["SuspensionFallback"];
            /** @description Suspension id, which an answer must name. */
            id: string;
            /** @description The intent. */
            intent_id: components["schemas"]["IntentId"];
            moment_id?: components["schemas"]["MomentId"] | null;
            /**
             * Format: int64
             * @description Number of the question within the intent, from 1; the cursor of lists.
             */
            n: number;
            /**
             * @description Reason for the cancellation: `refused`, `refused_before`, `withdrawn`, `called_off` or
             *     `status_changed`.
             */
            reason?: string | null;
            /**
             * @description Question and outcome, as stored in the intent's state under `_suspension`; null once a later question
             *     is stored there.
             */
            record?: {
                [key: string]: unknown;
            } | null;
            resolution?: components["schemas"]["SuspensionState"] | null;
            /** @description The answering person. */
            responded_by?: string | null;
            /** @description State of the question. */
            state: components["schemas"]["SuspensionState"];
            /** @description When the question was asked. */
            suspended_at: components["schemas"]["WireTime"];
            /** @description Same as `id`, under the name that an answer uses. */
            suspension_id: string;
            /**
             * @description Why no person is asked: `nobody_to_ask`, `key_asks_nobody`, or the code of the refusal; a person with
             *     admin access to the intent may then answer.
             */
            unasked?: string | null;
        };
        /** @description An answer. */
        SuspensionAnswer: {
            /** @description Digest of the binding moment, if the person has read it. */
            envelope_digest?: string | null;
            /** @description Further data from the client's user interface. */
            metadata?: {
                [key: string]: unknown;
            } | null;
            /** @description Person who answers; only the person that the key belongs to is accepted. */
            responded_by?: string | null;
            /** @description The question to answer. */
            suspension_id?: string | null;
            /** @description The answer: one of the choices, text, or an object. */
            value?: unknown;
        };
        /** @description An accepted answer. */
        SuspensionAnswered: {
            /** @description Description of the chosen answer. */
            choice_description?: string | null;
            /** @description Label of the chosen answer. */
            choice_label?: string | null;
            /** @description The intent. */
            intent_id: components["schemas"]["IntentId"];
            /** @description Resulting state of the question. */
            resolution: components["schemas"]["SuspensionState"];
            /** @description When the question was answered. */
            responded_at: components["schemas"]["WireTime"];
            /** @description The answering person. */
            responded_by?: string | null;
            /** @description The question. */
            suspension_id: string;
            /** @description The answer. */
            value: unknown;
        };
        /**
         * @description Reaction if nobody answers in time (RFC-0025 §6).
         * @enum {string}
         */
        SuspensionFallback: "fail" | "complete_with_fallback" | "use_default_and_continue";
        /** @description The questions of an intent. */
        SuspensionList: {
            /** @description The questions, newest first. */
            suspensions: components["schemas"]["Suspension"][];
        };
        /**
         * @description Kind of answer expected.
         * @enum {string}
         */
        SuspensionResponseType: "choice" | "confirm" | "text" | "form";
        /**
         * @description State of a question.
         * @enum {string}
         */
        SuspensionState: "open" | "responded" | "expired" | "cancelled";
        /** @description A task. */
        TaskBody: {
            /** @description References to artifacts of the work. */
            artifacts: string[];
            /** @description The current, last or designated assignee. */
            assigned_agent?: string | null;
            /**
             * Format: int32
             * @description Number of the current attempt, from 1.
             */
            attempt: number;
            /** @description Why the task is blocked. */
            blocked_reason?: string | null;
            /** @description Tasks that wait for this one. */
            blocks: components["schemas"]["TaskId"][];
            /** @description Capabilities that an agent needs to claim the task. */
            capabilities_required: string[];
            /**
             * Format: int64
             * @description Token of the current claim: send it with later actions, which fail once the claim is lost.
             */
            claim_token?: number | null;
            completed_at?: components["schemas"]["WireTime"] | null;
            /** @description When the task was created. */
            created_at: components["schemas"]["WireTime"];
            /** @description Agent that created the task. */
            created_by: string;
            /** @description Tasks that must be completed first. */
            depends_on: components["schemas"]["TaskId"][];
            /** @description Full description. */
            description?: string | null;
            due_at?: components["schemas"]["WireTime"] | null;
            /** @description Error of the last failed attempt. */
            error?: string | null;
            /** @description Task id. */
            id: components["schemas"]["TaskId"];
            /** @description Input of the task. */
            input: {
                [key: string]: unknown;
            };
            /** @description The intent that the task belongs to. */
            intent_id: components["schemas"]["IntentId"];
            /** @description Always null; present for clients of the reference server. */
            lease_id?: string | null;
            /**
             * Format: int32
             * @description Maximum number of attempts.
             */
            max_attempts: number;
            /** @description Memory policy, stored as given. */
            memory_policy?: {
                [key: string]: unknown;
            } | null;
            /** @description Metadata, an object of the client's own. */
            metadata: {
                [key: string]: unknown;
            };
            /** @description Summary of the task in one line. */
            name: string;
            /** @description Output of the task. */
            output?: {
                [key: string]: unknown;
            } | null;
            parent_task_id?: components["schemas"]["TaskId"] | null;
            /** @description Permissions, stored as given. */
            permissions: string;
            plan_id?: components["schemas"]["PlanId"] | null;
            /** @description Priority of the task. */
            priority: string;
            /** @description Required tools, stored as given. */
            requires_tools: unknown[];
            /** @description Pause between attempts. */
            retry_policy?: string | null;
            started_at?: components["schemas"]["WireTime"] | null;
            /** @description Status of the task. */
            status: components["schemas"]["TaskStatus"];
            /** @description Same as `metadata`, under the reference server's name. */
            task_metadata: {
                [key: string]: unknown;
            };
            /**
             * Format: int32
             * @description Time limit of one attempt in seconds.
             */
            timeout_seconds?: number | null;
            /**
             * Format: int64
             * @description Version that guards writes: send it in `If-Match`.
             */
            version: number;
        };
        /** @description A change of a task; missing fields stay unchanged. */
        TaskChange: {
            /** @description References to artifacts of the work. */
            artifacts?: string[] | null;
            /** @description Agent to assign; null leaves the task to any agent. */
            assigned_agent?: string | null;
            /** @description Why the task is blocked. */
            blocked_reason?: string | null;
            /** @description The complete new list of dependencies; allowed while the task is unassigned. */
            depends_on?: string[] | null;
            /** @description New description. */
            description?: string | null;
            /** @description Error of the failed attempt. */
            error?: string | null;
            /** @description The complete new input. */
            input?: {
                [key: string]: unknown;
            } | null;
            /** @description The complete new metadata. */
            metadata?: {
                [key: string]: unknown;
            } | null;
            /** @description New name. */
            name?: string | null;
            /** @description Output of the task. */
            output?: {
                [key: string]: unknown;
            } | null;
            /** @description New priority. */
            priority?: string | null;
            status?: components["schemas"]["TaskStatus"] | null;
        };
        /** @description `task_` and a ULID */
        TaskId: string;
        /** @description A progress report: any fields, besides those that say who acts. */
        TaskProgress: {
            /** @description Agent that acts; defaults to the acting agent. */
            agent_id?: string | null;
            /**
             * Format: int64
             * @description Token of the caller's claim; if the claim no longer holds, the report is refused.
             */
            claim_token?: number | null;
        };
        /**
         * @description Status of a task.
         * @enum {string}
         */
        TaskStatus: "pending" | "ready" | "claimed" | "running" | "blocked" | "completed" | "failed" | "cancelled" | "skipped";
        /** @description The body common to all task actions but progress reports; each action uses the fields that it needs. */
        TaskVerb: {
            /** @description Agent that acts; defaults to the acting agent. */
            agent_id?: string | null;
            /** @description `complete`: references to artifacts of the work. */
            artifacts?: string[] | null;
            /**
             * Format: int64
             * @description Token of the caller's claim; if the claim no longer holds, the action is refused.
             */
            claim_token?: number | null;
            /** @description `fail`: the error. */
            error?: string | null;
            /** @description `complete`: result of the task. */
            output?: {
                [key: string]: unknown;
            } | null;
            /** @description Reason for the action. */
            reason?: string | null;
            /** @description `delegate`, `escalate`: the agent to hand the task to. */
            to?: string | null;
        };
        /** @description A team: a named group of principals. */
        Team: {
            /** @description When it was created. */
            created_at: components["schemas"]["WireTime"];
            /** @description Principal that created it. */
            created_by: string;
            /** @description Ids of its members. */
            members: string[];
            /** @description Its name. */
            name: string;
        };
        /** @description A page of teams. */
        TeamList: {
            /** @description The teams, ordered by name. */
            teams: components["schemas"]["Team"][];
        };
        /** @description The members of a team. */
        TeamMembers: {
            /** @description Ids of principals. */
            members: string[];
        };
        /** @description An envelope in its thread. */
        ThreadEnvelope: {
            /** @description Until when a response to the task counts. */
            deadline?: string | null;
            /** @description Depth in the tree: 0 for an envelope that answers none of those shown. */
            depth: number;
            /** @description The priority used for its delivery. */
            effective_priority: components["schemas"]["Priority"];
            /** @description The envelope as received. */
            envelope: {
                [key: string]: unknown;
            };
            /** @description The envelope that the gateway derived this one from. */
            original_id?: string | null;
            /** @description For a task, its respondents: all for the sender of the task, only themselves for the others. */
            pairs: components["schemas"]["EnvelopePair"][];
            /** @description When it was accepted. */
            received_at: string;
            /** @description The rejections, oldest first. */
            refutations: components["schemas"]["EnvelopeRefutation"][];
            /** @description The evidence for its sender's identity. */
            verified: components["schemas"]["EnvelopeVerified"];
            /** @description Deviations that were tolerated. */
            warnings: components["schemas"]["Warning"][];
        };
        /** @description A tool call to make. */
        ToolCall: {
            /** @description The agent that calls; defaults to the acting agent. */
            agent_id?: string | null;
            /** @description The grant to use; defaults to the first that fits, with the agent's own vaults before those of others. */
            grant_id?: string | null;
            /** @description Same as the header `Idempotency-Key`, for clients that send it in the body. */
            idempotency_key?: string | null;
            /** @description The intent that the call is for: stops and budgets of the intent then hold for the call as well. */
            intent_id?: string | null;
            /** @description The parameters for the tool. */
            parameters?: {
                [key: string]: unknown;
            };
            /** @description The tool. */
            tool_name: string;
        };
        /** @description The result of a tool call. */
        ToolCallResult: {
            /**
             * Format: int32
             * @description Duration in milliseconds.
             */
            duration_ms?: number | null;
            /** @description The error as a sentence. */
            error?: string | null;
            /**
             * @description The error's code: `refused`, `redirected`, `timed_out`, `unreachable`, `blocked`, `too_large`, `no_token` or
             *     `interrupted`.
             */
            error_code?: string | null;
            /** @description The grant it was called under. */
            grant_id: components["schemas"]["ToolGrantId"];
            /**
             * Format: int32
             * @description The tool's HTTP status.
             */
            http_status?: number | null;
            /** @description The id of the recorded invocation. */
            invocation_id: components["schemas"]["InvocationId"];
            /** @description The tool's result, without the credential's secret. */
            result?: {
                [key: string]: unknown;
            } | null;
            /** @description The service. */
            service: string;
            /** @description `success`, `error` or `denied`. */
            status: components["schemas"]["InvocationStatus"];
            /** @description The tool. */
            tool_name: string;
        };
        /** @description A credential in a vault, without its secret. */
        ToolCredential: {
            /** @description How the credential is used to authenticate. */
            auth_type: components["schemas"]["AuthType"];
            /** @description When the credential was stored. */
            created_at: components["schemas"]["WireTime"];
            /** @description Same as `metadata`, under the reference server's name. */
            credential_metadata: {
                [key: string]: unknown;
            };
            expires_at?: components["schemas"]["WireTime"] | null;
            /** @description Credential id. */
            id: components["schemas"]["ToolCredentialId"];
            /** @description Label of the credential. */
            label: string;
            /** @description Address of the service, and any further data of the owner's; never a secret. */
            metadata: {
                [key: string]: unknown;
            };
            revoked_at?: components["schemas"]["WireTime"] | null;
            rotated_at?: components["schemas"]["WireTime"] | null;
            /** @description Scopes that can be granted; anything if empty. */
            scopes_available: string[];
            /** @description Names of the parts of the secret. */
            secret_members: string[];
            /** @description The service that the credential is for. */
            service: string;
            /** @description Status of the credential. */
            status: components["schemas"]["CredentialStatus"];
            /** @description The vault that contains the credential. */
            vault_id: components["schemas"]["VaultId"];
            /**
             * Format: int32
             * @description Version of the secret, from 1; 0 if it has none yet.
             */
            version: number;
        };
        /** @description A change of a credential; omitted fields stay unchanged. */
        ToolCredentialChange: {
            /** @description When the credential expires; null for never. */
            expires_at?: string | null;
            /** @description Label of the credential. */
            label?: string | null;
            /** @description The complete new metadata; secrets in it are removed and sealed. */
            metadata?: {
                [key: string]: unknown;
            } | null;
            /** @description Scopes that can be granted from now on; existing grants are unaffected. */
            scopes_available?: string[] | null;
            /** @description New secret; the previous one is discarded immediately. */
            secret?: unknown;
            status?: components["schemas"]["CredentialStatus"] | null;
        };
        /** @description `tcred_` and a ULID */
        ToolCredentialId: string;
        /** @description A grant. */
        ToolGrant: {
            /** @description Agent that holds the grant. */
            agent_id: string;
            constraints?: components["schemas"]["Constraints"] | null;
            /** @description Further context from the grantor; `tools` in it names additional tools. */
            context: {
                [key: string]: unknown;
            };
            /** @description When the grant was given. */
            created_at: components["schemas"]["WireTime"];
            /** @description The credential that the grant covers. */
            credential_id: components["schemas"]["ToolCredentialId"];
            /** @description Whether the holder may pass the grant on. */
            delegatable: boolean;
            delegated_from?: components["schemas"]["ToolGrantId"] | null;
            /** @description How many times the grant has been passed on. */
            delegation_depth: number;
            expires_at?: components["schemas"]["WireTime"] | null;
            /** @description Agent that gave the grant. */
            granted_by: string;
            /** @description Grant id. */
            id: components["schemas"]["ToolGrantId"];
            revoked_at?: components["schemas"]["WireTime"] | null;
            /** @description The tools, or other scopes of the credential, that the grant covers. */
            scopes: string[];
            /** @description Whether the vault's owner gave the grant, or a holder passed it on. */
            source: components["schemas"]["GrantSource"];
            /** @description Current status: `suspended` also while a parent grant is, `expired` also when the credential is. */
            status: components["schemas"]["GrantStatus"];
            /** @description The vault that contains the credential. */
            vault_id: components["schemas"]["VaultId"];
        };
        /** @description A new status of a grant. */
        ToolGrantChange: {
            /** @description `suspended`, `active` or `revoked`. */
            status: components["schemas"]["GrantStatus"];
        };
        /** @description `grant_` and a ULID */
        ToolGrantId: string;
        /** @description A revoked grant. */
        ToolGrantRevoked: {
            /** @description Grant id. */
            grant_id: components["schemas"]["ToolGrantId"];
            revoked_at?: components["schemas"]["WireTime"] | null;
            /** @description Always `revoked`. */
            status: components["schemas"]["GrantStatus"];
        };
        /** @description An invocation of a tool. */
        ToolInvocation: {
            /** @description The agent that made it. */
            agent_id: string;
            /** @description Further information from the agent. */
            context: {
                [key: string]: unknown;
            };
            /** @description The cost, as reported by the agent. */
            cost?: {
                [key: string]: unknown;
            } | null;
            /**
             * Format: int32
             * @description Duration in milliseconds.
             */
            duration_ms?: number | null;
            /** @description The error, with `code` and `message`. */
            error?: {
                [key: string]: unknown;
            } | null;
            /** @description The grant it was made under. */
            grant_id: components["schemas"]["ToolGrantId"];
            /**
             * Format: int32
             * @description The tool's HTTP status.
             */
            http_status?: number | null;
            /** @description The invocation's id. */
            id: components["schemas"]["InvocationId"];
            /** @description The client's idempotency key. */
            idempotency_key?: string | null;
            /** @description Same as `id`, under the SDK's name. */
            invocation_id: components["schemas"]["InvocationId"];
            /** @description The parameters, without secrets. */
            parameters: {
                [key: string]: unknown;
            };
            /** @description Whether an agent reported the call; the server then did not make it. */
            reported: boolean;
            /**
             * Format: int32
             * @description Size of the request body in bytes.
             */
            request_bytes?: number | null;
            /**
             * Format: int32
             * @description Size of the response in bytes.
             */
            response_bytes?: number | null;
            /** @description The tool's result: an object as it is, other JSON as `value`, other text as `raw`. */
            result?: {
                [key: string]: unknown;
            } | null;
            /** @description The service. */
            service: string;
            /** @description The invocation's status. */
            status: components["schemas"]["InvocationStatus"];
            /** @description When it began. */
            timestamp: components["schemas"]["WireTime"];
            /** @description The tool. */
            tool: string;
        };
        /** @description A call that an agent made on its own. */
        ToolReport: {
            /** @description The agent that made the call. */
            agent_id: string;
            /** @description Further information. */
            context?: {
                [key: string]: unknown;
            };
            /** @description The cost. */
            cost?: {
                [key: string]: unknown;
            } | null;
            /**
             * Format: int32
             * @description Duration in milliseconds.
             */
            duration_ms?: number | null;
            /** @description The error. */
            error?: {
                [key: string]: unknown;
            } | null;
            /** @description The grant. */
            grant_id: string;
            /** @description Same as the header `Idempotency-Key`, for clients that send it in the body. */
            idempotency_key?: string | null;
            /** @description The parameters. */
            parameters?: {
                [key: string]: unknown;
            };
            /** @description The tool's result. */
            result?: {
                [key: string]: unknown;
            } | null;
            /** @description The service. */
            service: string;
            status?: components["schemas"]["InvocationStatus"] | null;
            /** @description The tool. */
            tool: string;
        };
        /** @description A trigger. */
        Trigger: {
            condition?: components["schemas"]["TriggerCondition"] | null;
            /**
             * Format: int32
             * @description Seconds of rest after each firing.
             */
            cooldown_seconds?: number | null;
            /** @description When the trigger was created. */
            created_at: components["schemas"]["WireTime"];
            /** @description Agent as which the trigger creates intents. */
            created_by: string;
            /** @description Behaviour while an intent of the same type, or the last job, is open. */
            deduplication: components["schemas"]["TriggerDeduplication"];
            disabled_reason?: components["schemas"]["TriggerDisabledReason"] | null;
            /** @description Whether the trigger is enabled. */
            enabled: boolean;
            /**
             * Format: int32
             * @description Number of failures since the last created intent.
             */
            failures: number;
            /**
             * Format: int64
             * @description Number of intents created.
             */
            fire_count: number;
            intent_template?: components["schemas"]["TriggerTemplate"] | null;
            /** @description The request for a job to submit in place of creating an intent, as in `POST /jobs`. */
            job?: {
                [key: string]: unknown;
            } | null;
            last_fired_at?: components["schemas"]["WireTime"] | null;
            /**
             * Format: int32
             * @description Maximum length of the chain of triggers behind an intent that this trigger creates.
             */
            max_depth: number;
            /**
             * Format: int64
             * @description Number of intents after which the trigger is switched off.
             */
            max_fires?: number | null;
            /** @description Name of the trigger, for people. */
            name: string;
            /** @description Namespace of the trigger. */
            namespace?: string | null;
            next_due_at?: components["schemas"]["WireTime"] | null;
            /** @description Secret that signs webhooks, shown only when newly created. */
            secret?: string | null;
            /** @description Trigger id. */
            trigger_id: components["schemas"]["TriggerId"];
            /** @description Type of the trigger. */
            type: components["schemas"]["TriggerType"];
            /** @description When the trigger was last changed. */
            updated_at: components["schemas"]["WireTime"];
            /**
             * Format: int64
             * @description Version that guards writes: send it in `If-Match`.
             */
            version: number;
            /**
             * @description Path at which webhooks are received, on the server's address; a token at its end is included only when
             *     newly created.
             */
            webhook_url?: string | null;
        };
        /** @description An agent to assign to the created intent. */
        TriggerAssignment: {
            /** @description The agent. */
            agent_id: string;
            /** @description Role of the agent; defaults to `worker`. */
            role?: string;
        };
        /**
         * @description Cause of a firing.
         * @enum {string}
         */
        TriggerCause: "due" | "event" | "webhook" | "hand";
        /** @description The condition that fires a trigger. */
        TriggerCondition: {
            at?: components["schemas"]["WireTime"] | null;
            /** @description A cron expression of five fields: minute, hour, day of the month, month, day of the week. */
            cron?: string | null;
            ends_at?: components["schemas"]["WireTime"] | null;
            /** @description Type of the event to wait for; `*` matches any characters. */
            event?: string | null;
            /**
             * Format: int32
             * @description Interval in seconds, instead of an expression.
             */
            every_seconds?: number | null;
            /** @description Conditions on the event's members. */
            filter?: {
                [key: string]: unknown;
            } | null;
            /** @description HTTP method of the webhooks. */
            method?: string | null;
            missed?: components["schemas"]["TriggerMissed"] | null;
            /** @description Free-form label for the source of the webhooks. */
            path?: string | null;
            starts_at?: components["schemas"]["WireTime"] | null;
            /** @description IANA time zone of the schedule. */
            timezone?: string | null;
            /** @description Values to copy from the webhook into the intent's state. */
            transform?: {
                [key: string]: unknown;
            } | null;
            verify?: components["schemas"]["TriggerVerify"] | null;
        };
        /**
         * @description Behaviour while an intent of the same type is still open (RFC-0017 §6).
         * @enum {string}
         */
        TriggerDeduplication: "allow" | "skip" | "queue";
        /**
         * @description Reason why the server disabled a trigger.
         * @enum {string}
         */
        TriggerDisabledReason: "done" | "max_fires" | "failing" | "powers";
        /** @description Input for a manual firing, in place of the event or webhook that the trigger waits for. */
        TriggerFire: {
            /** @description Body of a webhook. */
            body?: unknown;
            /** @description Members of an event. */
            event?: {
                [key: string]: unknown;
            } | null;
            /** @description Headers of a webhook. */
            headers?: {
                [key: string]: unknown;
            } | null;
            /** @description Content of `payload`, for either kind of trigger. */
            payload?: unknown;
            /** @description Query of a webhook. */
            query?: {
                [key: string]: unknown;
            } | null;
        };
        /** @description One firing of a trigger. */
        TriggerFiring: {
            /** @description Cause of the firing. */
            cause: components["schemas"]["TriggerCause"];
            /** @description The same reason, for people. */
            detail?: string | null;
            done_at?: components["schemas"]["WireTime"] | null;
            due_at?: components["schemas"]["WireTime"] | null;
            /** @description When the firing began. */
            fired_at: components["schemas"]["WireTime"];
            /** @description Agent that fired the trigger manually. */
            fired_by?: string | null;
            /** @description Firing id. */
            firing_id: components["schemas"]["FiringId"];
            intent_id?: components["schemas"]["IntentId"] | null;
            job_id?: components["schemas"]["JobId"] | null;
            /** @description Code of the reason why no intent was created. */
            reason?: string | null;
            /** @description Status of the firing. */
            status: components["schemas"]["TriggerFiringStatus"];
            /** @description The trigger. */
            trigger_id: components["schemas"]["TriggerId"];
        };
        /**
         * @description Status of a firing.
         * @enum {string}
         */
        TriggerFiringStatus: "heard" | "waiting" | "fired" | "skipped" | "failed";
        /** @description `trg_` and a ULID */
        TriggerId: string;
        /**
         * @description Handling of missed due times (RFC-0017 §2.2 leaves it to the implementation).
         * @enum {string}
         */
        TriggerMissed: "skip" | "latest" | "all";
        /**
         * @description The intent that a trigger creates.
         *
         *     In every text, `{{ path }}` is replaced by a value of the occasion: `trigger.…`, `event.…`, and for
         *     webhooks `body.…`, `headers.…`, `query.…`.
         */
        TriggerTemplate: {
            /**
             * @description Agent assigned to the intent.
             * @default null
             */
            assignee: string | null;
            /**
             * @description Further assigned agents.
             * @default []
             */
            assignments: components["schemas"]["TriggerAssignment"][];
            /** @description Constraints of the intent. */
            constraints?: {
                [key: string]: unknown;
            };
            /** @description Initial state of the intent. */
            context?: {
                [key: string]: unknown;
            };
            /**
             * @description Description of the intent.
             * @default
             */
            description: string;
            /**
             * @description Free-form label of the graph that the intent belongs to.
             * @default null
             */
            graph_id: string | null;
            /**
             * @description The parent intent.
             * @default null
             */
            parent_intent_id: string | null;
            /**
             * @description Priority of the intent.
             * @default null
             */
            priority: string | null;
            /** @description Initial state under the name that intents use; takes precedence over `context`. */
            state?: {
                [key: string]: unknown;
            };
            /** @default null */
            status: components["schemas"]["IntentStatus"] | null;
            /**
             * @description Free-form tags.
             * @default []
             */
            tags: string[];
            /**
             * @description Title of the intent; defaults to the trigger's name if empty.
             * @default
             */
            title: string;
            /**
             * @description Type of the intent, a free-form word; deduplication compares it.
             * @default
             */
            type: string;
        };
        /**
         * @description Kind of trigger; without a matching condition it only fires manually.
         * @enum {string}
         */
        TriggerType: "schedule" | "event" | "webhook";
        /**
         * @description Proof that a sender knows the secret.
         * @enum {string}
         */
        TriggerVerify: "signature" | "github" | "token";
        /** @description Content of a webhook: any JSON, whose parts the trigger's template and `condition.transform` can use. */
        TriggerWebhookContent: {
            /** @description Data of the event. */
            data?: unknown;
            /** @description Type of the event, in the sender's terms. */
            type?: string | null;
        };
        /** @description The response to a webhook. */
        TriggerWebhookTaken: {
            /** @description Whether no intent was created because one of the same type is open (RFC-0017 §4.2). */
            deduplicated: boolean;
            /** @description Firing id. */
            firing_id: components["schemas"]["FiringId"];
            intent_id?: components["schemas"]["IntentId"] | null;
            /** @description `fired`, `waiting` or `skipped`. */
            status: components["schemas"]["TriggerFiringStatus"];
            /** @description The trigger. */
            trigger_id: components["schemas"]["TriggerId"];
        };
        /** @description A turn of an agent; every part is optional. */
        Turn: {
            claim?: components["schemas"]["TurnClaim"] | null;
            /** @description Up to 100 events to append to intents, in order; after the messages. */
            events?: components["schemas"]["TurnEvent"][];
            /** @description Up to 100 jobs to end; after everything else about them. */
            finish?: components["schemas"]["TurnFinish"][];
            heartbeat?: components["schemas"]["TurnHeartbeat"] | null;
            /** @description The turn's key, if the header `Idempotency-Key` has none. */
            idempotency_key?: string | null;
            inbox?: components["schemas"]["TurnInbox"] | null;
            /** @description Up to 100 envelopes to send, in order, each as `POST /aee/envelopes` takes it. */
            mail?: {
                [key: string]: unknown;
            }[];
            /** @description Up to 100 messages to send, in order. */
            messages?: components["schemas"]["TurnMessage"][];
            /** @description Up to 100 messages to mark as read. */
            read?: components["schemas"]["TurnRead"][];
            /** @description Up to 100 reports of events and progress, in order; after `settle`. */
            report?: components["schemas"]["TurnReport"][];
            seen?: components["schemas"]["TurnSeen"] | null;
            /** @description Up to 100 reservations to settle, in order. */
            settle?: components["schemas"]["TurnSettlement"][];
            /** @description Up to 100 steps of tasks, in order; after the messages and events. */
            tasks?: components["schemas"]["TurnTask"][];
        };
        /** @description A claim of jobs that are pending now. */
        TurnClaim: {
            /** @description The agents to take jobs for; defaults to all of the worker's agents. */
            agents?: string[] | null;
            /**
             * Format: int64
             * @description Maximum number of jobs; defaults to 1.
             */
            max?: number | null;
            /** @description The worker. */
            worker_id: string;
        };
        /** @description Effects of a turn; the same if it is repeated. */
        TurnDone: {
            /** @description The appended events, in order. */
            events: components["schemas"]["EventBody"][];
            /** @description The responses to `finish`, in order. */
            finished: components["schemas"]["JobReported"][];
            heartbeat?: components["schemas"]["WorkerDirectives"] | null;
            /** @description The receipts of the envelopes, in order. */
            mail: components["schemas"]["AnsweredEnvelope"][];
            /** @description The sent messages, in order. */
            messages: components["schemas"]["MessageBody"][];
            /** @description The responses to `report`, in order. */
            reported: components["schemas"]["JobReported"][];
            seen?: components["schemas"]["TurnReader"] | null;
            /** @description The responses to `settle`, in order. */
            settled: components["schemas"]["JobReported"][];
            /** @description The tasks after their steps, in order. */
            tasks: components["schemas"]["TaskBody"][];
        };
        /** @description An event that a turn appends. */
        TurnEvent: {
            /** @description The agent that caused the event; defaults to the acting agent. */
            actor?: string | null;
            /** @description The event's type: one of the protocol's or a client-defined one. */
            event_type: string;
            /** @description The intent. */
            intent_id: string;
            /** @description The event that caused it. */
            parent_event_id?: string | null;
            /** @description The event's payload. */
            payload?: {
                [key: string]: unknown;
            } | null;
            /** @description The actor's signature (RFC-0018). */
            proof?: {
                [key: string]: unknown;
            } | null;
            /** @description The trace it belongs to: 32 hexadecimal digits. */
            trace_id?: string | null;
        };
        /** @description The error with which a job failed. */
        TurnFailure: {
            /** @description A code of ARCP §12; defaults to `INTERNAL_ERROR`. */
            code?: string | null;
            /** @description Further details. */
            details?: {
                [key: string]: unknown;
            } | null;
            /** @description Message for people. */
            message?: string;
            /** @description Whether the same job may be tried again; for most codes this decides over a retry. */
            retryable?: boolean | null;
        };
        /** @description The end of a job: a result or an error. */
        TurnFinish: {
            /** @description Token of the claim. */
            claim_token: string;
            error?: components["schemas"]["TurnFailure"] | null;
            /** @description The job. */
            job_id: string;
            /** @description Inline result, up to 700 KiB; alternatively set `result_id`. */
            result?: unknown;
            /** @description Id of a streamed result. */
            result_id?: string | null;
            /**
             * Format: int64
             * @description Size of the streamed result in decoded bytes; verified if present.
             */
            result_size?: number | null;
            /** @description One-sentence summary. */
            summary?: string | null;
        };
        /** @description A heartbeat of the agent's worker. */
        TurnHeartbeat: {
            /** @description The jobs that the worker holds; their claims are extended. */
            jobs?: components["schemas"]["HeldBody"][];
            /** @description State of the worker, as it reports it. */
            state?: string | null;
            /** @description The worker. */
            worker_id: string;
        };
        /** @description The page of the inbox to read after the turn. */
        TurnInbox: {
            /** @description Levels, separated by commas: `wake`, `next`, `digest`; defaults to those that the reader read before, or all. */
            attention?: string | null;
            /** @description Return the entries of the level `digest` one by one. */
            expand?: boolean;
            /**
             * Format: int32
             * @description Maximum number of entries, 1 to 200; defaults to 50.
             */
            limit?: number | null;
            /** @description Name of the reader; defaults to that of `seen`, or `default`. */
            reader?: string | null;
            /**
             * Format: int32
             * @description Seconds to wait if there are no entries and no job was claimed, up to 120; defaults to 0.
             */
            wait?: number | null;
        };
        /** @description A message to send. */
        TurnMessage: {
            /** @description The channel. */
            channel_id: string;
            /** @description For a response: the id of the request. */
            correlation_id?: string | null;
            expires_at?: components["schemas"]["GivenTime"] | null;
            /** @description `request`, `response`, `notify` or `broadcast`; defaults to `notify`. */
            message_type?: string | null;
            /** @description Hints for routing and tracing: an object of up to 16 KiB. */
            metadata?: {
                [key: string]: unknown;
            } | null;
            /** @description Content: an object of up to 256 KiB; defaults to `{}`, required in strict mode. */
            payload?: {
                [key: string]: unknown;
            } | null;
            /** @description Agent that sends the message; defaults to the one that takes the turn. */
            sender?: string | null;
            /** @description Addressee: an agent, `role:…` or `*`. */
            to?: string | null;
        };
        /** @description A message to mark as read. */
        TurnRead: {
            /** @description The channel. */
            channel_id: string;
            /** @description The message. */
            message_id: string;
        };
        /** @description The reader of the inbox. */
        TurnReader: {
            /**
             * Format: int64
             * @description Place up to which it has marked entries seen.
             */
            place: number;
            /** @description Its name. */
            reader: string;
        };
        /** @description Events and progress of a job. */
        TurnReport: {
            /** @description Progress to continue from, any JSON of up to 100 KiB. */
            checkpoint?: unknown;
            /** @description Token of the claim. */
            claim_token: string;
            /** @description Up to 1,000 events, in order; none that asks for a child job. */
            events?: components["schemas"]["NewJobEvent"][];
            /** @description The job. */
            job_id: string;
        };
        /** @description Entries of the inbox that the agent has dealt with. */
        TurnSeen: {
            /**
             * Format: int64
             * @description Every entry up to this place: `next_place` of a page.
             */
            place: number;
            /** @description Name of the reader; defaults to `default`. */
            reader?: string | null;
        };
        /** @description The cost of a reservation. */
        TurnSettlement: {
            /** @description Token of the claim. */
            claim_token: string;
            /** @description The cost by currency, deducted in place of the reserved amounts; none releases the reservation. */
            cost?: {
                [key: string]: unknown;
            };
            /** @description The job. */
            job_id: string;
            /** @description The reservation. */
            reservation_id: string;
        };
        /** @description A turn that was taken. */
        TurnTaken: {
            /** @description Its effects; the same if the turn is repeated with its key. */
            done: components["schemas"]["TurnDone"];
            inbox?: components["schemas"]["InboxPage"] | null;
            inbox_error?: components["schemas"]["ProblemBody"] | null;
            /** @description The claimed jobs; of a repeated turn those that the worker still holds. */
            jobs: components["schemas"]["ClaimedJob"][];
        };
        /** @description A step of a task. */
        TurnTask: {
            /** @description `complete`: references to artifacts of the work. */
            artifacts?: string[] | null;
            /**
             * Format: int64
             * @description Token of your claim; if the claim no longer holds, the turn is refused.
             */
            claim_token?: number | null;
            /** @description `fail`: the error. */
            error?: string | null;
            /** @description `complete`: result of the task. */
            output?: {
                [key: string]: unknown;
            } | null;
            /** @description `block`: the reason. */
            reason?: string | null;
            task?: components["schemas"]["NewTask"] | null;
            /** @description The task; none with `create`. */
            task_id?: string | null;
            /** @description The action. */
            verb: components["schemas"]["TurnTaskVerb"];
        };
        /**
         * @description Action on a task. The other actions concern other agents, whose records a turn does not lock.
         * @enum {string}
         */
        TurnTaskVerb: "create" | "claim" | "start" | "complete" | "fail" | "block" | "unblock" | "release";
        /** @description The confirmation that an assignment ended. */
        UnassignedBody: {
            /** @description The agent. */
            agent_id: string;
            /** @description Always `unassigned`. */
            status: string;
        };
        /**
         * @description Treatment of the amounts of a reservation that nobody settles in time.
         * @enum {string}
         */
        Unsettled: "release" | "charge";
        /** @description A choice that the question takes. */
        ValidChoice: {
            /** @description The description, if there is one. */
            description?: string;
            /** @description The label for the person. */
            label: string;
            /** @description The value to answer with. */
            value: string;
        };
        /** @description Conditions on the job or the intent that must still hold for an answer to count. */
        ValidWhile: {
            /** @description Required status of the moment's intent. */
            intent_status?: string | null;
            /** @description Required status of the moment's job. */
            job_status?: string | null;
        };
        /** @description A vault. */
        Vault: {
            /** @description When the vault was created. */
            created_at: components["schemas"]["WireTime"];
            /** @description The credentials that are not revoked, oldest first; omitted in lists. */
            credentials?: components["schemas"]["ToolCredentialId"][] | null;
            /** @description Vault id. */
            id: components["schemas"]["VaultId"];
            /** @description Name of the vault. */
            name: string;
            /** @description Agent that owns the vault: it stores credentials and grants their use. */
            owner_id: string;
        };
        /** @description `vault_` and a ULID */
        VaultId: string;
        /** @description The result of verifying a signature. */
        VerdictBody: {
            /** @description The agent. */
            agent_id: string;
            /** @description The agent's latest key. */
            did: string;
            /** @description The reason if it is not: `bad_signature`, or that the key is `revoked`, `expired` or `superseded`. */
            reason?: string | null;
            /** @description Whether it is a signature of the agent's current key over the payload. */
            valid: boolean;
            /** @description When the signature was verified. */
            verified_at: components["schemas"]["WireTime"];
        };
        /** @description The result of a verification. */
        VerificationBody: {
            /** @description The faults found. */
            breaks: components["schemas"]["Break"][];
            /** @description Whether no fault was found. */
            chain_valid: boolean;
            /** @description Number of checkpoints compared. */
            checkpoint_count: number;
            /**
             * @description Number of older events that retention has deleted: their hashes are kept, and checkpoints cover them. Left out if it
             *     is 0.
             */
            deleted_count?: number;
            /** @description Number of events. */
            event_count: number;
            /** @description The events. */
            events: components["schemas"]["VerifiedEvent"][];
            /**
             * Format: int64
             * @description Position of the first event.
             */
            first_sequence?: number | null;
            intent_id?: components["schemas"]["IntentId"] | null;
            /**
             * Format: int64
             * @description Position of the last event.
             */
            last_sequence?: number | null;
            /** @description Same as `chain_valid`, under the SDK's name. */
            valid: boolean;
        };
        /** @description An event of a verified chain. */
        VerifiedEvent: {
            /** @description The stored hash. */
            event_hash?: string | null;
            /** @description The hash of the previous event, as stored. */
            previous_event_hash?: string | null;
            /**
             * Format: int64
             * @description The event's position in the chain.
             */
            sequence: number;
            /** @description Whether the event passed every check. */
            verified: boolean;
        };
        /**
         * @description Channel through which a person answered.
         * @enum {string}
         */
        Via: "web" | "cli" | "api";
        /**
         * @description The proof of an envelope's sender.
         * @enum {string}
         */
        Voucher: "sig" | "token" | "gateway";
        /** @description A wait of one agent for another. */
        Wait: {
            /** @description Whether the agent can do nothing else until then, as far as the server knows: only such waits make deadlocks. */
            blocks: boolean;
            /** @description The agent that waits. */
            from: string;
            intent_id?: components["schemas"]["IntentId"] | null;
            /** @description Kind of the object that it waits for. */
            kind: components["schemas"]["WaitKind"];
            /** @description The request, the lease's scope, the task, the job or the moment. */
            ref: string;
            /** @description Since when. */
            since: components["schemas"]["WireTime"];
            /** @description The awaited agent or person; null if any of several may end the wait. */
            to?: string | null;
        };
        /**
         * @description Kind of a wait, by the thing that is waited for.
         * @enum {string}
         */
        WaitKind: "request" | "lease" | "task" | "job" | "decision";
        /** @description Who waits for whom. */
        Waits: {
            /** @description Agents that the caller may act as and that are in a deadlock, also in one that it may not see. */
            deadlocked: string[];
            /** @description The deadlocks of which the caller may see every wait. */
            deadlocks: components["schemas"]["Deadlock"][];
            /** @description Whether there are more waits than one answer has. */
            truncated: boolean;
            /** @description The waits, oldest first. */
            waits: components["schemas"]["Wait"][];
        };
        /**
         * @description A stable code for each violation, found in the receipt and beside the envelope in the mailbox,
         *     never in it.
         * @enum {string}
         */
        Warning: "id_not_ulid_or_uuid" | "ts_unparseable" | "reply_to_should_be_null" | "requires_type" | "partly_signed" | "sig_unverified" | "requires_large" | "possible_secret_in_requires" | "error_payload_incomplete" | "looks_like_nested_envelope" | "unmatched_reply" | "stream_after_terminal" | "priority_lowered" | "no_subscribers" | "payload_invalid" | "reference_hash_mismatch" | "timeout_capped";
        /** @description The caller's principal, acting agent and key. */
        WhoamiBody: {
            /** @description The agent that this request acts as. */
            agent_id: string;
            /** @description Record of the key. */
            key: components["schemas"]["KeyBody"];
            /** @description Kind of principal. */
            kind: components["schemas"]["Kind"];
            /** @description The key's principal. */
            principal_id: string;
        };
        /**
         * Format: date-time
         * @description RFC 3339, UTC, microseconds
         */
        WireTime: string;
        /**
         * @description Kind of a contribution to a moment.
         * @enum {string}
         */
        WordKind: "detail_asked" | "detail" | "deliberation" | "reply";
        /** @description A worker. */
        Worker: {
            /** @description Agents whose jobs the worker runs. */
            agents: string[];
            /** @description Current directive to the worker. */
            directive: components["schemas"]["Directive"];
            /**
             * Format: int64
             * @description Recommended heartbeat interval in seconds.
             */
            heartbeat_interval_sec: number;
            /** @description The jobs that the worker runs, the oldest claims first; a list of workers has at most 1,000 in all. */
            jobs: components["schemas"]["WorkerJob"][];
            /** @description Labels, for people. */
            labels: {
                [key: string]: unknown;
            };
            /** @description When the worker was last seen. */
            last_seen_at: string;
            /** @description Name of the worker. */
            name: string;
            /** @description Principal that registered the worker. */
            principal: string;
            /** @description When the worker registered. */
            registered_at: string;
            /**
             * Format: int32
             * @description How many jobs the worker runs at once.
             */
            slots: number;
            /** @description State that the worker last reported. */
            state: string;
            /** @description Worker id. */
            worker_id: components["schemas"]["WorkerId"];
        };
        /** @description A heartbeat of a worker. */
        WorkerBeat: {
            directive?: components["schemas"]["Directive"] | null;
            /** @description The jobs that the worker holds; their claims are extended. */
            jobs?: components["schemas"]["HeldBody"][];
            /** @description State of the worker, as it reports it. */
            state?: string | null;
            /**
             * Format: double
             * @description Seconds for which the response may wait; it returns immediately if the directive changes, or a job
             *     must stop or is lost.
             */
            wait_sec?: number | null;
        };
        /** @description A directive to a worker. */
        WorkerDirective: {
            /** @description `run`, `quiet` or `terminate`. */
            directive: components["schemas"]["Directive"];
        };
        /** @description The response to a heartbeat. */
        WorkerDirectives: {
            /** @description Jobs to stop and to report as ended. */
            cancel: components["schemas"]["JobId"][];
            /** @description For each job of `cancel`, when the server ends it if the worker has not; absent if there are none. */
            cancel_due_at?: {
                [key: string]: string;
            };
            /** @description When the claims on the other jobs expire. */
            claim_expires_at: string;
            /** @description Whether to continue, to claim no more jobs, or to terminate. */
            directive: components["schemas"]["Directive"];
            /** @description Jobs that the worker no longer holds: drop them without a report. */
            lost: string[];
            /** @description Signals by job, for those jobs that have new ones; absent if there are none. */
            signals?: {
                [key: string]: components["schemas"]["JobSignal"][];
            };
        };
        /** @description `wrk_` and a ULID */
        WorkerId: string;
        /** @description A job that a worker runs. */
        WorkerJob: {
            /** @description The agent that the worker runs it as. */
            agent: string;
            /**
             * Format: int32
             * @description Attempt number, starting at 1.
             */
            attempt: number;
            /** @description When the claim expires, unless a heartbeat extends it. */
            expires_at: string;
            /** @description The job. */
            job_id: components["schemas"]["JobId"];
            /** @description When the worker claimed it. */
            since: string;
        };
        /** @description The response to a worker's departure. */
        WorkerLeft: {
            /** @description The worker. */
            worker_id: components["schemas"]["WorkerId"];
        };
        /** @description A page of workers. */
        WorkerList: {
            /** @description The workers, last seen first. */
            workers: components["schemas"]["Worker"][];
        };
        /**
         * @description The agents that may work on an intent, among those with sufficient access.
         * @enum {string}
         */
        WriteScope: "any" | "assigned_only";
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type $defs = Record<string, never>;
export interface operations {
    did_document: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The document */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DidDocument"];
                };
            };
        };
    };
    get_compatibility: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Implemented RFCs and their gaps */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Compatibility"];
                };
            };
        };
    };
    federation_manifest: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The manifest */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["FederationManifest"];
                };
            };
        };
    };
    discover: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Description of the server */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Discovery"];
                };
            };
        };
    };
    create_checkpoint: {
        parameters: {
            query?: never;
            header?: {
                /** @description Idempotency key: a retry with the same key is executed once */
                "Idempotency-Key"?: string | null;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewCheckpoint"];
            };
        };
        responses: {
            /** @description The checkpoint */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CheckpointBody"];
                };
            };
        };
    };
    anchor_checkpoint: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The checkpoint */
                checkpoint_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewAnchor"];
            };
        };
        responses: {
            /** @description The checkpoint, signed again with its anchor */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CheckpointBody"];
                };
            };
        };
    };
    list_approvals: {
        parameters: {
            query?: {
                /** @description Last `id` of the previous page */
                after?: string;
                /** @description Page size, 1 to 100; defaults to 20 */
                limit?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The tasks */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Approval"][];
                };
            };
        };
    };
    decide_approval: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description `id` of the task */
                envelope_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ApprovalAnswer"];
            };
        };
        responses: {
            /** @description The decision */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ApprovalDecided"];
                };
            };
        };
    };
    list_bridges: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The bridges */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["KeptBridge"][];
                };
            };
        };
    };
    put_bridge: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Name of the bridge: lowercase letters, digits, `.`, `_` and `-` */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Bridge"];
            };
        };
        responses: {
            /** @description The bridge */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["KeptBridge"];
                };
            };
        };
    };
    delete_bridge: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Name of the bridge */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Removed */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    subscribe_bus: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The bus: `bus.` followed by a name */
                bus: string;
                /** @description The subscribing entity */
                entity: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The subscription */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BusSubscription"];
                };
            };
        };
    };
    unsubscribe_bus: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The bus */
                bus: string;
                /** @description The subscribing entity */
                entity: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Unsubscribed */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    conformance: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The conformance claim */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Claim"];
                };
            };
        };
    };
    send_envelope: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Envelope"];
            };
        };
        responses: {
            /** @description Answered by the server itself */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AnsweredEnvelope"];
                };
            };
            /** @description Accepted */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AnsweredEnvelope"];
                };
            };
        };
    };
    send_envelopes: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Envelopes"];
            };
        };
        responses: {
            /** @description All envelopes were accepted */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EnvelopesReply"];
                };
            };
            /** @description Some envelopes were refused */
            207: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EnvelopesReply"];
                };
            };
        };
    };
    get_envelope: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description `id` of the envelope */
                envelope_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The envelope */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["KeptEnvelope"];
                };
            };
        };
    };
    list_envelope_keys: {
        parameters: {
            query?: {
                /** @description Entity that owns the keys; defaults to the acting agent */
                entity?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The keys */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EnvelopeKeyBody"][];
                };
            };
        };
    };
    register_envelope_key: {
        parameters: {
            query?: never;
            header?: {
                /** @description Idempotency key: a retry with the same key is executed once */
                "Idempotency-Key"?: string | null;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewEnvelopeKey"];
            };
        };
        responses: {
            /** @description The key was already registered */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RegistrationBody"];
                };
            };
            /** @description The key was registered */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RegistrationBody"];
                };
            };
        };
    };
    revoke_envelope_key: {
        parameters: {
            query?: {
                /** @description Entity that owns the key; defaults to the acting agent */
                entity?: string;
            };
            header?: never;
            path: {
                /** @description Name of the key */
                kid: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The revoked key */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EnvelopeKeyBody"];
                };
            };
        };
    };
    list_envelope_log_lines: {
        parameters: {
            query?: {
                /** @description Only lines of this thread */
                corr?: string;
                /** @description `seq` of the last line of the previous page */
                after?: number;
                /** @description Page size, 1 to 1,000; defaults to 100 */
                limit?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The lines */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["KeptLine"][];
                };
            };
        };
    };
    keep_envelope_log_lines: {
        parameters: {
            query?: never;
            header?: {
                /** @description Idempotency key: a retry with the same key is executed once */
                "Idempotency-Key"?: string | null;
            };
            path?: never;
            cookie?: never;
        };
        /** @description Up to 1,000 lines, one JSON object each */
        requestBody: {
            content: {
                "application/x-ndjson": string;
            };
        };
        responses: {
            /** @description All lines were stored */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LinesReply"];
                };
            };
            /** @description Some lines were refused */
            207: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LinesReply"];
                };
            };
        };
    };
    read_mailbox: {
        parameters: {
            query?: {
                /** @description Number of an envelope: only those after it; defaults to those not yet acknowledged */
                after?: number;
                /** @description Page size, 1 to 1,000; defaults to 100 */
                limit?: number;
                /** @description Seconds to wait if there are no envelopes, up to 120; defaults to 0 */
                wait?: number;
            };
            header?: never;
            path: {
                /** @description Entity that owns the mailbox */
                entity: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The envelopes */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MailboxPage"];
                };
            };
        };
    };
    open_mailbox: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Entity that owns the mailbox */
                entity: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The mailbox */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Mailbox"];
                };
            };
        };
    };
    ack_mailbox: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Entity that owns the mailbox */
                entity: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["MailboxAck"];
            };
        };
        responses: {
            /** @description Progress of the mailbox */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Mailbox"];
                };
            };
        };
    };
    pick_mailbox: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Entity that owns the mailbox */
                entity: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["MailboxPick"];
            };
        };
        responses: {
            /** @description The envelopes, most pressing first */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MailboxItem"][];
                };
            };
        };
    };
    list_envelope_rules: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The rules */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EnvelopeRuleList"];
                };
            };
        };
    };
    set_envelope_rule: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Name of the rule */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Rule"];
            };
        };
        responses: {
            /** @description The rule */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EnvelopeRule"];
                };
            };
        };
    };
    remove_envelope_rule: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Name of the rule */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Removed */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    list_envelope_schemas: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The schemas */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EnvelopeSchemaList"];
                };
            };
        };
    };
    get_envelope_schema: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The schema */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/schema+json": {
                        [key: string]: unknown;
                    };
                };
            };
        };
    };
    get_payload_schema: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description File name: `{intent}.{task|result|error}.schema.json` */
                file: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The schema */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/schema+json": {
                        [key: string]: unknown;
                    };
                };
            };
        };
    };
    publish_payload_schema: {
        parameters: {
            query?: {
                /** @description Treatment of payloads that do not match; defaults to the current policy, or to `warn` for a new schema */
                policy?: components["schemas"]["Strictness"];
            };
            header?: never;
            path: {
                /** @description File name: `{intent}.{task|result|error}.schema.json` */
                file: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["SchemaDocument"];
            };
        };
        responses: {
            /** @description The published schema */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EnvelopeSchema"];
                };
            };
        };
    };
    withdraw_payload_schema: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description File name: `{intent}.{task|result|error}.schema.json` */
                file: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Withdrawn */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    follow_mailbox: {
        parameters: {
            query?: {
                /** @description Entity that owns the mailbox; defaults to the acting agent */
                entity?: string;
            };
            header?: {
                /** @description Id of the last frame received; the stream resumes after it */
                "Last-Event-ID"?: string | null;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Server-sent events */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/event-stream": string;
                };
            };
        };
    };
    list_bus_subscriptions: {
        parameters: {
            query?: {
                /** @description Subscribed entity; defaults to the acting agent */
                entity?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The subscriptions */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BusSubscription"][];
                };
            };
        };
    };
    get_thread: {
        parameters: {
            query?: {
                /** @description `next_cursor` of the previous page */
                cursor?: string;
                /** @description Page size, 1 to 1,000; defaults to 1,000 */
                limit?: number;
            };
            header?: never;
            path: {
                /** @description `corr` of the thread */
                corr: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The thread */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EnvelopeThread"];
                };
            };
        };
    };
    list_agents: {
        parameters: {
            query?: {
                /** @description Only agents in this status */
                status?: components["schemas"]["AgentStatus"];
                /** @description Only agents with this role */
                role_id?: string;
                /** @description Id of the last agent of the previous page */
                after?: string;
                /** @description Page size, 1 to 1,000; defaults to 1,000 */
                limit?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The agents */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AgentBody"][];
                };
            };
        };
    };
    register_agent_rfc: {
        parameters: {
            query?: never;
            header?: {
                /** @description Idempotency key: a retry with the same key is executed once */
                "Idempotency-Key"?: string | null;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["RegisterBody"];
            };
        };
        responses: {
            /** @description The record */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AgentBody"];
                };
            };
        };
    };
    register_agent: {
        parameters: {
            query?: never;
            header?: {
                /** @description Idempotency key: a retry with the same key is executed once */
                "Idempotency-Key"?: string | null;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["RegisterBody"];
            };
        };
        responses: {
            /** @description The record */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AgentBody"];
                };
            };
        };
    };
    get_agent: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The agent */
                agent_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The record */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AgentBody"];
                };
            };
        };
    };
    deregister_agent: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The agent */
                agent_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The record */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AgentBody"];
                };
            };
        };
    };
    drain_agent: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The agent */
                agent_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The record */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AgentBody"];
                };
            };
        };
    };
    get_agent_endpoint: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The agent */
                agent_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The webhook, with its secret */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SubscriptionBody"];
                };
            };
        };
    };
    list_agent_grants: {
        parameters: {
            query?: {
                /** @description Last grant of the previous page */
                after?: components["schemas"]["ToolGrantId"];
                /** @description Page size, 1 to 1,000; defaults to 1,000 */
                limit?: number;
            };
            header?: never;
            path: {
                /** @description The agent */
                agent_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The grants */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ToolGrant"][];
                };
            };
        };
    };
    heartbeat: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The agent */
                agent_id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["HeartbeatBody"];
            };
        };
        responses: {
            /** @description The heartbeat was recorded */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["HeartbeatReply"];
                };
            };
        };
    };
    get_identity: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The agent */
                agent_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The identity */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["IdentityBody"];
                };
            };
        };
    };
    register_identity: {
        parameters: {
            query?: never;
            header?: {
                /** @description Idempotency key: a retry with the same key is executed once */
                "Idempotency-Key"?: string | null;
            };
            path: {
                /** @description The agent */
                agent_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewIdentity"];
            };
        };
        responses: {
            /** @description The challenge */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ChallengeBody"];
                };
            };
        };
    };
    complete_identity_challenge: {
        parameters: {
            query?: never;
            header?: {
                /** @description Idempotency key: a retry with the same key is executed once */
                "Idempotency-Key"?: string | null;
            };
            path: {
                /** @description The agent */
                agent_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["SignedChallenge"];
            };
        };
        responses: {
            /** @description The identity */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["IdentityBody"];
                };
            };
        };
    };
    revoke_identity: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The agent */
                agent_id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["KeyRevocation"];
            };
        };
        responses: {
            /** @description The identity */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["IdentityBody"];
                };
            };
        };
    };
    rotate_identity: {
        parameters: {
            query?: never;
            header?: {
                /** @description Idempotency key: a retry with the same key is executed once */
                "Idempotency-Key"?: string | null;
            };
            path: {
                /** @description The agent */
                agent_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["KeyRotation"];
            };
        };
        responses: {
            /** @description The identity */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["IdentityBody"];
                };
            };
        };
    };
    verify_signature: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The agent */
                agent_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["SignedPayload"];
            };
        };
        responses: {
            /** @description Result of the verification */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["VerdictBody"];
                };
            };
        };
    };
    read_inbox: {
        parameters: {
            query?: {
                /** @description Name of the reader, whose position the server keeps; defaults to `default` */
                reader?: string;
                /** @description Levels, separated by commas: `wake`, `next`, `digest`; defaults to those that the reader read before, or all */
                attention?: string;
                /** @description A position (`next` of a page) to read after instead of the reader's own; entries that rang again since are returned too */
                since?: string;
                /** @description Return the entries of the level `digest` one by one; defaults to false */
                expand?: boolean;
                /** @description Maximum number of entries, 1 to 200; defaults to 50 */
                limit?: number;
                /** @description Seconds to wait if there are no entries, up to 120; defaults to 0 */
                wait?: number;
            };
            header?: never;
            path: {
                /** @description The agent */
                agent_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The entries */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InboxPage"];
                };
            };
        };
    };
    put_inbox: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The agent */
                agent_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["InboxSettings"];
            };
        };
        responses: {
            /** @description The inbox */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Inbox"];
                };
            };
        };
    };
    close_inbox: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The agent */
                agent_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The inbox is closed */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    mark_inbox_seen: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The agent */
                agent_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["InboxSeen"];
            };
        };
        responses: {
            /** @description The reader */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InboxReader"];
                };
            };
        };
    };
    get_inbox: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The agent */
                agent_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The inbox */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Inbox"];
                };
            };
        };
    };
    follow_inbox: {
        parameters: {
            query?: {
                /** @description Name of the reader; defaults to `default` */
                reader?: string;
                /** @description Levels, separated by commas; defaults to those that the reader read before, or all */
                attention?: string;
            };
            header?: {
                /** @description Id of the last frame received; the stream resumes after it */
                "Last-Event-ID"?: string | null;
            };
            path: {
                /** @description The agent */
                agent_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Server-sent events */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/event-stream": string;
                };
            };
        };
    };
    list_memory: {
        parameters: {
            query?: {
                /** @description Only entries in this namespace */
                namespace?: string;
                /** @description Only entries with this key */
                key?: string;
                /** @description Only entries with keys that have this prefix */
                key_prefix?: string;
                /** @description Only entries of this type */
                memory_type?: components["schemas"]["MemoryType"];
                /** @description Only entries with all of these tags, separated by commas */
                tags?: string;
                /** @description Only entries with these words in the key or value; also accepted as `query` */
                q?: string;
                /** @description Only entries that belong to this task */
                task_id?: string;
                /** @description Whether to list archived entries instead of active ones; defaults to false */
                archived?: boolean;
                /** @description Page size, 1 to 1,000; defaults to 100 */
                limit?: number;
                /** @description Number of entries to skip; defaults to 0 */
                offset?: number;
            };
            header?: never;
            path: {
                /** @description The agent */
                agent_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The entries */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MemoryEntry"][];
                };
            };
        };
    };
    list_memory_changes: {
        parameters: {
            query?: {
                /** @description Only changes after this number */
                after?: number;
                /** @description Page size, 1 to 1,000; defaults to 100 */
                limit?: number;
            };
            header?: never;
            path: {
                /** @description The agent */
                agent_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The changes */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MemoryEvent"][];
                };
            };
        };
    };
    get_agent_record: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The agent */
                agent_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The record */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AgentBody"];
                };
            };
        };
    };
    get_agent_session: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The agent */
                agent_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The session */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AgentSession"];
                };
            };
        };
    };
    open_agent_session: {
        parameters: {
            query?: never;
            header?: {
                /** @description Idempotency key: a retry with the same key is executed once */
                "Idempotency-Key"?: string | null;
            };
            path: {
                /** @description The agent */
                agent_id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["NewAgentSession"];
            };
        };
        responses: {
            /** @description The session */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AgentSession"];
                };
            };
        };
    };
    set_agent_status: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The agent */
                agent_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["AgentStatusChange"];
            };
        };
        responses: {
            /** @description The record */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AgentBody"];
                };
            };
        };
    };
    follow_agent_sdk: {
        parameters: {
            query?: {
                /** @description As `Last-Event-ID`, for clients that cannot set headers */
                last_event_id?: string;
                /**
                 * @description Names of the events to receive, separated by commas or repeated: types of the log, `channel_message`,
                 *     `message_read`, `message_expired`, the names of the SDK's agents (`AGENT_ASSIGNED` and so on), globs such as
                 *     `task.*`, `posted` or `posted:TYPE` for events of clients, `*` for all. Defaults to all, except on
                 *     `/agents/{agent_id}/subscribe`; an unknown name is 422
                 */
                event_types?: string;
            };
            header?: {
                /** @description Id of the last frame received; the stream resumes after it */
                "Last-Event-ID"?: string | null;
            };
            path: {
                /** @description The agent; the key must be able to act as it */
                agent_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Server-sent events */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/event-stream": string;
                };
            };
        };
    };
    list_inventory: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The agents */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Inventory"];
                };
            };
        };
    };
    get_job_queue: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The agent: `name` for all of its versions, or `name@version` */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The queue */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["JobQueue"];
                };
            };
        };
    };
    change_job_queue: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The agent: `name` for all of its versions, or `name@version` */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["JobQueueChange"];
            };
        };
        responses: {
            /** @description The queue */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["JobQueue"];
                };
            };
        };
    };
    register_agent_version: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The agent */
                name: string;
                /** @description The version */
                version: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["AgentVersionTerms"];
            };
        };
        responses: {
            /** @description The agent */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InventoryAgent"];
                };
            };
        };
    };
    list_job_limits: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The limits */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["JobLimitList"];
                };
            };
        };
    };
    set_job_limits: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description `agents` or `principals` */
                scope: string;
                /** @description The agent, without a version, or the principal */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["JobLimits"];
            };
        };
        responses: {
            /** @description The limits are in force */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["JobLimits"];
                };
            };
        };
    };
    remove_job_limits: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description `agents` or `principals` */
                scope: string;
                /** @description The agent, without a version, or the principal */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description There are no limits any more */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["JobLimits"];
                };
            };
        };
    };
    list_audit: {
        parameters: {
            query?: {
                /** @description Only events of this type */
                event_type?: string;
                /** @description Only events after this time */
                since?: string;
                /** @description Page size, 1 to 1,000; defaults to 100 */
                limit?: number;
                /** @description Number of newest events to skip; defaults to 0 */
                offset?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The events */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EventBody"][];
                };
            };
        };
    };
    verify_audit: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Result of the verification */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["VerificationBody"];
                };
            };
        };
    };
    list_budgets: {
        parameters: {
            query?: {
                /** @description Budgets of this scope alone */
                scope?: string;
                /** @description Id of the last budget of the previous page */
                after?: string;
                /** @description Page size, 1 to 1,000; defaults to 1,000 */
                limit?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The budgets */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BudgetList"];
                };
            };
        };
    };
    create_budget: {
        parameters: {
            query?: never;
            header?: {
                /** @description Idempotency key: a retry with the same key is executed once */
                "Idempotency-Key"?: string | null;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewBudget"];
            };
        };
        responses: {
            /** @description The budget */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Budget"];
                };
            };
        };
    };
    get_budget: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id of the budget */
                budget_id: components["schemas"]["BudgetId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The budget */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Budget"];
                };
            };
        };
    };
    close_budget: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id of the budget */
                budget_id: components["schemas"]["BudgetId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The closed budget */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Budget"];
                };
            };
        };
    };
    change_budget: {
        parameters: {
            query?: never;
            header?: {
                /** @description Idempotency key: a retry with the same key is executed once */
                "Idempotency-Key"?: string | null;
            };
            path: {
                /** @description Id of the budget */
                budget_id: components["schemas"]["BudgetId"];
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["BudgetPatch"];
            };
        };
        responses: {
            /** @description The budget */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Budget"];
                };
            };
        };
    };
    raise_budget: {
        parameters: {
            query?: never;
            header?: {
                /** @description Idempotency key: a retry with the same key is executed once */
                "Idempotency-Key"?: string | null;
            };
            path: {
                /** @description Id of the budget */
                budget_id: components["schemas"]["BudgetId"];
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["BudgetRaise"];
            };
        };
        responses: {
            /** @description The budget */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Budget"];
                };
            };
        };
    };
    list_bundles: {
        parameters: {
            query?: {
                /** @description Only bundles of this intent */
                intent_id?: components["schemas"]["IntentId"];
                /** @description Id of the last bundle of the previous page */
                before?: components["schemas"]["BundleId"];
                /** @description Page size, 1 to 1,000; defaults to 1,000 */
                limit?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The bundles */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BundleList"];
                };
            };
        };
    };
    import_bundle: {
        parameters: {
            query?: {
                /** @description A key that may have signed the file besides this server's own, as a `did:key`; repeatable */
                server_key?: string[];
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description The bundle */
        requestBody: {
            content: {
                "application/x-ndjson": string;
            };
        };
        responses: {
            /** @description The same file was imported before */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Bundle"];
                };
            };
            /** @description The bundle was imported */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Bundle"];
                };
            };
        };
    };
    get_bundle: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The bundle */
                bundle_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The bundle */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Bundle"];
                };
            };
        };
    };
    remove_bundle: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The bundle */
                bundle_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The bundle is removed */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    get_bundle_file: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The bundle */
                bundle_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The bundle */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/x-ndjson": string;
                };
            };
        };
    };
    list_bundle_lines: {
        parameters: {
            query?: {
                /** @description Only lines of this kind, such as `message` */
                kind?: string;
                /** @description Number of the last line of the previous page */
                after?: number;
                /** @description Page size, 1 to 1,000; defaults to 1,000 */
                limit?: number;
            };
            header?: never;
            path: {
                /** @description The bundle */
                bundle_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The lines */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BundleLines"];
                };
            };
        };
    };
    get_channel: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The channel */
                channel_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The channel */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ChannelBody"];
                };
            };
        };
    };
    delete_channel: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The channel */
                channel_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The channel was deleted */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DeletedBody"];
                };
            };
        };
    };
    change_channel: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The channel */
                channel_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ChangeBody"];
            };
        };
        responses: {
            /** @description The channel */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ChannelBody"];
                };
            };
        };
    };
    ask: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The channel */
                channel_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["AskBody"];
            };
        };
        responses: {
            /** @description The result: all responses, or those so far */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AskReply"];
                };
            };
        };
    };
    list_messages: {
        parameters: {
            query?: {
                /** @description Only messages after this message id, cursor or time; defaults to the newest */
                since?: string;
                /** @description Only messages to this agent (including its roles and broadcasts), `role:…` or `*` */
                to?: string;
                /** @description Page size, 1 to 1,000; defaults to 1,000 */
                limit?: number;
                /** @description Seconds to wait if there is no message, up to 120; defaults to 0 */
                wait?: number;
            };
            header?: never;
            path: {
                /** @description The channel */
                channel_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The messages */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MessageBody"][];
                };
            };
        };
    };
    send_message: {
        parameters: {
            query?: never;
            header?: {
                /** @description Idempotency key: a retry with the same key is executed once */
                "Idempotency-Key"?: string | null;
            };
            path: {
                /** @description The channel */
                channel_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["SendBody"];
            };
        };
        responses: {
            /** @description The message */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MessageBody"];
                };
            };
        };
    };
    send_messages: {
        parameters: {
            query?: never;
            header?: {
                /** @description Idempotency key: a retry with the same key is executed once */
                "Idempotency-Key"?: string | null;
            };
            path: {
                /** @description The channel */
                channel_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["BatchBody"];
            };
        };
        responses: {
            /** @description All messages were sent */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BatchReply"];
                };
            };
            /** @description Some messages were refused */
            207: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BatchReply"];
                };
            };
        };
    };
    get_message: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The channel */
                channel_id: string;
                /** @description The message */
                message_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The message */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MessageBody"];
                };
            };
        };
    };
    mark_message_read: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The channel */
                channel_id: string;
                /** @description The message */
                message_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["MessageStatusChange"];
            };
        };
        responses: {
            /** @description The message */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MessageBody"];
                };
            };
        };
    };
    reply_to_message: {
        parameters: {
            query?: never;
            header?: {
                /** @description Idempotency key: a retry with the same key is executed once */
                "Idempotency-Key"?: string | null;
            };
            path: {
                /** @description The channel */
                channel_id: string;
                /** @description The request */
                message_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ReplyBody"];
            };
        };
        responses: {
            /** @description The response */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MessageBody"];
                };
            };
        };
    };
    follow_channel_sdk: {
        parameters: {
            query?: {
                /** @description As `Last-Event-ID`, for clients that cannot set headers */
                last_event_id?: string;
                /**
                 * @description Names of the events to receive, separated by commas or repeated: types of the log, `channel_message`,
                 *     `message_read`, `message_expired`, the names of the SDK's agents (`AGENT_ASSIGNED` and so on), globs such as
                 *     `task.*`, `posted` or `posted:TYPE` for events of clients, `*` for all. Defaults to all, except on
                 *     `/agents/{agent_id}/subscribe`; an unknown name is 422
                 */
                event_types?: string;
                /** @description Without `Last-Event-ID`: begin after this message id, or after the `Entente-Next-Cursor` of a page */
                since?: string;
            };
            header?: {
                /** @description Id of the last frame received; the stream resumes after it */
                "Last-Event-ID"?: string | null;
            };
            path: {
                /** @description The channel */
                channel_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Server-sent events */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/event-stream": string;
                };
            };
        };
    };
    list_checkpoints: {
        parameters: {
            query?: {
                /** @description Only checkpoints of this intent */
                intent_id?: string;
                /** @description Only checkpoints of this kind of log: `intent` or `server` (the system log) */
                scope?: string;
                /** @description Only checkpoints older than this one: the last of the previous page */
                before?: string;
                /** @description Page size, 1 to 1,000; defaults to 1,000 */
                limit?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The checkpoints */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CheckpointBody"][];
                };
            };
        };
    };
    get_checkpoint: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The checkpoint */
                checkpoint_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The checkpoint */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CheckpointBody"];
                };
            };
        };
    };
    get_merkle_proof: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The checkpoint */
                checkpoint_id: string;
                /** @description The event */
                event_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The proof */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ProofBody"];
                };
            };
        };
    };
    get_push_key: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The key */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PushKeyBody"];
                };
            };
        };
    };
    get_contact_point: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The contact point */
                contact_point_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The contact point */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ContactPoint"];
                };
            };
        };
    };
    remove_contact_point: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The contact point */
                contact_point_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description It was removed */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    change_contact_point: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The contact point */
                contact_point_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ContactPointChange"];
            };
        };
        responses: {
            /** @description The contact point */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ContactPoint"];
                };
            };
        };
    };
    confirm_contact_point: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The contact point */
                contact_point_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ContactPointCode"];
            };
        };
        responses: {
            /** @description The contact point */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ContactPoint"];
                };
            };
        };
    };
    test_contact_point: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The contact point */
                contact_point_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A message is on its way */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ContactPoint"];
                };
            };
        };
    };
    create_coordinator_lease: {
        parameters: {
            query?: never;
            header?: {
                /** @description Idempotency key: a retry with the same key is executed once */
                "Idempotency-Key"?: string | null;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewCoordinator"];
            };
        };
        responses: {
            /** @description The appointment */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Coordinator"];
                };
            };
        };
    };
    get_coordinator_lease: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The appointment */
                coordinator_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The appointment; its version is the ETag */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Coordinator"];
                };
            };
        };
    };
    update_coordinator: {
        parameters: {
            query?: never;
            header: {
                /** @description Version last read */
                "If-Match": number;
            };
            path: {
                /** @description The appointment */
                coordinator_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["CoordinatorPatch"];
            };
        };
        responses: {
            /** @description The appointment */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Coordinator"];
                };
            };
        };
    };
    coordinator_heartbeat: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The appointment */
                coordinator_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The heartbeat was recorded */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CoordinatorBeat"];
                };
            };
        };
    };
    list_credentials: {
        parameters: {
            query?: {
                /** @description Only credentials in this state */
                state?: components["schemas"]["CredentialState"];
                /** @description Last credential of the previous page */
                after?: components["schemas"]["CredentialId"];
                /** @description Page size, 1 to 1,000; defaults to 100 */
                limit?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The credentials */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CredentialRecord"][];
                };
            };
        };
    };
    create_credential: {
        parameters: {
            query?: never;
            header?: {
                /** @description Idempotency key: a retry with the same key is executed once */
                "Idempotency-Key"?: string | null;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewToolCredential"];
            };
        };
        responses: {
            /** @description The credential, without its secret */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ToolCredential"];
                };
            };
        };
    };
    retry_credential: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The credential */
                credential_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description All generations of the credential */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CredentialRecord"][];
                };
            };
        };
    };
    get_credential: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The credential */
                tool_credential_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The credential */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ToolCredential"];
                };
            };
        };
    };
    change_credential: {
        parameters: {
            query?: never;
            header?: {
                /** @description Version last read; defaults to any version */
                "If-Match"?: number | null;
            };
            path: {
                /** @description The credential */
                tool_credential_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ToolCredentialChange"];
            };
        };
        responses: {
            /** @description The credential, without its secret */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ToolCredential"];
                };
            };
        };
    };
    list_credential_grants: {
        parameters: {
            query?: {
                /** @description Last grant of the previous page */
                after?: components["schemas"]["ToolGrantId"];
                /** @description Page size, 1 to 1,000; defaults to 1,000 */
                limit?: number;
            };
            header?: never;
            path: {
                /** @description The credential */
                tool_credential_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The grants */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ToolGrant"][];
                };
            };
        };
    };
    list_coordinator_decisions: {
        parameters: {
            query?: {
                /** @description Only decisions under this appointment; takes precedence over `intent_id` */
                coordinator_id?: string;
                /** @description Only decisions on this intent */
                intent_id?: string;
                /** @description Only decisions older than this one: the last id of the previous page */
                before?: string;
                /** @description Page size, 1 to 1,000; defaults to 50 */
                limit?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The decisions */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CoordinatorDecision"][];
                };
            };
        };
    };
    create_decision_record: {
        parameters: {
            query?: never;
            header?: {
                /** @description Idempotency key: a retry with the same key is executed once */
                "Idempotency-Key"?: string | null;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewCoordinatorDecision"];
            };
        };
        responses: {
            /** @description The decision */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CoordinatorDecision"];
                };
            };
        };
    };
    list_escalations: {
        parameters: {
            query?: {
                /** @description Only escalations of this intent */
                intent_id?: string;
                /** @description Only escalations in this status */
                status?: components["schemas"]["EscalationStatus"];
                /** @description Only escalations assigned to this person */
                assigned_to?: string;
                /** @description Only escalations older than this one: the last id of the previous page */
                before?: string;
                /** @description Page size, 1 to 1,000; defaults to 100 */
                limit?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The escalations */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EscalationList"];
                };
            };
        };
    };
    resolve_escalation: {
        parameters: {
            query?: never;
            header?: {
                /** @description Idempotency key: a retry with the same key is executed once */
                "Idempotency-Key"?: string | null;
            };
            path: {
                /** @description The escalation */
                escalation_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["EscalationResolution"];
            };
        };
        responses: {
            /** @description The escalation */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Escalation"];
                };
            };
        };
    };
    list_trace: {
        parameters: {
            query: {
                /** @description Trace id: 32 hexadecimal digits */
                trace_id: string;
                /** @description Page size, 1 to 1,000; defaults to 100 */
                limit?: number;
                /** @description Number of oldest events to skip; defaults to 0 */
                offset?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The events */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EventBody"][];
                };
            };
        };
    };
    ext_authz: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The request may pass */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    ext_authz_path: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Path of the request that is judged */
                path: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The request may pass */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    list_federated_agents: {
        parameters: {
            query?: {
                /** @description Only agents after this id: `next` of the previous page */
                after?: string;
            };
            header?: {
                /** @description Peer, by URL or DID: lists the agents visible to it; defaults to the peer that owns the key, if any */
                "X-Source-Server"?: string | null;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The agents */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["FederatedAgents"];
                };
            };
        };
    };
    federation_callback: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["FederationCallback"];
            };
        };
        responses: {
            /** @description The callback was recorded */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["FederationHeard"];
                };
            };
        };
    };
    federation_dispatch: {
        parameters: {
            query?: never;
            header?: {
                /** @description Idempotency key: a retry with the same key is executed once */
                "Idempotency-Key"?: string | null;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewFederationDispatch"];
            };
        };
        responses: {
            /** @description The dispatch */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["FederationDispatch"];
                };
            };
        };
    };
    get_federation_dispatch: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The dispatch */
                dispatch_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The dispatch */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["FederationDispatch"];
                };
            };
        };
    };
    federation_receive: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["FederationDelivery"];
            };
        };
        responses: {
            /** @description Whether the intent was accepted */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["FederationReceipt"];
                };
            };
        };
    };
    federation_status: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Status of federation */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["FederationStatus"];
                };
            };
        };
    };
    create_tool_grant: {
        parameters: {
            query?: never;
            header?: {
                /** @description Idempotency key: a retry with the same key is executed once */
                "Idempotency-Key"?: string | null;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewToolGrant"];
            };
        };
        responses: {
            /** @description The grant */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ToolGrant"];
                };
            };
        };
    };
    get_tool_grant: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The grant */
                grant_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The grant */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ToolGrant"];
                };
            };
        };
    };
    revoke_grant: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The grant */
                grant_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The revoked grant */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ToolGrantRevoked"];
                };
            };
        };
    };
    change_tool_grant: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The grant */
                grant_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ToolGrantChange"];
            };
        };
        responses: {
            /** @description The grant */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ToolGrant"];
                };
            };
        };
    };
    list_invocations: {
        parameters: {
            query?: {
                /** @description Last invocation of the previous page */
                before?: components["schemas"]["InvocationId"];
                /** @description Page size, 1 to 100; defaults to 50 */
                limit?: number;
            };
            header?: never;
            path: {
                /** @description The grant */
                grant_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The invocations */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ToolInvocation"][];
                };
            };
        };
    };
    receive_webhook: {
        parameters: {
            query?: never;
            header?: {
                /** @description Id of the delivery */
                "webhook-id"?: string | null;
                /** @description When the webhook was sent, in seconds since 1970 */
                "webhook-timestamp"?: string | null;
                /** @description `v1,` followed by the HMAC-SHA256 of id, time and body */
                "webhook-signature"?: string | null;
            };
            path: {
                /** @description The trigger */
                trigger_id: string;
            };
            cookie?: never;
        };
        /** @description Body of the webhook: any JSON, or nothing */
        requestBody?: {
            content: {
                "application/json": components["schemas"]["TriggerWebhookContent"];
            };
        };
        responses: {
            /** @description No intent is created */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TriggerWebhookTaken"];
                };
            };
            /** @description The intent was created, or the firing waits */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TriggerWebhookTaken"];
                };
            };
        };
    };
    receive_webhook_by_token: {
        parameters: {
            query?: never;
            header?: {
                /** @description Id of the delivery */
                "webhook-id"?: string | null;
            };
            path: {
                /** @description The trigger */
                trigger_id: string;
                /** @description Token at the end of the URL */
                token: string;
            };
            cookie?: never;
        };
        /** @description Body of the webhook: any JSON, or nothing */
        requestBody?: {
            content: {
                "application/json": components["schemas"]["TriggerWebhookContent"];
            };
        };
        responses: {
            /** @description No intent is created */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TriggerWebhookTaken"];
                };
            };
            /** @description The intent was created, or the firing waits */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TriggerWebhookTaken"];
                };
            };
        };
    };
    list_intents: {
        parameters: {
            query?: {
                /** @description Only intents in this status */
                status?: components["schemas"]["IntentStatus"];
                /** @description Only intents created by this agent */
                created_by?: string;
                /** @description Only parts of this intent */
                parent_id?: string;
                /** @description Only intents that this agent is assigned to */
                agent_id?: string;
                /** @description Only intents older than this one: the last id of the previous page */
                before?: string;
                /** @description Page size, 1 to 1,000; defaults to 50 */
                limit?: number;
                /** @description Number of intents to skip; defaults to 0 */
                offset?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The intents */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["IntentList"];
                };
            };
        };
    };
    create_intent: {
        parameters: {
            query?: never;
            header?: {
                /** @description Idempotency key: a retry with the same key is executed once */
                "Idempotency-Key"?: string | null;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewIntent"];
            };
        };
        responses: {
            /** @description The intent */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["IntentBody"];
                };
            };
        };
    };
    get_intent: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The intent */
                intent_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The intent; its version is the ETag */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["IntentBody"];
                };
            };
        };
    };
    list_access_requests: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The intent */
                intent_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The requests */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RequestList"];
                };
            };
        };
    };
    request_access: {
        parameters: {
            query?: never;
            header?: {
                /** @description Idempotency key: a retry with the same key is executed once */
                "Idempotency-Key"?: string | null;
            };
            path: {
                /** @description The intent */
                intent_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewAccessRequest"];
            };
        };
        responses: {
            /** @description The request */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RequestBody"];
                };
            };
        };
    };
    approve_access_request: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The intent */
                intent_id: string;
                /** @description The request */
                request_id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["DecisionBody"];
            };
        };
        responses: {
            /** @description The request */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RequestBody"];
                };
            };
        };
    };
    deny_access_request: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The intent */
                intent_id: string;
                /** @description The request */
                request_id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["DecisionBody"];
            };
        };
        responses: {
            /** @description The request */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RequestBody"];
                };
            };
        };
    };
    get_acl: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The intent */
                intent_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The access list */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AclBody"];
                };
            };
        };
    };
    replace_acl: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The intent */
                intent_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ReplaceBody"];
            };
        };
        responses: {
            /** @description The access list */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AclBody"];
                };
            };
        };
    };
    grant_access: {
        parameters: {
            query?: never;
            header?: {
                /** @description Idempotency key: a retry with the same key is executed once */
                "Idempotency-Key"?: string | null;
            };
            path: {
                /** @description The intent */
                intent_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["GrantBody"];
            };
        };
        responses: {
            /** @description The entry */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EntryBody"];
                };
            };
        };
    };
    revoke_access: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The intent */
                intent_id: string;
                /** @description The entry */
                entry_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Revoked */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    list_assignments: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The intent */
                intent_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The assignments */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AssignmentBody"][];
                };
            };
        };
    };
    assign_agent: {
        parameters: {
            query?: never;
            header?: {
                /** @description Idempotency key: a retry with the same key is executed once */
                "Idempotency-Key"?: string | null;
            };
            path: {
                /** @description The intent */
                intent_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["AssignBody"];
            };
        };
        responses: {
            /** @description The assignment */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AssignmentBody"];
                };
            };
        };
    };
    unassign_agent: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The intent */
                intent_id: string;
                /** @description The agent */
                agent_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The agent was removed from the intent */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UnassignedBody"];
                };
            };
        };
    };
    list_ancestors: {
        parameters: {
            query?: {
                /** @description Only ancestors above this one: `Entente-Next-Cursor` of the previous page */
                after?: string;
                /** @description Page size, 1 to 1,000; defaults to 100 */
                limit?: number;
            };
            header?: never;
            path: {
                /** @description The intent */
                intent_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The ancestors, nearest first */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AncestorList"];
                };
            };
        };
    };
    list_intent_approvals: {
        parameters: {
            query?: {
                /** @description Only requests in this status */
                status?: components["schemas"]["GovernanceApprovalStatus"];
                /** @description Only requests older than this one: the last id of the previous page */
                before?: string;
                /** @description Page size, 1 to 1,000; defaults to 100 */
                limit?: number;
            };
            header?: never;
            path: {
                /** @description The intent */
                intent_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The requests */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["GovernanceApprovalList"];
                };
            };
        };
    };
    request_approval: {
        parameters: {
            query?: never;
            header?: {
                /** @description Idempotency key: a retry with the same key is executed once */
                "Idempotency-Key"?: string | null;
            };
            path: {
                /** @description The intent */
                intent_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewGovernanceApproval"];
            };
        };
        responses: {
            /** @description The request */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["GovernanceApproval"];
                };
            };
        };
    };
    get_approval_status: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The intent */
                intent_id: string;
                /** @description The request */
                approval_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The request */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["GovernanceApproval"];
                };
            };
        };
    };
    approve_approval: {
        parameters: {
            query?: never;
            header?: {
                /** @description Idempotency key: a retry with the same key is executed once */
                "Idempotency-Key"?: string | null;
            };
            path: {
                /** @description The intent */
                intent_id: string;
                /** @description The request */
                approval_id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["GovernanceApprovalDecision"];
            };
        };
        responses: {
            /** @description The request */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["GovernanceApproval"];
                };
            };
        };
    };
    deny_approval: {
        parameters: {
            query?: never;
            header?: {
                /** @description Idempotency key: a retry with the same key is executed once */
                "Idempotency-Key"?: string | null;
            };
            path: {
                /** @description The intent */
                intent_id: string;
                /** @description The request */
                approval_id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["GovernanceApprovalDecision"];
            };
        };
        responses: {
            /** @description The request */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["GovernanceApproval"];
                };
            };
        };
    };
    request_arbitration: {
        parameters: {
            query?: never;
            header?: {
                /** @description Idempotency key: a retry with the same key is executed once */
                "Idempotency-Key"?: string | null;
            };
            path: {
                /** @description The intent */
                intent_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewArbitration"];
            };
        };
        responses: {
            /** @description The request */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ArbitrationBody"];
                };
            };
        };
    };
    list_arbitrations: {
        parameters: {
            query?: {
                /** @description Only requests in this status */
                status?: components["schemas"]["ArbitrationStatus"];
            };
            header?: never;
            path: {
                /** @description The intent */
                intent_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The requests */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ArbitrationList"];
                };
            };
        };
    };
    list_attachments: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The intent */
                intent_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The attachments */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Attachment"][];
                };
            };
        };
    };
    add_attachment: {
        parameters: {
            query?: never;
            header?: {
                /** @description Idempotency key: a retry with the same key is executed once */
                "Idempotency-Key"?: string | null;
            };
            path: {
                /** @description The intent */
                intent_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewAttachment"];
            };
        };
        responses: {
            /** @description The attachment */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Attachment"];
                };
            };
        };
    };
    delete_attachment: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The intent */
                intent_id: string;
                /** @description The attachment */
                attachment_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Removed */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    list_blocked_intents: {
        parameters: {
            query?: {
                /** @description Only intents after this one: `Entente-Next-Cursor` of the previous page */
                after?: string;
                /** @description Page size, 1 to 1,000; defaults to 100 */
                limit?: number;
            };
            header?: never;
            path: {
                /** @description The intent */
                intent_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The parts */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BlockedList"];
                };
            };
        };
    };
    list_channels: {
        parameters: {
            query?: {
                /** @description Only channels in this status */
                status?: components["schemas"]["ChannelStatus"];
                /** @description Page size, 1 to 1,000; defaults to 1,000 */
                limit?: number;
                /** @description Number of channels to skip; defaults to 0 */
                offset?: number;
            };
            header?: never;
            path: {
                /** @description The intent */
                intent_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The channels */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ChannelBody"][];
                };
            };
        };
    };
    create_channel: {
        parameters: {
            query?: never;
            header?: {
                /** @description Idempotency key: a retry with the same key is executed once */
                "Idempotency-Key"?: string | null;
            };
            path: {
                /** @description The intent */
                intent_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewChannel"];
            };
        };
        responses: {
            /** @description The channel */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ChannelBody"];
                };
            };
        };
    };
    send_message_by_name: {
        parameters: {
            query?: never;
            header?: {
                /** @description Idempotency key: a retry with the same key is executed once */
                "Idempotency-Key"?: string | null;
            };
            path: {
                /** @description The intent */
                intent_id: string;
                /** @description Name of the channel */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["SendBody"];
            };
        };
        responses: {
            /** @description The message */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MessageBody"];
                };
            };
        };
    };
    list_children: {
        parameters: {
            query?: {
                /** @description Only intents after this one: `Entente-Next-Cursor` of the previous page */
                after?: string;
                /** @description Page size, 1 to 1,000; defaults to 100 */
                limit?: number;
            };
            header?: never;
            path: {
                /** @description The intent */
                intent_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The parts */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ChildList"];
                };
            };
        };
    };
    create_child_intent: {
        parameters: {
            query?: never;
            header?: {
                /** @description Idempotency key: a retry with the same key is executed once */
                "Idempotency-Key"?: string | null;
            };
            path: {
                /** @description The parent */
                intent_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewIntent"];
            };
        };
        responses: {
            /** @description The new intent */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["IntentBody"];
                };
            };
        };
    };
    list_decision_records: {
        parameters: {
            query?: {
                /** @description Only decisions older than this one: the last id of the previous page */
                before?: string;
                /** @description Page size, 1 to 1,000; defaults to 50 */
                limit?: number;
            };
            header?: never;
            path: {
                /** @description The intent */
                intent_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The decisions */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CoordinatorDecision"][];
                };
            };
        };
    };
    list_coordinator_leases: {
        parameters: {
            query?: {
                /** @description Only appointments older than this one: the first id of the previous page */
                before?: string;
            };
            header?: never;
            path: {
                /** @description The intent */
                intent_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The appointments */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Coordinator"][];
                };
            };
        };
    };
    list_costs: {
        parameters: {
            query?: {
                /** @description `next` of the previous page */
                after?: number;
                /** @description Page size, 1 to 1,000; defaults to 1,000 */
                limit?: number;
            };
            header?: never;
            path: {
                /** @description The intent */
                intent_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The costs */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CostList"];
                };
            };
        };
    };
    record_cost: {
        parameters: {
            query?: never;
            header?: {
                /** @description Idempotency key: a retry with the same key is executed once */
                "Idempotency-Key"?: string | null;
            };
            path: {
                /** @description The intent */
                intent_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewCost"];
            };
        };
        responses: {
            /** @description The cost */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Cost"];
                };
            };
        };
    };
    list_decisions: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The intent */
                intent_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The decisions */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DecisionList"];
                };
            };
        };
    };
    record_decision: {
        parameters: {
            query?: never;
            header?: {
                /** @description Idempotency key: a retry with the same key is executed once */
                "Idempotency-Key"?: string | null;
            };
            path: {
                /** @description The intent */
                intent_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewDecision"];
            };
        };
        responses: {
            /** @description The decision */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DecisionRecord"];
                };
            };
        };
    };
    list_dependencies: {
        parameters: {
            query?: {
                /** @description Only intents after this one: `Entente-Next-Cursor` of the previous page */
                after?: string;
                /** @description Page size, 1 to 1,000; defaults to 100 */
                limit?: number;
            };
            header?: never;
            path: {
                /** @description The intent */
                intent_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The dependencies */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["IntentDependencyList"];
                };
            };
        };
    };
    add_dependency: {
        parameters: {
            query?: never;
            header: {
                /** @description Version last read */
                "If-Match": number;
                /** @description Idempotency key: a retry with the same key is executed once */
                "Idempotency-Key"?: string | null;
            };
            path: {
                /** @description The dependent intent */
                intent_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewIntentDependency"];
            };
        };
        responses: {
            /** @description The intent */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["IntentBody"];
                };
            };
        };
    };
    remove_dependency: {
        parameters: {
            query?: never;
            header: {
                /** @description Version last read */
                "If-Match": number;
            };
            path: {
                /** @description The dependent intent */
                intent_id: string;
                /** @description The dependency to remove */
                dependency_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The intent */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["IntentBody"];
                };
            };
        };
    };
    list_dependents: {
        parameters: {
            query?: {
                /** @description Only intents after this one: `Entente-Next-Cursor` of the previous page */
                after?: string;
                /** @description Page size, 1 to 1,000; defaults to 100 */
                limit?: number;
            };
            header?: never;
            path: {
                /** @description The intent */
                intent_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The dependents */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["IntentDependentList"];
                };
            };
        };
    };
    list_descendants: {
        parameters: {
            query?: {
                /** @description Only intents after this one: `Entente-Next-Cursor` of the previous page */
                after?: string;
                /** @description Page size, 1 to 1,000; defaults to 100 */
                limit?: number;
            };
            header?: never;
            path: {
                /** @description The intent */
                intent_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The descendants, oldest first */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DescendantList"];
                };
            };
        };
    };
    list_intent_escalations: {
        parameters: {
            query?: {
                /** @description Only escalations in this status */
                status?: components["schemas"]["EscalationStatus"];
                /** @description Only escalations assigned to this person */
                assigned_to?: string;
                /** @description Only escalations older than this one: the last id of the previous page */
                before?: string;
                /** @description Page size, 1 to 1,000; defaults to 100 */
                limit?: number;
            };
            header?: never;
            path: {
                /** @description The intent */
                intent_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The escalations */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EscalationList"];
                };
            };
        };
    };
    escalate_to_human: {
        parameters: {
            query?: never;
            header?: {
                /** @description Idempotency key: a retry with the same key is executed once */
                "Idempotency-Key"?: string | null;
            };
            path: {
                /** @description The intent */
                intent_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewEscalation"];
            };
        };
        responses: {
            /** @description The escalation */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Escalation"];
                };
            };
        };
    };
    list_events: {
        parameters: {
            query?: {
                /** @description Only events of this type */
                event_type?: string;
                /** @description Only events after this time */
                since?: string;
                /** @description Only events of this trace */
                trace_id?: string;
                /** @description Page size, 1 to 1,000; defaults to 100 */
                limit?: number;
                /** @description Number of newest events to skip; defaults to 0 */
                offset?: number;
            };
            header?: never;
            path: {
                /** @description The intent */
                intent_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The events */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EventBody"][];
                };
            };
        };
    };
    append_event: {
        parameters: {
            query?: never;
            header?: {
                /** @description Idempotency key: a retry with the same key is executed once */
                "Idempotency-Key"?: string | null;
            };
            path: {
                /** @description The intent */
                intent_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["AppendBody"];
            };
        };
        responses: {
            /** @description The event */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EventBody"];
                };
            };
        };
    };
    verify_events: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The intent */
                intent_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Result of the verification */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["VerificationBody"];
                };
            };
        };
    };
    export_intent: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The intent */
                intent_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The bundle */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/x-ndjson": string;
                };
            };
        };
    };
    list_failures: {
        parameters: {
            query?: {
                /** @description `Entente-Next-Cursor` of the previous page */
                after?: number;
                /** @description Page size, 1 to 1,000; defaults to 1,000 */
                limit?: number;
            };
            header?: never;
            path: {
                /** @description The intent */
                intent_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The failures */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Failure"][];
                };
            };
        };
    };
    record_failure: {
        parameters: {
            query?: never;
            header?: {
                /** @description Idempotency key: a retry with the same key is executed once */
                "Idempotency-Key"?: string | null;
            };
            path: {
                /** @description The intent */
                intent_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewFailure"];
            };
        };
        responses: {
            /** @description The failure */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Failure"];
                };
            };
        };
    };
    get_governance_policy: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The intent */
                intent_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The policy as set, and the policy in force */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["IntentGovernance"];
                };
            };
        };
    };
    set_governance_policy: {
        parameters: {
            query?: never;
            header: {
                /** @description Version last read */
                "If-Match": number;
            };
            path: {
                /** @description The intent */
                intent_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["GivenPolicy"];
            };
        };
        responses: {
            /** @description The intent */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["IntentBody"];
                };
            };
        };
    };
    remove_governance_policy: {
        parameters: {
            query?: never;
            header: {
                /** @description Version last read */
                "If-Match": number;
            };
            path: {
                /** @description The intent */
                intent_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The intent */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["IntentBody"];
                };
            };
        };
    };
    get_intent_graph: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The intent */
                intent_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The graph */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["GraphBody"];
                };
            };
        };
    };
    hand_over: {
        parameters: {
            query?: never;
            header?: {
                /** @description Idempotency key: a retry with the same key is executed once */
                "Idempotency-Key"?: string | null;
            };
            path: {
                /** @description The intent */
                intent_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewHandover"];
            };
        };
        responses: {
            /** @description What was handed over */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Handover"];
                };
            };
        };
    };
    list_leases: {
        parameters: {
            query?: {
                /** @description Status: `active`, `released`, `expired`, `revoked` or `all`; defaults to `active` */
                status?: string;
                /** @description `array` returns a bare array; defaults to an object */
                format?: string;
            };
            header?: never;
            path: {
                /** @description The intent */
                intent_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The leases */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Leases"];
                };
            };
        };
    };
    acquire_lease: {
        parameters: {
            query?: {
                /** @description Seconds to wait for the lease, up to 25; defaults to 0 */
                wait?: number;
            };
            header?: {
                /** @description Idempotency key: a retry with the same key is executed once */
                "Idempotency-Key"?: string | null;
            };
            path: {
                /** @description The intent */
                intent_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewLease"];
            };
        };
        responses: {
            /** @description The lease */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Lease"];
                };
            };
        };
    };
    list_lease_waits: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The intent */
                intent_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The queue */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LeaseQueue"];
                };
            };
        };
    };
    release_lease: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The intent */
                intent_id: string;
                /** @description The lease */
                lease_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The ended lease */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LeaseEnd"];
                };
            };
        };
    };
    renew_lease: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The intent */
                intent_id: string;
                /** @description The lease */
                lease_id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["LeaseRenewal"];
            };
        };
        responses: {
            /** @description The lease */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Lease"];
                };
            };
        };
    };
    list_lineages: {
        parameters: {
            query?: {
                /** @description Only those in this state */
                state?: string;
                /** @description Id of the last lineage of the previous page */
                before?: string;
                /** @description Page size, 1 to 1,000; defaults to 1,000 */
                limit?: number;
            };
            header?: never;
            path: {
                /** @description Id of the intent */
                intent_id: components["schemas"]["IntentId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The lineages */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LineageList"];
                };
            };
        };
    };
    get_lineage: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id of the intent */
                intent_id: components["schemas"]["IntentId"];
                /** @description Id of the lineage */
                lineage_id: components["schemas"]["LineageId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The lineage */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Lineage"];
                };
            };
        };
    };
    release_lineage: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id of the intent */
                intent_id: components["schemas"]["IntentId"];
                /** @description Id of the lineage */
                lineage_id: components["schemas"]["LineageId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The lineage */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Lineage"];
                };
            };
        };
    };
    get_loop_policy: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id of the intent */
                intent_id: components["schemas"]["IntentId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The policy */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["IntentLoopPolicy"];
                };
            };
        };
    };
    set_loop_policy: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id of the intent */
                intent_id: components["schemas"]["IntentId"];
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["LoopPolicyAsk"];
            };
        };
        responses: {
            /** @description The policy */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["IntentLoopPolicy"];
                };
            };
        };
    };
    list_intent_memory: {
        parameters: {
            query?: {
                /** @description Whether to list archived entries instead of active ones; defaults to false */
                archived?: boolean;
                /** @description Page size, 1 to 1,000; defaults to 100 */
                limit?: number;
                /** @description Number of entries to skip; defaults to 0 */
                offset?: number;
            };
            header?: never;
            path: {
                /** @description The intent */
                intent_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The entries */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MemoryEntry"][];
                };
            };
        };
    };
    list_plans: {
        parameters: {
            query?: {
                /** @description Page size, 1 to 1,000; defaults to 1,000 */
                limit?: number;
                /** @description Number of plans to skip; defaults to 0 */
                offset?: number;
            };
            header?: never;
            path: {
                /** @description The intent */
                intent_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The plans */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PlanBody"][];
                };
            };
        };
    };
    create_intent_plan: {
        parameters: {
            query?: never;
            header?: {
                /** @description Idempotency key: a retry with the same key is executed once */
                "Idempotency-Key"?: string | null;
            };
            path: {
                /** @description The intent */
                intent_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["PlanAsk"];
            };
        };
        responses: {
            /** @description The plan */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PlanBody"];
                };
            };
        };
    };
    list_intent_portfolios: {
        parameters: {
            query?: {
                /** @description Only portfolios older than this one: `Entente-Next-Cursor` of the previous page */
                before?: string;
                /** @description Page size, 1 to 100; defaults to 100 */
                limit?: number;
            };
            header?: never;
            path: {
                /** @description The intent */
                intent_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The portfolios */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PortfolioBody"][];
                };
            };
        };
    };
    list_ready_intents: {
        parameters: {
            query?: {
                /** @description Only intents after this one: `Entente-Next-Cursor` of the previous page */
                after?: string;
                /** @description Page size, 1 to 1,000; defaults to 100 */
                limit?: number;
            };
            header?: never;
            path: {
                /** @description The intent */
                intent_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The parts */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ReadyList"];
                };
            };
        };
    };
    get_retry_policy: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The intent */
                intent_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The policy; 404 if the intent has none */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RetryPolicy"];
                };
            };
        };
    };
    set_retry_policy: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The intent */
                intent_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewRetryPolicy"];
            };
        };
        responses: {
            /** @description The policy */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RetryPolicy"];
                };
            };
        };
    };
    patch_state: {
        parameters: {
            query?: never;
            header: {
                /** @description Version last read */
                "If-Match": number;
            };
            path: {
                /** @description The intent */
                intent_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["StateBody"];
            };
        };
        responses: {
            /** @description The intent */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["IntentBody"];
                };
            };
        };
    };
    set_intent_status: {
        parameters: {
            query?: never;
            header: {
                /** @description Version last read */
                "If-Match": number;
            };
            path: {
                /** @description The intent */
                intent_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["IntentStatusChange"];
            };
        };
        responses: {
            /** @description The intent */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["IntentBody"];
                };
            };
        };
    };
    set_intent_strict: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The intent */
                intent_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["IntentStrictness"];
            };
        };
        responses: {
            /** @description The access list */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AclBody"];
                };
            };
        };
    };
    follow_intent_sdk: {
        parameters: {
            query?: {
                /** @description As `Last-Event-ID`, for clients that cannot set headers */
                last_event_id?: string;
                /**
                 * @description Names of the events to receive, separated by commas or repeated: types of the log, `channel_message`,
                 *     `message_read`, `message_expired`, the names of the SDK's agents (`AGENT_ASSIGNED` and so on), globs such as
                 *     `task.*`, `posted` or `posted:TYPE` for events of clients, `*` for all. Defaults to all, except on
                 *     `/agents/{agent_id}/subscribe`; an unknown name is 422
                 */
                event_types?: string;
            };
            header?: {
                /** @description Id of the last frame received; the stream resumes after it */
                "Last-Event-ID"?: string | null;
            };
            path: {
                /** @description The intent */
                intent_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Server-sent events */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/event-stream": string;
                };
            };
        };
    };
    suspend_intent: {
        parameters: {
            query?: never;
            header?: {
                /** @description Idempotency key: a retry with the same key is executed once */
                "Idempotency-Key"?: string | null;
            };
            path: {
                /** @description The intent */
                intent_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewSuspension"];
            };
        };
        responses: {
            /** @description The question */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Suspension"];
                };
            };
        };
    };
    respond_to_suspension: {
        parameters: {
            query?: never;
            header?: {
                /** @description Idempotency key: a retry with the same key is executed once */
                "Idempotency-Key"?: string | null;
            };
            path: {
                /** @description The intent */
                intent_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["SuspensionAnswer"];
            };
        };
        responses: {
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SuspensionAnswered"];
                };
            };
        };
    };
    list_suspensions: {
        parameters: {
            query?: {
                /** @description Only questions older than this one: the last `n` of the previous page */
                before?: number;
                /** @description Page size, 1 to 1,000; defaults to 50 */
                limit?: number;
            };
            header?: never;
            path: {
                /** @description The intent */
                intent_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The questions */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SuspensionList"];
                };
            };
        };
    };
    list_tasks: {
        parameters: {
            query?: {
                /** @description Only tasks in this status */
                status?: components["schemas"]["TaskStatus"];
                /** @description Only tasks assigned to this agent */
                assigned_agent?: string;
                /** @description Only tasks of this plan */
                plan_id?: string;
                /** @description Page size, 1 to 1,000; defaults to 100 */
                limit?: number;
                /** @description Number of tasks to skip; defaults to 0 */
                offset?: number;
            };
            header?: never;
            path: {
                /** @description The intent */
                intent_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The tasks */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TaskBody"][];
                };
            };
        };
    };
    create_intent_task: {
        parameters: {
            query?: never;
            header?: {
                /** @description Idempotency key: a retry with the same key is executed once */
                "Idempotency-Key"?: string | null;
            };
            path: {
                /** @description The intent */
                intent_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewTask"];
            };
        };
        responses: {
            /** @description The task */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TaskBody"];
                };
            };
        };
    };
    record_invocation: {
        parameters: {
            query?: never;
            header?: {
                /** @description Idempotency key: a retry with the same key is executed once */
                "Idempotency-Key"?: string | null;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ToolReport"];
            };
        };
        responses: {
            /** @description The recorded invocation */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ToolInvocation"];
                };
            };
        };
    };
    list_jobs: {
        parameters: {
            query?: {
                /** @description Only jobs in this status; several are separated by commas */
                status?: string;
                /** @description Only jobs of this agent: `name` or `name@version` */
                agent?: string;
                /** @description Only jobs that this agent submitted */
                principal?: string;
                /** @description Only jobs with this label: `key=value`; repeatable */
                label?: string[];
                /** @description Only jobs that this one delegated */
                parent_job_id?: string;
                /** @description Only jobs of this trace */
                trace_id?: string;
                /** @description Only jobs that ended with this error code (ARCP §12) */
                error_code?: string;
                /** @description Only dead letters: `open` ones, which nobody has resolved, or `resolved` ones */
                dead_letter?: string;
                /** @description Only jobs accepted after this time, RFC 3339 */
                created_after?: string;
                /** @description Only jobs accepted before this time, RFC 3339 */
                created_before?: string;
                /** @description Page size, 1 to 1,000; defaults to 100 */
                limit?: number;
                /** @description `next_cursor` of the previous page */
                cursor?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The jobs */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["JobList"];
                };
            };
        };
    };
    submit_job: {
        parameters: {
            query?: never;
            header?: {
                /** @description Same as `idempotency_key` in the body */
                "Idempotency-Key"?: string | null;
                /** @description Trace that the job belongs to (W3C Trace Context) */
                traceparent?: string | null;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["JobSubmit"];
            };
        };
        responses: {
            /** @description The job was already accepted */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["JobAccepted"];
                };
            };
            /** @description The job was accepted */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["JobAccepted"];
                };
            };
        };
    };
    claim_jobs: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["JobClaim"];
            };
        };
        responses: {
            /** @description The jobs */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ClaimedJobs"];
                };
            };
        };
    };
    count_jobs: {
        parameters: {
            query?: {
                /** @description Only jobs in this status; several are separated by commas */
                status?: string;
                /** @description Only jobs of this agent: `name` or `name@version` */
                agent?: string;
                /** @description Only jobs that this agent submitted */
                principal?: string;
                /** @description Only jobs with this label: `key=value`; repeatable */
                label?: string[];
                /** @description Only jobs that this one delegated */
                parent_job_id?: string;
                /** @description Only jobs of this trace */
                trace_id?: string;
                /** @description Only jobs that ended with this error code (ARCP §12) */
                error_code?: string;
                /** @description Only dead letters: `open` or `resolved` ones */
                dead_letter?: string;
                /** @description Only jobs accepted after this time, RFC 3339 */
                created_after?: string;
                /** @description Only jobs accepted before this time, RFC 3339 */
                created_before?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The numbers */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["JobCounts"];
                };
            };
        };
    };
    follow_jobs: {
        parameters: {
            query?: never;
            header?: {
                /** @description Id of the last frame received; the stream resumes after it */
                "Last-Event-ID"?: string | null;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Server-sent events */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/event-stream": string;
                };
            };
        };
    };
    rerun_jobs: {
        parameters: {
            query?: never;
            header?: {
                /** @description Same as `idempotency_key` in the body */
                "Idempotency-Key"?: string | null;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["JobRerunSearch"];
            };
        };
        responses: {
            /** @description The jobs of this page */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["JobReruns"];
                };
            };
        };
    };
    get_job: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The job */
                job_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The job */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["JobBody"];
                };
            };
        };
    };
    list_job_attempts: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The job */
                job_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The attempts */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["JobAttempts"];
                };
            };
        };
    };
    authorize_operation: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The job */
                job_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["JobOperation"];
            };
        };
        responses: {
            /** @description The operation is allowed */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["JobOperationAllowed"];
                };
            };
        };
    };
    cancel_job: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The job */
                job_id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["JobCancel"];
            };
        };
        responses: {
            /** @description The job has ended, or has been asked to stop */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["JobCancelled"];
                };
            };
        };
    };
    store_job_checkpoint: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The job */
                job_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewJobCheckpoint"];
            };
        };
        responses: {
            /** @description The checkpoint was stored */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["JobReported"];
                };
            };
        };
    };
    rotate_job_credential: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The job */
                job_id: string;
                /** @description The credential */
                credential_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["CredentialRotation"];
            };
        };
        responses: {
            /** @description The credential with its new value */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CredentialRotated"];
                };
            };
        };
    };
    delegate_job: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The job */
                job_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["JobDelegation"];
            };
        };
        responses: {
            /** @description The child job */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["JobAccepted"];
                };
            };
        };
    };
    report_job_error: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The job */
                job_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewJobError"];
            };
        };
        responses: {
            /** @description The job has ended */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["JobReported"];
                };
            };
        };
    };
    job_events: {
        parameters: {
            query?: {
                /** @description Only events after this number; defaults to 0, the beginning */
                from_event_seq?: number;
                /** @description Page size, 1 to 1,000; defaults to 100; ignored for a stream */
                limit?: number;
            };
            header?: {
                /** @description Same as `from_event_seq`; takes precedence */
                "Last-Event-ID"?: string | null;
            };
            path: {
                /** @description The job */
                job_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page of events */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["JobEventList"];
                };
            };
        };
    };
    report_job_events: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The job */
                job_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewJobEvents"];
            };
        };
        responses: {
            /** @description The events were stored */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["JobReported"];
                };
            };
        };
    };
    release_job: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The job */
                job_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ClaimToken"];
            };
        };
        responses: {
            /** @description The job was released */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["JobReleased"];
                };
            };
        };
    };
    rerun_job: {
        parameters: {
            query?: never;
            header?: {
                /** @description Same as `idempotency_key` in the body */
                "Idempotency-Key"?: string | null;
            };
            path: {
                /** @description The job */
                job_id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["JobRerun"];
            };
        };
        responses: {
            /** @description The job that the same request made before */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["JobAccepted"];
                };
            };
            /** @description The new job */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["JobAccepted"];
                };
            };
        };
    };
    release_reservation: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The job */
                job_id: string;
                /** @description The reservation */
                reservation_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ClaimToken"];
            };
        };
        responses: {
            /** @description The remaining budget */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["JobBudget"];
                };
            };
        };
    };
    settle_reservation: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The job */
                job_id: string;
                /** @description The reservation */
                reservation_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["JobSettlement"];
            };
        };
        responses: {
            /** @description The remaining budget */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["JobBudget"];
                };
            };
        };
    };
    resolve_job: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The job */
                job_id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["JobResolution"];
            };
        };
        responses: {
            /** @description The failure, resolved */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["JobFailure"];
                };
            };
        };
    };
    get_job_result: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The job */
                job_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The result */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": unknown;
                    "text/plain": string;
                    "application/octet-stream": string;
                };
            };
        };
    };
    report_job_result: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The job */
                job_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewJobResult"];
            };
        };
        responses: {
            /** @description The job has ended */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["JobReported"];
                };
            };
        };
    };
    list_job_signals: {
        parameters: {
            query?: {
                /** @description Only signals after this number; defaults to 0 */
                after?: number;
                /** @description Page size, 1 to 100; defaults to 100 */
                limit?: number;
            };
            header?: never;
            path: {
                /** @description The job */
                job_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The signals */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["JobSignals"];
                };
            };
        };
    };
    signal_job: {
        parameters: {
            query?: never;
            header?: {
                /** @description Same as `key` in the body */
                "Idempotency-Key"?: string | null;
            };
            path: {
                /** @description The job */
                job_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewJobSignal"];
            };
        };
        responses: {
            /** @description The signal */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["JobSignal"];
                };
            };
        };
    };
    acknowledge_job_signals: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The job */
                job_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["JobSignalAck"];
            };
        };
        responses: {
            /** @description The number of the last acknowledged signal */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["JobSignalAcked"];
                };
            };
        };
    };
    wait_for_job_signals: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The job */
                job_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["JobSignalWait"];
            };
        };
        responses: {
            /** @description The signals */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["JobSignalDelivery"];
                };
            };
        };
    };
    get_job_tree: {
        parameters: {
            query?: {
                /** @description Maximum number of jobs returned, 1 to 1,000; defaults to 200. The sums are of all */
                limit?: number;
            };
            header?: never;
            path: {
                /** @description The job */
                job_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The tree */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["JobTree"];
                };
            };
        };
    };
    revoke_key: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id of the key's record */
                key_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The revoked key */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["KeyBody"];
                };
            };
        };
    };
    rotate_key: {
        parameters: {
            query?: never;
            header?: {
                /** @description Idempotency key: a retry with the same key is executed once */
                "Idempotency-Key"?: string | null;
            };
            path: {
                /** @description Id of the key's record */
                key_id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["RotateBody"];
            };
        };
        responses: {
            /** @description The new key */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["NewKeyBody"];
                };
            };
        };
    };
    get_log_filter: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The filter */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LogFilter"];
                };
            };
        };
    };
    set_log_filter: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["SetLogFilter"];
            };
        };
        responses: {
            /** @description The filter */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LogFilter"];
                };
            };
        };
    };
    reset_log_filter: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The filter */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LogFilter"];
                };
            };
        };
    };
    create_memory: {
        parameters: {
            query?: never;
            header?: {
                /** @description Idempotency key: a retry with the same key is executed once */
                "Idempotency-Key"?: string | null;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewMemoryEntry"];
            };
        };
        responses: {
            /** @description The entry; its version is the ETag */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MadeMemoryEntry"];
                };
            };
        };
    };
    get_memory: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The entry */
                memory_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The entry; its version is the ETag */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MemoryEntry"];
                };
            };
        };
    };
    delete_memory: {
        parameters: {
            query?: never;
            header?: {
                /** @description Version last read; defaults to any version */
                "If-Match"?: number | null;
            };
            path: {
                /** @description The entry */
                memory_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The entry was deleted */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DeletedMemory"];
                };
            };
        };
    };
    update_memory: {
        parameters: {
            query?: never;
            header: {
                /** @description Version last read */
                "If-Match": number;
            };
            path: {
                /** @description The entry */
                memory_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["MemoryChange"];
            };
        };
        responses: {
            /** @description The entry */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MemoryEntry"];
                };
            };
        };
    };
    list_memory_versions: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The entry */
                memory_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The versions */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MemoryVersion"][];
                };
            };
        };
    };
    list_moments: {
        parameters: {
            query?: {
                /** @description Only moments in this state */
                state?: components["schemas"]["MomentState"];
                /** @description Only moments addressed to this person */
                principal?: string;
                /** @description Only moments of this agent */
                agent?: string;
                /** @description Only moments of this decision class */
                class?: string;
                /** @description Only moments of this job */
                job?: string;
                /** @description Only moments of this intent */
                intent?: string;
                /** @description Page size, 1 to 100; defaults to 100 */
                limit?: number;
                /** @description `next_cursor` of the previous page */
                cursor?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The moments */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MomentList"];
                };
            };
        };
    };
    emit_moment: {
        parameters: {
            query?: never;
            header?: {
                /** @description Idempotency key: a retry with the same key is executed once */
                "Idempotency-Key"?: string | null;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewMoment"];
            };
        };
        responses: {
            /** @description The question was already asked */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EmittedMoment"];
                };
            };
            /** @description The question was asked */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EmittedMoment"];
                };
            };
        };
    };
    deliberate: {
        parameters: {
            query?: never;
            header?: {
                /** @description Idempotency key: a retry with the same key is executed once */
                "Idempotency-Key"?: string | null;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewDeliberation"];
            };
        };
        responses: {
            /** @description The deliberation was already begun */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Moment"];
                };
            };
            /** @description The deliberation */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Moment"];
                };
            };
        };
    };
    moments_inbox: {
        parameters: {
            query?: {
                /** @description Page size, 1 to 100; defaults to 100 */
                limit?: number;
                /** @description `next_cursor` of the previous page */
                cursor?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The moments */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MomentList"];
                };
            };
        };
    };
    moment_rates: {
        parameters: {
            query?: {
                /** @description Only rates of this agent */
                agent?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Rates over all questions of each agent, then by decision class */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MomentRates"][];
                };
            };
        };
    };
    follow_moments: {
        parameters: {
            query?: never;
            header?: {
                /** @description Id of the last frame received; the stream resumes after it */
                "Last-Event-ID"?: string | null;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Server-sent events */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/event-stream": string;
                };
            };
        };
    };
    get_moment: {
        parameters: {
            query?: {
                /** @description Seconds to wait for a change, up to 25; defaults to 0 */
                wait?: number;
                /** @description `version` that the client has: waits until it is another */
                seen?: number;
            };
            header?: never;
            path: {
                /** @description The moment */
                moment_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The moment */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Moment"];
                };
            };
        };
    };
    acknowledge_moment: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The moment */
                moment_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The moment */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Moment"];
                };
            };
        };
    };
    close_moment: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The moment */
                moment_id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["MomentReason"];
            };
        };
        responses: {
            /** @description The moment */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Moment"];
                };
            };
        };
    };
    get_moment_receipt: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The moment */
                moment_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The receipt */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Attestation"];
                };
            };
        };
    };
    resolve_moment: {
        parameters: {
            query?: never;
            header?: {
                /** @description Idempotency key: a retry with the same key returns the first answer */
                "Idempotency-Key"?: string | null;
            };
            path: {
                /** @description The moment */
                moment_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["MomentAnswer"];
            };
        };
        responses: {
            /** @description The moment */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Moment"];
                };
            };
        };
    };
    view_moment: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The moment */
                moment_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The moment */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Moment"];
                };
            };
        };
    };
    withdraw_moment: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The moment */
                moment_id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["MomentReason"];
            };
        };
        responses: {
            /** @description The moment */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Moment"];
                };
            };
        };
    };
    say_about_moment: {
        parameters: {
            query?: never;
            header?: {
                /** @description Idempotency key: a retry with the same key adds one message */
                "Idempotency-Key"?: string | null;
            };
            path: {
                /** @description The moment */
                moment_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewMomentWord"];
            };
        };
        responses: {
            /** @description The moment */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Moment"];
                };
            };
        };
    };
    list_people: {
        parameters: {
            query?: {
                /** @description Id of the last person of the previous page */
                after?: string;
                /** @description Page size, 1 to 1,000; defaults to 1,000 */
                limit?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The people */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PersonList"];
                };
            };
        };
    };
    release_account: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Person, by principal id */
                principal_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The person is released */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    list_contact_points: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Person, by principal id */
                principal_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The contact points */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ContactPointList"];
                };
            };
        };
    };
    create_contact_point: {
        parameters: {
            query?: never;
            header?: {
                /** @description Idempotency key: a retry with the same key is executed once */
                "Idempotency-Key"?: string | null;
            };
            path: {
                /** @description Person, by principal id */
                principal_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewContactPoint"];
            };
        };
        responses: {
            /** @description The contact point */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ContactPoint"];
                };
            };
        };
    };
    make_link: {
        parameters: {
            query?: never;
            header?: {
                /** @description Idempotency key: a retry with the same key is executed once */
                "Idempotency-Key"?: string | null;
            };
            path: {
                /** @description Person that the link logs in */
                principal_id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["Link"];
            };
        };
        responses: {
            /** @description The link */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["NewLinkBody"];
                };
            };
        };
    };
    set_password: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Person, by principal id */
                principal_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Password"];
            };
        };
        responses: {
            /** @description The password was set */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PasswordSet"];
                };
            };
        };
    };
    create_plan: {
        parameters: {
            query?: never;
            header?: {
                /** @description Idempotency key: a retry with the same key is executed once */
                "Idempotency-Key"?: string | null;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["PlanAsk"];
            };
        };
        responses: {
            /** @description The plan */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PlanBody"];
                };
            };
        };
    };
    get_plan: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The plan */
                plan_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The plan; its version is the ETag */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PlanBody"];
                };
            };
        };
    };
    update_plan: {
        parameters: {
            query?: never;
            header: {
                /** @description Version last read */
                "If-Match": number;
            };
            path: {
                /** @description The plan */
                plan_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["PlanAsk"];
            };
        };
        responses: {
            /** @description The plan */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PlanBody"];
                };
            };
        };
    };
    activate_plan: {
        parameters: {
            query?: never;
            header?: {
                /** @description Version last read; defaults to any version */
                "If-Match"?: number | null;
            };
            path: {
                /** @description The plan */
                plan_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The plan */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PlanBody"];
                };
            };
        };
    };
    approve_plan_checkpoint: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The plan */
                plan_id: string;
                /** @description Id of the checkpoint within the plan */
                checkpoint_id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["PlanCheckpointDecision"];
            };
        };
        responses: {
            /** @description The plan */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PlanBody"];
                };
            };
        };
    };
    reject_plan_checkpoint: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The plan */
                plan_id: string;
                /** @description Id of the checkpoint within the plan */
                checkpoint_id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["PlanCheckpointDecision"];
            };
        };
        responses: {
            /** @description The plan */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PlanBody"];
                };
            };
        };
    };
    pause_plan: {
        parameters: {
            query?: never;
            header?: {
                /** @description Version last read; defaults to any version */
                "If-Match"?: number | null;
            };
            path: {
                /** @description The plan */
                plan_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The plan */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PlanBody"];
                };
            };
        };
    };
    resume_plan: {
        parameters: {
            query?: never;
            header?: {
                /** @description Version last read; defaults to any version */
                "If-Match"?: number | null;
            };
            path: {
                /** @description The plan */
                plan_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The plan */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PlanBody"];
                };
            };
        };
    };
    list_portfolios: {
        parameters: {
            query?: {
                /** @description Only portfolios owned by this agent */
                created_by?: string;
                /** @description Only portfolios older than this one: `Entente-Next-Cursor` of the previous page */
                before?: string;
                /** @description Page size, 1 to 100; defaults to 100 */
                limit?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The portfolios */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PortfolioBody"][];
                };
            };
        };
    };
    create_portfolio: {
        parameters: {
            query?: never;
            header?: {
                /** @description Idempotency key: a retry with the same key is executed once */
                "Idempotency-Key"?: string | null;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewPortfolio"];
            };
        };
        responses: {
            /** @description The portfolio */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PortfolioBody"];
                };
            };
        };
    };
    get_portfolio: {
        parameters: {
            query?: {
                /** @description Only intents after this cursor: `Entente-Next-Cursor` of the previous page */
                after?: string;
                /** @description Intents per page, 1 to 1,000; defaults to 100 */
                limit?: number;
            };
            header?: never;
            path: {
                /** @description The portfolio */
                portfolio_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The portfolio */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["FullPortfolio"];
                };
            };
        };
    };
    list_portfolio_intents: {
        parameters: {
            query?: {
                /** @description Only intents after this cursor: `Entente-Next-Cursor` of the previous page */
                after?: string;
                /** @description Intents per page, 1 to 1,000; defaults to 100 */
                limit?: number;
            };
            header?: never;
            path: {
                /** @description The portfolio */
                portfolio_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The intents of the portfolio */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PortfolioIntents"];
                };
            };
        };
    };
    add_portfolio_intent: {
        parameters: {
            query?: never;
            header?: {
                /** @description Idempotency key: a retry with the same key is executed once */
                "Idempotency-Key"?: string | null;
            };
            path: {
                /** @description The portfolio */
                portfolio_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewPortfolioMembership"];
            };
        };
        responses: {
            /** @description The membership */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PortfolioMembership"];
                };
            };
        };
    };
    remove_portfolio_intent: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The portfolio */
                portfolio_id: string;
                /** @description The intent */
                intent_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The intent was removed */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RemovedIntent"];
                };
            };
        };
    };
    set_portfolio_status: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The portfolio */
                portfolio_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["PortfolioStatusChange"];
            };
        };
        responses: {
            /** @description The portfolio */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PortfolioBody"];
                };
            };
        };
    };
    follow_portfolio_sdk: {
        parameters: {
            query?: {
                /** @description As `Last-Event-ID`, for clients that cannot set headers */
                last_event_id?: string;
                /**
                 * @description Names of the events to receive, separated by commas or repeated: types of the log, `channel_message`,
                 *     `message_read`, `message_expired`, the names of the SDK's agents (`AGENT_ASSIGNED` and so on), globs such as
                 *     `task.*`, `posted` or `posted:TYPE` for events of clients, `*` for all. Defaults to all, except on
                 *     `/agents/{agent_id}/subscribe`; an unknown name is 422
                 */
                event_types?: string;
            };
            header?: {
                /** @description Id of the last frame received; the stream resumes after it */
                "Last-Event-ID"?: string | null;
            };
            path: {
                /** @description The portfolio */
                portfolio_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Server-sent events */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/event-stream": string;
                };
            };
        };
    };
    list_principals: {
        parameters: {
            query?: {
                /** @description Id of the last principal of the previous page */
                after?: string;
                /** @description Page size, 1 to 1,000; defaults to 1,000 */
                limit?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The principals */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PrincipalBody"][];
                };
            };
        };
    };
    create_principal: {
        parameters: {
            query?: never;
            header?: {
                /** @description Idempotency key: a retry with the same key is executed once */
                "Idempotency-Key"?: string | null;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewPrincipal"];
            };
        };
        responses: {
            /** @description The principal */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PrincipalBody"];
                };
            };
        };
    };
    whoami: {
        parameters: {
            query?: never;
            header?: {
                /** @description Agent to act as; defaults to the key's principal */
                "X-Agent-ID"?: string | null;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Principal, acting agent and key of the caller */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["WhoamiBody"];
                };
            };
        };
    };
    get_principal: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id of the principal */
                principal_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The principal */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PrincipalBody"];
                };
            };
        };
    };
    list_keys: {
        parameters: {
            query?: {
                /** @description Id of the last key of the previous page */
                after?: components["schemas"]["KeyId"];
                /** @description Page size, 1 to 1,000; defaults to 1,000 */
                limit?: number;
            };
            header?: never;
            path: {
                /** @description Principal that owns the keys */
                principal_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The keys, oldest first */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["KeyBody"][];
                };
            };
        };
    };
    create_key: {
        parameters: {
            query?: never;
            header?: {
                /** @description Idempotency key: a retry with the same key is executed once */
                "Idempotency-Key"?: string | null;
            };
            path: {
                /** @description Principal that will own the key */
                principal_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewKey"];
            };
        };
        responses: {
            /** @description The key, with its secret */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["NewKeyBody"];
                };
            };
        };
    };
    get_principal_quotas: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id of the principal, or `me` for one's own */
                principal_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The quotas, with their use */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Quotas"];
                };
            };
        };
    };
    put_principal_quotas: {
        parameters: {
            query?: never;
            header?: {
                /** @description Idempotency key: a retry with the same key is executed once */
                "Idempotency-Key"?: string | null;
            };
            path: {
                /** @description Id of the principal */
                principal_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewQuotas"];
            };
        };
        responses: {
            /** @description The quotas, with their use */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Quotas"];
                };
            };
        };
    };
    search: {
        parameters: {
            query: {
                /** @description The words, up to 1,024 bytes */
                q: string;
                /** @description Some of `message`, `event` and `job`, separated by commas; defaults to those that the key may read */
                kinds?: string;
                /** @description Only results of this intent */
                intent_id?: string;
                /** @description Only results after this time */
                since?: string;
                /** @description Only results before this time */
                until?: string;
                /** @description Page size, 1 to 100; defaults to 20 */
                limit?: number;
                /** @description `next_cursor` of the page before */
                cursor?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The results */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SearchResults"];
                };
            };
        };
    };
    get_server_config: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The configuration */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ServerConfig"];
                };
            };
        };
    };
    server_keys: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The keys */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ServerKeysBody"];
                };
            };
        };
    };
    report_spend: {
        parameters: {
            query?: {
                /** @description Costs from this time on; defaults to 30 days ago */
                from?: string;
                /** @description Costs before this time; defaults to now */
                until?: string;
                /** @description What it is divided by: `agent`, `principal`, `intent`, `model`, `day`, several separated by commas */
                by?: string;
                /** @description Time zone of the days; defaults to UTC */
                time_zone?: string;
                /** @description Costs of this scope alone */
                scope?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The report */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SpendReport"];
                };
            };
        };
    };
    reserve_spend: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewSpendReservation"];
            };
        };
        responses: {
            /** @description The call is allowed */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SpendReservation"];
                };
            };
        };
    };
    release_spend: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id of the reservation */
                reservation_id: components["schemas"]["ReservationId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The reservation */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SpendReservation"];
                };
            };
        };
    };
    settle_spend: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id of the reservation */
                reservation_id: components["schemas"]["ReservationId"];
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["SpendSettlement"];
            };
        };
        responses: {
            /** @description The reservation */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SpendReservation"];
                };
            };
        };
    };
    list_stops: {
        parameters: {
            query?: {
                /** @description Whether to list lifted stops as well */
                lifted?: boolean;
                /** @description Id of the last stop of the previous page */
                before?: string;
                /** @description Page size, 1 to 1,000; defaults to 1,000 */
                limit?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The stops */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StopList"];
                };
            };
        };
    };
    make_stop: {
        parameters: {
            query?: never;
            header?: {
                /** @description Idempotency key: a retry with the same key is executed once */
                "Idempotency-Key"?: string | null;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewStop"];
            };
        };
        responses: {
            /** @description The stop */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Stop"];
                };
            };
        };
    };
    get_stop: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id of the stop */
                stop_id: components["schemas"]["StopId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The stop */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Stop"];
                };
            };
        };
    };
    lift_stop: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id of the stop */
                stop_id: components["schemas"]["StopId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The lifted stop */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Stop"];
                };
            };
        };
    };
    follow_all: {
        parameters: {
            query?: {
                /** @description As `Last-Event-ID`, for clients that cannot set headers */
                last_event_id?: string;
                /**
                 * @description Names of the events to receive, separated by commas or repeated: types of the log, `channel_message`,
                 *     `message_read`, `message_expired`, the names of the SDK's agents (`AGENT_ASSIGNED` and so on), globs such as
                 *     `task.*`, `posted` or `posted:TYPE` for events of clients, `*` for all. Defaults to all, except on
                 *     `/agents/{agent_id}/subscribe`; an unknown name is 422
                 */
                event_types?: string;
            };
            header?: {
                /** @description Id of the last frame received; the stream resumes after it */
                "Last-Event-ID"?: string | null;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Server-sent events */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/event-stream": string;
                };
            };
        };
    };
    follow_agent: {
        parameters: {
            query?: {
                /** @description As `Last-Event-ID`, for clients that cannot set headers */
                last_event_id?: string;
                /**
                 * @description Names of the events to receive, separated by commas or repeated: types of the log, `channel_message`,
                 *     `message_read`, `message_expired`, the names of the SDK's agents (`AGENT_ASSIGNED` and so on), globs such as
                 *     `task.*`, `posted` or `posted:TYPE` for events of clients, `*` for all. Defaults to all, except on
                 *     `/agents/{agent_id}/subscribe`; an unknown name is 422
                 */
                event_types?: string;
            };
            header?: {
                /** @description Id of the last frame received; the stream resumes after it */
                "Last-Event-ID"?: string | null;
            };
            path: {
                /** @description The agent; the key must be able to act as it */
                agent_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Server-sent events */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/event-stream": string;
                };
            };
        };
    };
    follow_channel: {
        parameters: {
            query?: {
                /** @description As `Last-Event-ID`, for clients that cannot set headers */
                last_event_id?: string;
                /**
                 * @description Names of the events to receive, separated by commas or repeated: types of the log, `channel_message`,
                 *     `message_read`, `message_expired`, the names of the SDK's agents (`AGENT_ASSIGNED` and so on), globs such as
                 *     `task.*`, `posted` or `posted:TYPE` for events of clients, `*` for all. Defaults to all, except on
                 *     `/agents/{agent_id}/subscribe`; an unknown name is 422
                 */
                event_types?: string;
                /** @description Without `Last-Event-ID`: begin after this message id, or after the `Entente-Next-Cursor` of a page */
                since?: string;
            };
            header?: {
                /** @description Id of the last frame received; the stream resumes after it */
                "Last-Event-ID"?: string | null;
            };
            path: {
                /** @description The channel */
                channel_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Server-sent events */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/event-stream": string;
                };
            };
        };
    };
    follow_intent: {
        parameters: {
            query?: {
                /** @description As `Last-Event-ID`, for clients that cannot set headers */
                last_event_id?: string;
                /**
                 * @description Names of the events to receive, separated by commas or repeated: types of the log, `channel_message`,
                 *     `message_read`, `message_expired`, the names of the SDK's agents (`AGENT_ASSIGNED` and so on), globs such as
                 *     `task.*`, `posted` or `posted:TYPE` for events of clients, `*` for all. Defaults to all, except on
                 *     `/agents/{agent_id}/subscribe`; an unknown name is 422
                 */
                event_types?: string;
            };
            header?: {
                /** @description Id of the last frame received; the stream resumes after it */
                "Last-Event-ID"?: string | null;
            };
            path: {
                /** @description The intent */
                intent_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Server-sent events, such as `event: channel_message` */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/event-stream": string;
                };
            };
        };
    };
    follow_portfolio: {
        parameters: {
            query?: {
                /** @description As `Last-Event-ID`, for clients that cannot set headers */
                last_event_id?: string;
                /**
                 * @description Names of the events to receive, separated by commas or repeated: types of the log, `channel_message`,
                 *     `message_read`, `message_expired`, the names of the SDK's agents (`AGENT_ASSIGNED` and so on), globs such as
                 *     `task.*`, `posted` or `posted:TYPE` for events of clients, `*` for all. Defaults to all, except on
                 *     `/agents/{agent_id}/subscribe`; an unknown name is 422
                 */
                event_types?: string;
            };
            header?: {
                /** @description Id of the last frame received; the stream resumes after it */
                "Last-Event-ID"?: string | null;
            };
            path: {
                /** @description The portfolio */
                portfolio_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Server-sent events */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/event-stream": string;
                };
            };
        };
    };
    list_subscriptions: {
        parameters: {
            query?: {
                /** @description Only subscriptions to this intent */
                intent_id?: string;
                /** @description Only subscriptions to this portfolio */
                portfolio_id?: string;
                /** @description Only this kind: `subscription`, `agent` (endpoints that agents registered with) or `mailbox` */
                kind?: components["schemas"]["EndpointKind"];
                /** @description Id of the last subscription of the previous page */
                after?: string;
                /** @description Page size, 1 to 1,000; defaults to 1,000 */
                limit?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The subscriptions */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SubscriptionBody"][];
                };
            };
        };
    };
    subscribe: {
        parameters: {
            query?: never;
            header?: {
                /** @description Idempotency key: a retry with the same key is executed once */
                "Idempotency-Key"?: string | null;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewSubscription"];
            };
        };
        responses: {
            /** @description The subscription, with its secret */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SubscriptionBody"];
                };
            };
        };
    };
    get_subscription: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The subscription */
                subscription_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The subscription */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SubscriptionBody"];
                };
            };
        };
    };
    delete_subscription: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The subscription */
                subscription_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Deleted */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    change_subscription: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The subscription */
                subscription_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["SubscriptionChange"];
            };
        };
        responses: {
            /** @description The subscription */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SubscriptionBody"];
                };
            };
        };
    };
    list_deliveries: {
        parameters: {
            query?: {
                /** @description Only deliveries in this status */
                status?: components["schemas"]["DeliveryStatus"];
                /** @description `webhook_id` of the last delivery of the previous page */
                before?: string;
                /** @description Page size, 1 to 1,000; defaults to 100 */
                limit?: number;
            };
            header?: never;
            path: {
                /** @description The subscription */
                subscription_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The deliveries */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DeliveryBody"][];
                };
            };
        };
    };
    ping_subscription: {
        parameters: {
            query?: {
                /** @description Seconds to wait for the first attempt, 0 to 120; defaults to 0 */
                wait?: number;
            };
            header?: never;
            path: {
                /** @description The subscription */
                subscription_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The delivery, after its first attempt */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DeliveryBody"];
                };
            };
            /** @description The delivery, before its first attempt */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DeliveryBody"];
                };
            };
        };
    };
    replay_subscription: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The subscription */
                subscription_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewReplay"];
            };
        };
        responses: {
            /** @description The replay has started */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ReplayBegun"];
                };
            };
        };
    };
    rotate_subscription_secret: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The subscription */
                subscription_id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["RotateSecret"];
            };
        };
        responses: {
            /** @description The subscription, with its new secret */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SubscriptionBody"];
                };
            };
        };
    };
    create_task: {
        parameters: {
            query?: never;
            header?: {
                /** @description Idempotency key: a retry with the same key is executed once */
                "Idempotency-Key"?: string | null;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewTask"];
            };
        };
        responses: {
            /** @description The task */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TaskBody"];
                };
            };
        };
    };
    get_task: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The task */
                task_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The task; its version is the ETag */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TaskBody"];
                };
            };
        };
    };
    update_task: {
        parameters: {
            query?: never;
            header: {
                /** @description Version last read */
                "If-Match": number;
            };
            path: {
                /** @description The task */
                task_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["TaskChange"];
            };
        };
        responses: {
            /** @description The task */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TaskBody"];
                };
            };
        };
    };
    block_task: {
        parameters: {
            query?: never;
            header?: {
                /** @description Version last read; defaults to any version */
                "If-Match"?: number | null;
            };
            path: {
                /** @description The task */
                task_id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["TaskVerb"];
            };
        };
        responses: {
            /** @description The task */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TaskBody"];
                };
            };
        };
    };
    cancel_task: {
        parameters: {
            query?: never;
            header?: {
                /** @description Version last read; defaults to any version */
                "If-Match"?: number | null;
            };
            path: {
                /** @description The task */
                task_id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["TaskVerb"];
            };
        };
        responses: {
            /** @description The task */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TaskBody"];
                };
            };
        };
    };
    claim_task: {
        parameters: {
            query?: never;
            header?: {
                /** @description Version last read; defaults to any version */
                "If-Match"?: number | null;
            };
            path: {
                /** @description The task */
                task_id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["TaskVerb"];
            };
        };
        responses: {
            /** @description The task */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TaskBody"];
                };
            };
        };
    };
    complete_task: {
        parameters: {
            query?: never;
            header?: {
                /** @description Version last read; defaults to any version */
                "If-Match"?: number | null;
            };
            path: {
                /** @description The task */
                task_id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["TaskVerb"];
            };
        };
        responses: {
            /** @description The task */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TaskBody"];
                };
            };
        };
    };
    delegate_task: {
        parameters: {
            query?: never;
            header?: {
                /** @description Version last read; defaults to any version */
                "If-Match"?: number | null;
            };
            path: {
                /** @description The task */
                task_id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["TaskVerb"];
            };
        };
        responses: {
            /** @description The task */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TaskBody"];
                };
            };
        };
    };
    escalate_task: {
        parameters: {
            query?: never;
            header?: {
                /** @description Version last read; defaults to any version */
                "If-Match"?: number | null;
            };
            path: {
                /** @description The task */
                task_id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["TaskVerb"];
            };
        };
        responses: {
            /** @description The task */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TaskBody"];
                };
            };
        };
    };
    fail_task: {
        parameters: {
            query?: never;
            header?: {
                /** @description Version last read; defaults to any version */
                "If-Match"?: number | null;
            };
            path: {
                /** @description The task */
                task_id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["TaskVerb"];
            };
        };
        responses: {
            /** @description The task */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TaskBody"];
                };
            };
        };
    };
    report_task_progress: {
        parameters: {
            query?: never;
            header?: {
                /** @description Version last read; defaults to any version */
                "If-Match"?: number | null;
            };
            path: {
                /** @description The task */
                task_id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["TaskProgress"];
            };
        };
        responses: {
            /** @description The task */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TaskBody"];
                };
            };
        };
    };
    release_task: {
        parameters: {
            query?: never;
            header?: {
                /** @description Version last read; defaults to any version */
                "If-Match"?: number | null;
            };
            path: {
                /** @description The task */
                task_id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["TaskVerb"];
            };
        };
        responses: {
            /** @description The task */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TaskBody"];
                };
            };
        };
    };
    skip_task: {
        parameters: {
            query?: never;
            header?: {
                /** @description Version last read; defaults to any version */
                "If-Match"?: number | null;
            };
            path: {
                /** @description The task */
                task_id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["TaskVerb"];
            };
        };
        responses: {
            /** @description The task */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TaskBody"];
                };
            };
        };
    };
    start_task: {
        parameters: {
            query?: never;
            header?: {
                /** @description Version last read; defaults to any version */
                "If-Match"?: number | null;
            };
            path: {
                /** @description The task */
                task_id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["TaskVerb"];
            };
        };
        responses: {
            /** @description The task */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TaskBody"];
                };
            };
        };
    };
    unblock_task: {
        parameters: {
            query?: never;
            header?: {
                /** @description Version last read; defaults to any version */
                "If-Match"?: number | null;
            };
            path: {
                /** @description The task */
                task_id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["TaskVerb"];
            };
        };
        responses: {
            /** @description The task */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TaskBody"];
                };
            };
        };
    };
    list_teams: {
        parameters: {
            query?: {
                /** @description Name of the last team of the previous page */
                after?: string;
                /** @description Page size, 1 to 1,000; defaults to 1,000 */
                limit?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The teams */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TeamList"];
                };
            };
        };
    };
    get_team: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Name of the team */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The team */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Team"];
                };
            };
        };
    };
    put_team: {
        parameters: {
            query?: never;
            header?: {
                /** @description Idempotency key: a retry with the same key is executed once */
                "Idempotency-Key"?: string | null;
            };
            path: {
                /** @description Name of the team */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["TeamMembers"];
            };
        };
        responses: {
            /** @description The team */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Team"];
                };
            };
        };
    };
    remove_team: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Name of the team */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The team is removed */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    get_team_quotas: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Name of the team */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The quotas, with their use */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Quotas"];
                };
            };
        };
    };
    put_team_quotas: {
        parameters: {
            query?: never;
            header?: {
                /** @description Idempotency key: a retry with the same key is executed once */
                "Idempotency-Key"?: string | null;
            };
            path: {
                /** @description Name of the team */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewQuotas"];
            };
        };
        responses: {
            /** @description The quotas, with their use */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Quotas"];
                };
            };
        };
    };
    invoke_tool: {
        parameters: {
            query?: never;
            header?: {
                /** @description Idempotency key: a retry with the same key is executed once */
                "Idempotency-Key"?: string | null;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ToolCall"];
            };
        };
        responses: {
            /** @description Result of the call */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ToolCallResult"];
                };
            };
        };
    };
    list_triggers: {
        parameters: {
            query?: {
                /** @description Only triggers of this namespace */
                namespace?: string;
                /** @description Only triggers of this type */
                type?: components["schemas"]["TriggerType"];
                /** @description Only enabled triggers (`true`), or only disabled ones (`false`) */
                enabled?: boolean;
                /** @description Only triggers later than this one: the last id of the previous page */
                after?: string;
                /** @description Page size, 1 to 1,000; defaults to 1,000 */
                limit?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The triggers */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Trigger"][];
                };
            };
        };
    };
    create_trigger: {
        parameters: {
            query?: never;
            header?: {
                /** @description Idempotency key: a retry with the same key is executed once */
                "Idempotency-Key"?: string | null;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewTrigger"];
            };
        };
        responses: {
            /** @description The trigger, with the secret that signs webhooks, which is shown only once */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Trigger"];
                };
            };
        };
    };
    get_trigger: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The trigger */
                trigger_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The trigger; its version is the ETag */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Trigger"];
                };
            };
        };
    };
    delete_trigger: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The trigger */
                trigger_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The trigger was deleted */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RemovedTrigger"];
                };
            };
        };
    };
    update_trigger: {
        parameters: {
            query?: never;
            header: {
                /** @description Version last read */
                "If-Match": number;
            };
            path: {
                /** @description The trigger */
                trigger_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewTrigger"];
            };
        };
        responses: {
            /** @description The trigger */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Trigger"];
                };
            };
        };
    };
    fire_trigger: {
        parameters: {
            query?: never;
            header?: {
                /** @description Idempotency key: a retry with the same key is executed once */
                "Idempotency-Key"?: string | null;
            };
            path: {
                /** @description The trigger */
                trigger_id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["TriggerFire"];
            };
        };
        responses: {
            /** @description Result of the firing */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["FiredTrigger"];
                };
            };
        };
    };
    list_trigger_firings: {
        parameters: {
            query?: {
                /** @description Only firings older than this one: the last id of the previous page */
                before?: string;
                /** @description Page size, 1 to 1,000; defaults to 100 */
                limit?: number;
            };
            header?: never;
            path: {
                /** @description The trigger */
                trigger_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The firings */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TriggerFiring"][];
                };
            };
        };
    };
    list_trigger_history: {
        parameters: {
            query?: {
                /** @description Only firings older than this one: the last id of the previous page */
                before?: string;
                /** @description Page size, 1 to 1,000; defaults to 100 */
                limit?: number;
            };
            header?: never;
            path: {
                /** @description The trigger */
                trigger_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The firings */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TriggerFiring"][];
                };
            };
        };
    };
    rotate_trigger_secret: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The trigger */
                trigger_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The trigger, with its new secret, which is shown only once */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Trigger"];
                };
            };
        };
    };
    take_turn: {
        parameters: {
            query?: never;
            header?: {
                /** @description Idempotency key: a retry with the same key is executed once */
                "Idempotency-Key"?: string | null;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Turn"];
            };
        };
        responses: {
            /** @description The turn was taken */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TurnTaken"];
                };
            };
        };
    };
    list_vaults: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The vaults, without their contents */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Vault"][];
                };
            };
        };
    };
    create_vault: {
        parameters: {
            query?: never;
            header?: {
                /** @description Idempotency key: a retry with the same key is executed once */
                "Idempotency-Key"?: string | null;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewVault"];
            };
        };
        responses: {
            /** @description The vault */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Vault"];
                };
            };
        };
    };
    get_vault: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The vault */
                vault_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The vault */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Vault"];
                };
            };
        };
    };
    remove_vault: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The vault */
                vault_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Removed */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    verify_consistency: {
        parameters: {
            query: {
                /** @description The earlier checkpoint */
                from_checkpoint: string;
                /** @description The later checkpoint */
                to_checkpoint: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Result of the comparison: whether the log only grew */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ConsistencyBody"];
                };
            };
        };
    };
    list_waits: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The waits */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Waits"];
                };
            };
        };
    };
    list_workers: {
        parameters: {
            query?: {
                /** @description Page size, 1 to 1,000; defaults to 100 */
                limit?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The workers */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["WorkerList"];
                };
            };
        };
    };
    register_worker: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewWorker"];
            };
        };
        responses: {
            /** @description The worker */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Worker"];
                };
            };
        };
    };
    direct_worker: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The worker */
                worker_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["WorkerDirective"];
            };
        };
        responses: {
            /** @description The worker */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Worker"];
                };
            };
        };
    };
    worker_heartbeat: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The worker */
                worker_id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["WorkerBeat"];
            };
        };
        responses: {
            /** @description Instructions for the worker */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["WorkerDirectives"];
                };
            };
        };
    };
    worker_leave: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The worker */
                worker_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The worker has left */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["WorkerLeft"];
                };
            };
        };
    };
    simple: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The process is alive */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Simple"];
                };
            };
        };
    };
    alive: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The process is alive */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Health"];
                };
            };
        };
    };
    metrics: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The metrics */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/openmetrics-text": string;
                };
            };
        };
    };
    ready: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The server is ready */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Health"];
                };
            };
        };
    };
}
