//! Attachments: an accepted URL leads to the same file from everywhere, and a file name cannot write elsewhere.

use entente_domain::ids::{AttachmentId, IntentId};
use entente_domain::limits::ATTACHMENTS;
use entente_domain::openintent::attachments::{Attachment, AttachmentAsk, SCHEMES, UNKNOWN_TYPE, add};
use entente_domain::refusal::{Code, Refusal};
use proptest::prelude::*;

use crate::any::at;

fn ask(filename: &str, storage_url: &str) -> AttachmentAsk {
    AttachmentAsk {
        filename: filename.to_owned(),
        storage_url: storage_url.to_owned(),
        ..AttachmentAsk::default()
    }
}

fn made(ask: AttachmentAsk, there: usize) -> Result<Attachment, Refusal> {
    let (intent, id) = (IntentId::from(uuid::Uuid::nil()), AttachmentId::from(uuid::Uuid::nil()));
    add(ask, there, intent, "agent.ada", id, at(0))
}

proptest! {
    #[test]
    fn an_accepted_name_is_no_path(name in "[a-z./\\\\ ]{0,12}") {
        if let Ok(made) = made(ask(&name, "https://files.example/a"), 0) {
            prop_assert!(!made.filename.contains(['/', '\\']));
            prop_assert!(!["", ".", ".."].contains(&made.filename.as_str()));
        }
    }

    #[test]
    fn an_accepted_place_has_a_known_scheme_and_no_password(url in "(https|HTTP|s3|file|javascript|data)?:?(//)?[a-z@:]{0,6}/?[a-z]{0,3}") {
        if let Ok(made) = made(ask("a", &url), 0) {
            let (scheme, rest) = made.storage_url.split_once("://").unwrap();
            prop_assert!(SCHEMES.contains(&scheme.to_lowercase().as_str()));
            prop_assert!(!rest.split('/').next().unwrap().contains('@'));
        }
    }
}

#[test]
fn what_is_not_said_has_its_default() {
    let made = made(ask("a", "s3://bucket/a"), ATTACHMENTS - 1).unwrap();
    assert_eq!((made.mime_type.as_str(), made.size, made.content_hash), (UNKNOWN_TYPE, 0, None));
}

#[test]
fn a_full_intent_takes_no_more() {
    assert_eq!(made(ask("a", "s3://bucket/a"), ATTACHMENTS).unwrap_err().code, Code::TooLarge);
}

#[test]
fn types_may_have_parameters() {
    for (kind, lawful) in [
        ("text/plain; charset=utf-8", true),
        ("application/vnd.api+json", true),
        ("text", false),
        ("/", false),
        ("a/b/c", false),
    ] {
        let ask = AttachmentAsk { mime_type: Some(kind.to_owned()), ..ask("a", "s3://bucket/a") };
        assert_eq!(made(ask, 0).is_ok(), lawful, "{kind}");
    }
}
