//! The basis of a person's key: how the person obtained it, and who let the person in. An administrator of a
//! server can make keys, passwords and links for a person, but must not decide with them in the person's
//! place. A credential made by somebody else decides once the person has taken it over by a login, and the
//! answer records its basis (binding moment §11.4).

use serde::{Deserialize, Serialize};

use crate::identity::principals::SYSTEM;
use crate::refusal::{Code, Refusal};

/// How a person's key came about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = AuthorityBasis)]
pub enum Basis {
    /// The person logged in with a one-time link; the key belongs to that login, or was made in it.
    OneTimeLink,
    /// The person logged in with a password that they chose themselves.
    OwnPassword,
    /// The person logged in with a password set by somebody else; it decides nothing before they choose
    /// another.
    GivenPassword,
    /// The person logged in with their account at the operator's OpenID Connect provider.
    ProviderAccount,
    /// The key is a literal one, given at the start of the server (`entente dev --seed`).
    SeededKey,
    /// Somebody else made the key; it decides nothing.
    GivenKey,
}

impl Basis {
    /// All variants.
    pub const ALL: [Self; 6] = [
        Self::OneTimeLink,
        Self::OwnPassword,
        Self::GivenPassword,
        Self::ProviderAccount,
        Self::SeededKey,
        Self::GivenKey,
    ];

    /// Returns the basis's wire form.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::OneTimeLink => "one_time_link",
            Self::OwnPassword => "own_password",
            Self::GivenPassword => "given_password",
            Self::ProviderAccount => "provider_account",
            Self::SeededKey => "seeded_key",
            Self::GivenKey => "given_key",
        }
    }

    /// Parses a basis's wire form; `None` if it is unknown.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.as_str() == text)
    }

    /// Whether decisions made on this basis count as the person's own.
    #[must_use]
    pub fn decides(self) -> bool {
        matches!(self, Self::OneTimeLink | Self::OwnPassword | Self::ProviderAccount | Self::SeededKey)
    }
}

/// The basis of a person's key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Authority {
    /// How the key came about.
    pub basis: Basis,
    /// The maker of the credential that first let the person in: the link, the password before their own, or
    /// the key; null if it was not recorded.
    pub let_in_by: Option<String>,
}

impl Authority {
    /// The basis of a literal key of `entente dev --seed`.
    #[must_use]
    pub fn seeded() -> Self {
        Self { basis: Basis::SeededKey, let_in_by: Some(SYSTEM.to_owned()) }
    }
}

/// Returns why a person's key decides nothing; `None` if it does decide.
#[must_use]
pub fn fault(authority: Option<&Authority>) -> Option<String> {
    let by = authority.and_then(|one| one.let_in_by.as_deref());
    let by = by.map_or_else(|| "somebody else".to_owned(), |name| format!("`{name}`"));
    let take_over = "Log in with a one-time link or a password of your own, and decide on the page, or with a key that you make there";
    match authority.map(|one| one.basis) {
        Some(basis) if basis.decides() => None,
        Some(Basis::GivenPassword) => Some(format!(
            "this login came by a password that {by} has set. Choose one of your own first, at /password"
        )),
        Some(_) => Some(format!("{by} made this key, and not you. {take_over}")),
        None => Some(format!("nobody has noted how this key came about. {take_over}")),
    }
}

/// Requires that a person's key is the person's own.
///
/// # Errors
/// [`Code::NotThePrincipal`].
pub fn require(authority: Option<&Authority>) -> Result<(), Refusal> {
    let Some(fault) = fault(authority) else { return Ok(()) };
    Err(Refusal::new(Code::NotThePrincipal, format!("Only the person decides, and {fault}.")))
}
