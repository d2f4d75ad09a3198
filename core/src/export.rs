//! The export of one intent, and its verification with nothing but the file (RFC-0019).

use serde::{Deserialize, Serialize};

use crate::canonical;
use crate::clock::{Timestamp, parse, rfc3339};
use crate::events::{Break, Event, Sealed, Tail, verify, verify_end};
use crate::intents::{Intent, replay};

/// The name and version of the file's form.
pub const FORMAT: &str = "entente-export/1";

/// One intent with its whole log. A file with a member that is none of these is not read: nothing would vouch for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Export {
    /// [`FORMAT`].
    pub format: String,
    /// When it was taken, RFC 3339.
    pub exported_at: String,
    /// The intent as it was then.
    pub intent: Intent,
    /// How many events its log had.
    pub event_count: i64,
    /// The hash of the last of them. With the count it tells whether the end of the log is missing.
    pub head: Option<String>,
    /// Its log, oldest first.
    pub events: Vec<Sealed>,
}

/// What a verification found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The intent.
    pub intent_id: String,
    /// How many events the log has.
    pub event_count: usize,
    /// The hash of the last event: two exports that agree in it agree in everything before it.
    pub head: Option<String>,
    /// What is wrong with the chain.
    pub breaks: Vec<Break>,
    /// Where the intent is not what its log makes of it.
    pub contradictions: Vec<String>,
}

impl Report {
    /// Whether everything is as it should be.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.breaks.is_empty() && self.contradictions.is_empty()
    }
}

impl Export {
    /// An export of an intent and its events, oldest first.
    #[must_use]
    pub fn new(intent: Intent, events: &[Event], now: Timestamp) -> Self {
        let events: Vec<Sealed> = events.iter().map(Sealed::from).collect();
        let (event_count, head) =
            events.last().map_or((0, None), |last| (last.sequence, last.event_hash.clone()));
        Self { format: FORMAT.to_owned(), exported_at: rfc3339(now), intent, event_count, head, events }
    }

    /// The export of a log that must end where its line says.
    #[must_use]
    pub fn ending_at(self, tail: &Tail) -> Self {
        Self { event_count: tail.sequence, head: tail.head.as_ref().map(canonical::show), ..self }
    }

    /// Verifies the chain and its end, and that the log makes the intent what it is.
    #[must_use]
    pub fn verify(&self) -> Report {
        let mut contradictions = Vec::new();
        if self.format != FORMAT {
            contradictions.push(format!("the format is `{}`, this verifier reads `{FORMAT}`", self.format));
        }
        match self.events.iter().try_fold(None, |intent, sealed| replay(intent, &opened(sealed)?)) {
            Ok(Some(made)) => contradictions.extend(differences(&self.intent, &made)),
            Ok(None) => contradictions.push("the log does not begin with the intent's creation".to_owned()),
            Err(fault) => contradictions.push(fault),
        }
        let mut breaks = verify(&self.events, 1, None);
        breaks.extend(verify_end(&self.events, self.event_count, self.head.as_deref()));
        Report {
            intent_id: self.intent.id.to_string(),
            event_count: self.events.len(),
            head: self.events.last().and_then(|event| event.event_hash.clone()),
            breaks,
            contradictions,
        }
    }
}

fn opened(sealed: &Sealed) -> Result<Event, String> {
    let created_at = parse(&sealed.created_at)
        .ok_or_else(|| format!("event {}: `created_at` is no time", sealed.sequence))?;
    Ok(Event {
        id: sealed.id,
        intent_id: sealed.intent_id,
        event_type: sealed.event_type.clone(),
        actor: sealed.actor.clone(),
        payload: sealed.payload.clone(),
        created_at,
        sequence: sealed.sequence,
        seq: 0,
        previous_event_hash: None,
        event_hash: canonical::Digest::default(),
        posted: sealed.posted,
        trace_id: None,
        parent_event_id: None,
        proof: None,
    })
}

/// Whether two values are one to their reader. The log is kept in canonical form, where 1.0 is 1.
fn same(claimed: &impl Serialize, made: &impl Serialize) -> bool {
    matches!((canonical::text(claimed), canonical::text(made)), (Ok(claimed), Ok(made)) if claimed == made)
}

fn differences(claimed: &Intent, made: &Intent) -> Vec<String> {
    let pairs = [
        ("id", claimed.id == made.id),
        ("title", claimed.title == made.title),
        ("description", claimed.description == made.description),
        ("created_by", claimed.created_by == made.created_by),
        ("parent_id", claimed.parent_id == made.parent_id),
        ("depends_on", claimed.depends_on == made.depends_on),
        ("constraints", same(&claimed.constraints, &made.constraints)),
        ("governance_policy", same(&claimed.governance_policy, &made.governance_policy)),
        ("state", same(&claimed.state, &made.state)),
        ("status", claimed.status == made.status),
        ("confidence", claimed.confidence.total_cmp(&made.confidence).is_eq()),
        ("version", claimed.version == made.version),
        ("created_at", claimed.created_at == made.created_at),
        ("updated_at", claimed.updated_at == made.updated_at),
    ];
    pairs
        .into_iter()
        .filter(|(_, same)| !same)
        .map(|(member, _)| format!("the intent's `{member}` is not what its log makes of it"))
        .collect()
}
