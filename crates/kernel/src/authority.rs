//! Whether a caller is a person who decides for itself: what a key rests on is `entente_domain::authority`.

use entente_domain::authority::{self, Authority};
use entente_domain::principals::Kind;
use entente_domain::refusal::{Code, Refusal};

use super::Caller;

impl Caller {
    /// Requires that this is a person, who speaks for itself with a key of its own, and no key that somebody else made for it:
    /// what only a person may decide (binding moment §11.4).
    ///
    /// # Errors
    /// [`Code::NotThePrincipal`].
    pub fn require_person(&self) -> Result<(), Refusal> {
        let fault = if self.grant.kind != Kind::Human {
            "this key is not a person's. Agents and services cannot decide, whatever their scopes"
        } else if !self.is_itself() {
            "this request speaks for somebody else. Decide as yourself: with your own key, and without X-Agent-ID"
        } else {
            return authority::require(self.authority());
        };
        Err(Refusal::new(Code::NotThePrincipal, format!("Only a person decides this, and {fault}.")))
    }

    /// On what a person's key rests.
    #[must_use]
    pub fn authority(&self) -> Option<&Authority> {
        self.grant.key.authority.as_ref()
    }

    /// On what a key rests that the caller makes for a person.
    #[must_use]
    pub fn hands_on(&self, person: &str) -> Authority {
        Authority::handed_on(&self.grant.key, self.is_itself(), person)
    }
}
