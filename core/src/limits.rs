//! The limits that no setting changes, each with its unit and its reason. What an operator may want to change is a
//! setting (`src/config.rs`); what is over a limit is refused, never cut.

/// Bytes of an agent's, principal's or role's name: it stands in paths, headers and logs.
pub const NAME_BYTES: usize = 200;
/// Bytes of an intent's title: one line for a person.
pub const TITLE_BYTES: usize = 500;
/// Bytes of a description or a reason: prose, not a document (documents are attachments, RFC-0005).
pub const TEXT_BYTES: usize = 16 * 1024;
/// Bytes of a URL: what every proxy on its way takes.
pub const URL_BYTES: usize = 2_048;
/// Levels of nesting in a JSON body: deeper ones serve only to exhaust a parser.
pub const JSON_DEPTH: usize = 64;
/// Bytes of one message's payload: a message coordinates, data goes by reference (RFC-0021, open question 4).
pub const PAYLOAD_BYTES: usize = 256 * 1024;
/// Bytes of a message's metadata: hints for routing and tracing.
pub const METADATA_BYTES: usize = 16 * 1024;
/// Bytes of an intent's whole state: it is read and written as one.
pub const STATE_BYTES: usize = 1024 * 1024;
/// Patches in one request.
pub const PATCHES: usize = 1_000;
/// Segments of a patch's path.
pub const PATH_SEGMENTS: usize = 32;
/// Members of one channel: the list is checked on each send.
pub const MEMBERS: usize = 1_000;
/// Entries of one access control list.
pub const ACL_ENTRIES: usize = 1_000;
/// Bytes of a lease's scope: a path of names, and a key of an index.
pub const SCOPE_BYTES: usize = 500;
/// Active leases on one intent: every patch of its state is compared with them.
pub const LEASES: usize = 1_000;
/// Seconds of the longest lease, a week: leases are renewed, and whoever is gone must not be in the way for long.
pub const LEASE_SECONDS: u32 = 7 * 24 * 3600;
/// Intents that one intent may depend on.
pub const DEPENDENCIES: usize = 100;
/// Attempts that a task may be given: what fails a hundred times needs a person.
pub const ATTEMPTS: u32 = 100;
/// Seconds that a task may rest between two attempts: a day.
pub const PAUSE_SECONDS: u32 = 24 * 3600;
/// Tasks of one plan: it is read and written as one.
pub const PLAN_TASKS: usize = 1_000;
/// Checkpoints and conditions of one plan.
pub const PLAN_CHECKPOINTS: usize = 100;
/// Messages in one batch.
pub const BATCH: usize = 1_000;
/// Items of one page of a list. Equal to a channel's default retention, so that the unfiltered list of such a
/// channel is complete and a polling `ask()` finds its answer (contract 10.5).
pub const PAGE: u32 = 1_000;
/// Messages a channel keeps when its options say nothing, RFC-0021 §1.2.
pub const DEFAULT_MAX_MESSAGES: u32 = 1_000;
/// The most messages a channel may be told to keep.
pub const MAX_MESSAGES: u32 = 1_000_000;
/// Seconds of the longest TTL, timeout, expiry or heartbeat: ten years.
pub const DURATION_SECONDS: u32 = 10 * 365 * 24 * 3600;
/// Seconds that a long poll or an `ask` may wait: proxies give up soon after.
pub const WAIT_SECONDS: u32 = 120;
/// Requests per second that a key may be given: the most that the setting for all keys takes too.
pub const RATE_PER_SECOND: u32 = 1_000_000;
/// Bytes of an idempotency key.
pub const IDEMPOTENCY_KEY_BYTES: usize = 255;
/// Capabilities, scopes or globs in one list.
pub const LIST_ITEMS: usize = 200;
/// Bytes of a job's authority as JSON (ARCP's lease): it is sent with each acceptance, claim and delegation, and must fit into
/// one line of stdio with all else (60 KB, contract 2).
pub const AUTHORITY_BYTES: usize = 32 * 1024;
/// Ed25519 keys that one agent has in its life: all of them are shown with each identity.
pub const IDENTITY_KEYS: usize = 1_000;
/// Keys that one entity signs envelopes with in its life: a new one is compared with all of them, and they are one page.
pub const ENVELOPE_KEYS: usize = 1_000;
/// Bytes of the receipt that anchors a checkpoint outside: time-stamping services need a few KiB.
pub const ANCHOR_BYTES: usize = 64 * 1024;
/// Bytes of one text of a binding moment (synopsis, finding, stem, label …): a sentence or two, not a document.
pub const MOMENT_TEXT_BYTES: usize = 2 * 1024;
/// Findings or recommendations of one binding moment: all of them are always shown.
pub const MOMENT_LIST_ITEMS: usize = 100;
/// Bytes of a binding moment in its canonical form: somebody has to read all of it.
pub const MOMENT_BYTES: usize = 64 * 1024;
/// Bytes of what is said about a binding moment: an answer, an objection, a deliberation.
pub const MOMENT_WORD_BYTES: usize = TEXT_BYTES;
/// Moments of one page: with all but its words one may have 100 KiB.
pub const MOMENT_PAGE: u32 = 100;
/// Questions and deliberations of one agent that wait for one person at once: nobody decides more in a day, and an inbox of
/// thousands hides what others ask.
pub const MOMENTS_WAITING: usize = 50;
/// Seconds that a question to a person stands at the least: a minute, to be seen at all.
pub const MOMENT_LEAST_SECONDS: u32 = 60;
/// Seconds that a question to a person stands when nothing is said: a day.
pub const MOMENT_SECONDS: u32 = 24 * 3600;
/// Seconds that a question to a person stands at the most: thirty days; what is older is no longer the same question.
pub const MOMENT_MOST_SECONDS: u32 = 30 * 24 * 3600;
/// Bytes of one part of a secret in a vault: keys of services have up to a few thousand.
pub const TOOL_SECRET_BYTES: usize = 16 * 1024;
/// Bytes of the metadata of a credential in a vault: a description of a service's endpoints.
pub const TOOL_METADATA_BYTES: usize = 32 * 1024;
/// Bytes of what a tool is told: large data goes by reference.
pub const TOOL_PARAMETERS_BYTES: usize = 64 * 1024;
/// Bytes of what a tool answers: all of it is kept, so that a retry gets the same answer.
pub const TOOL_RESULT_BYTES: usize = 256 * 1024;
/// Uses of tools on one page: each may have all that a tool answered.
pub const INVOCATION_PAGE: u32 = 100;
/// Vaults of one owner.
pub const VAULTS: i64 = 100;
/// Credentials in one vault: all of them are listed with it.
pub const VAULT_CREDENTIALS: i64 = 200;
/// Grants of one credential that are in force: they are all taken back in one transaction.
pub const CREDENTIAL_GRANTS: i64 = 1_000;
/// Times that a grant may be passed on: each call reads all grants above its own.
pub const DELEGATIONS: usize = 5;
/// Calls in an hour that a grant may be limited to; who needs more needs no limit.
pub const CALLS_PER_HOUR: u32 = 1_000_000;
/// Calls under one grant that are under way at once.
pub const CALLS_AT_ONCE: i64 = 32;
