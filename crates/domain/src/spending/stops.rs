//! Stops: from one call on, a subject starts nothing any more. Running jobs are told to end.

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};

use super::subjects::{Act, Subject, SubjectKind};
use crate::clock::Timestamp;
use crate::ids::{BudgetId, StopId};
use crate::limits::TEXT_BYTES;
use crate::refusal::{Code, Refusal};

/// A stop.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stop {
    /// Its id.
    pub id: StopId,
    /// Who is stopped.
    pub scope: Subject,
    /// Why.
    pub reason: String,
    /// The budget whose threshold made it.
    pub budget_id: Option<BudgetId>,
    /// Principal that made it.
    pub created_by: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// Principal that lifted it.
    pub lifted_by: Option<String>,
    /// When it was lifted.
    pub lifted_at: Option<Timestamp>,
}

/// Checks the reason of a stop.
///
/// # Errors
/// It is empty or too long.
pub fn check_reason(reason: &str) -> Result<(), Refusal> {
    if !reason.trim().is_empty() && reason.len() <= TEXT_BYTES {
        return Ok(());
    }
    let message = "`reason` must say in 1 to 16384 bytes why: those who are stopped read it.";
    Err(Refusal::field(Code::InvalidRequest, "reason", "length", message))
}

impl Stop {
    /// Returns the refusal of an act that it stops.
    #[must_use]
    pub fn refusal(&self) -> Refusal {
        let message = format!(
            "The scope {} is stopped since {} by {}: {}. Nothing new starts until the stop is lifted (DELETE /api/v1/stops/{}).",
            self.scope,
            crate::clock::rfc3339(self.created_at),
            self.created_by,
            self.reason.trim_end_matches('.'),
            self.id,
        );
        Refusal::new(Code::Stopped, message)
    }
}

/// The stops in force, and the members of the teams that they name.
#[derive(Debug, Clone, Default)]
pub struct StopSet {
    stops: HashMap<Subject, Stop>,
    members: HashMap<String, HashSet<String>>,
}

impl StopSet {
    /// Creates the set of these stops; `members` are pairs of a stopped team and a principal in it.
    #[must_use]
    pub fn new(stops: Vec<Stop>, members: Vec<(String, String)>) -> Self {
        let mut teams: HashMap<String, HashSet<String>> = HashMap::new();
        for (team, principal) in members {
            teams.entry(team).or_default().insert(principal);
        }
        // Of several stops of a subject, the first one explains best why.
        let mut set: HashMap<Subject, Stop> = HashMap::new();
        for stop in stops {
            set.entry(stop.scope.clone()).or_insert(stop);
        }
        Self { stops: set, members: teams }
    }

    /// Whether nothing is stopped.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.stops.is_empty()
    }

    /// Returns the stop of an act, if there is one.
    #[must_use]
    pub fn find(&self, act: &Act) -> Option<&Stop> {
        if self.is_empty() {
            return None;
        }
        let own = act.subjects().into_iter().find_map(|subject| self.stops.get(&subject));
        own.or_else(|| {
            let teams = self.members.iter().filter(|(_, members)| members.contains(&act.principal));
            teams.map(|(team, _)| Subject::of(SubjectKind::Team, team)).find_map(|team| self.stops.get(&team))
        })
    }

    /// Requires that an act is not stopped.
    ///
    /// # Errors
    /// [`Code::Stopped`].
    pub fn require_none(&self, act: &Act) -> Result<(), Refusal> {
        self.find(act).map_or(Ok(()), |stop| Err(stop.refusal()))
    }

    /// Names of a kind that are stopped; of principals, also the members of stopped teams.
    #[must_use]
    pub fn names(&self, kind: SubjectKind) -> Vec<String> {
        let own =
            self.stops.keys().filter(|subject| subject.kind == kind).map(|subject| subject.name.clone());
        let members = self.members.iter().filter(|_| kind == SubjectKind::Principal);
        let members = members.flat_map(|(_, members)| members.iter().cloned());
        own.chain(members).collect()
    }

    /// Returns the stop of the whole system.
    #[must_use]
    pub fn of_system(&self) -> Option<&Stop> {
        self.stops.get(&Subject::system())
    }
}
