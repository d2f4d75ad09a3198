//! What a refused question keeps an agent from (binding moment §6.2): asking the same again, and asking anything before it has
//! answered the objection.

use super::brief::Brief;
use super::lints::Lint;
use crate::ids::MomentId;
use crate::refusal::Refusal;

/// A refused question of this agent to this principal, whose objection is not settled: it is deliberated, or the question that
/// took its place was not answered yet.
#[derive(Debug, Clone, Copy)]
pub struct Vetoed<'a> {
    /// The moment.
    pub id: MomentId,
    /// Its question; `None` once it is scrubbed, then only its digest counts.
    pub brief: Option<&'a Brief>,
    /// The question's digest.
    pub digest: &'a str,
    /// Whether the agent has spoken since.
    pub deliberated: bool,
    /// Whether another question has taken its place already. Then nothing need be answered any more, but this question still
    /// does not come back until that one is answered: else it would only take a question to withdraw in between.
    pub superseded: bool,
}

/// Whether an agent may ask this of a principal who has refused questions of it.
///
/// # Errors
/// [`crate::refusal::Code::SameQuestion`], [`crate::refusal::Code::DeliberationRequired`].
pub fn judge(
    _asked: &Brief,
    _supersedes: Option<MomentId>,
    _objection_response: Option<&str>,
    _vetoes: &[Vetoed<'_>],
) -> Result<Vec<Lint>, Refusal> {
    Ok(Vec::new())
}
