//! The three kinds of answer to a question (binding moment §6.3): an option, the principal's own words, or refusal of
//! the question. Permission and timing are checked in `answering.rs`.

use serde::{Deserialize, Serialize};

use super::brief::Brief;
use super::words::is_blank;
use crate::limits::MOMENT_WORD_BYTES;
use crate::refusal::{Code, Refusal};

/// An answer, as it is sent and as the agent receives it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Resolution {
    /// One of the options.
    Option {
        /// Index of the option, starting at 0.
        option_idx: usize,
    },
    /// An answer in the principal's own words: it answers the question with none of the options.
    FreeText {
        /// The answer.
        answer: String,
    },
    /// The question is the wrong one: it returns to deliberation.
    Dialogue {
        /// Objection to the question.
        objection: String,
    },
}

/// Kind of answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ResolutionKind {
    /// An option.
    Option,
    /// The principal's own words.
    FreeText,
    /// The question was refused.
    Dialogue,
}

impl ResolutionKind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Option, Self::FreeText, Self::Dialogue];

    /// Returns the wire name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Option => "option",
            Self::FreeText => "free_text",
            Self::Dialogue => "dialogue",
        }
    }

    /// Parses the wire name; `None` if it is unknown.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text)
    }
}

impl Resolution {
    /// Returns the kind of the answer.
    #[must_use]
    pub fn kind(&self) -> ResolutionKind {
        match self {
            Self::Option { .. } => ResolutionKind::Option,
            Self::FreeText { .. } => ResolutionKind::FreeText,
            Self::Dialogue { .. } => ResolutionKind::Dialogue,
        }
    }

    /// Checks that it answers this question: the hatch is open, the option exists, the text is valid.
    ///
    /// # Errors
    /// [`Code::HatchClosed`]; [`Code::InvalidRequest`], [`Code::TooLarge`] and [`Code::NulCharacter`] at the invalid member.
    pub fn check(&self, brief: &Brief) -> Result<(), Refusal> {
        let hatches = brief.question.hatches;
        match self {
            Self::Option { option_idx } => check_option(*option_idx, brief.question.options.len()),
            Self::FreeText { .. } if !hatches.free_text => Err(Refusal::field(
                Code::HatchClosed,
                "resolution",
                "hatch_closed",
                "This question takes no answer in your own words: the agent has closed that way, and had to say why. \
                 Choose an option, or refuse the question if that way is open.",
            )),
            Self::FreeText { answer } => check_text("answer", answer),
            Self::Dialogue { .. } if !hatches.dialogue => Err(Refusal::field(
                Code::HatchClosed,
                "resolution",
                "hatch_closed",
                "This question cannot be refused: the agent has closed that way, and had to say why. Choose an option, \
                 answer in your own words if that way is open, or let it lapse, which approves nothing.",
            )),
            Self::Dialogue { objection } => check_text("objection", objection),
        }
    }

    /// Returns the text of the answer or objection.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Option { .. } => None,
            Self::FreeText { answer: text } | Self::Dialogue { objection: text } => Some(text),
        }
    }
}

fn check_option(index: usize, count: usize) -> Result<(), Refusal> {
    if index < count {
        return Ok(());
    }
    let last = count.saturating_sub(1);
    Err(Refusal::field(
        Code::InvalidRequest,
        "option_idx",
        "out_of_range",
        format!("The question has no option {index}; their indexes go from 0 to {last}."),
    ))
}

/// Checks a text contributed to a moment: an answer, an objection, a deliberation.
///
/// # Errors
/// [`Code::InvalidRequest`] if it is blank, [`Code::TooLarge`] over [`MOMENT_WORD_BYTES`], [`Code::NulCharacter`].
pub fn check_text(member: &str, text: &str) -> Result<(), Refusal> {
    let (code, kind, fault) = if is_blank(text) {
        (Code::InvalidRequest, "blank", "is blank. Say it in words.".to_owned())
    } else if text.len() > MOMENT_WORD_BYTES {
        let fault = format!("has {} bytes, at most {MOMENT_WORD_BYTES} are taken.", text.len());
        (Code::TooLarge, "too_large", fault)
    } else if text.contains('\0') {
        (Code::NulCharacter, "nul_character", "has a NUL character, which cannot be stored.".to_owned())
    } else {
        return Ok(());
    };
    Err(Refusal::field(code, member, kind, format!("`{member}` {fault}")))
}
