//! Logins of people: valid passwords, targets of links, and that form tokens belong to one key.

use entente_domain::identity::keys::Scope;
use entente_domain::identity::people::{
    PASSWORD_BYTES, PASSWORD_CHARS, Ticket, check_password, check_path, form_token, is_form_token, may_let_in,
};
use entente_domain::identity::principals::PrincipalKind;
use entente_domain::ids::Chance;
use proptest::prelude::*;

struct Fixed(u128);

impl Chance for Fixed {
    fn bits(&self) -> u128 {
        self.0
    }
}

#[test]
fn an_agent_makes_nothing_for_a_person() {
    for by in [PrincipalKind::Human, PrincipalKind::Agent, PrincipalKind::Service] {
        for whom in [PrincipalKind::Human, PrincipalKind::Agent, PrincipalKind::Service] {
            let refused = |scopes: Option<Vec<Scope>>| may_let_in(by, whom, scopes.as_deref()).is_err();
            let agents = by == PrincipalKind::Agent;
            assert_eq!(refused(None), agents && whom == PrincipalKind::Human);
            assert_eq!(refused(Some(Scope::ordinary())), agents && whom == PrincipalKind::Human);
            // A key that may create logins is as restricted as a login.
            assert_eq!(refused(Some(Scope::ALL.to_vec())), agents && whom != PrincipalKind::Agent);
        }
    }
}

#[test]
fn a_link_leads_nowhere_else() {
    for path in ["/", "/inbox", "/inbox/bm_01J9ZK4T6Q8R2V5X7Y9B1C3D5F", "/dashboard?intent=1"] {
        assert!(check_path(path).is_ok(), "{path}");
    }
    for path in
        ["", "inbox", "//host/inbox", "/\\host", "https://host/", "/a b", "/a\n", "/ä", "javascript:1"]
    {
        assert!(check_path(path).is_err(), "{path}");
    }
}

proptest! {
    #[test]
    fn a_password_is_long_enough_and_no_document(text in ".{0,40}") {
        prop_assert_eq!(check_password(&text).is_ok(), text.chars().count() >= PASSWORD_CHARS);
        let long = "ä".repeat(PASSWORD_BYTES / 2 + 1);
        prop_assert!(check_password(&long).is_err());
    }

    #[test]
    fn a_ticket_is_known_by_what_is_kept_of_it(bits in any::<u128>()) {
        let ticket = Ticket::mint(&Fixed(bits));
        let path = ticket.path();
        let text = path.strip_prefix("/l/").unwrap();
        prop_assert_eq!(Ticket::digest_of(text), Some(ticket.digest()));
        prop_assert_eq!(Ticket::digest_of(&text[1..]), None);
        prop_assert!(check_path(&path).is_ok());
    }

    #[test]
    fn a_forms_token_is_of_one_key(key in ".{1,60}", other in ".{1,60}", noise in ".{0,60}") {
        prop_assert!(is_form_token(&key, &form_token(&key)));
        prop_assert_eq!(is_form_token(&other, &form_token(&key)), key == other);
        prop_assert!(!is_form_token(&key, &noise));
    }
}
