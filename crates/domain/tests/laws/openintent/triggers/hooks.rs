//! Incoming webhooks: only a sender that knows the secret is accepted, with this exact body, and within the time
//! window.

use entente_domain::openintent::triggers::hooks::{
    HookRequest, Verify, WINDOW_SECONDS, admitted, fresh, given, token, told,
};
use entente_domain::webhooks::signing::Secret;
use hmac::{Hmac, KeyInit as _, Mac as _};
use proptest::prelude::*;
use sha2::Sha256;

use crate::any::{Dice, at};

/// A sender that signs according to Standard Webhooks.
struct Sender {
    id: String,
    sent_at: i64,
    signature: String,
}

impl Sender {
    fn new(secret: &Secret, sent_at: i64, body: &[u8]) -> Self {
        Self { id: "msg_1".to_owned(), sent_at, signature: secret.sign("msg_1", sent_at, body) }
    }

    #[expect(clippy::option_option, reason = "as what it asks")]
    fn comes(&self, secret: &Secret, now: i64, body: &[u8]) -> Option<Option<String>> {
        let header = |name: &str| match name {
            "webhook-id" => Some(self.id.clone()),
            "webhook-timestamp" => Some(self.sent_at.to_string()),
            "webhook-signature" => Some(self.signature.clone()),
            _ => None,
        };
        admitted(
            Verify::Signature,
            secret,
            HookRequest { header: &header, token: None, body, now: at(now * 1_000_000) },
        )
    }
}

#[test]
fn who_signs_gets_in() {
    let secret = fresh(Verify::Signature, &Dice(7));
    let mut sender = Sender::new(&secret, 1_000, b"{}");
    assert_eq!(sender.comes(&secret, 1_000, b"{}"), Some(Some("msg_1".to_owned())));
    // The replaced secret's signature may precede it.
    sender.signature = format!("v1,AAAA v1a,BBBB {}", sender.signature);
    assert!(sender.comes(&secret, 1_000, b"{}").is_some());
    assert!(sender.comes(&secret, 1_000, b"{} ").is_none(), "another body");
    assert!(sender.comes(&fresh(Verify::Signature, &Dice(8)), 1_000, b"{}").is_none(), "another secret");
    assert!(sender.comes(&secret, 1_000 + WINDOW_SECONDS, b"{}").is_some());
    assert!(sender.comes(&secret, 1_001 + WINDOW_SECONDS, b"{}").is_none(), "too late");
    assert!(sender.comes(&secret, 999 - WINDOW_SECONDS, b"{}").is_none(), "ahead of its time");
    sender.id = "msg_2".to_owned();
    assert!(sender.comes(&secret, 1_000, b"{}").is_none(), "another delivery");
    let nothing = |_: &str| None;
    for verify in [Verify::Signature, Verify::Github, Verify::Token] {
        let knock = HookRequest { header: &nothing, token: None, body: b"{}", now: at(0) };
        assert_eq!(admitted(verify, &secret, knock), None, "{verify:?}");
    }
}

#[test]
fn github_signs_with_the_words_themselves() {
    let minted = fresh(Verify::Github, &Dice(7));
    let chosen = given("correct horse battery staple", Verify::Github).unwrap();
    for secret in [minted, chosen] {
        let words = told(Verify::Github, &secret);
        let mut mac = Hmac::<Sha256>::new_from_slice(words.as_bytes()).unwrap();
        mac.update(b"{}");
        let hex = entente_domain::canonical::hex(&mac.finalize().into_bytes());
        let header = |name: &str| match name {
            "x-hub-signature-256" => Some(format!("sha256={hex}")),
            "x-github-delivery" => Some("72d3162e".to_owned()),
            _ => None,
        };
        let knock = |body| HookRequest { header: &header, token: None, body, now: at(0) };
        assert_eq!(admitted(Verify::Github, &secret, knock(b"{}")), Some(Some("72d3162e".to_owned())));
        assert_eq!(admitted(Verify::Github, &secret, knock(b"{ }")), None);
    }
}

#[test]
fn what_nobody_can_guess_opens() {
    let secret = fresh(Verify::Token, &Dice(7));
    let end = token(&secret);
    assert_eq!(end.len(), 64);
    assert_ne!(end, token(&fresh(Verify::Token, &Dice(8))));
    let header = |_: &str| None;
    let knock = |token| HookRequest { header: &header, token, body: b"", now: at(0) };
    assert_eq!(admitted(Verify::Token, &secret, knock(Some(&end))), Some(None));
    assert_eq!(admitted(Verify::Token, &secret, knock(Some(&end[1..]))), None);
    assert_eq!(admitted(Verify::Signature, &secret, knock(Some(&end))), None);
}

#[test]
fn a_secret_is_long_enough() {
    for text in ["", "short", "twenty-three bytes long", "whsec_", "whsec_AAAA"] {
        assert!(given(text, Verify::Signature).is_err(), "{text}");
    }
    let own = given("twenty-four bytes long !", Verify::Signature).unwrap();
    assert_eq!(own, Secret::Shared(b"twenty-four bytes long !".to_vec()));
    let text = fresh(Verify::Signature, &Dice(1)).reveal();
    assert_eq!(given(&text, Verify::Signature).unwrap().reveal(), text);
}

proptest! {
    #[test]
    fn nobody_else_gets_in(header in "[ -~]{0,80}", body in ".{0,20}", sent_at in any::<i64>()) {
        let secret = fresh(Verify::Signature, &Dice(7));
        let sender = Sender { id: "msg_1".to_owned(), sent_at, signature: header };
        prop_assert!(sender.comes(&secret, 1_000, body.as_bytes()).is_none());
    }
}
