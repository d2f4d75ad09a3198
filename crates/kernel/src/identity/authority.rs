//! Whether a caller is a person deciding for themselves; the basis of a key is `entente_domain::identity::authority`.

use entente_domain::identity::authority;
use entente_domain::identity::authority::Authority;
use entente_domain::identity::principals::PrincipalKind;
use entente_domain::refusal::{Code, Refusal};

use crate::Caller;

impl Caller {
    /// Requires a person who acts as themselves, with a key that nobody else issued for them: the condition
    /// for decisions that only a person may take (binding moment §11.4).
    ///
    /// # Errors
    /// [`Code::NotThePrincipal`].
    pub fn require_person(&self) -> Result<(), Refusal> {
        let fault = if self.grant.kind != PrincipalKind::Human {
            "this key is not a person's. Agents and services cannot decide, whatever their scopes"
        } else if !self.is_itself() {
            "this request speaks for somebody else. Decide as yourself: with your own key, and without X-Agent-ID"
        } else {
            return authority::require(self.authority());
        };
        Err(Refusal::new(Code::NotThePrincipal, format!("Only a person decides this, and {fault}.")))
    }

    /// Returns the basis of a person's key.
    #[must_use]
    pub fn authority(&self) -> Option<&Authority> {
        self.grant.key.authority.as_ref()
    }

    /// Returns the basis of a key that the caller issues for a person.
    #[must_use]
    pub fn hands_on(&self, person: &str) -> Authority {
        self.grant.key.hands_on(self.is_itself(), person)
    }
}
