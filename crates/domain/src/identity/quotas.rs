//! Quotas: limits on the use by a principal, or by the members of a team together: requests in progress at once, bytes
//! received in a minute, bytes stored.
//!
//! A quota concerns the principal, whichever of its keys and agents is at work. Requests and bytes are judged as they come, by
//! the use that one server counts. Storage is counted behind the writes, so its quota is a verdict that was true a moment ago.

use std::collections::{BTreeMap, HashMap};

use crate::refusal::{Code, Refusal};
use crate::subjects::{Subject, SubjectKind};

/// Nanoseconds in which the bytes of a minute are free again.
const MINUTE: u64 = 60 * 1_000_000_000;

/// Highest value of a quota: the largest integer that every JSON reader represents exactly.
pub const MOST: u64 = (1 << 53) - 1;

/// Limits in force; 0 means no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Quota {
    /// Requests in progress at once, without streams and waiting requests.
    pub open_requests: u64,
    /// Bytes of request bodies in a minute.
    pub bytes_per_minute: u64,
    /// Bytes stored.
    pub storage_bytes: u64,
}

/// Limits that an admin set; the others have the server's default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QuotaOverride {
    /// See [`Quota::open_requests`].
    pub open_requests: Option<u64>,
    /// See [`Quota::bytes_per_minute`].
    pub bytes_per_minute: Option<u64>,
    /// See [`Quota::storage_bytes`].
    pub storage_bytes: Option<u64>,
}

impl QuotaOverride {
    /// Checks the values.
    ///
    /// # Errors
    /// One is larger than [`MOST`].
    pub fn check(self) -> Result<(), Refusal> {
        let members = [
            ("open_requests", self.open_requests),
            ("bytes_per_minute", self.bytes_per_minute),
            ("storage_bytes", self.storage_bytes),
        ];
        for (member, value) in members {
            if value.is_some_and(|value| value > MOST) {
                let message = format!("`{member}` must be a number from 0 (no limit) to {MOST}.");
                return Err(Refusal::field(Code::InvalidRequest, member, "too_large", message));
            }
        }
        Ok(())
    }

    /// Returns the limits in force over the server's defaults.
    #[must_use]
    pub fn over(self, defaults: Quota) -> Quota {
        Quota {
            open_requests: self.open_requests.unwrap_or(defaults.open_requests),
            bytes_per_minute: self.bytes_per_minute.unwrap_or(defaults.bytes_per_minute),
            storage_bytes: self.storage_bytes.unwrap_or(defaults.storage_bytes),
        }
    }
}

/// Defaults of all principals and of all teams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Defaults {
    /// Of each principal.
    pub principal: Quota,
    /// Of each team.
    pub team: Quota,
}

/// Decision about a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Intake {
    /// It may come.
    Pass {
        /// Timestamp to store: nanoseconds on the caller's clock at which all bytes of a minute are free again.
        free_at: u64,
    },
    /// The bytes of the last minute are used up.
    Wait {
        /// Nanoseconds until a body would pass.
        nanos: u64,
    },
}

/// Decides about a body of so many bytes at `now` (nanoseconds on any monotonic clock), given the stored timestamp.
///
/// It passes while anything is left of the minute's bytes, whatever its size: its excess delays those after it.
/// So a limit below the largest body bars nobody for ever.
#[must_use]
pub fn judge_bytes(per_minute: u64, bytes: u64, free_at: u64, now: u64) -> Intake {
    let ahead = free_at.saturating_sub(now);
    if ahead >= MINUTE {
        return Intake::Wait { nanos: ahead - MINUTE + 1 };
    }
    Intake::Pass { free_at: charge_bytes(per_minute, bytes, free_at, now) }
}

/// Returns the timestamp after a body that came anyway, whether or not there was room for it.
#[must_use]
pub fn charge_bytes(per_minute: u64, bytes: u64, free_at: u64, now: u64) -> u64 {
    free_at.max(now).saturating_add(span(per_minute, bytes))
}

/// Returns the timestamp by which as many bytes are in use under another limit, so that a raised limit helps at once.
#[must_use]
pub fn rescaled(before: u64, per_minute: u64, free_at: u64, now: u64) -> u64 {
    if free_at <= now {
        free_at
    } else {
        charge_bytes(per_minute, bytes_in_use(before, free_at, now), 0, now)
    }
}

/// Returns the bytes of the last minute that are not free again.
#[must_use]
pub fn bytes_in_use(per_minute: u64, free_at: u64, now: u64) -> u64 {
    let used = u128::from(free_at.saturating_sub(now)) * u128::from(per_minute) / u128::from(MINUTE);
    u64::try_from(used).unwrap_or(u64::MAX)
}

/// Nanoseconds after which so many bytes are free again, rounded up: the limit is a maximum.
fn span(per_minute: u64, bytes: u64) -> u64 {
    let nanos = (u128::from(bytes) * u128::from(MINUTE)).div_ceil(u128::from(per_minute.max(1)));
    u64::try_from(nanos).unwrap_or(u64::MAX)
}

/// Returns the refusal of a request beyond the requests that a subject may have in progress.
#[must_use]
pub fn busy(subject: &Subject, limit: u64) -> Refusal {
    let message = format!(
        "The quota of {subject} is {limit} requests under way, and it has them. Wait until some are answered; streams and long \
         polls do not count. {}",
        remedy(subject)
    );
    Refusal { retry_after_seconds: Some(1), ..Refusal::new(Code::RateLimited, message) }
}

/// Returns the refusal of a body beyond the bytes that a subject may send in a minute.
#[must_use]
pub fn spent(subject: &Subject, limit: u64, nanos: u64) -> Refusal {
    let message = format!(
        "The quota of {subject} is {limit} bytes a minute, and they are used up. Wait as long as Retry-After says. {}",
        remedy(subject)
    );
    let seconds = u32::try_from(nanos.div_ceil(1_000_000_000).max(1)).unwrap_or(u32::MAX);
    Refusal { retry_after_seconds: Some(seconds), ..Refusal::new(Code::RateLimited, message) }
}

fn remedy(subject: &Subject) -> String {
    let kind = if subject.kind == SubjectKind::Team { "teams" } else { "principals" };
    format!("An admin can raise it: PUT /api/v1/{kind}/{}/quotas.", subject.name)
}

/// A quota of stored bytes that is used up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Full {
    /// Whose quota it is.
    pub subject: Subject,
    /// The quota.
    pub limit: u64,
    /// Bytes stored when they were last counted.
    pub used: u64,
}

impl Full {
    /// Returns the refusal of a write.
    #[must_use]
    pub fn refusal(&self) -> Refusal {
        let Self { subject, limit, used } = self;
        let message = format!(
            "{subject} stores {used} bytes, and its quota is {limit}. Delete channels that are no longer needed, or wait until a \
             retention deletes something; it is counted every minute. {}",
            remedy(subject)
        );
        Refusal::new(Code::StorageFull, message)
    }
}

/// The quotas of all principals and teams, with the bytes that each stores.
#[derive(Debug, Clone, Default)]
pub struct QuotaSet {
    defaults: Defaults,
    overrides: HashMap<Subject, QuotaOverride>,
    /// The teams of each principal, in alphabetical order.
    teams: HashMap<String, Vec<String>>,
    full: HashMap<String, Full>,
}

impl QuotaSet {
    /// Creates the set: `members` are pairs of a team and a principal in it, `stored` has the bytes of each principal.
    #[must_use]
    pub fn new(
        defaults: Defaults,
        overrides: HashMap<Subject, QuotaOverride>,
        members: Vec<(String, String)>,
        stored: &HashMap<String, u64>,
    ) -> Self {
        let mut teams: HashMap<String, Vec<String>> = HashMap::new();
        let mut sums: BTreeMap<String, u64> = BTreeMap::new();
        for (team, principal) in members {
            let sum = sums.entry(team.clone()).or_default();
            *sum = sum.saturating_add(stored.get(&principal).copied().unwrap_or(0));
            teams.entry(principal).or_default().push(team);
        }
        teams.values_mut().for_each(|teams| teams.sort_unstable());
        let mut set = Self { defaults, overrides, teams, full: HashMap::new() };
        // Of several quotas that are used up, a person's own one explains best why.
        let own = stored.iter().filter_map(|(principal, used)| {
            Some((principal.clone(), set.fill(SubjectKind::Principal, principal, *used)?))
        });
        let mut full: HashMap<String, Full> = own.collect();
        let full_teams: HashMap<&String, Full> = sums
            .iter()
            .filter_map(|(team, used)| Some((team, set.fill(SubjectKind::Team, team, *used)?)))
            .collect();
        for (principal, teams) in &set.teams {
            if let Some(found) = teams.iter().find_map(|team| full_teams.get(team)) {
                full.entry(principal.clone()).or_insert_with(|| found.clone());
            }
        }
        set.full = full;
        set
    }

    /// Returns the quota of a subject's stored bytes, if so many use it up.
    fn fill(&self, kind: SubjectKind, name: &str, used: u64) -> Option<Full> {
        let subject = Subject::of(kind, name);
        let limit = self.of(&subject).storage_bytes;
        (limit > 0 && used >= limit).then_some(Full { subject, limit, used })
    }

    /// Returns the limits of a principal or a team.
    #[must_use]
    pub fn of(&self, subject: &Subject) -> Quota {
        let team = subject.kind == SubjectKind::Team;
        let defaults = if team { self.defaults.team } else { self.defaults.principal };
        self.overrides.get(subject).copied().unwrap_or_default().over(defaults)
    }

    /// Returns the teams of a principal.
    #[must_use]
    pub fn teams(&self, principal: &str) -> &[String] {
        self.teams.get(principal).map_or(&[], Vec::as_slice)
    }

    /// Returns the used-up quota of stored bytes that bars a principal's writes: its own, or one of its teams'.
    #[must_use]
    pub fn full(&self, principal: &str) -> Option<&Full> {
        self.full.get(principal)
    }

    /// Whether nobody's writes are barred.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.full.is_empty()
    }

    /// Whether any quota has this kind of limit.
    #[must_use]
    pub fn limits(&self, limit: impl Fn(Quota) -> u64) -> bool {
        let own = self.overrides.values().map(|quota| quota.over(Quota::default()));
        own.chain([self.defaults.principal, self.defaults.team]).any(|quota| limit(quota) > 0)
    }
}

/// Changes of the bytes that each principal stores, when a part of them was counted again.
#[must_use]
pub fn difference(before: &BTreeMap<String, i64>, after: &BTreeMap<String, i64>) -> BTreeMap<String, i64> {
    let mut changes = after.clone();
    for (principal, bytes) in before {
        *changes.entry(principal.clone()).or_default() -= bytes;
    }
    changes.retain(|_, change| *change != 0);
    changes
}
