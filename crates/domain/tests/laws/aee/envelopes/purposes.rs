//! Intent names of envelopes (AEE §9): ownership of names, and patterns over them.

use entente_domain::aee::envelopes::Priority;
use entente_domain::aee::envelopes::purposes::{CORE, Pattern, TOLERATED, admit, in_space};
use entente_domain::refusal::Code;
use proptest::prelude::*;

fn matches(pattern: &str, name: &str) -> bool {
    Pattern::parse(pattern).unwrap().matches(name)
}

#[test]
fn the_protocol_keeps_its_names() {
    let tolerated: Vec<Pattern> = TOLERATED.iter().map(|text| Pattern::parse(text).unwrap()).collect();
    for name in CORE.into_iter().chain(["aee.ext.acme.x", "aee.ext.a", "aee.protocol.explainer"]) {
        assert_eq!(admit(name, &tolerated), Ok(()), "{name}");
    }
    for name in
        ["aee.foo.bar", "aee", "aee.", "aee.status", "aee.status.ping.x", "aee.extra", "aee.protocol.x"]
    {
        let refusal = admit(name, &tolerated).unwrap_err();
        assert_eq!((refusal.code, refusal.errors[0].loc[1].as_str()), (Code::ReservedNamespace, "intent"));
    }
    for name in ["ops.aee.x", "aeex.y", "entente.job.submit", "xyz", "docs.summarize.with_citations"] {
        assert_eq!(admit(name, &[]), Ok(()), "{name}");
    }
    assert!(admit("aee.ext.acme.x", &[]).is_err(), "what is tolerated is the operator's to say");
}

#[test]
fn a_star_is_one_part_and_two_are_any_number() {
    for (pattern, name, expected) in [
        ("ops.backup.check", "ops.backup.check", true),
        ("ops.backup.check", "ops.backup.checks", false),
        ("ops.*.check", "ops.backup.check", true),
        ("ops.*.check", "ops.backup.status.check", false),
        ("ops.*", "ops", false),
        ("ops.**", "ops", true),
        ("ops.**", "ops.a.b.c", true),
        ("ops.**", "opsx.a", false),
        ("**.check", "ops.backup.check", true),
        ("**.check", "check", true),
        ("ops.**.check", "ops.check", true),
        ("ops.**.check", "ops.a.b.check", true),
        ("**", "anything/at.all", true),
        ("*", "one", true),
        ("*", "one.two", false),
        ("ops.b*k", "ops.backpack", true),
        ("ops.b*k", "ops.b.k", false),
        // A slash is an ordinary character.
        ("docs.*", "docs.a/b", true),
        ("docs.a/b", "docs.a.b", false),
        ("docs/a", "docs.a", false),
        ("OPS.*", "ops.a", false),
    ] {
        assert_eq!(matches(pattern, name), expected, "{pattern} on {name}");
    }
    for bad in ["", "a**", "**b.c", "a.b**c"] {
        assert!(Pattern::parse(bad).is_err(), "{bad}");
    }
}

/// AEE §9.2: the filter of `aee.capability.list` is a prefix of whole parts.
#[test]
fn a_space_is_a_prefix_of_whole_parts() {
    for space in ["aee.", "aee"] {
        assert!(in_space("aee.status.ping", space) && in_space("aee", space) && !in_space("aeex.y", space));
    }
    assert!(in_space("aee.status.ping", "aee.status") && !in_space("aee.statusx", "aee.status"));
    assert!(in_space("anything", "") && in_space("anything", "."));
}

/// AEE §11.6: a priority is a head start, not a rank. An envelope that has waited longer than that is next.
#[test]
fn the_urgent_never_starve_the_low() {
    let leads = Priority::ALL.map(Priority::lead_seconds);
    assert!(leads.is_sorted_by(|one, other| one < other) && leads[0] == 0 && leads[3] <= 600);
    for priority in Priority::ALL {
        assert!(priority.lowered() <= priority);
        assert_eq!(priority.lowered() == priority, priority == Priority::Low);
    }
}

proptest! {
    #[test]
    fn a_name_is_a_pattern_for_itself(name in "[a-z/_-]{1,4}(\\.[a-z0-9/_-]{0,4}){0,4}", other in "[a-z.]{1,8}") {
        prop_assert!(matches(&name, &name));
        prop_assert_eq!(matches(&name, &other), name == other);
        prop_assert!(matches("**", &name));
        let (parent, child) = (format!("{name}.**"), format!("{name}.{other}"));
        prop_assert!(matches(&parent, &name) && matches(&parent, &child));
        prop_assert!(in_space(&name, &name) && in_space(&child, &name));
    }

    /// In the protocol's own namespace only defined names are accepted.
    #[test]
    fn nobody_gets_into_the_reserved_space(rest in "[a-z.*]{0,12}") {
        let name = format!("aee.{rest}");
        prop_assert_eq!(admit(&name, &[]).is_ok(), CORE.contains(&name.as_str()));
    }
}
