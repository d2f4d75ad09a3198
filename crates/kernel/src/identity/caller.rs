//! The caller: a verified key (`grants.rs`), and the agent that it acts as.

use std::sync::Arc;

use entente_domain::clock::Timestamp;
use entente_domain::identity::keys::{Key, Scope};
use entente_domain::identity::principals::{Author, PrincipalKind, check_name};
use entente_domain::refusal::{Code, Refusal};
use entente_domain::traces::Trace;

use crate::identity::grants::Grant;
use crate::shares::{OpenRequest, StreamPermit};

/// The caller of a request.
#[derive(Debug, Clone)]
pub struct Caller {
    /// Its key.
    pub grant: Arc<Grant>,
    /// The agent that it acts as.
    pub agent: String,
    /// Whether the request named the agent itself (`X-Agent-ID`).
    named: bool,
    /// The trace that the request belongs to (`traceparent`, RFC-0020).
    pub trace: Option<Trace>,
    /// The request, counted among the key's requests in progress.
    request: Option<Arc<OpenRequest>>,
}

impl Caller {
    /// Creates a caller with this key, acting as the agent of `X-Agent-ID`, or else as its principal.
    ///
    /// # Errors
    /// [`Code::MayNotActAs`] when the key may not; the name is invalid.
    pub fn new(grant: Arc<Grant>, agent: Option<&str>, now: Timestamp) -> Result<Self, Refusal> {
        grant.note_use(now);
        let Some(agent) = agent else {
            let principal = grant.key.principal_id.clone();
            return Ok(Self { grant, agent: principal, named: false, trace: None, request: None });
        };
        check_name("X-Agent-ID", agent)?;
        if !grant.key.may_act_as(agent) {
            return Err(may_not_act_as(&grant.key, agent));
        }
        Ok(Self { grant, agent: agent.to_owned(), named: true, trace: None, request: None })
    }

    /// Returns the same caller with a trace.
    #[must_use]
    pub fn traced(self, trace: Option<Trace>) -> Self {
        Self { trace, ..self }
    }

    /// Returns the same caller within this request.
    #[must_use]
    pub fn within(self, request: Arc<OpenRequest>) -> Self {
        Self { request: Some(request), ..self }
    }

    /// Takes one of the key's permits for streams and waiting requests; the request is then counted as such
    /// only.
    ///
    /// # Errors
    /// [`Code::TooManyStreams`] when all `limit` are taken.
    pub fn waits(&self, limit: usize) -> Result<StreamPermit, Refusal> {
        let permit = self.grant.open_stream(limit)?;
        if let Some(request) = &self.request {
            request.end();
        }
        Ok(permit)
    }

    /// Returns the same caller acting as another agent, which [`Self::speaker`] has allowed.
    #[must_use]
    pub fn acting_as(&self, agent: String) -> Self {
        Self { agent, named: true, ..self.clone() }
    }

    /// Returns the key's principal.
    #[must_use]
    pub fn principal(&self) -> &str {
        &self.grant.key.principal_id
    }

    /// Returns the author of its records: its agent with its key's principal.
    #[must_use]
    pub fn author(&self) -> Author<'_> {
        Author { agent: &self.agent, principal: self.principal() }
    }

    /// Whether it acts as its key's own principal.
    #[must_use]
    pub fn is_itself(&self) -> bool {
        self.agent == self.principal()
    }

    /// Requires that the key is still in force, for a request that has waited since authentication.
    ///
    /// # Errors
    /// [`Code::Unauthenticated`].
    pub fn require_key(&self, now: Timestamp) -> Result<(), Refusal> {
        if self.grant.in_force(now) { Ok(()) } else { Err(unauthenticated()) }
    }

    /// Requires the key itself for making credentials: those that an access token makes would outlive it.
    ///
    /// # Errors
    /// [`Code::Forbidden`].
    pub(crate) fn require_no_token(&self) -> Result<(), Refusal> {
        if !self.grant.is_by_token() {
            return Ok(());
        }
        let message = "An access token makes no keys, login links or passwords, which would outlive it. Send this request with \
                       the key itself.";
        Err(Refusal::new(Code::Forbidden, message))
    }

    /// Requires that the key has a scope.
    ///
    /// # Errors
    /// [`Code::ScopeMissing`].
    pub fn require(&self, scope: Scope) -> Result<(), Refusal> {
        if self.has(scope) {
            return Ok(());
        }
        Err(Refusal::new(
            Code::ScopeMissing,
            format!(
                "This key lacks the scope `{}`. Use a key that has it; an admin can make one.",
                scope.as_str()
            ),
        ))
    }

    /// Requires that the caller may rotate a key: its own, or as an admin one that is not stronger.
    ///
    /// Otherwise a weak key could rotate a stronger one of its principal and gain its permissions.
    ///
    /// # Errors
    /// [`Code::ScopeMissing`], [`Code::MayNotActAs`].
    pub(crate) fn require_power_over(&self, key: &Key) -> Result<(), Refusal> {
        if key.id == self.grant.key.id {
            return Ok(());
        }
        self.require(Scope::Admin)?;
        self.grant.key.may_take_over(key)
    }

    /// Whether the key has a scope.
    #[must_use]
    pub fn has(&self, scope: Scope) -> bool {
        self.grant.key.scopes.contains(&scope)
    }

    /// Returns the agent that a body's `member` names, if the key may act as it (OI-1.1).
    ///
    /// The acting agent may always be named; another one only if the request named none, or the key may act
    /// as any. Defaults to the acting agent.
    ///
    /// # Errors
    /// [`Code::MayNotActAs`]; with `strict`, a service that names no agent at all (OI-2.7).
    pub fn speaker(&self, member: &str, name: Option<&str>, strict: bool) -> Result<String, Refusal> {
        let Some(name) = name else {
            if strict && !self.named && self.grant.kind == PrincipalKind::Service {
                return Err(Refusal::field(
                    Code::InvalidRequest,
                    member,
                    "missing",
                    format!("Say who acts: with the X-Agent-ID header or with `{member}`."),
                ));
            }
            return Ok(self.agent.clone());
        };
        check_name(member, name)?;
        let key = &self.grant.key;
        let free = key.any_agent() || (!self.named && key.may_act_as(name));
        if name == self.agent || free { Ok(name.to_owned()) } else { Err(may_not_act_as(key, name)) }
    }

    /// Returns the names that [`Self::speaker`] accepts, as SQL `LIKE` patterns for use in queries.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let key = &self.grant.key;
        let globs = key.act_as.iter().filter(|glob| !self.named || *glob == "*");
        let own = std::iter::once(&self.agent).chain((!self.named).then_some(&key.principal_id));
        own.map(|name| like(name)).chain(globs.map(|glob| like(glob).replace('*', "%"))).collect()
    }

    /// Whether the key reads messages on behalf of every agent (OI-1.6; never in strict mode).
    #[must_use]
    pub fn sees_all(&self, strict: bool) -> bool {
        !strict && self.grant.key.any_agent()
    }
}

/// Escapes a name for a SQL `LIKE` pattern.
#[must_use]
pub fn like(name: &str) -> String {
    name.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_")
}

/// The refusal of any invalid key, whatever the reason, with the text that clients of the reference server
/// expect (OI-3.2.5).
pub(crate) fn unauthenticated() -> Refusal {
    Refusal::new(Code::Unauthenticated, "Invalid or missing API key")
}

fn may_not_act_as(key: &Key, agent: &str) -> Refusal {
    Refusal::new(
        Code::MayNotActAs,
        format!(
            "The key of `{}` may not act as `{agent}`. Use that agent's own key, or one whose act_as covers it.",
            key.principal_id
        ),
    )
}
