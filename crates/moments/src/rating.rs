//! Ratings of agents' questions, as far as the caller may see them (binding moment §5.9, §11.2, §11.3).

use std::collections::BTreeMap;

use entente_domain::identity::keys::Scope;
use entente_domain::moments::rates::{Asked, Rates};
use entente_domain::moments::{Hatches, ResolutionKind, rates as domain};
use entente_kernel::{Caller, Outcome, unknown};

use super::visible::{Seen, seen};
use crate::Ctx;

/// Number of latest questions used for rates, of all agents together.
const RATED: i64 = 5_000;

/// Rates of one agent.
#[derive(Debug, Clone)]
pub struct Rated {
    /// Agent.
    pub agent_id: String,
    /// Decision class; `None` for all classes.
    pub decision_class: Option<String>,
    /// The rates.
    pub rates: Rates,
}

/// Columns of a question that count in a rate.
#[expect(clippy::struct_excessive_bools, reason = "they are the columns of one row")]
struct RatingRow {
    agent_id: String,
    decision_class: Option<String>,
    has_calibration_note: bool,
    hatch_free_text: bool,
    hatch_dialogue: bool,
    resolution_kind: Option<String>,
    near_duplicate: bool,
}

/// Selects these columns: the query's name, and the text after its `FROM`.
macro_rules! counted {
    ($name:literal, $rest:literal $(+ $more:literal)* $(, $argument:expr)* $(,)?) => {
        sqlx::query_as!(
            RatingRow,
            "-- " + $name + "
             SELECT m.agent_id, m.decision_class, m.has_calibration_note, m.hatch_free_text, m.hatch_dialogue,
                    m.resolution_kind, m.near_duplicate
             FROM moments m " + $rest $(+ $more)*
            $(, $argument)*
        )
    };
}

/// Returns the rates of agents, from the questions that the caller may see: over all, then by class.
///
/// # Errors
/// The caller lacks the scope.
pub async fn rates(ctx: &Ctx, caller: &Caller, agent: Option<&str>) -> Outcome<Vec<Rated>> {
    caller.require(Scope::MomentsRead)?;
    let who = Seen::filtered(caller, agent, None, ctx.now());
    let rows = seen!(
        counted,
        "moments::rates",
        "x.digest IS NOT NULL AND ($5::text IS NULL OR x.agent_id = $5) ORDER BY x.id DESC LIMIT $6",
        "ORDER BY y.id DESC LIMIT $6)) ORDER BY m.id DESC",
        who,
        agent,
        RATED
    )
    .fetch_all(&ctx.pool)
    .await?;
    let mut groups: BTreeMap<(String, Option<String>), Vec<Asked>> = BTreeMap::new();
    for row in rows {
        let kind = row.resolution_kind.as_deref();
        let parse = |word: &str| ResolutionKind::parse(word).ok_or_else(|| unknown("kind of answer", word));
        let asked = Asked {
            calibration_note: row.has_calibration_note,
            hatches: Hatches { free_text: row.hatch_free_text, dialogue: row.hatch_dialogue },
            answered: kind.map(parse).transpose()?,
            near_duplicate: row.near_duplicate,
        };
        if row.decision_class.is_some() {
            groups.entry((row.agent_id.clone(), row.decision_class)).or_default().push(asked);
        }
        groups.entry((row.agent_id, None)).or_default().push(asked);
    }
    let rated = groups.into_iter().map(|((agent_id, decision_class), asked)| Rated {
        agent_id,
        decision_class,
        rates: domain::rates(&asked),
    });
    Ok(rated.collect())
}
