//! Retries of failed jobs: pauses grow up to their limit, jitter only shortens them, and final failures stay final.

use entente_domain::arcp::faults::Fault;
use entente_domain::arcp::jobs::retries::RetryPolicy;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::json;

fn policy() -> impl Strategy<Value = RetryPolicy> {
    (1_u32..=100, 0_u32..=86_400_000, 1.0_f64..=10.0, 0_u32..=86_400_000, any::<bool>()).prop_map(
        |(max_attempts, initial_delay_ms, factor, max_delay_ms, jitter)| RetryPolicy {
            max_attempts,
            initial_delay_ms,
            factor,
            max_delay_ms,
            jitter,
            codes: None,
        },
    )
}

proptest! {
    #[test]
    fn pauses_grow_up_to_their_limit_and_jitter_shortens_them(
        policy in policy(), failed in 1_u32..=100, chance in any::<u64>(),
    ) {
        prop_assert!(policy.check().is_ok());
        let plain = RetryPolicy { jitter: false, ..policy.clone() };
        let delay = plain.delay_ms(failed, chance);
        prop_assert!(delay <= u64::from(policy.max_delay_ms));
        prop_assert!(delay <= plain.delay_ms(failed + 1, chance));
        prop_assert!(delay >= u64::from(policy.initial_delay_ms.min(policy.max_delay_ms)));
        let shortened = policy.delay_ms(failed, chance);
        prop_assert!(shortened <= delay && shortened >= delay / 2, "{shortened} of {delay}");
    }

    #[test]
    fn a_policy_survives_its_storage(policy in policy()) {
        let stored = serde_json::to_string(&policy).unwrap();
        prop_assert_eq!(serde_json::from_str::<RetryPolicy>(&stored).unwrap(), policy);
    }

    #[test]
    fn a_final_failure_is_never_retried(
        fault in select(Fault::ALL), said in any::<Option<bool>>(), listed in any::<bool>(),
    ) {
        let policy = RetryPolicy { codes: listed.then(|| vec![fault]), ..RetryPolicy::default() };
        let last = matches!(fault, Fault::LeaseExpired | Fault::BudgetExhausted | Fault::Cancelled);
        prop_assert_eq!(policy.check().is_ok(), !(last && listed));
        let expected = said.unwrap_or(listed || fault.retryable());
        prop_assert_eq!(policy.retries(fault, said), expected && !last);
    }
}

#[test]
fn absent_members_have_their_defaults_and_unknown_ones_are_refused() {
    let policy: RetryPolicy = serde_json::from_value(json!({ "factor": 3 })).unwrap();
    assert_eq!(policy, RetryPolicy { factor: 3.0, ..RetryPolicy::default() });
    assert!(serde_json::from_value::<RetryPolicy>(json!({ "retries": 3 })).is_err());
    let steps: Vec<u64> =
        (1..5).map(|failed| RetryPolicy { jitter: false, ..policy.clone() }.delay_ms(failed, 0)).collect();
    assert_eq!(steps, [1_000, 3_000, 9_000, 27_000]);
}
