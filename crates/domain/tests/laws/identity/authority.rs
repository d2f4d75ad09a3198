//! The authority of a person's key: which kinds may decide, and the authority of keys that it creates.

use entente_domain::identity::authority::{Authority, Basis, fault, require};
use entente_domain::identity::keys::{Key, KeyAsk, create};
use entente_domain::identity::principals::SYSTEM;
use entente_domain::ids::KeyId;
use entente_domain::refusal::Code;
use uuid::Uuid;

use crate::any::at;

fn key(principal: &str, authority: Option<Authority>) -> Key {
    let id = KeyId::from(Uuid::nil());
    let made = create(KeyAsk::default(), "p".to_owned(), principal, "x", id, at(0)).unwrap();
    Key { authority, ..made }
}

fn rests(basis: Basis, by: &str) -> Authority {
    Authority { basis, let_in_by: Some(by.to_owned()) }
}

#[test]
fn what_somebody_else_made_decides_nothing() {
    for basis in Basis::ALL {
        assert_eq!(Basis::parse(basis.as_str()), Some(basis));
        let authority = rests(basis, "service.ops");
        let own = !matches!(basis, Basis::GivenKey | Basis::GivenPassword);
        assert_eq!((basis.decides(), require(Some(&authority)).is_ok()), (own, own), "{basis:?}");
        let says = fault(Some(&authority));
        assert_eq!(says.is_some_and(|says| says.contains("service.ops")), !own, "{basis:?} says who made it");
    }
    assert_eq!(require(None).unwrap_err().code, Code::NotThePrincipal, "nobody knows how it came about");
    assert_eq!(Basis::parse("x"), None);
    assert_eq!(Authority::seeded(), rests(Basis::SeededKey, SYSTEM));
}

#[test]
fn a_key_hands_on_what_it_rests_on_to_its_own_person_alone() {
    let link = rests(Basis::OneTimeLink, "service.ops");
    let ada = key("human.ada", Some(link.clone()));
    assert_eq!(ada.hands_on(true, "human.ada"), link);
    // Not while the key acts for an agent, nor for another person.
    assert_eq!(ada.hands_on(false, "human.ada"), rests(Basis::GivenKey, "service.ops"));
    assert_eq!(ada.hands_on(true, "human.bob"), rests(Basis::GivenKey, "human.ada"));
    let service = key("service.ops", None);
    assert_eq!(service.hands_on(true, "human.ada"), rests(Basis::GivenKey, "service.ops"));
    // A given key cannot create an own one, and its giver stays visible.
    let given = key("human.ada", Some(rests(Basis::GivenKey, "service.ops")));
    assert_eq!(given.hands_on(true, "human.ada"), rests(Basis::GivenKey, "service.ops"));
    assert_eq!(given.lets_in("human.ada").as_deref(), Some("service.ops"));
    assert_eq!(key("human.ada", None).lets_in("human.ada"), None);
}
