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
/// Levels of intents within each other: deeper ones nobody keeps in view, and each look upwards walks all of them.
pub const INTENT_DEPTH: usize = 100;
/// Intents that one walk over a graph visits at the most: what has more is looked at part by part.
pub const GRAPH_NODES: usize = 5_000;
/// Intents of one portfolio: its sums and its stream look at all of them.
pub const PORTFOLIO_INTENTS: usize = 1_000;
/// Intents of one page of a portfolio or of a list of a graph, when nothing is said: each is shown with its whole state.
pub const WHOLE_INTENTS: u32 = 100;
/// Portfolios of one page: each is shown with the sums of all of its intents.
pub const PORTFOLIO_PAGE: u32 = 100;
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
/// Bytes of the items of one page of a list, but for one item: what has more goes on behind it. Each is held in memory until
/// its reader has it.
pub const PAGE_BYTES: i64 = 4 * 1024 * 1024;
/// Bytes of a page that is small: as many of those are written for one key at once as it has requests.
pub const SMALL_PAGE_BYTES: i64 = 256 * 1024;
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
/// Attachments of one intent: all of them are one page of a list.
pub const ATTACHMENTS: usize = PAGE as usize;
/// Bytes of a file's name: what file systems take.
pub const FILE_NAME_BYTES: usize = 255;
/// Bytes of a file that is referred to: the largest whole number that every reader of JSON keeps.
pub const FILE_BYTES: u64 = (1 << 53) - 1;
/// Bytes of a word that costs are added up by: it is a heading, not a description.
pub const LABEL_BYTES: usize = 64;
/// Sums of one intent's costs, by unit, type, agent and model: all of them are shown with each list of costs.
pub const COST_SUMS: usize = 4_000;
/// Failures that a retry policy lets pass before another agent has its turn, and retries of one agent: what fails a hundred
/// times needs a person.
pub const RETRIES: u32 = ATTEMPTS;
/// Milliseconds that a retry waits at the most: as long as a task may rest between two attempts.
pub const RETRY_DELAY_MS: u32 = PAUSE_SECONDS * 1_000;
/// Bytes of the key of a memory entry, or of its namespace: a part of an index.
pub const MEMORY_KEY_BYTES: usize = 500;
/// Bytes of the value of a memory entry: what an agent wants to know again, not a document.
pub const MEMORY_VALUE_BYTES: usize = 64 * 1024;
/// Tags of one memory entry, and tags that one search asks for.
pub const MEMORY_TAGS: usize = 50;
/// Bytes of one tag.
pub const MEMORY_TAG_BYTES: usize = 100;
/// Entries in force in one namespace of an agent: what the SDK's own declaration of a memory has.
pub const MEMORY_NAMESPACE_ENTRIES: i64 = 1_000;
/// Entries of one agent, archived ones too: any list of them can be sorted while somebody waits.
pub const MEMORY_ENTRIES: i64 = 10_000;
/// Bytes of all that one agent has in its memory, without earlier versions.
pub const MEMORY_BYTES: i64 = 64 * 1024 * 1024;
/// Entries that may be evicted for a new one: what is not small enough by then is refused.
pub const MEMORY_EVICTIONS: u32 = 200;
/// Versions of a memory entry that are kept besides the one in force.
pub const MEMORY_VERSIONS: i64 = 10;
/// Changes of one agent's memory that are kept to be read.
pub const MEMORY_CHANGES: i64 = 1_000;
/// Bytes of what memory is searched for: a phrase.
pub const MEMORY_QUERY_BYTES: usize = 500;
/// Seconds for which working memory is kept after its task or intent: thirty days, to find out what went wrong.
pub const MEMORY_ARCHIVE_SECONDS: u32 = 30 * 24 * 3600;
/// Seconds after which a use of a memory entry is written down again: eviction need not know it better.
pub const MEMORY_USE_SECONDS: u32 = 60;
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
/// Calls into the vaults of one owner that are under way at once, on all servers: a tool that hangs keeps no others from being
/// called, however often its grant was passed on.
pub const CALLS_AT_ONCE: i64 = 64;
/// Bytes of a governance policy: a page of names; it is read with each piece of work on its intent.
pub const POLICY_BYTES: usize = 64 * 1024;
/// Requests for approval that wait on one intent at once: more than that nobody decides about.
pub const PERMITS_WAITING: usize = 200;
/// Approvals of one request: a quorum of more than that needs another way to vote.
pub const PERMIT_APPROVERS: usize = 1_000;
/// Open permits for one action that are looked at, the oldest first: those that may wait, five times over.
pub const PERMITS_OPEN: u32 = 1_000;
/// Escalations that wait on one intent at once: people lose sight of more.
pub const ESCALATIONS_WAITING: usize = 200;
/// Seconds in which one agent's violations of one rule are told of once: a loop that is refused must not fill the log.
pub const VIOLATION_PAUSE_SECONDS: u32 = 60;
/// Violations of one intent's policy that are told of in that time, whoever it was.
pub const VIOLATIONS_TOLD: usize = 60;
/// Seconds between two firings of an interval at the least: each makes an intent for good.
pub const TRIGGER_LEAST_SECONDS: u32 = 10;
/// Bytes of a trigger's template as JSON: what an intent begins with, without what is filled in.
pub const TRIGGER_TEMPLATE_BYTES: usize = 64 * 1024;
/// Bytes of a webhook that a trigger takes in: it is kept in an intent's state, by parts.
pub const TRIGGER_BODY_BYTES: usize = PAYLOAD_BYTES;
/// Triggers of one principal: what happens is compared with all that listen.
pub const TRIGGERS: usize = 500;
/// Firings of one trigger in a minute, for events and webhooks: what is faster than that is a loop or a flood.
pub const TRIGGER_FIRINGS_PER_MINUTE: u32 = 60;
/// Firings of all triggers of one principal in a minute, for events and webhooks: each is a transaction under the house's lock,
/// which everybody else waits for.
pub const TRIGGER_FIRINGS_OF_PRINCIPAL_PER_MINUTE: u32 = 300;
/// Triggers in a row whose doing an intent may be (RFC-0017 §3.3).
pub const TRIGGER_DEPTH: u32 = 10;
/// Failures in a row after which a trigger is switched off: what failed ten times fails again.
pub const TRIGGER_FAILURES: u32 = 10;
/// Days that firings are kept: a month's history, and for as long nothing is done twice for the same delivery.
pub const TRIGGER_FIRING_DAYS: i64 = 30;
/// Intents that one trigger may be told to make in all before it is switched off.
pub const TRIGGER_MAX_FIRES: i64 = 1_000_000_000;
/// Bytes of an intent that leaves for a peer, and of what a peer sends: a copy to work by, not a document.
pub const FEDERATED_BYTES: usize = 512 * 1024;
/// Seconds that the time of a peer's signature may be off, either way: clocks differ by less, and a letter that somebody kept is
/// worth nothing after that.
pub const FEDERATION_WINDOW_SECONDS: i64 = 300;
/// Dispatches to one peer, and deliveries of one peer, that may be open at once: whoever has more than that is not keeping up.
/// As many deliveries of one peer may be rejected in a day.
pub const FEDERATION_OPEN: i64 = 10_000;
/// Callbacks of one dispatch, besides the one that ends it: each is an event of its intent.
pub const FEDERATION_CALLBACKS: i32 = 10_000;
/// Peers of one server: each signature is compared with all of their keys at the most.
pub const FEDERATION_PEERS: usize = 100;
/// Days that nothing may be heard of a dispatch before it counts as failed, and that nothing may happen to a peer's intent
/// before the peer is told of it no more.
pub const FEDERATION_SILENCE_DAYS: i64 = 90;
/// Days that a letter may wait for a peer that is no longer configured; others are given up after a day of attempts.
pub const FEDERATION_LETTER_DAYS: i64 = 3;
/// Days that dispatches that are over and deliveries that were rejected are kept, and that their retries are answered alike.
/// Deliveries that were taken are kept with their intents, for what those may be passed on with.
pub const FEDERATION_KEPT_DAYS: i64 = 30;
/// Coordinators' appointments on one intent that are in force at once, each in a role of its own: nobody oversees more.
pub const COORDINATORS: usize = 20;
/// Seconds between two heartbeats of a coordinator at the least: each is a write.
pub const BEAT_LEAST_SECONDS: u32 = 1;
/// Seconds between two heartbeats of a coordinator at the most: a day; who is silent for longer holds nothing.
pub const BEAT_MOST_SECONDS: u32 = 24 * 3600;
/// Seconds that pass between two heartbeats on the log: a log of nothing but heartbeats hides what happened.
pub const BEAT_LOGGED_SECONDS: i64 = 3600;
/// Bytes of a coordinator's guardrails, of its metadata, and of the alternatives of one of its decisions.
pub const COORDINATOR_BYTES: usize = 32 * 1024;
/// Bytes of an answer, or of the value that stands in for one, as JSON, and of what is said besides (RFC-0025).
pub const ANSWER_BYTES: usize = 16 * 1024;
/// Bytes of an intent's state that stay free while it waits for an answer, so that the answer has room in it.
pub const SUSPENSION_ROOM: usize = 64 * 1024;
/// Choices of a question that an intent waits with: a person reads all of them.
pub const SUSPENSION_CHOICES: usize = 50;
