//! The kinds of events that the server itself records (OI-5.6). Events are in `events.rs`.

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $wire:literal;)+) => {
        /// The events that the server itself records; those posted by clients may have any type, and are
        /// marked [`crate::log::events::Event::posted`].
        ///
        /// An intent's log only has types that the OpenIntent SDK can read (OI-5.6.1); the system log has
        /// more.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Kind { $($(#[$doc])* $name,)+ }

        impl Kind {
            /// All variants.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// Returns the `event_type` on the wire.
            #[must_use]
            pub const fn wire(self) -> &'static str {
                match self { $(Self::$name => $wire,)+ }
            }
        }
    };
}

kinds! {
    /// An intent was created; the payload has all its initial values.
    IntentCreated = "intent_created";
    /// The state of an intent changed.
    StatePatched = "state_patched";
    /// The status of an intent changed.
    StatusChanged = "status_changed";
    /// A dependency was added (RFC-0002).
    DependencyAdded = "dependency_added";
    /// A dependency was removed.
    DependencyRemoved = "dependency_removed";
    /// An agent was assigned to an intent, or is to try again (`retry_attempt`, RFC-0010).
    AgentAssigned = "agent_assigned";
    /// An agent was unassigned from an intent.
    AgentUnassigned = "agent_unassigned";
    /// A file was added, or removed (`removed`): the SDK has no other type for either (RFC-0005).
    AttachmentAdded = "attachment_added";
    /// An attempt at an intent failed (RFC-0010).
    FailureRecorded = "failure_recorded";
    /// An event without a type in the SDK, named by `about`: a cost (RFC-0009), a retry policy (RFC-0010).
    Comment = "comment";
    /// The intent waits for a person's answer (RFC-0025).
    IntentSuspended = "intent.suspended";
    /// The intent resumed: the question was answered or cancelled (`resolution`).
    IntentResumed = "intent.resumed";
    /// The question was not answered in time; `fallback_policy` names the consequence.
    IntentSuspensionExpired = "intent.suspension_expired";
    /// A coordinator sent a heartbeat, the first one or the first in a while (RFC-0013).
    CoordinatorHeartbeat = "coordinator.heartbeat";
    /// A coordinator recorded a decision with its reasons.
    CoordinatorDecision = "coordinator.decision";
    /// A coordinator was paused by its supervisor or a guardrail.
    CoordinatorPaused = "coordinator.paused";
    /// A coordinator resumed.
    CoordinatorResumed = "coordinator.resumed";
    /// Another agent was appointed in a coordinator's place.
    CoordinatorReplaced = "coordinator.replaced";
    /// A coordinator was silent for two of its heartbeat intervals.
    CoordinatorUnresponsive = "coordinator.unresponsive";
    /// A coordinator was given up: its role is free.
    CoordinatorFailedOver = "coordinator.failed_over";
    /// A coordinator has handed over, or is finished.
    CoordinatorHandoff = "coordinator.handoff";
    /// A coordinator's guardrails were changed.
    CoordinatorGuardrailsUpdated = "coordinator.guardrails_updated";
    /// A coordinator sends heartbeats, but decided nothing for longer than its guardrails allow.
    CoordinatorStalled = "coordinator.stalled";
    /// Access was granted, or the list replaced (`replaced`).
    AccessGranted = "access_granted";
    /// An intent was made strict, or not strict any more: writes of agents there have to name their sessions' epochs.
    AccessStrictSet = "access.strict_set";
    /// Access was revoked.
    AccessRevoked = "access_revoked";
    /// An access entry expired.
    AccessExpired = "access_expired";
    /// Access was requested.
    AccessRequested = "access_requested";
    /// An access request was approved.
    AccessRequestApproved = "access_request_approved";
    /// An access request was denied.
    AccessRequestDenied = "access_request_denied";
    /// A channel was opened, or changed (`updated` names the members).
    ChannelCreated = "channel.created";
    /// A channel was closed; `reason` names the cause.
    ChannelClosed = "channel.closed";
    /// A message of an audited channel, RFC-0021 §6.
    ChannelMessage = "channel.message";
    /// An agent registered (system log).
    AgentRegistered = "agent.registered";
    /// An agent's status changed (system log).
    AgentStatusChanged = "agent.status_changed";
    /// An agent was given up (system log).
    AgentDead = "agent.dead";
    /// An agent opened a session, whose epoch refuses the writes of its earlier ones (system log).
    AgentSessionOpened = "agent.session_opened";
    /// A principal was created (system log).
    PrincipalCreated = "principal.created";
    /// A key was made (system log).
    KeyCreated = "key.created";
    /// A key was replaced by another (system log).
    KeyRotated = "key.rotated";
    /// A key was revoked (system log).
    KeyRevoked = "key.revoked";
    /// A team was created, or its members were changed (system log).
    TeamChanged = "team.changed";
    /// A team was removed (system log).
    TeamRemoved = "team.removed";
    /// The quotas of a principal or a team were set (system log).
    QuotasSet = "quotas.set";
    /// A bundle of another server was imported (system log).
    BundleImported = "bundle.imported";
    /// An imported bundle was removed (system log).
    BundleRemoved = "bundle.removed";
    /// A budget was created (system log).
    BudgetCreated = "budget.created";
    /// A budget was changed, raised or closed (system log).
    BudgetChanged = "budget.changed";
    /// A threshold of a budget was reached (system log, and the log of the intent whose spending it limits).
    BudgetThreshold = "budget.threshold";
    /// A subject was stopped (system log).
    StopMade = "stop.made";
    /// A stop was lifted (system log).
    StopLifted = "stop.lifted";
    /// A lease was acquired, or renewed (`renewed`): clients cannot read `lease_renewed` (OI-15.4).
    LeaseAcquired = "lease_acquired";
    /// A lease ended; `reason` names the cause.
    LeaseReleased = "lease_released";
    /// An agent handed its work on the intent over to another one: state, references, tasks and leases.
    HandoverMade = "handover.made";
    /// Agents wait for one another; `waits` has the part on this intent (the system log if there is no such part).
    DeadlockFound = "deadlock.found";
    /// Those agents no longer wait for one another.
    DeadlockCleared = "deadlock.cleared";
    /// A lineage of messages was found to be a loop or a storm, and told of, slowed or stopped (`state`).
    LoopFound = "loop.found";
    /// That lineage is no loop or storm any more, or was left by its agents, or is let go on (`reason`).
    LoopCleared = "loop.cleared";
    /// The policy of an intent for loops and storms was set.
    LoopPolicySet = "loop.policy_set";
    /// Arbitration, an approval or a person was requested (`about`): clients know no other type for those.
    ArbitrationRequested = "arbitration_requested";
    /// A decision was recorded.
    DecisionRecorded = "decision_recorded";
    /// A task was created.
    TaskCreated = "task.created";
    /// All dependencies of a task are done.
    TaskReady = "task.ready";
    /// An agent claimed a task.
    TaskClaimed = "task.claimed";
    /// An agent started to work on a task.
    TaskStarted = "task.started";
    /// The progress of a task.
    TaskProgress = "task.progress";
    /// A task was completed.
    TaskCompleted = "task.completed";
    /// A task failed permanently.
    TaskFailed = "task.failed";
    /// A task failed and is retried.
    TaskRetrying = "task.retrying";
    /// A task is blocked.
    TaskBlocked = "task.blocked";
    /// A task is no longer blocked.
    TaskUnblocked = "task.unblocked";
    /// A task is reserved for another agent, or open to all again (`to` is null).
    TaskDelegated = "task.delegated";
    /// A task was escalated for a decision.
    TaskEscalated = "task.escalated";
    /// A task was cancelled.
    TaskCancelled = "task.cancelled";
    /// A task is not needed, or can never become ready.
    TaskSkipped = "task.skipped";
    /// A plan was created.
    PlanCreated = "plan.created";
    /// A plan was activated.
    PlanActivated = "plan.activated";
    /// A plan was paused.
    PlanPaused = "plan.paused";
    /// A plan was resumed.
    PlanResumed = "plan.resumed";
    /// All tasks of a plan are done.
    PlanCompleted = "plan.completed";
    /// A plan failed.
    PlanFailed = "plan.failed";
    /// A plan reached one of its checkpoints.
    PlanCheckpointReached = "plan.checkpoint_reached";
    /// A plan's checkpoint was approved.
    PlanCheckpointApproved = "plan.checkpoint_approved";
    /// A plan's checkpoint was rejected.
    PlanCheckpointRejected = "plan.checkpoint_rejected";
    /// An agent created a memory entry readable by those with access to the intent (RFC-0015).
    MemoryCreated = "memory.created";
    /// A memory entry was changed.
    MemoryUpdated = "memory.updated";
    /// A memory entry was deleted by its agent.
    MemoryDeleted = "memory.deleted";
    /// The working memory of a finished intent or task was archived; `entries` is the number of entries.
    MemoryArchived = "memory.archived";
    /// A memory entry was evicted to make room for another.
    MemoryEvicted = "memory.evicted";
    /// A memory entry expired.
    MemoryExpired = "memory.expired";
    /// An agent was challenged to prove its key (system log).
    IdentityChallengeIssued = "agent.identity.challenge_issued";
    /// An agent proved its key (system log).
    IdentityRegistered = "agent.identity.registered";
    /// An agent replaced its key (system log).
    IdentityRotated = "agent.identity.rotated";
    /// An agent's key was revoked (system log).
    IdentityRevoked = "agent.identity.revoked";
    /// A checkpoint was taken (system log).
    CheckpointCreated = "log.checkpoint.created";
    /// A checkpoint was anchored externally (system log).
    CheckpointAnchored = "log.checkpoint.anchored";
    /// A boundary rule for envelopes was set (system log, AEE §11.5).
    EnvelopeRuleSet = "envelope.rule_set";
    /// A boundary rule was removed (system log).
    EnvelopeRuleRemoved = "envelope.rule_removed";
    /// A schema of payloads was published (system log, AEE §9.3).
    EnvelopeSchemaPublished = "envelope.schema_published";
    /// A schema of payloads was withdrawn (system log).
    EnvelopeSchemaWithdrawn = "envelope.schema_withdrawn";
    /// A webhook endpoint was created (system log).
    EndpointCreated = "webhook.created";
    /// A webhook endpoint was changed (system log).
    EndpointChanged = "webhook.changed";
    /// A webhook endpoint was disabled because it failed for too long (system log).
    EndpointDisabled = "webhook.disabled";
    /// A webhook endpoint was removed (system log).
    EndpointRemoved = "webhook.removed";
    /// A contact point of a person was created (system log).
    ContactCreated = "contact_point.created";
    /// A contact point was confirmed, or its settings were changed (system log).
    ContactChanged = "contact_point.changed";
    /// A contact point was disabled because it failed for too long, or is gone (system log).
    ContactDisabled = "contact_point.disabled";
    /// A contact point was removed (system log).
    ContactRemoved = "contact_point.removed";
    /// A job's credential could not be revoked (system log).
    CredentialStuck = "credential.stuck";
    /// An admin requested another attempt to revoke it (system log).
    CredentialRetried = "credential.retried";
    /// A job was accepted for the intent (ARCP §7.1).
    JobAccepted = "job.accepted";
    /// A worker started the job.
    JobRunning = "job.running";
    /// The job ended; `status` names the outcome.
    JobEnded = "job.ended";
    /// A job's lease ran out while it was active (system log, ARCP §14).
    JobLeaseExpired = "job.lease_expired";
    /// Limits of running jobs of an agent or a principal were set, or removed (`limits` is null).
    JobLimitsSet = "job.limits_set";
    /// A principal asked to follow a job; `decision` is the outcome (system log, ARCP §14).
    JobObserved = "job.observed";
    /// A key for signing envelopes was registered (system log, AEE §11.2).
    EnvelopeKeyRegistered = "envelope.key_registered";
    /// A key for signing envelopes was revoked (system log, AEE §11.2).
    EnvelopeKeyRevoked = "envelope.key_revoked";
    /// An agent's version that runs jobs was registered or changed (system log).
    VersionRegistered = "agent.version_registered";
    /// The queue of an agent's jobs was opened, paused or drained; `state` says which (system log).
    QueueChanged = "agent.queue_changed";
    /// A dead letter was resolved by somebody other than the job's submitter (system log).
    JobResolved = "job.resolved";
    /// Jobs were run again by somebody other than their submitters (system log).
    JobRerun = "job.rerun";
    /// A bridge was set up or changed (system log).
    BridgeSet = "bridge.set";
    /// A bridge was removed (system log).
    BridgeRemoved = "bridge.removed";
    /// An agent asked a person a question, or began a deliberation; never contains the question or the
    /// answer.
    MomentOpened = "moment.opened";
    /// The person answered, with an option or in their own words.
    MomentResolved = "moment.resolved";
    /// The person refused the question itself (binding moment §6.2).
    MomentVetoed = "moment.vetoed";
    /// A contribution to a moment: a request for detail, a deliberation, a reply.
    MomentWord = "moment.word";
    /// A second person is asked too.
    MomentEscalated = "moment.escalated";
    /// The moment was not answered in time; this approves nothing.
    MomentExpired = "moment.expired";
    /// The agent withdrew its question, or the purpose of the question has ended.
    MomentWithdrawn = "moment.withdrawn";
    /// Another question replaced a refused one.
    MomentSuperseded = "moment.superseded";
    /// The person ended the deliberation.
    MomentClosed = "moment.closed";
    /// The person saw the question for the first time.
    MomentSeen = "moment.seen";
    /// The agent received the answer, or learnt of the end.
    MomentAcknowledged = "moment.acknowledged";
    /// The texts of a moment were scrubbed.
    MomentScrubbed = "moment.scrubbed";
    /// The objection to a refused question is settled: its replacement was answered or closed (`settled_by`
    /// names it).
    MomentVetoSettled = "moment.veto_settled";
    /// A refused question is deliberated again: its replacement ended without settling the objection.
    MomentVetoRestored = "moment.veto_restored";
    /// A question suppressed one of its hatches, that is an answer in own words or a refusal (binding moment
    /// §11.3).
    MomentHatchSuppressed = "moment.hatch_suppressed";
    /// A portfolio was created (system log, RFC-0004).
    PortfolioCreated = "portfolio_created";
    /// A portfolio's status was changed (system log).
    PortfolioStatusChanged = "portfolio.status_changed";
    /// An intent was added to a portfolio, or its membership there changed (system log).
    PortfolioIntentAdded = "added_to_portfolio";
    /// An intent was removed from a portfolio (system log).
    PortfolioIntentRemoved = "removed_from_portfolio";
    /// A person's password was set (system log).
    PasswordSet = "person.password_set";
    /// A one-time link for a person was made (system log).
    LinkMade = "person.link_made";
    /// An account of the OpenID Connect provider became a person, at its first login (system log).
    AccountBound = "person.account_bound";
    /// A person was released from the account of the provider, which opens nothing any more (system log).
    AccountReleased = "person.account_released";
    /// A vault was created (system log, RFC-0014).
    VaultCreated = "vault.created";
    /// A vault was removed with all its contents (system log).
    VaultRemoved = "vault.removed";
    /// A credential was added to a vault (system log).
    ToolCredentialCreated = "credential.created";
    /// A credential was changed, except its secret (system log).
    ToolCredentialChanged = "credential.changed";
    /// A credential got another secret (system log).
    ToolCredentialRotated = "credential.rotated";
    /// A credential expired (system log).
    ToolCredentialExpired = "credential.expired";
    /// A credential was revoked; its secret is deleted (system log).
    ToolCredentialRevoked = "credential.revoked";
    /// A grant to use a credential was created (system log).
    ToolGrantCreated = "grant.created";
    /// An agent delegated its grant (system log).
    ToolGrantDelegated = "grant.delegated";
    /// A grant was revoked, with those delegated from it (system log).
    ToolGrantRevoked = "grant.revoked";
    /// A grant expired (system log).
    ToolGrantExpired = "grant.expired";
    /// A grant was suspended (system log).
    ToolGrantSuspended = "grant.suspended";
    /// A grant was resumed (system log).
    ToolGrantResumed = "grant.resumed";
    /// An intent's governance policy was set or replaced (RFC-0013).
    GovernancePolicySet = "governance.policy_set";
    /// An intent's governance policy was removed.
    GovernancePolicyRemoved = "governance.policy_removed";
    /// An agent's request was approved; `status` tells whether the approvals suffice.
    ApprovalGranted = "governance.approval_granted";
    /// An agent's request was not approved.
    ApprovalDenied = "governance.approval_denied";
    /// The approved action was done: the approval is used up.
    ApprovalEnforced = "governance.approval_enforced";
    /// An intent's policy refused an action.
    GovernanceViolation = "governance.violation";
    /// A person has resolved an escalation.
    EscalationResolved = "coordinator.escalation_resolved";
    /// A trigger was created (system log, RFC-0017).
    TriggerCreated = "trigger.created";
    /// A trigger was changed (system log).
    TriggerChanged = "trigger.changed";
    /// A trigger created an intent (system log).
    TriggerFired = "trigger.fired";
    /// A trigger was skipped and created no intent; `reason` names the cause (system log).
    TriggerSkipped = "trigger.skipped";
    /// A trigger did not fire because it is too deep in a cascade of triggers (system log, RFC-0017 §3.3).
    TriggerCascadeLimit = "trigger.cascade_limit";
    /// A trigger failed to create an intent; `reason` names the cause (system log).
    TriggerFailed = "trigger.failed";
    /// A trigger was disabled by the server; `reason` names the cause (system log).
    TriggerDisabled = "trigger.disabled";
    /// A trigger was removed (system log).
    TriggerRemoved = "trigger.removed";
    /// The intent was recorded for dispatch to a peer (RFC-0022).
    FederationDispatched = "federation.dispatched";
    /// The intent was received from a peer, to be worked on here (RFC-0022).
    FederationReceived = "federation.received";
    /// A peer accepted the intent, or reported progress (RFC-0022).
    FederationCallback = "federation.callback";
    /// A peer reported that the budget is nearly spent (RFC-0023).
    FederationBudgetWarning = "federation.budget_warning";
    /// A peer reported completion (RFC-0022).
    FederationCompleted = "federation.completed";
    /// The work failed at a peer, was rejected or not delivered (`reason`), or the peer fell silent
    /// (RFC-0022).
    FederationFailed = "federation.failed";
    /// A message could not be delivered to a peer (system log).
    FederationUndelivered = "federation.undelivered";
}

/// The event types of an audited message: of RFC-0021 §6, and the one that the SDK can read (OI-10.7.1).
pub const MESSAGE_EVENTS: [&str; 2] = ["channel_message", Kind::ChannelMessage.wire()];

/// Returns an event type and its other name: filters understand both names of an audited message, whichever of them
/// the log has.
pub fn names(event_type: &str) -> impl Iterator<Item = &str> {
    let [rfc, sdk] = MESSAGE_EVENTS;
    let other = if event_type == rfc {
        Some(sdk)
    } else if event_type == sdk {
        Some(rfc)
    } else {
        None
    };
    std::iter::once(event_type).chain(other)
}
