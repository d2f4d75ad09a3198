//! What a refused question keeps an agent from (binding moment §6.2): asking the same again, and asking anything before it has
//! answered the objection.
//!
//! Refused questions of the *pair* count: of this agent, to this principal or refused by this principal. A new wording that
//! keeps neither the words nor the options gets past this; that an agent's questions are often refused is seen in its rates.

use super::brief::Brief;
use super::lints::{Lint, found};
use super::words::{is_blank, jaccard_at_least, key, set, words};
use super::{Moment, MomentState};
use crate::clock::Timestamp;
use crate::ids::MomentId;
use crate::refusal::{Code, Refusal};

/// Percent of the words of two questions that are the same, from which on one is nearly the other.
pub const STEM_PERCENT: usize = 80;
/// Percent of the options of two questions that are the same, from which on one is nearly the other.
pub const LABELS_PERCENT: usize = 75;

/// A refused question of this agent to this principal, whose objection is not settled: it is deliberated, or the question that
/// took its place was not answered yet ([`super::Moment::is_unsettled_veto`]).
#[derive(Debug, Clone, Copy)]
pub struct Vetoed<'a> {
    /// The moment.
    pub id: MomentId,
    /// Its question, which is kept until the objection is settled; `None` when what is stored cannot be read. The objection
    /// stands all the same, and the digest.
    pub brief: Option<&'a Brief>,
    /// The question's digest.
    pub digest: &'a str,
    /// Whether the agent has spoken since.
    pub deliberated: bool,
    /// Whether another question has taken its place already. Then nothing need be answered any more, but this question still
    /// does not come back until that one is answered: else it would only take a question to withdraw in between.
    pub superseded: bool,
}

/// Whether an agent may ask this of a principal who has refused questions of it. With all unsettled vetoes of the pair: which
/// one a question supersedes, or that it supersedes none, changes nothing of what is the same question.
///
/// # Errors
/// [`Code::SameQuestion`]: the same digest, or the same stem with the same options but for case, punctuation and forms of
/// letters. [`Code::DeliberationRequired`]: a refused question is being deliberated, and this one does not supersede it with an
/// answer to the objection, after a word of the agent's since.
pub fn judge(
    asked: &Brief,
    supersedes: Option<MomentId>,
    objection_response: Option<&str>,
    vetoes: &[Vetoed<'_>],
) -> Result<Vec<Lint>, Refusal> {
    let digest = asked.digest();
    let question = Sameness::of(asked);
    let refused: Vec<Option<Sameness>> = vetoes.iter().map(|veto| veto.brief.map(Sameness::of)).collect();
    let same = |(veto, other): (&Vetoed<'_>, &Option<Sameness>)| {
        veto.digest == digest || other.as_ref().is_some_and(|other| question.is_same(other))
    };
    if let Some((veto, _)) = vetoes.iter().zip(&refused).find(|pair| same(*pair)) {
        return Err(Refusal::new(
            Code::SameQuestion,
            format!(
                "Your principal refused this very question ({}). Read the objection, deliberate, and ask what it leaves to be \
                 decided.",
                veto.id
            ),
        ));
    }
    let mut deliberating = vetoes.iter().filter(|veto| !veto.superseded).peekable();
    if let Some(first) = deliberating.peek() {
        let first = first.id;
        let named = deliberating.find(|veto| Some(veto.id) == supersedes);
        require_answer(named, objection_response, first)?;
    }
    let near = |found: &dyn Fn(&Sameness) -> bool| refused.iter().flatten().any(found);
    let stem = near(&|other| jaccard_at_least(STEM_PERCENT, &question.words, &other.words));
    let labels = near(&|other| jaccard_at_least(LABELS_PERCENT, &question.labels, &other.labels));
    let places = [(stem, "/question/stem"), (labels, "/question/options")];
    let near = places.into_iter().filter(|(is, _)| *is);
    Ok(near.map(|(_, at)| found("near_duplicate_after_veto", at)).collect())
}

/// Requires that a person is not asked what waits for its answer already: of two cards with one question, one stays unanswered
/// or is answered otherwise, and nobody knows which of the answers counts. `open`: the questions of this agent that wait for that
/// person, about the same job and intent.
///
/// # Errors
/// [`Code::SameQuestion`]: as [`judge`] sees it.
pub fn require_new(asked: &Brief, open: &[Moment]) -> Result<(), Refusal> {
    let (digest, question) = (asked.digest(), Sameness::of(asked));
    let is_same = |other: &&Moment| {
        other.digest.as_ref() == Some(&digest)
            || other.brief.as_ref().is_some_and(|other| question.is_same(&Sameness::of(other)))
    };
    let Some(first) = open.iter().find(is_same) else { return Ok(()) };
    let message = format!(
        "This very question waits for an answer already ({}). Wait for that one, or withdraw it and ask again; a retry under \
         the same Idempotency-Key is not a second question.",
        first.id
    );
    Err(Refusal::new(Code::SameQuestion, message))
}

fn require_answer(
    named: Option<&Vetoed<'_>>,
    objection_response: Option<&str>,
    first: MomentId,
) -> Result<(), Refusal> {
    let fault = match named {
        None => format!(
            "your principal refused a question of yours ({first}), and this one does not say in `supersedes` that it takes its \
             place"
        ),
        Some(_) if objection_response.is_none_or(is_blank) => {
            "`objection_response` does not say how the objection was answered".to_owned()
        }
        Some(veto) if !veto.deliberated => {
            format!("nothing was deliberated on {} since your principal objected", veto.id)
        }
        Some(_) => return Ok(()),
    };
    Err(Refusal::new(
        Code::DeliberationRequired,
        format!(
            "No new question yet: {fault}. Deliberate on the refused moment first, then ask with `supersedes` and \
             `objection_response`."
        ),
    ))
}

/// Whether two moments ask the same question: what [`judge`] would refuse if one of them were refused.
#[must_use]
pub fn is_same(one: &Moment, other: &Moment) -> bool {
    let briefs = one.brief.as_ref().zip(other.brief.as_ref());
    let read_same = briefs.is_some_and(|(one, other)| Sameness::of(one).is_same(&Sameness::of(other)));
    read_same || (one.digest.is_some() && one.digest == other.digest)
}

/// What becomes of the questions before one that has ended, back along `supersedes`, the latest first; `None` where nothing
/// does. An answer, or that it was closed, `by` somebody settles the objections that are theirs. Of those that stay the
/// latest is deliberated again: else nobody could settle it any more. Those before it wait for it.
#[must_use]
pub fn after_end<'a>(
    ended: &Moment,
    before: impl IntoIterator<Item = &'a Moment>,
    by: Option<&str>,
    now: Timestamp,
) -> Vec<Option<Moment>> {
    let is_over = ended.state.is_terminal() && ended.state != MomentState::Superseded;
    let (mut next, mut is_live) = (Some(ended.id).filter(|_| is_over), false);
    let each = before.into_iter().map(|one| {
        // What another question has followed since then is not touched by this end, nor is what is before it.
        next = next.filter(|next| one.superseded_by == Some(*next)).map(|_| one.id);
        next?;
        if let Some(settled) = by.and_then(|by| one.settle_veto(by, now)) {
            return Some(settled);
        }
        let restored = one.restore_veto(now).filter(|_| !is_live);
        is_live |= restored.is_some();
        restored
    });
    each.collect()
}

/// What makes two questions the same, or nearly.
struct Sameness {
    stem: String,
    words: Vec<String>,
    labels: Vec<String>,
}

impl Sameness {
    fn of(brief: &Brief) -> Self {
        Self {
            stem: key(&brief.question.stem),
            words: set(words(&brief.question.stem)),
            labels: set(brief.question.options.iter().map(|option| key(&option.label)).collect()),
        }
    }

    fn is_same(&self, other: &Self) -> bool {
        self.stem == other.stem && self.labels == other.labels
    }
}
