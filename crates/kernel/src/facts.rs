//! The facts that decide most operations on an intent: the end of its log, the agent's membership, the intent's policy,
//! and the stored response of the same request. One query reads them for a whole batch. This file only reads.

use entente_domain::access::{self as domain, AccessLevel, Level, Policy};
use entente_domain::clock::Timestamp;
use entente_domain::idempotency::Idempotency;
use entente_domain::identity::epochs::required_here;
use entente_domain::ids::IntentId;
use entente_domain::openintent::governance::GovernancePolicy;
use entente_domain::openintent::intents::IntentStatus;
use entente_domain::refusal::Refusal;
use serde_json::{Map, Value};
use sqlx::PgConnection;

use crate::{Outcome, unknown};

/// An agent's membership in an intent.
#[derive(Debug, Clone)]
pub struct Membership {
    /// Its access level.
    pub access: AccessLevel,
    /// Whether it is assigned to the intent as a coordinator (RFC-0021 §5.3).
    pub coordinates: bool,
    /// Whether it is assigned to the intent at all.
    pub assigned: bool,
    /// The intent's status.
    pub status: IntentStatus,
    /// Whether the intent has a governance policy (RFC-0013), which may restrict the access level.
    pub governed: bool,
    /// Whether this agent's writes on the intent have to name the epoch of its session.
    pub demand: EpochDemand,
}

/// Whether an agent's writes on an intent have to name the epoch of its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EpochDemand {
    /// They do not have to.
    None,
    /// They have to, and the current work names it.
    Met,
    /// They have to, and the current work does not name it.
    Unmet,
}

impl Membership {
    /// Returns whether the agent's writes on the intent have to name the epoch of its session.
    #[must_use]
    pub fn is_strict(&self) -> bool {
        self.demand != EpochDemand::None
    }

    /// Requires that a write names the epoch of the agent's session where it has to. Who may not even read does not learn
    /// that.
    ///
    /// # Errors
    /// `EpochRequired`.
    pub fn require_fenced(&self) -> Result<(), Refusal> {
        let is_missing = self.demand == EpochDemand::Unmet && self.access.reaches(Level::Read);
        if is_missing { Err(required_here()) } else { Ok(()) }
    }
}

/// The columns that tell an agent's membership.
pub(crate) struct MembershipColumns<'a> {
    pub created_by: &'a str,
    pub status: &'a str,
    pub default_policy: Option<&'a str>,
    pub has_entries: bool,
    pub permission: Option<&'a str>,
    pub expires_at: Option<Timestamp>,
    pub role: Option<&'a str>,
    pub governed: bool,
    pub strict: bool,
}

impl MembershipColumns<'_> {
    /// Returns the membership of `agent`, for work that lacks an epoch of it or not.
    pub fn membership(&self, agent: &str, lacks_epoch: bool) -> Outcome<Membership> {
        let own = match self.permission {
            Some(word) => Some((level(word)?, self.expires_at)),
            None => None,
        };
        let policy = self.default_policy.map_or(Ok(Policy::Open), policy)?;
        let facts = domain::Facts { created_by: self.created_by, policy, has_entries: self.has_entries, own };
        Ok(Membership {
            access: domain::access(agent, facts),
            coordinates: self.role == Some("coordinator"),
            assigned: self.role.is_some(),
            status: IntentStatus::parse(self.status).ok_or_else(|| unknown("intent status", self.status))?,
            governed: self.governed,
            demand: match (self.strict, lacks_epoch) {
                (false, _) => EpochDemand::None,
                (true, false) => EpochDemand::Met,
                (true, true) => EpochDemand::Unmet,
            },
        })
    }
}

pub(crate) fn level(word: &str) -> Outcome<Level> {
    Level::parse(word).ok_or_else(|| unknown("permission", word))
}

pub(crate) fn policy(word: &str) -> Outcome<Policy> {
    Policy::parse(word).ok_or_else(|| unknown("policy", word))
}

/// A request for the facts of an operation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Question<'a> {
    /// The intent.
    pub intent_id: IntentId,
    /// The agent that operates; nobody has an empty name, which the server's own operations use.
    pub agent: &'a str,
    /// The principal and the idempotency key of the request.
    pub once: Option<(&'a str, &'a Idempotency)>,
    /// Whether the operation does not name an epoch of the agent.
    pub lacks_epoch: bool,
}

/// The end of a log as it is stored.
#[derive(Debug, Clone)]
pub(crate) struct StoredTail {
    pub seq: i64,
    pub sequence: i64,
    pub head: Option<Vec<u8>>,
    pub at: Timestamp,
}

/// A stored response with the fingerprint of its request.
#[derive(Debug, Clone)]
pub(crate) struct Earlier {
    pub fingerprint: Vec<u8>,
    pub outcome: String,
}

/// The facts of one operation.
#[derive(Debug, Clone, Default)]
pub(crate) struct Facts {
    /// The end of the intent's log; `None` if it is empty.
    pub tail: Option<StoredTail>,
    /// The agent's membership; `None` if there is no such intent.
    pub membership: Option<Membership>,
    /// The intent's policy.
    pub policy: Option<GovernancePolicy>,
    /// The response of an earlier request with the same key.
    pub earlier: Option<Earlier>,
}

/// A row of [`load`].
struct Row {
    agent: String,
    last_seq: Option<i64>,
    sequence: Option<i64>,
    head_hash: Option<Vec<u8>>,
    last_at: Option<Timestamp>,
    created_by: Option<String>,
    status: Option<String>,
    governance_policy: Option<String>,
    default_policy: Option<String>,
    has_entries: bool,
    strict: bool,
    permission: Option<String>,
    expires_at: Option<Timestamp>,
    role: Option<String>,
    fingerprint: Option<Vec<u8>>,
    outcome: Option<String>,
}

impl Row {
    fn facts(self, lacks_epoch: bool) -> Outcome<Facts> {
        let tail = match (self.last_seq, self.sequence, self.last_at) {
            (Some(seq), Some(sequence), Some(at)) => {
                Some(StoredTail { seq, sequence, head: self.head_hash, at })
            }
            _ => None,
        };
        let membership = match (&self.created_by, &self.status) {
            (Some(created_by), Some(status)) => {
                let columns = MembershipColumns {
                    created_by,
                    status,
                    default_policy: self.default_policy.as_deref(),
                    has_entries: self.has_entries,
                    permission: self.permission.as_deref(),
                    expires_at: self.expires_at,
                    role: self.role.as_deref(),
                    governed: self.governance_policy.is_some(),
                    strict: self.strict,
                };
                Some(columns.membership(&self.agent, lacks_epoch)?)
            }
            _ => None,
        };
        let given: Option<Map<String, Value>> =
            self.governance_policy.as_deref().map(serde_json::from_str).transpose()?;
        let earlier = self.fingerprint.zip(self.outcome);
        Ok(Facts {
            tail,
            membership,
            policy: given.as_ref().map(GovernancePolicy::kept),
            earlier: earlier.map(|(fingerprint, outcome)| Earlier { fingerprint, outcome }),
        })
    }
}

/// Loads the facts of these operations, in their order.
///
/// A sub-select with one row takes the place of `EXISTS`: planned while the table is small, `EXISTS` reads all of the
/// table into a hash, for every statement until the table is analysed.
///
/// # Errors
/// A database error; a stored value is invalid.
pub(crate) async fn load(
    conn: &mut PgConnection,
    questions: &[Question<'_>],
    now: Timestamp,
) -> Outcome<Vec<Facts>> {
    let rows = sqlx::query_as!(
        Row,
        r#"-- facts::load
         SELECT k.agent AS "agent!", c.last_seq AS "last_seq?", c.sequence AS "sequence?", c.head_hash AS "head_hash?",
                c.last_at AS "last_at?", i.created_by AS "created_by?", i.status AS "status?",
                i.governance_policy AS "governance_policy?", a.default_policy AS "default_policy?",
                (coalesce(a.narrowed, false) OR coalesce((
                    SELECT true FROM acl_entries e WHERE e.intent_id = k.intent_id LIMIT 1), false)) AS "has_entries!",
                (coalesce(a.strict, false) AND NOT coalesce((
                    SELECT true FROM principals p WHERE p.id = k.agent AND p.kind <> 'agent'), false)) AS "strict!",
                own.permission AS "permission?", own.expires_at AS "expires_at?", s.role AS "role?",
                d.fingerprint AS "fingerprint?", d.outcome AS "outcome?"
         FROM UNNEST($1::uuid[], $2::text[], $3::text[], $4::text[])
              WITH ORDINALITY AS k (intent_id, agent, principal_id, key, n)
         LEFT JOIN LATERAL (SELECT * FROM intent_clock e WHERE e.intent_id = k.intent_id ORDER BY e.block DESC LIMIT 1) c ON true
         LEFT JOIN intents i ON i.id = k.intent_id
         LEFT JOIN acls a ON a.intent_id = k.intent_id
         LEFT JOIN assignments s ON s.intent_id = k.intent_id AND s.agent_id = k.agent
         LEFT JOIN idempotency d ON d.principal_id = k.principal_id AND d.key = k.key
         LEFT JOIN LATERAL (
             SELECT e.permission, e.expires_at FROM acl_entries e
             WHERE e.intent_id = k.intent_id AND e.principal_id = k.agent AND (e.expires_at IS NULL OR e.expires_at > $5)
             ORDER BY array_position(ARRAY['admin', 'write', 'read'], e.permission), e.expires_at DESC NULLS FIRST
             LIMIT 1) own ON true
         ORDER BY k.n"#,
        &questions.iter().map(|asked| asked.intent_id.uuid()).collect::<Vec<_>>(),
        &questions.iter().map(|asked| asked.agent).collect::<Vec<_>>() as &[&str],
        &questions.iter().map(|asked| asked.once.map(|(principal, _)| principal)).collect::<Vec<_>>()
            as &[Option<&str>],
        &questions.iter().map(|asked| asked.once.map(|(_, once)| once.key.as_str())).collect::<Vec<_>>()
            as &[Option<&str>],
        now
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter().zip(questions).map(|(row, asked)| row.facts(asked.lacks_epoch)).collect()
}
