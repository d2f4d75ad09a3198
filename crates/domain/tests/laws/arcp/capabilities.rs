//! Capabilities (ARCP §9): nothing outside the patterns is covered, in any notation, and a child never covers more
//! than its parent.

use std::collections::BTreeMap;

use entente_domain::arcp::capabilities::{Authority, Namespace, canonical};
use entente_domain::limits::AUTHORITY_BYTES;
use entente_domain::refusal::Code;
use proptest::collection::vec;
use proptest::prelude::*;

fn authority(grants: &[(&str, &[&str])]) -> Authority {
    let asked: BTreeMap<String, Vec<String>> = grants
        .iter()
        .map(|(word, patterns)| ((*word).to_owned(), patterns.iter().map(|p| (*p).to_owned()).collect()))
        .collect();
    Authority::check(asked).unwrap()
}

fn refused(word: &str, pattern: &str) -> bool {
    Authority::check(BTreeMap::from([(word.to_owned(), vec![pattern.to_owned()])])).is_err()
}

#[test]
fn a_target_is_covered_in_its_one_form_only() {
    let files = authority(&[("fs.read", &["/w/*", "/deep/**"])]);
    let table = [
        ("/w/a", true),
        ("/w//a", true),
        ("/w/a/", true),
        ("/w/./a", true),
        ("/w/a/b", false),
        ("/w", false),
        ("/deep", true),
        ("/deep/a/b", true),
        ("/w/../etc/passwd", false),
        ("/w/..", false),
        ("/deep/../w/a", false),
        ("/w/%2e%2e/etc", false),
        ("/w/a%2fb", false),
        ("/w/%252e", false),
        ("/w\\a", false),
        ("/w/a\0", false),
        ("w/a", false),
        ("", false),
    ];
    for (target, expected) in table {
        assert_eq!(files.covers("fs.read", target), expected, "{target}");
    }
    assert!(!files.covers("fs.write", "/w/a"), "another namespace");
    assert!(!files.covers("fs.everything", "/w/a"), "no namespace");
}

#[test]
fn a_url_is_covered_by_where_it_goes() {
    let net = authority(&[("net.fetch", &["https://api.example.com/**", "http://*.local/v1/*"])]);
    let table = [
        ("https://api.example.com/a/b?q=1#f", true),
        ("HTTPS://API.EXAMPLE.COM:443/a", true),
        ("https://api.example.com", true),
        ("https://api.example.com./a", true),
        ("http://api.example.com/a", false),
        ("https://api.example.com:8443/a", false),
        ("https://api.example.com.evil.org/a", false),
        ("https://api.example.com@evil.org/a", false),
        ("https://user@api.example.com/a", false),
        ("https://evil.org/https://api.example.com/a", false),
        ("https://api.example.com/../x", false),
        ("http://box.local/v1/a", true),
        ("http://box.local/v1/a/b", false),
        ("http://evil.org/x.local/v1/a", false),
        ("ftp://api.example.com/a", false),
        ("https:///a", false),
    ];
    for (target, expected) in table {
        assert_eq!(net.covers("net.fetch", target), expected, "{target}");
    }
}

#[test]
fn names_are_compared_letter_by_letter() {
    let tools = authority(&[("tool.call", &["search.*", "x/[ab]"]), ("x-vendor.acme.mail", &["send"])]);
    assert!(tools.covers("tool.call", "search.web") && !tools.covers("tool.call", "Search.web"));
    assert!(tools.covers("tool.call", "x/[ab]") && !tools.covers("tool.call", "x/a"));
    assert!(tools.covers("x-vendor.acme.mail", "send") && !tools.covers("x-vendor.acme", "send"));
}

#[test]
fn what_cannot_be_asked_for_is_refused_at_once() {
    for (word, pattern) in [
        ("fs.delete", "/a"),
        ("x-vendor.acme", "a"),
        ("x-vendor..mail", "a"),
        ("fs.read", ""),
        ("fs.read", "/a**"),
        ("net.fetch", ""),
        ("net.fetch", "https://a**/b"),
        ("tool.call", "a\nb"),
    ] {
        assert!(refused(word, pattern), "{word}: {pattern}");
    }
}

/// ARCP §9.2 allows any glob; a pattern that no target can match covers nothing (§9.3), but the request is
/// accepted.
#[test]
fn a_pattern_that_nothing_matches_covers_nothing() {
    let targets =
        ["/a", "/", "/etc/passwd", "https://example.com/a", "https://user@example.com/a", "s3://b/a", "*"];
    for (word, pattern) in [
        ("fs.read", "*"),
        ("fs.read", "relative/**"),
        ("fs.read", "*/etc/passwd"),
        ("fs.read", "s3://bucket/**"),
        ("fs.write", "/a/../etc/**"),
        ("fs.read", "/a%2fb"),
        ("net.fetch", "*"),
        ("net.fetch", "**"),
        ("net.fetch", "s3://bucket/**"),
        ("net.fetch", "example.com/**"),
        ("net.fetch", "https://user@example.com/**"),
        ("net.fetch", "ftp://example.com/**"),
        ("net.fetch", "https://"),
    ] {
        let asked = authority(&[(word, &[pattern])]);
        for target in targets {
            assert!(!asked.covers(word, target), "{word} {pattern}: {target}");
        }
        assert_eq!(asked.within(&asked), Ok(()), "a child may have what its parent has: {pattern}");
        let wide = authority(&[(word, &["/**", "https://**"])]);
        assert_eq!(
            asked.within(&wide),
            Err((word.to_owned(), pattern.to_owned())),
            "it names what nobody has"
        );
    }
}

/// A pattern equivalent to one in the canonical form of targets is converted to that form.
#[test]
fn a_pattern_of_urls_is_brought_into_the_form_of_targets() {
    for (pattern, covered, beyond) in [
        ("https://**", "https://example.com/a/b", "http://example.com/a"),
        ("http://**/b", "http://example.com/a/b", "http://example.com/a"),
        ("https://Example.COM/A/*", "https://example.com/A/x", "https://example.com/a/x"),
        ("https://example.com:443/**", "https://example.com/a", "https://example.com:8443/a"),
        ("http://example.com:80", "http://example.com", "http://example.com/a"),
        ("https://example.com", "https://EXAMPLE.com:443/", "https://example.com/a"),
    ] {
        let asked = authority(&[("net.fetch", &[pattern])]);
        assert!(asked.covers("net.fetch", covered), "{pattern}: {covered}");
        assert!(!asked.covers("net.fetch", beyond), "{pattern}: {beyond}");
    }
    let all = authority(&[("net.fetch", &["https://**"])]);
    assert_eq!(authority(&[("net.fetch", &["https://*/**"])]).within(&all), Ok(()));
    assert_eq!(all.within(&authority(&[("net.fetch", &["https://*/**"])])), Ok(()));
    assert!(authority(&[("net.fetch", &["http://**"])]).within(&all).is_err());
}

fn path_pattern() -> impl Strategy<Value = String> {
    let segment =
        prop_oneof![Just("a".to_owned()), Just("b".to_owned()), Just("*".to_owned()), Just("**".to_owned())];
    vec(segment, 1..4).prop_map(|segments| format!("/{}", segments.join("/")))
}

fn files(patterns: &[String]) -> Authority {
    Authority::check(BTreeMap::from([("fs.read".to_owned(), patterns.to_vec())])).unwrap()
}

proptest! {
    #[test]
    fn a_child_never_covers_more(
        child in vec(path_pattern(), 1..3), parent in vec(path_pattern(), 0..3), target in vec("[abc]", 0..4),
    ) {
        let (child, parent) = (files(&child), files(&parent));
        let target = format!("/{}", target.join("/"));
        if child.within(&parent).is_ok() && child.covers("fs.read", &target) {
            prop_assert!(parent.covers("fs.read", &target), "{:?} within {:?} on {}", child, parent, target);
        }
    }

    #[test]
    fn an_authority_is_within_itself(patterns in vec(path_pattern(), 0..4)) {
        let authority = files(&patterns);
        prop_assert_eq!(authority.within(&authority), Ok(()));
        prop_assert!(Authority::default().within(&authority).is_ok(), "nothing is within anything");
    }

    #[test]
    fn being_within_is_passed_on(
        a in vec(path_pattern(), 0..3), b in vec(path_pattern(), 0..3), c in vec(path_pattern(), 0..3),
    ) {
        let (a, b, c) = (files(&a), files(&b), files(&c));
        if a.within(&b).is_ok() && b.within(&c).is_ok() {
            prop_assert!(a.within(&c).is_ok());
        }
    }

    #[test]
    fn a_canonical_path_is_its_own(path in "(/[a-z.%2eF\\\\]{0,6}){1,4}") {
        if let Some(canon) = canonical(Namespace::Path, &path) {
            prop_assert_eq!(canonical(Namespace::Path, &canon), Some(canon.clone()));
            prop_assert!(!canon.split('/').any(|segment| segment == "..") && !canon.to_lowercase().contains("%2e"));
        }
    }

    #[test]
    fn a_canonical_url_is_its_own(url in "[a-zA-Z]{3,6}://[a-zA-Z0-9.:@-]{0,12}(/[a-z.%]{0,4}){0,3}[?#]?[a-z]{0,3}") {
        if let Some(canon) = canonical(Namespace::Url, &url) {
            prop_assert_eq!(canonical(Namespace::Url, &canon), Some(canon));
        }
    }
}

/// With the other limits alone, an authority could have ten megabytes.
#[test]
fn an_authority_has_no_more_bytes_than_are_allowed() {
    let asked = |last: usize| {
        let mut patterns = vec![format!("/{}", "x".repeat(500)); 64];
        patterns.push(format!("/{}", "x".repeat(last)));
        BTreeMap::from([("fs.read".to_owned(), patterns)])
    };
    let size = |asked: &BTreeMap<String, Vec<String>>| serde_json::to_vec(asked).unwrap().len();
    let most = AUTHORITY_BYTES - size(&asked(0));
    assert_eq!(size(&asked(most)), AUTHORITY_BYTES);
    assert!(Authority::check(asked(most)).is_ok());
    let refusal = Authority::check(asked(most + 1)).unwrap_err();
    assert_eq!(refusal.code, Code::InvalidRequest);
    // Amounts are validated elsewhere, but their bytes count here.
    let amounts =
        BTreeMap::from([("cost.budget".to_owned(), vec!["USD:1".to_owned() + &"0".repeat(AUTHORITY_BYTES)])]);
    assert!(Authority::check(amounts).is_err());
}

#[test]
fn whatever_goes_beyond_is_named() {
    let parent = authority(&[("fs.read", &["/w/**"]), ("model.use", &["tier-fast/*"])]);
    let wider = authority(&[("fs.read", &["/w/a", "/etc/*"])]);
    assert_eq!(wider.within(&parent), Err(("fs.read".to_owned(), "/etc/*".to_owned())));
    let other = authority(&[("fs.write", &["/w/a"])]);
    assert_eq!(other.within(&parent), Err(("fs.write".to_owned(), "/w/a".to_owned())));
    let model = authority(&[("model.use", &["tier-fast/small", "gpt-*"])]);
    assert_eq!(model.within(&parent), Err(("model.use".to_owned(), "gpt-*".to_owned())));
}
