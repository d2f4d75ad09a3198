//! The choices that a question takes (RFC-0025 §4.2), as the refusal of another one names them.

use serde::Serialize;

/// Kind of the fault, and the reference server's name of the error.
pub const INVALID_CHOICE: &str = "invalid_choice";

/// A choice that the question takes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct ValidChoice {
    /// The value to answer with.
    #[schema(example = "approve")]
    pub value: String,
    /// The label for the person.
    #[schema(example = "Approve the refund")]
    pub label: String,
    /// The description, if there is one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
}

/// All choices of a question, in its order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValidChoices(pub Vec<ValidChoice>);
