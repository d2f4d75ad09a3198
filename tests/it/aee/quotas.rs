//! Quotas of envelope senders (AEE §11.6) as a server keeps them: per sender and in bounded memory. A sender that
//! must wait gets the delay.

use std::time::Duration;

use entente_aee::quotas::Quotas;
use entente_domain::aee::envelopes::Priority;
use entente_domain::aee::envelopes::quotas::Rates;
use entente_domain::refusal::Code;

use entente_harness::{Setup, World};

fn quotas(urgent: u32, high: u32, total: u32) -> Quotas {
    Quotas::new(Rates { urgent, high, total })
}

fn second(n: u64) -> Duration {
    Duration::from_secs(n)
}

#[test]
fn one_senders_flood_costs_the_others_nothing() {
    use Priority::{High, Normal, Urgent};
    let quotas = quotas(2, 3, 0);
    let went: Vec<Priority> =
        (0..7).map(|_| quotas.admit("agent.flood", "agent.flood", Urgent, second(1)).unwrap()).collect();
    assert_eq!(went, [Urgent, Urgent, High, High, High, Normal, Normal]);
    assert_eq!(quotas.admit("agent.calm", "agent.calm", Urgent, second(1)), Ok(Urgent));
    assert_eq!(
        quotas.admit("agent.flood", "agent.flood", Urgent, second(31)),
        Ok(Urgent),
        "half a minute is one of two"
    );
    assert_eq!(quotas.admit("agent.flood", "agent.flood", Urgent, second(31)), Ok(High));
}

#[test]
fn who_is_over_the_total_is_told_when_to_come_back() {
    let quotas = quotas(60, 600, 4);
    for _ in 0..4 {
        assert_eq!(quotas.admit("agent.ada", "agent.ada", Priority::Low, second(5)), Ok(Priority::Low));
    }
    let refusal = quotas.admit("agent.ada", "agent.ada", Priority::Low, second(6)).unwrap_err();
    assert_eq!((refusal.code, refusal.retry_after_seconds), (Code::RateLimited, Some(14)));
    assert!(refusal.message.contains("4 envelopes a minute"), "{}", refusal.message);
    assert!(quotas.admit("agent.ada", "agent.ada", Priority::Low, second(19)).is_err());
    assert!(quotas.admit("agent.ada", "agent.ada", Priority::Low, second(20)).is_ok());
}

#[test]
fn names_of_ones_own_invention_have_no_more_than_their_principal() {
    use Priority::{High, Normal, Urgent};
    let quotas = quotas(1, 1, 0);
    let invented = |n: usize| quotas.admit("service.any", &format!("agent.{n}"), Urgent, second(1)).unwrap();
    let went: Vec<Priority> = (0..21).map(invented).collect();
    assert_eq!(went[..10], [Urgent; 10], "ten times what one sender has");
    assert_eq!((&went[10..20], went[20]), (&[High; 10][..], Normal));
    assert_eq!(quotas.admit("agent.calm", "agent.calm", Urgent, second(1)), Ok(Urgent));
}

#[test]
fn what_goes_to_many_counts_for_each() {
    let quotas = quotas(60, 60, 60);
    let (any, ada, bob) = ("service.any", "agent.ada", "agent.bob");
    quotas.admit(any, ada, Priority::Low, second(1)).unwrap();
    quotas.charge(any, ada, 89, second(1));
    let refusal = quotas.admit(any, ada, Priority::Low, second(1)).unwrap_err();
    assert_eq!((refusal.code, refusal.retry_after_seconds), (Code::RateLimited, Some(31)));
    assert_eq!(quotas.admit(any, ada, Priority::Low, second(32)), Ok(Priority::Low));
    assert_eq!(quotas.admit(any, bob, Priority::Low, second(32)), Ok(Priority::Low));
}

#[test]
fn memory_is_bounded_and_the_busiest_are_the_last_to_be_forgotten() {
    let quotas = quotas(2, 0, 0);
    for _ in 0..2 {
        quotas.admit("agent.flood", "agent.flood", Priority::Urgent, second(1)).unwrap();
    }
    for n in 0..45_000 {
        quotas.admit("any", &format!("agent.{n}"), Priority::Urgent, second(1)).unwrap();
        assert!(quotas.remembered() <= 20_000);
    }
    assert_eq!(
        quotas.admit("agent.flood", "agent.flood", Priority::Urgent, second(1)),
        Ok(Priority::High),
        "it is not forgotten"
    );
    // A sender that was quiet for long enough needs no entry.
    let before = quotas.remembered();
    assert!(before > 5_000, "{before}");
    for n in 0..20_000 {
        quotas.admit("any", &format!("later.{n}"), Priority::Urgent, second(100)).unwrap();
    }
    assert!(quotas.remembered() <= 20_000);
    assert_eq!(
        quotas.admit("agent.flood", "agent.flood", Priority::Urgent, second(100)),
        Ok(Priority::Urgent)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rates_are_settings() {
    let settings = vec![("ENTENTE_AEE_URGENT_PER_MINUTE", "1"), ("ENTENTE_AEE_PER_MINUTE", "3")];
    let world = World::with(Setup { settings, live: false }).await;
    let quotas = &world.ctx().aee.state.quotas;
    let send = || quotas.admit("agent.ada", "agent.ada", Priority::Urgent, second(1));
    assert_eq!((send(), send(), send()), (Ok(Priority::Urgent), Ok(Priority::High), Ok(Priority::High)));
    assert_eq!(send().unwrap_err().code, Code::RateLimited);
    world.end().await;
}
