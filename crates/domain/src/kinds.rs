//! The kinds of events that the server itself records (contract 5.6). What an event is, is `events.rs`.

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $wire:literal;)+) => {
        /// The events that the server itself records. Clients may post any type; theirs are marked [`crate::events::Event::posted`].
        /// On an intent only types that the OpenIntent SDK can read are recorded (contract 5.6); the house log has more.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Kind { $($(#[$doc])* $name,)+ }

        impl Kind {
            /// Every kind.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// The `event_type` on the wire.
            #[must_use]
            pub fn wire(self) -> &'static str {
                match self { $(Self::$name => $wire,)+ }
            }
        }
    };
}

kinds! {
    /// An intent came to be; the payload has all it started with.
    IntentCreated = "intent_created";
    /// Its state was changed.
    StatePatched = "state_patched";
    /// Its status was changed.
    StatusChanged = "status_changed";
    /// It waits for another intent (RFC-0002).
    DependencyAdded = "dependency_added";
    /// It waits for another intent no longer.
    DependencyRemoved = "dependency_removed";
    /// An agent was assigned to it.
    /// An agent was assigned to it, or is to try again (`retry_attempt`, RFC-0010).
    AgentAssigned = "agent_assigned";
    /// An agent was taken off it.
    AgentUnassigned = "agent_unassigned";
    /// A file was added to it, or taken off it (`removed`): the SDK has no other word for either (RFC-0005).
    AttachmentAdded = "attachment_added";
    /// An attempt at it failed (RFC-0010).
    FailureRecorded = "failure_recorded";
    /// Something for which the SDK has no type: `about` says what. A cost (RFC-0009), a retry policy (RFC-0010).
    Comment = "comment";
    /// The intent waits for a person's answer (RFC-0025).
    IntentSuspended = "intent.suspended";
    /// It goes on: the question was answered, or called off (`resolution`).
    IntentResumed = "intent.resumed";
    /// Nobody answered in time; `fallback_policy` says what follows.
    IntentSuspensionExpired = "intent.suspension_expired";
    /// A coordinator was heard of again, or for the first time in a while (RFC-0013).
    CoordinatorHeartbeat = "coordinator.heartbeat";
    /// It has decided something, and says why.
    CoordinatorDecision = "coordinator.decision";
    /// Its supervisor, or a guardrail, has it rest.
    CoordinatorPaused = "coordinator.paused";
    /// It goes on.
    CoordinatorResumed = "coordinator.resumed";
    /// Another agent was appointed in its place.
    CoordinatorReplaced = "coordinator.replaced";
    /// It has not been heard of for two of its intervals.
    CoordinatorUnresponsive = "coordinator.unresponsive";
    /// It was given up: its place is free.
    CoordinatorFailedOver = "coordinator.failed_over";
    /// It has handed over, or is done.
    CoordinatorHandoff = "coordinator.handoff";
    /// What it is bound by was changed.
    CoordinatorGuardrailsUpdated = "coordinator.guardrails_updated";
    /// It beats and decides nothing, for longer than its guardrails let it.
    CoordinatorStalled = "coordinator.stalled";
    /// Access was granted, or the list replaced (`replaced`).
    AccessGranted = "access_granted";
    /// Access was taken away.
    AccessRevoked = "access_revoked";
    /// An entry ended by itself.
    AccessExpired = "access_expired";
    /// Somebody asked for access.
    AccessRequested = "access_requested";
    /// The asker was let in.
    AccessRequestApproved = "access_request_approved";
    /// The asker was not let in.
    AccessRequestDenied = "access_request_denied";
    /// A channel was opened, or changed (`updated` names what).
    ChannelCreated = "channel.created";
    /// A channel was closed; `reason` says by what.
    ChannelClosed = "channel.closed";
    /// A message of an audited channel, RFC-0021 §6.
    ChannelMessage = "channel.message";
    /// An agent registered (house log).
    AgentRegistered = "agent.registered";
    /// An agent's status changed (house log).
    AgentStatusChanged = "agent.status_changed";
    /// An agent was given up (house log).
    AgentDead = "agent.dead";
    /// A principal was created (house log).
    PrincipalCreated = "principal.created";
    /// A key was made (house log).
    KeyCreated = "key.created";
    /// A key was replaced by another (house log).
    KeyRotated = "key.rotated";
    /// A key was revoked (house log).
    KeyRevoked = "key.revoked";
    /// A lease was acquired, or renewed (`renewed`): clients cannot read `lease_renewed` (contract 15.4).
    LeaseAcquired = "lease_acquired";
    /// A lease ended; `reason` says by what.
    LeaseReleased = "lease_released";
    /// Somebody asked for arbitration, for an approval or for a person (`about`): clients know no other type for those.
    ArbitrationRequested = "arbitration_requested";
    /// A decision was recorded.
    DecisionRecorded = "decision_recorded";
    /// A task came to be.
    TaskCreated = "task.created";
    /// Everything that a task waits for is done.
    TaskReady = "task.ready";
    /// An agent took a task.
    TaskClaimed = "task.claimed";
    /// An agent works on a task.
    TaskStarted = "task.started";
    /// How far a task is.
    TaskProgress = "task.progress";
    /// A task is done.
    TaskCompleted = "task.completed";
    /// A task failed for good.
    TaskFailed = "task.failed";
    /// A task failed and is tried again.
    TaskRetrying = "task.retrying";
    /// A task cannot go on.
    TaskBlocked = "task.blocked";
    /// A task can go on.
    TaskUnblocked = "task.unblocked";
    /// A task is kept for another agent, or for everybody again (`to` is null).
    TaskDelegated = "task.delegated";
    /// A task was put before somebody who decides.
    TaskEscalated = "task.escalated";
    /// A task was called off.
    TaskCancelled = "task.cancelled";
    /// A task is not needed, or can never become ready.
    TaskSkipped = "task.skipped";
    /// A plan came to be.
    PlanCreated = "plan.created";
    /// A plan was put to work.
    PlanActivated = "plan.activated";
    /// A plan rests.
    PlanPaused = "plan.paused";
    /// A plan goes on.
    PlanResumed = "plan.resumed";
    /// Every task of a plan is done.
    PlanCompleted = "plan.completed";
    /// A plan failed.
    PlanFailed = "plan.failed";
    /// A plan came to one of its checkpoints.
    PlanCheckpointReached = "plan.checkpoint_reached";
    /// A checkpoint was passed.
    PlanCheckpointApproved = "plan.checkpoint_approved";
    /// A checkpoint was not passed.
    PlanCheckpointRejected = "plan.checkpoint_rejected";
    /// An agent has put something into its memory, for those who can read the intent (RFC-0015).
    MemoryCreated = "memory.created";
    /// Such an entry was changed.
    MemoryUpdated = "memory.updated";
    /// Such an entry was taken away by its agent.
    MemoryDeleted = "memory.deleted";
    /// What worked for the intent or a task is over, and its working memory with it; `entries` says how many.
    MemoryArchived = "memory.archived";
    /// Such an entry had to make room for another.
    MemoryEvicted = "memory.evicted";
    /// The time of such an entry is over.
    MemoryExpired = "memory.expired";
    /// An agent was challenged to prove its key (house log).
    IdentityChallengeIssued = "agent.identity.challenge_issued";
    /// An agent proved its key (house log).
    IdentityRegistered = "agent.identity.registered";
    /// An agent replaced its key (house log).
    IdentityRotated = "agent.identity.rotated";
    /// An agent's key counts no more (house log).
    IdentityRevoked = "agent.identity.revoked";
    /// A checkpoint was taken (house log).
    CheckpointCreated = "log.checkpoint.created";
    /// A checkpoint was anchored outside (house log).
    CheckpointAnchored = "log.checkpoint.anchored";
    /// A rule of what may pass between whom was set (house log, AEE §11.5).
    EnvelopeRuleSet = "envelope.rule_set";
    /// A rule was taken away (house log).
    EnvelopeRuleRemoved = "envelope.rule_removed";
    /// A schema of payloads was published (house log, AEE §9.3).
    EnvelopeSchemaPublished = "envelope.schema_published";
    /// A schema of payloads was taken back (house log).
    EnvelopeSchemaWithdrawn = "envelope.schema_withdrawn";
    /// A receiver of webhooks was set up (house log).
    EndpointCreated = "webhook.created";
    /// A receiver of webhooks was changed (house log).
    EndpointChanged = "webhook.changed";
    /// A receiver of webhooks failed for so long that it is no longer tried (house log).
    EndpointDisabled = "webhook.disabled";
    /// A receiver of webhooks was taken away (house log).
    EndpointRemoved = "webhook.removed";
    /// A job's credential could not be taken back (house log).
    CredentialStuck = "credential.stuck";
    /// An admin has it tried again (house log).
    CredentialRetried = "credential.retried";
    /// A job was accepted for the intent (ARCP §7.1).
    JobAccepted = "job.accepted";
    /// A worker works on the job.
    JobRunning = "job.running";
    /// The job is over; `status` says how.
    JobEnded = "job.ended";
    /// A job's lease ran out while it was active (house log, ARCP §14).
    JobLeaseExpired = "job.lease_expired";
    /// Somebody asked to follow a job; `decision` says what came of it (house log, ARCP §14).
    JobObserved = "job.observed";
    /// A key was registered to sign envelopes with (house log, AEE §11.2).
    EnvelopeKeyRegistered = "envelope.key_registered";
    /// A key signs no envelopes any more (house log, AEE §11.2).
    EnvelopeKeyRevoked = "envelope.key_revoked";
    /// An agent's version can run jobs, or was changed (house log).
    VersionRegistered = "agent.version_registered";
    /// A bridge was set up or changed (house log).
    BridgeSet = "bridge.set";
    /// A bridge was taken away (house log).
    BridgeRemoved = "bridge.removed";
    /// An agent put a question before a person, or began to deliberate with it. Never with what is asked or answered.
    MomentOpened = "moment.opened";
    /// The person answered: with an option or in its own words.
    MomentResolved = "moment.resolved";
    /// The person refused the question itself (binding moment §6.2).
    MomentVetoed = "moment.vetoed";
    /// Something was said about a moment: a request for detail, a deliberation, a reply.
    MomentWord = "moment.word";
    /// A second person is asked too.
    MomentEscalated = "moment.escalated";
    /// Nobody answered in time; nothing is approved by that.
    MomentExpired = "moment.expired";
    /// The agent took its question back, or what it was for has ended.
    MomentWithdrawn = "moment.withdrawn";
    /// Another question took the place of a refused one.
    MomentSuperseded = "moment.superseded";
    /// The person ended the deliberation.
    MomentClosed = "moment.closed";
    /// The person has the question before its eyes, for the first time.
    MomentSeen = "moment.seen";
    /// The agent has the answer, or knows of the end.
    MomentAcknowledged = "moment.acknowledged";
    /// Its words were taken out.
    MomentScrubbed = "moment.scrubbed";
    /// The objection to a refused question is settled: what took its place was answered or closed (`settled_by` names that).
    MomentVetoSettled = "moment.veto_settled";
    /// A refused question is deliberated again: what had taken its place ended, and the objection was not settled by that.
    MomentVetoRestored = "moment.veto_restored";
    /// A question came with a way to refuse it closed (binding moment §11.3).
    MomentHatchSuppressed = "moment.hatch_suppressed";
    /// A portfolio came to be (house log, RFC-0004).
    PortfolioCreated = "portfolio_created";
    /// A portfolio's status was changed (house log).
    PortfolioStatusChanged = "portfolio.status_changed";
    /// An intent was put into a portfolio, or its place there changed (house log).
    PortfolioIntentAdded = "added_to_portfolio";
    /// An intent was taken out of a portfolio (house log).
    PortfolioIntentRemoved = "removed_from_portfolio";
    /// A person's password was set (house log).
    PasswordSet = "person.password_set";
    /// A one-time link for a person was made (house log).
    LinkMade = "person.link_made";
    /// A vault was made (house log, RFC-0014).
    VaultCreated = "vault.created";
    /// A vault was taken away, with all that was in it (house log).
    VaultRemoved = "vault.removed";
    /// A credential was put into a vault (house log).
    ToolCredentialCreated = "credential.created";
    /// What is known of a credential was changed, not its secret (house log).
    ToolCredentialChanged = "credential.changed";
    /// A credential got another secret (house log).
    ToolCredentialRotated = "credential.rotated";
    /// The time of a credential ran out (house log).
    ToolCredentialExpired = "credential.expired";
    /// A credential was revoked; its secret is gone (house log).
    ToolCredentialRevoked = "credential.revoked";
    /// An agent may use a credential (house log).
    ToolGrantCreated = "grant.created";
    /// An agent has passed its grant on (house log).
    ToolGrantDelegated = "grant.delegated";
    /// A grant was taken back, with those that were passed on from it (house log).
    ToolGrantRevoked = "grant.revoked";
    /// The time of a grant ran out (house log).
    ToolGrantExpired = "grant.expired";
    /// A grant rests (house log).
    ToolGrantSuspended = "grant.suspended";
    /// A grant goes on (house log).
    ToolGrantResumed = "grant.resumed";
    /// An intent got a governance policy, or another one (RFC-0013).
    GovernancePolicySet = "governance.policy_set";
    /// An intent's governance policy was taken away.
    GovernancePolicyRemoved = "governance.policy_removed";
    /// Somebody approved what an agent asked for; `status` says whether that is enough.
    ApprovalGranted = "governance.approval_granted";
    /// What an agent asked for was not approved.
    ApprovalDenied = "governance.approval_denied";
    /// What was approved was done: the approval is used up.
    ApprovalEnforced = "governance.approval_enforced";
    /// An intent's policy refused something.
    GovernanceViolation = "governance.violation";
    /// A person has decided about an escalation.
    EscalationResolved = "coordinator.escalation_resolved";
    /// A trigger was set up (house log, RFC-0017).
    TriggerCreated = "trigger.created";
    /// A trigger was changed (house log).
    TriggerChanged = "trigger.changed";
    /// A trigger made an intent (house log).
    TriggerFired = "trigger.fired";
    /// A trigger would have made an intent and was not to; `reason` says why (house log).
    TriggerSkipped = "trigger.skipped";
    /// A trigger was to fire for what triggers had brought about too many times over (house log, RFC-0017 §3.3).
    TriggerCascadeLimit = "trigger.cascade_limit";
    /// A trigger could make no intent; `reason` says why (house log).
    TriggerFailed = "trigger.failed";
    /// A trigger was switched off by the server; `reason` says why (house log).
    TriggerDisabled = "trigger.disabled";
    /// A trigger was taken away (house log).
    TriggerRemoved = "trigger.removed";
    /// The intent was written down for a peer to work on (RFC-0022).
    FederationDispatched = "federation.dispatched";
    /// The intent is a peer's, who wants it worked on here (RFC-0022).
    FederationReceived = "federation.received";
    /// A peer has taken the intent, or tells how it goes on there (RFC-0022).
    FederationCallback = "federation.callback";
    /// A peer tells that the budget is nearly spent (RFC-0023).
    FederationBudgetWarning = "federation.budget_warning";
    /// A peer tells that it is done (RFC-0022).
    FederationCompleted = "federation.completed";
    /// It came to nothing at a peer, was not taken or not delivered (`reason`), or nothing was heard of it (RFC-0022).
    FederationFailed = "federation.failed";
    /// Something could not be delivered to a peer (house log).
    FederationUndelivered = "federation.undelivered";
}
