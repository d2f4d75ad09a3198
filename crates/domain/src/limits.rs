//! Fixed limits with units and reasons; limits that operators may want to change are settings (`src/config.rs`).
//! Input over a limit is refused, never truncated.

/// Maximum length of the name of an agent, principal or role, in bytes; names appear in paths, headers and logs.
pub const NAME_BYTES: usize = 200;
/// Maximum length of an intent's title, in bytes: one line for a person.
pub const TITLE_BYTES: usize = 500;
/// Maximum length of a description or reason, in bytes: prose, not a document (documents are attachments, RFC-0005).
pub const TEXT_BYTES: usize = 16 * 1024;
/// Maximum length of a URL, in bytes: common proxies accept this much.
pub const URL_BYTES: usize = 2_048;
/// Maximum nesting depth of a JSON body; deeper bodies only serve to exhaust a parser.
pub const JSON_DEPTH: usize = 64;
/// Maximum size of a message's payload, in bytes: large data goes by reference (RFC-0021, open question 4).
pub const PAYLOAD_BYTES: usize = 256 * 1024;
/// Maximum size of a message's metadata, in bytes: hints for routing and tracing.
pub const METADATA_BYTES: usize = 16 * 1024;
/// Maximum size of an intent's whole state, in bytes: it is read and written as one value.
pub const STATE_BYTES: usize = 1024 * 1024;
/// Maximum number of patches in one request.
pub const PATCHES: usize = 1_000;
/// Maximum number of segments in a patch's path.
pub const PATH_SEGMENTS: usize = 32;
/// Maximum number of members of a channel: the list is checked on each send.
pub const MEMBERS: usize = 1_000;
/// Maximum number of entries in one access control list.
pub const ACL_ENTRIES: usize = 1_000;
/// Maximum length of a lease's scope, in bytes: it is a path of names and an index key.
pub const SCOPE_BYTES: usize = 500;
/// Maximum number of active leases on one intent: every state patch is compared with all of them.
pub const LEASES: usize = 1_000;
/// Maximum duration of a lease, in seconds: one week, so that a holder that disappears does not block others longer.
pub const LEASE_SECONDS: u32 = 7 * 24 * 3600;
/// Maximum number of intents that one intent may depend on.
pub const DEPENDENCIES: usize = 100;
/// Maximum nesting depth of intents: each lookup of ancestors walks all levels, and nobody oversees deeper trees.
pub const INTENT_DEPTH: usize = 100;
/// Maximum number of intents that one graph traversal visits; larger graphs are read in parts.
pub const GRAPH_NODES: usize = 5_000;
/// Maximum number of intents in one portfolio: its totals and its stream read all of them.
pub const PORTFOLIO_INTENTS: usize = 1_000;
/// Default page size of the lists of a portfolio or graph: each item contains an intent's whole state.
pub const WHOLE_INTENTS: u32 = 100;
/// Portfolios per page: each contains the totals of all its intents.
pub const PORTFOLIO_PAGE: u32 = 100;
/// Maximum number of attempts of a task: a task that fails a hundred times needs a person.
pub const ATTEMPTS: u32 = 100;
/// Maximum pause between two attempts of a task, in seconds: one day.
pub const PAUSE_SECONDS: u32 = 24 * 3600;
/// Maximum number of tasks in one plan: it is read and written as one value.
pub const PLAN_TASKS: usize = 1_000;
/// Maximum number of checkpoints and of conditions in one plan.
pub const PLAN_CHECKPOINTS: usize = 100;
/// Maximum number of messages in one batch.
pub const BATCH: usize = 1_000;
/// Maximum number of items on one page of a list: equal to a channel's default retention, so that the unfiltered list
/// of such a channel is complete and a polling `ask()` finds its answer (OI-10.5.1).
pub const PAGE: u32 = 1_000;
/// Maximum size of a list page, in bytes, not counting one item: the list continues on the next page, because each
/// page stays in memory until its reader has received it.
pub const PAGE_BYTES: i64 = 4 * 1024 * 1024;
/// Size in bytes up to which a page counts as small: a key may have as many small pages in flight as it has requests.
pub const SMALL_PAGE_BYTES: i64 = 256 * 1024;
/// Number of messages a channel keeps by default, RFC-0021 §1.2.
pub const DEFAULT_MAX_MESSAGES: u32 = 1_000;
/// Maximum number of messages a channel may be configured to keep.
pub const MAX_MESSAGES: u32 = 1_000_000;
/// Maximum TTL, timeout, expiry or heartbeat interval, in seconds: ten years.
pub const DURATION_SECONDS: u32 = 10 * 365 * 24 * 3600;
/// Maximum wait of a long poll or an `ask`, in seconds: proxies give up soon after.
pub const WAIT_SECONDS: u32 = 120;
/// Maximum rate limit of a key, in requests per second; the setting for all keys has the same maximum.
pub const RATE_PER_SECOND: u32 = 1_000_000;
/// Maximum length of an idempotency key, in bytes.
pub const IDEMPOTENCY_KEY_BYTES: usize = 255;
/// Maximum number of capabilities, scopes or globs in one list.
pub const LIST_ITEMS: usize = 200;
/// Maximum size of a job's authority (ARCP's lease) as JSON, in bytes: it is sent with each acceptance, claim and
/// delegation, and must fit into one line of stdio together with everything else (60 KB, ARCP-W-2.5).
pub const AUTHORITY_BYTES: usize = 32 * 1024;
/// Maximum number of Ed25519 keys an agent may ever have: each identity lists all of them.
pub const IDENTITY_KEYS: usize = 1_000;
/// Maximum number of envelope signing keys of an entity, ever: each new key is compared with all, and they fit one page.
pub const ENVELOPE_KEYS: usize = 1_000;
/// Maximum size of the receipt that anchors a checkpoint externally, in bytes: time-stamping services need a few KiB.
pub const ANCHOR_BYTES: usize = 64 * 1024;
/// Maximum length of one text of a binding moment (synopsis, finding, stem, label …), in bytes: a sentence or two.
pub const MOMENT_TEXT_BYTES: usize = 2 * 1024;
/// Maximum number of findings, and of recommendations, in one binding moment: all of them are always shown.
pub const MOMENT_LIST_ITEMS: usize = 100;
/// Maximum size of a binding moment in canonical form, in bytes: a person has to read all of it.
pub const MOMENT_BYTES: usize = 64 * 1024;
/// Maximum length of one contribution to a binding moment (answer, objection, deliberation), in bytes.
pub const MOMENT_WORD_BYTES: usize = TEXT_BYTES;
/// Moments per page: apart from its contributions, one moment may take 100 KiB.
pub const MOMENT_PAGE: u32 = 100;
/// Maximum number of questions and deliberations of one agent waiting for one person: nobody decides more in a day,
/// and an inbox of thousands hides the questions of other agents.
pub const MOMENTS_WAITING: usize = 50;
/// Minimum lifetime of a question to a person, in seconds: one minute, so that it can be seen at all.
pub const MOMENT_LEAST_SECONDS: u32 = 60;
/// Default lifetime of a question to a person, in seconds: one day.
pub const MOMENT_SECONDS: u32 = 24 * 3600;
/// Maximum lifetime of a question to a person, in seconds: thirty days; an older question is no longer the same.
pub const MOMENT_MOST_SECONDS: u32 = 30 * 24 * 3600;
/// Maximum number of attachments of one intent: they form one page of a list.
pub const ATTACHMENTS: usize = PAGE as usize;
/// Maximum length of a file name, in bytes: the limit of common file systems.
pub const FILE_NAME_BYTES: usize = 255;
/// Maximum size of a referenced file, in bytes: the largest integer that every JSON reader represents exactly.
pub const FILE_BYTES: u64 = (1 << 53) - 1;
/// Maximum length of a label that costs are grouped by, in bytes: it is a heading, not a description.
pub const LABEL_BYTES: usize = 64;
/// Maximum number of cost totals of one intent, by unit, type, agent and model: each list of costs contains all of them.
pub const COST_SUMS: usize = 4_000;
/// Maximum number of failures before a retry policy falls back to another agent, and of retries of one agent: work
/// that fails a hundred times needs a person.
pub const RETRIES: u32 = ATTEMPTS;
/// Maximum delay before a retry, in milliseconds: the same as the maximum pause between two attempts of a task.
pub const RETRY_DELAY_MS: u32 = PAUSE_SECONDS * 1_000;
/// Maximum length of a memory entry's key or namespace, in bytes: both are part of an index.
pub const MEMORY_KEY_BYTES: usize = 500;
/// Maximum size of a memory entry's value, in bytes: a note, not a document.
pub const MEMORY_VALUE_BYTES: usize = 64 * 1024;
/// Maximum number of tags of one memory entry, and of tags in one search.
pub const MEMORY_TAGS: usize = 50;
/// Maximum length of one tag, in bytes.
pub const MEMORY_TAG_BYTES: usize = 100;
/// Maximum number of active entries in one namespace of an agent: the SDK declares the same number.
pub const MEMORY_NAMESPACE_ENTRIES: i64 = 1_000;
/// Maximum number of entries of one agent, including archived ones: any list of them can be sorted within one request.
pub const MEMORY_ENTRIES: i64 = 10_000;
/// Maximum size of one agent's memory without earlier versions, in bytes.
pub const MEMORY_BYTES: i64 = 64 * 1024 * 1024;
/// Maximum number of entries evicted to make room for a new one; if that is not enough, the new entry is refused.
pub const MEMORY_EVICTIONS: u32 = 200;
/// Number of earlier versions of a memory entry that are kept.
pub const MEMORY_VERSIONS: i64 = 10;
/// Number of changes of one agent's memory that are kept for reading.
pub const MEMORY_CHANGES: i64 = 1_000;
/// Maximum length of a memory search query, in bytes: a phrase.
pub const MEMORY_QUERY_BYTES: usize = 500;
/// Retention of working memory after its task or intent ends, in seconds: thirty days, for post-mortem analysis.
pub const MEMORY_ARCHIVE_SECONDS: u32 = 30 * 24 * 3600;
/// Minimum interval between two recorded uses of a memory entry, in seconds: eviction needs no finer resolution.
pub const MEMORY_USE_SECONDS: u32 = 60;
/// Maximum size of one part of a vault secret, in bytes: service keys have up to a few thousand.
pub const TOOL_SECRET_BYTES: usize = 16 * 1024;
/// Maximum size of a vault credential's metadata, in bytes: a description of a service's endpoints.
pub const TOOL_METADATA_BYTES: usize = 32 * 1024;
/// Maximum size of a tool call's parameters, in bytes: large data goes by reference.
pub const TOOL_PARAMETERS_BYTES: usize = 64 * 1024;
/// Maximum size of a tool's result, in bytes: it is stored whole, so that a retry returns the same result.
pub const TOOL_RESULT_BYTES: usize = 256 * 1024;
/// Tool invocations per page: each may contain a whole tool result.
pub const INVOCATION_PAGE: u32 = 100;
/// Maximum number of vaults of one owner.
pub const VAULTS: i64 = 100;
/// Maximum number of credentials in one vault: the vault lists all of them.
pub const VAULT_CREDENTIALS: i64 = 200;
/// Maximum number of active grants of one credential: they are all revoked in one transaction.
pub const CREDENTIAL_GRANTS: i64 = 1_000;
/// Maximum delegation depth of a grant: each call reads all grants above its own.
pub const DELEGATIONS: usize = 5;
/// Maximum value of a grant's hourly call limit; a grant that needs more needs no limit.
pub const CALLS_PER_HOUR: u32 = 1_000_000;
/// Maximum number of concurrent calls into the vaults of one owner, across all servers: it bounds hanging tools,
/// however often their grants were delegated.
pub const CALLS_AT_ONCE: i64 = 64;
/// Maximum size of a governance policy, in bytes: it is read with each operation on its intent.
pub const POLICY_BYTES: usize = 64 * 1024;
/// Maximum number of approval requests on one intent that are pending, or approved and unused: nobody decides more.
pub const PERMITS_WAITING: usize = 200;
/// Maximum number of approvals of one request: a larger quorum needs another way to vote.
pub const PERMIT_APPROVERS: usize = 1_000;
/// Maximum number of open permits for one action that are examined, oldest first: five times [`PERMITS_WAITING`].
pub const PERMITS_OPEN: u32 = 1_000;
/// Maximum number of pending escalations on one intent: people lose sight of more.
pub const ESCALATIONS_WAITING: usize = 200;
/// Window in seconds in which violations of one rule by one agent are logged once, so that a refused loop does not
/// fill the log.
pub const VIOLATION_PAUSE_SECONDS: u32 = 60;
/// Maximum number of policy violations logged for one intent within [`VIOLATION_PAUSE_SECONDS`], regardless of agent.
pub const VIOLATIONS_TOLD: usize = 60;
/// Minimum interval of an interval trigger, in seconds: each firing creates an intent permanently.
pub const TRIGGER_LEAST_SECONDS: u32 = 10;
/// Maximum size of a trigger's template as JSON, in bytes, before placeholders are filled in.
pub const TRIGGER_TEMPLATE_BYTES: usize = 64 * 1024;
/// Maximum size of a webhook body accepted by a trigger, in bytes: parts of it are kept in an intent's state.
pub const TRIGGER_BODY_BYTES: usize = PAYLOAD_BYTES;
/// Maximum number of triggers of one principal: each event is compared with all triggers that listen.
pub const TRIGGERS: usize = 500;
/// Maximum number of event and webhook firings of one trigger per minute: more indicates a loop or a flood.
pub const TRIGGER_FIRINGS_PER_MINUTE: u32 = 60;
/// Maximum number of event and webhook firings of all triggers of one principal per minute: each is a transaction
/// under the system log's lock, which all other writers of that log wait for.
pub const TRIGGER_FIRINGS_OF_PRINCIPAL_PER_MINUTE: u32 = 300;
/// Maximum number of triggers in the causal chain that leads to an intent (RFC-0017 §3.3).
pub const TRIGGER_DEPTH: u32 = 10;
/// Number of consecutive failures after which a trigger is disabled.
pub const TRIGGER_FAILURES: u32 = 10;
/// Retention of trigger firings, in days: one month of history; until then a repeated delivery is recognised as a duplicate.
pub const TRIGGER_FIRING_DAYS: i64 = 30;
/// Maximum value of a trigger's total firing limit, after which it is disabled.
pub const TRIGGER_MAX_FIRES: i64 = 1_000_000_000;
/// Maximum size of an intent sent to or received from a peer, in bytes: a working copy, not a document.
pub const FEDERATED_BYTES: usize = 512 * 1024;
/// Maximum clock difference of a peer's signature in either direction, in seconds: clocks differ by less, and a
/// captured request is useless afterwards.
pub const FEDERATION_WINDOW_SECONDS: i64 = 300;
/// Maximum number of open dispatches to one peer, of open deliveries from one peer, and of its rejected deliveries
/// per day: a peer with more is not keeping up.
pub const FEDERATION_OPEN: i64 = 10_000;
/// Maximum number of callbacks of one dispatch, besides the final one: each is an event of its intent.
pub const FEDERATION_CALLBACKS: i32 = 10_000;
/// Maximum number of peers of one server: a signature may have to be compared with all of their keys.
pub const FEDERATION_PEERS: usize = 100;
/// Days without news after which a dispatch counts as failed, and days without activity on a peer's intent after
/// which the peer is no longer notified.
pub const FEDERATION_SILENCE_DAYS: i64 = 90;
/// Days that an outbox message waits for a peer that is no longer configured; others are dropped after one day of attempts.
pub const FEDERATION_LETTER_DAYS: i64 = 3;
/// Retention of finished dispatches and rejected deliveries, in days; until then their retries get the same response.
///
/// Accepted deliveries are kept with their intents, whose further dispatch needs them.
pub const FEDERATION_KEPT_DAYS: i64 = 30;
/// Maximum number of active coordinator appointments on one intent, each in a different role.
pub const COORDINATORS: usize = 20;
/// Minimum heartbeat interval of a coordinator, in seconds: each heartbeat is a write.
pub const BEAT_LEAST_SECONDS: u32 = 1;
/// Maximum heartbeat interval of a coordinator, in seconds: one day; a coordinator silent for longer is not in charge.
pub const BEAT_MOST_SECONDS: u32 = 24 * 3600;
/// Minimum interval between two logged heartbeats, in seconds: a log full of heartbeats hides other events.
pub const BEAT_LOGGED_SECONDS: i64 = 3600;
/// Maximum size of a coordinator's guardrails, of its metadata, and of the alternatives of one of its decisions, in bytes.
pub const COORDINATOR_BYTES: usize = 32 * 1024;
/// Maximum size of an answer or of its fallback value as JSON, and of the accompanying comment, in bytes (RFC-0025).
pub const ANSWER_BYTES: usize = 16 * 1024;
/// Bytes of an intent's state reserved while it waits for an answer, so that the answer fits.
pub const SUSPENSION_ROOM: usize = 64 * 1024;
/// Maximum number of choices in a suspension's question: a person reads all of them.
pub const SUSPENSION_CHOICES: usize = 50;
