//! Failures and retry policies: retries per agent are bounded, never earlier than announced and never later than
//! the policy's longest delay, and a fallback gets the work only where it can do it.

use entente_domain::ids::{FailureId, IntentId};
use entente_domain::openintent::failures::{Case, FailureAsk, Next, Reason, record};
use entente_domain::openintent::retry_policies::{Rules, Strategy as Pauses};
use proptest::prelude::*;

use crate::any::at;

fn rules() -> impl Strategy<Value = Rules> {
    (
        0_usize..4,
        0_u32..=100,
        0_u32..=86_400_000,
        0_u32..=86_400_000,
        any::<bool>(),
        any::<bool>(),
        1_u32..=100,
    )
        .prop_map(
            |(strategy, max_retries, base_delay_ms, max_delay_ms, jitter, fallback, failure_threshold)| {
                Rules {
                    strategy: Pauses::ALL[strategy],
                    max_retries,
                    base_delay_ms,
                    max_delay_ms,
                    jitter,
                    fallback_agent_id: fallback.then(|| "agent.eve".to_owned()),
                    failure_threshold,
                }
            },
        )
}

fn judged(ask: FailureAsk, case: &Case<'_>, chance: u64) -> Next {
    let (intent, id) = (IntentId::from(uuid::Uuid::nil()), FailureId::from(uuid::Uuid::nil()));
    record(ask, case, intent, id, chance, at(0)).unwrap().next
}

fn case(rules: &Rules, failures: u32) -> Case<'_> {
    Case { agent_id: "agent.bob", failures, rules: Some(rules), fallback_free: true, over: false }
}

proptest! {
    #[test]
    fn a_pause_is_never_longer_than_the_policy_says(rules in rules(), failed in 1_u32..200, chance in any::<u64>()) {
        let delay = rules.delay_ms(failed, chance);
        prop_assert!(delay <= u64::from(rules.max_delay_ms));
        let whole = Rules { jitter: false, ..rules.clone() }.delay_ms(failed, chance);
        prop_assert!(delay <= whole && delay >= whole * 8 / 10);
        prop_assert!(rules.check().is_ok());
    }

    #[test]
    fn pauses_grow(rules in rules(), failed in 1_u32..100) {
        let rules = Rules { jitter: false, ..rules };
        prop_assert!(rules.delay_ms(failed, 0) <= rules.delay_ms(failed + 1, 0));
    }

    #[test]
    fn an_agent_that_only_fails_is_not_tried_for_ever(rules in rules(), said in proptest::option::of(0_u32..5)) {
        let mut retries = 0;
        let mut free = true;
        for failures in 1..=250 {
            let ask = FailureAsk { attempt_number: said, ..FailureAsk::default() };
            let next = judged(ask, &Case { fallback_free: free, ..case(&rules, failures) }, 0);
            match next {
                Next::Again { attempt, .. } => {
                    retries += 1;
                    prop_assert!(attempt >= 1 && attempt <= rules.max_retries);
                }
                Next::HandedOver { ref agent_id, .. } => {
                    prop_assert!(free);
                    prop_assert_eq!(Some(agent_id), rules.fallback_agent_id.as_ref());
                    free = false;
                }
                Next::Own { .. } | Next::Nothing { .. } => {}
            }
        }
        prop_assert!(retries <= rules.max_retries);
        prop_assert!(rules.fallback_agent_id.is_none() || !free);
    }

    #[test]
    fn nobody_falls_back_to_itself_nor_when_it_is_over(rules in rules(), failures in 1_u32..200) {
        let own = Case { agent_id: "agent.eve", ..case(&rules, failures) };
        let handed_over = matches!(judged(FailureAsk::default(), &own, 0), Next::HandedOver { .. });
        prop_assert!(!handed_over);
        let over = Case { over: true, ..case(&rules, failures) };
        prop_assert_eq!(judged(FailureAsk::default(), &over, 0), Next::Nothing { reason: Reason::IntentResolved });
    }

    #[test]
    fn what_cannot_be_mended_is_not_tried_again_by_the_same(rules in rules(), failures in 1_u32..200) {
        let ask = FailureAsk { recoverable: Some(false), ..FailureAsk::default() };
        let again = matches!(judged(ask, &case(&rules, failures), 0), Next::Again { .. });
        prop_assert!(!again);
    }
}

#[test]
fn pauses_by_hand() {
    let pauses = |strategy| {
        let rules =
            Rules { strategy, base_delay_ms: 1_000, max_delay_ms: 5_000, jitter: false, ..Rules::default() };
        [1, 2, 3, 4].map(|failed| rules.delay_ms(failed, 7))
    };
    assert_eq!(pauses(Pauses::Fixed), [1_000, 1_000, 1_000, 1_000]);
    assert_eq!(pauses(Pauses::Linear), [1_000, 2_000, 3_000, 4_000]);
    assert_eq!(pauses(Pauses::Exponential), [1_000, 2_000, 4_000, 5_000]);
    let jittered = Rules { base_delay_ms: 1_000, ..Rules::default() };
    assert_eq!([0, 100, 200, 201].map(|chance| jittered.delay_ms(1, chance)), [1_000, 900, 800, 1_000]);
}

#[test]
fn words_come_back() {
    for strategy in Pauses::ALL {
        assert_eq!(Pauses::parse(strategy.as_str()), Some(strategy));
    }
    assert_eq!(Pauses::parse("hope"), None);
}
