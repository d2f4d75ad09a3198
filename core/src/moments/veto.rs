//! What a refused question keeps an agent from (binding moment §6.2): asking the same again, and asking anything before it has
//! answered the objection.
//!
//! Refused questions of the *pair* count: of this agent, to this principal or refused by this principal. A new wording that
//! keeps neither the words nor the options gets past this; that an agent's questions are often refused is seen in its rates.

use super::brief::Brief;
use super::lints::{Lint, found};
use super::words::{is_blank, jaccard_at_least, key, set, words};
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
    /// Its question, which is kept until the objection is settled.
    pub brief: &'a Brief,
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
    let refused: Vec<Sameness> = vetoes.iter().map(|veto| Sameness::of(veto.brief)).collect();
    let same = |(veto, other): (&Vetoed<'_>, &Sameness)| veto.digest == digest || question.is_same(other);
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
    let near = |found: &dyn Fn(&Sameness) -> bool| refused.iter().any(found);
    let stem = near(&|other| jaccard_at_least(STEM_PERCENT, &question.words, &other.words));
    let labels = near(&|other| jaccard_at_least(LABELS_PERCENT, &question.labels, &other.labels));
    let places = [(stem, "/question/stem"), (labels, "/question/options")];
    let near = places.into_iter().filter(|(is, _)| *is);
    Ok(near.map(|(_, at)| found("near_duplicate_after_veto", at)).collect())
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
