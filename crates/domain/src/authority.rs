//! On what a person's key rests: how it came into that person's hands, and who let the person in. Whoever administers a server
//! can make keys, passwords and links for a person; with none of them they decide in that person's place. What somebody else
//! made decides once the person has taken it over by a login, and the answer says on what it rests (binding moment §11.4).

use serde::{Deserialize, Serialize};

use crate::keys::Key;
use crate::principals::HOUSE;
use crate::refusal::{Code, Refusal};

/// How a person's key came about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = AuthorityBasis)]
pub enum Basis {
    /// The person logged in with a one-time link; the key is of that login, or was made in it.
    OneTimeLink,
    /// The person logged in with a password that they chose themselves.
    OwnPassword,
    /// The person logged in with a password that somebody else had set. It decides nothing before they choose another.
    GivenPassword,
    /// The key is a literal one, which whoever started the server named (`entente dev --seed`).
    SeededKey,
    /// Somebody else made the key. It decides nothing.
    GivenKey,
}

impl Basis {
    /// Every basis.
    pub const ALL: [Self; 5] =
        [Self::OneTimeLink, Self::OwnPassword, Self::GivenPassword, Self::SeededKey, Self::GivenKey];

    /// The basis as it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::OneTimeLink => "one_time_link",
            Self::OwnPassword => "own_password",
            Self::GivenPassword => "given_password",
            Self::SeededKey => "seeded_key",
            Self::GivenKey => "given_key",
        }
    }

    /// Reads a basis; `None` when there is no such basis.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.as_str() == text)
    }

    /// Whether what rests on it is the person's own word.
    #[must_use]
    pub fn decides(self) -> bool {
        matches!(self, Self::OneTimeLink | Self::OwnPassword | Self::SeededKey)
    }
}

/// On what a person's key rests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Authority {
    /// How it came about.
    pub basis: Basis,
    /// Who made what first let the person in: the link, the password before their own, the key. Null when nobody has noted it.
    pub let_in_by: Option<String>,
}

impl Authority {
    /// What a literal key of `entente dev --seed` rests on.
    #[must_use]
    pub fn seeded() -> Self {
        Self { basis: Basis::SeededKey, let_in_by: Some(HOUSE.to_owned()) }
    }

    /// What a key rests on that somebody makes with the key `by` for a person: on the same, when it is the person itself; else
    /// it was given.
    #[must_use]
    pub fn handed_on(by: &Key, as_itself: bool, person: &str) -> Self {
        match &by.authority {
            Some(own) if as_itself && by.principal_id == person => own.clone(),
            _ => Self { basis: Basis::GivenKey, let_in_by: let_in_by(by, person) },
        }
    }
}

/// Who lets a person in with what is made by this key: its principal, or whoever let that one in, when it is the person.
#[must_use]
pub fn let_in_by(by: &Key, person: &str) -> Option<String> {
    if by.principal_id == person {
        return by.authority.as_ref().and_then(|own| own.let_in_by.clone());
    }
    Some(by.principal_id.clone())
}

/// Why a person's key decides nothing; `None` when it does.
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
