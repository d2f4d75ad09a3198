//! Restrictions after a refused question (binding moment §6.2): the agent must not repeat it, and must answer the
//! objection before it asks anything else.
//!
//! Refused questions of the *pair* count: of this agent, addressed to this principal or refused by this principal. A new
//! wording that changes both the words and the options is not detected; frequent refusals show in the agent's rates.
//!
//! A question that answers an objection may be refused, too. Then the agent must answer the second objection, and may repeat
//! neither question; the end of a later one settles both, or returns the latest to deliberation ([`after_end`]).

use super::brief::Brief;
use super::lints::{Lint, found};
use super::look_alikes::{READINGS, Shape, readings};
use super::words::{is_blank, jaccard_at_least, key, set, words};
use super::{Moment, MomentState};
use crate::clock::Timestamp;
use crate::ids::MomentId;
use crate::refusal::{Code, Refusal};

/// Percentage of common words from which on two questions are near duplicates.
pub const STEM_PERCENT: usize = 80;
/// Percentage of common options from which on two questions are near duplicates.
pub const LABELS_PERCENT: usize = 75;

/// A refused question of this agent to this principal with an unsettled objection: in deliberation, or superseded by
/// a question that is not answered yet ([`super::Moment::is_unsettled_veto`]).
#[derive(Debug, Clone, Copy)]
pub struct Vetoed<'a> {
    /// Identifier of the moment.
    pub id: MomentId,
    /// The question, kept until the objection is settled; `None` if the stored question cannot be parsed.
    ///
    /// The objection and the digest count nevertheless.
    pub brief: Option<&'a Brief>,
    /// Digest of the question.
    pub digest: &'a str,
    /// Whether the agent has contributed to the deliberation since.
    pub deliberated: bool,
    /// Whether another question has superseded it.
    ///
    /// The objection needs no further response then, but the same question stays forbidden until the new one is
    /// answered: otherwise withdrawing a question in between would bypass the veto.
    pub superseded: bool,
}

/// Decides whether an agent may ask this of a principal that has refused its questions; returns near-duplicate lints.
///
/// `vetoes` are all unsettled vetoes of the pair: superseding one of them, or none, does not change which questions
/// are the same.
///
/// # Errors
/// [`Code::SameQuestion`]: the same digest, or the same stem and options apart from case, punctuation, letter forms and
/// look-alike characters (UTS #39). [`Code::DeliberationRequired`]: a refused question is in deliberation, and this one does not supersede it
/// with an answer to the objection after a contribution by the agent.
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
    let stem = near(&|other| {
        question.agrees(other, |one, other| jaccard_at_least(STEM_PERCENT, &one.words, &other.words))
    });
    let labels = near(&|other| {
        question.agrees(other, |one, other| jaccard_at_least(LABELS_PERCENT, &one.labels, &other.labels))
    });
    let places = [(stem, "/question/stem"), (labels, "/question/options")];
    let near = places.into_iter().filter(|(is, _)| *is);
    Ok(near.map(|(_, at)| found("near_duplicate_after_veto", at)).collect())
}

/// Requires that the same question is not already waiting for an answer: of two identical cards, one would stay
/// unanswered or get a different answer, and it would be unclear which one counts.
///
/// `open` are this agent's questions that wait for that person, about the same job and intent.
///
/// # Errors
/// [`Code::SameQuestion`], by the same comparison as [`judge`].
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

/// Returns whether two moments ask the same question, so that [`judge`] would refuse one if the other were refused.
#[must_use]
pub fn is_same(one: &Moment, other: &Moment) -> bool {
    let briefs = one.brief.as_ref().zip(other.brief.as_ref());
    let read_same = briefs.is_some_and(|(one, other)| Sameness::of(one).is_same(&Sameness::of(other)));
    read_same || (one.digest.is_some() && one.digest == other.digest)
}

/// Returns the changes to the moments before an ended one, back along `supersedes`, latest first; `None` for no change.
///
/// If `by` answered or closed the ended moment, the objections that `by` may settle are settled. Of the others the
/// latest returns to deliberation, because nobody could settle it otherwise; those before it wait for it.
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
        // If another question has superseded a moment since, this end affects neither that moment nor those before it.
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

/// Features that make two questions the same, or near duplicates, in each way to read them.
struct Sameness {
    readings: [Reading; READINGS],
    /// Shapes of a question in ASCII except for punctuation. No character of it imitates another script's, so it is
    /// compared with another such question by its shape, which is finer than the readings.
    plain: Option<Shapes>,
}

/// Features of a question in one way to read it.
struct Reading {
    stem: String,
    words: Vec<String>,
    labels: Vec<String>,
}

/// Shapes of a question's texts.
struct Shapes {
    stem: Shape,
    labels: Vec<Shape>,
}

impl Sameness {
    fn of(brief: &Brief) -> Self {
        let options = &brief.question.options;
        let stems = readings(&brief.question.stem);
        let labels: Vec<[String; READINGS]> = options.iter().map(|option| readings(&option.label)).collect();
        let readings: [Reading; READINGS] = std::array::from_fn(|nth| Reading {
            stem: key(&stems[nth]),
            words: set(words(&stems[nth])),
            labels: set(labels.iter().map(|label| key(&label[nth])).collect()),
        });
        let [as_it_is, ..] = &readings;
        let is_plain = as_it_is.stem.is_ascii() && as_it_is.labels.iter().all(|label| label.is_ascii());
        let plain = is_plain.then(|| Shapes {
            stem: Shape::of(&brief.question.stem),
            labels: options.iter().map(|option| Shape::of(&option.label)).collect(),
        });
        Self { readings, plain }
    }

    /// Returns whether both questions agree in a feature, in any way to read them.
    fn agrees(&self, other: &Self, same: impl Fn(&Reading, &Reading) -> bool) -> bool {
        self.readings.iter().zip(&other.readings).any(|(one, other)| same(one, other))
    }

    fn is_same(&self, other: &Self) -> bool {
        match (&self.plain, &other.plain) {
            (Some(one), Some(other)) => one.are_like(other),
            _ => self.agrees(other, |one, other| one.stem == other.stem && one.labels == other.labels),
        }
    }
}

impl Shapes {
    /// Returns whether the stems are alike, and each label has one like it on the other side.
    fn are_like(&self, other: &Self) -> bool {
        let within = |labels: &[Shape], others: &[Shape]| {
            labels.iter().all(|label| others.iter().any(|one| one.is_like(label)))
        };
        self.stem.is_like(&other.stem)
            && within(&self.labels, &other.labels)
            && within(&other.labels, &self.labels)
    }
}
