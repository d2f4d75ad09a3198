//! Agents' records (RFC-0016): registration, silence, and status transitions.

use entente_domain::clock::Timestamp;
use entente_domain::limits::{DURATION_SECONDS, METADATA_BYTES};
use entente_domain::openintent::agents::{Agent, AgentStatus, HeartbeatConfig, Registration, register};
use entente_domain::refusal::{Code, Refusal};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, json};

use crate::any::at;

const SECOND: i64 = 1_000_000;
/// Registration time of the agents in these tests.
const START: i64 = 1_000_000 * SECOND;

fn after(seconds: i64) -> Timestamp {
    at(START + seconds * SECOND)
}

fn ask() -> Registration {
    Registration { agent_id: "agent.ada".to_owned(), ..Registration::default() }
}

fn made(ask: Registration) -> Result<Agent, Code> {
    register(None, ask, "agent.ada", after(0)).map_err(|refusal| refusal.code)
}

fn code<T>(result: Result<T, Refusal>) -> Option<Code> {
    result.err().map(|refusal| refusal.code)
}

fn status() -> impl Strategy<Value = AgentStatus> {
    select(&AgentStatus::ALL[..])
}

prop_compose! {
    fn heart()(interval in 1_u32..50, more in 0_u32..100, most in 0_u32..200) -> HeartbeatConfig {
        HeartbeatConfig {
            interval_seconds: interval,
            unhealthy_after_seconds: interval + more,
            dead_after_seconds: interval + more + most,
        }
    }
}

prop_compose! {
    /// Generates an agent in any status, with or without a heartbeat configuration, last heard before or after it
    /// registered.
    fn agent()(
        status in status(), heartbeat_config in proptest::option::of(heart()),
        heard in proptest::option::of(-100_i64..100), draining in proptest::option::of(0_i64..100),
        timeout in proptest::option::of(0_u32..100),
    ) -> Agent {
        let agent = made(Registration { heartbeat_config, drain_timeout_seconds: timeout, ..ask() }).unwrap();
        Agent {
            status, last_heartbeat_at: heard.map(after), draining_since: draining.map(after), ..agent
        }
    }
}

/// Returns how far silence has degraded an agent.
fn decline(status: AgentStatus) -> u8 {
    match status {
        AgentStatus::Dead => 2,
        AgentStatus::Unhealthy => 1,
        _ => 0,
    }
}

#[test]
fn words_are_read_as_they_are_written() {
    for status in AgentStatus::ALL {
        assert_eq!(AgentStatus::parse(status.as_str()), Some(status));
        assert_eq!(serde_json::to_value(status).unwrap(), status.as_str());
    }
    assert_eq!(AgentStatus::parse("banana"), None);
}

#[test]
fn an_agent_without_a_heart_is_never_given_up() {
    let agent = made(ask()).unwrap();
    assert_eq!(agent.status_at(after(i64::from(DURATION_SECONDS))), AgentStatus::Active);
}

#[test]
fn a_heart_beats_before_it_is_missed() {
    let heart = |interval_seconds, unhealthy_after_seconds, dead_after_seconds| {
        let beat = HeartbeatConfig { interval_seconds, unhealthy_after_seconds, dead_after_seconds };
        made(Registration { heartbeat_config: Some(beat), ..ask() }).err()
    };
    assert_eq!(heart(1, 1, 1), None);
    assert_eq!(heart(30, 90, DURATION_SECONDS), None);
    let wrong = [(0, 90, 300), (30, 29, 300), (30, 90, 89), (30, 90, DURATION_SECONDS + 1)];
    for (interval, unhealthy, dead) in wrong {
        assert_eq!(
            heart(interval, unhealthy, dead),
            Some(Code::Unprocessable),
            "{interval} {unhealthy} {dead}"
        );
    }
}

#[test]
fn a_registration_has_its_limits() {
    let big = |bytes: usize| Map::from_iter([("a".to_owned(), json!("x".repeat(bytes - 8)))]);
    assert_eq!(made(Registration { metadata: big(METADATA_BYTES), ..ask() }).err(), None);
    let wrong = [
        (Registration { metadata: big(METADATA_BYTES + 1), ..ask() }, Code::TooLarge),
        (Registration { capacity: Some(big(METADATA_BYTES + 1)), ..ask() }, Code::TooLarge),
        (Registration { capabilities: vec!["search".to_owned(); 201], ..ask() }, Code::TooLarge),
        (Registration { agent_id: "*".to_owned(), ..ask() }, Code::InvalidRequest),
        (Registration { agent_id: "role:x".to_owned(), ..ask() }, Code::InvalidRequest),
        (Registration { role_id: Some(String::new()), ..ask() }, Code::InvalidRequest),
        (Registration { name: Some("x".repeat(201)), ..ask() }, Code::InvalidRequest),
        (Registration { endpoint: Some("a\nb".to_owned()), ..ask() }, Code::InvalidRequest),
        (
            Registration { endpoint: Some(format!("https://{}", "x".repeat(3_000))), ..ask() },
            Code::InvalidRequest,
        ),
    ];
    for (registration, code) in wrong {
        assert_eq!(made(registration.clone()).err(), Some(code), "{registration:?}");
    }
    for endpoint in ["http://127.0.0.1:9/hook", "https://agents.example/ada", "mcp://ada", "ada@host"] {
        assert_eq!(made(Registration { endpoint: Some(endpoint.to_owned()), ..ask() }).err(), None);
    }
}

proptest! {
    #[test]
    fn silence_only_makes_it_worse(agent in agent(), a in -200_i64..1_000, b in 0_i64..1_000) {
        let (sooner, later) = (agent.status_at(after(a)), agent.status_at(after(a + b)));
        prop_assert!(decline(sooner) <= decline(later), "{:?}, then {:?}", sooner, later);
        prop_assert!(!sooner.has_left() || later == sooner, "who has left stays away");
    }

    #[test]
    fn silence_is_counted_to_the_microsecond(heart in heart(), heard in proptest::option::of(-50_i64..50)) {
        let agent = made(Registration { heartbeat_config: Some(heart), ..ask() }).unwrap();
        let agent = Agent { last_heartbeat_at: heard.map(after), ..agent };
        // Registration counts as a sign of life too.
        let last = START + heard.unwrap_or(0).max(0) * SECOND;
        let unhealthy = last + i64::from(heart.unhealthy_after_seconds) * SECOND;
        let dead = last + i64::from(heart.dead_after_seconds) * SECOND;
        prop_assert_eq!(agent.status_at(at(unhealthy - 1)), AgentStatus::Active);
        prop_assert_eq!(agent.status_at(at(dead)), AgentStatus::Dead);
        if unhealthy < dead {
            prop_assert_eq!(agent.status_at(at(unhealthy)), AgentStatus::Unhealthy);
            prop_assert_eq!(agent.status_at(at(dead - 1)), AgentStatus::Unhealthy);
        }
    }

    /// A heartbeat is accepted from all agents but those that have left; it heals the unhealthy and keeps the
    /// draining.
    #[test]
    fn a_beat_brings_back_all_but_those_who_have_left(agent in agent(), now in -200_i64..1_000) {
        let before = agent.status_at(after(now));
        match agent.beat(after(now)) {
            Err(refusal) => {
                prop_assert_eq!(refusal.code, Code::Gone);
                prop_assert!(before.has_left());
            }
            Ok(status) => {
                prop_assert!(!before.has_left());
                let expected = if before == AgentStatus::Draining { before } else { AgentStatus::Active };
                prop_assert_eq!(status, expected);
                let heard = Agent { status, last_heartbeat_at: Some(after(now)), ..agent };
                prop_assert_eq!(heard.status_at(after(now)), status, "who was just heard is well");
            }
        }
    }

    #[test]
    fn who_beats_in_time_is_never_missed(heart in heart(), beats in 1_i64..20) {
        let mut agent = made(Registration { heartbeat_config: Some(heart), ..ask() }).unwrap();
        let mut heard = after(0);
        for _ in 0..beats {
            let due = agent.next_heartbeat_at(heard);
            prop_assert_eq!((due - heard).num_seconds(), i64::from(heart.interval_seconds));
            heard = at(due.timestamp_micros() - 1);
            prop_assert_eq!(agent.status_at(heard), AgentStatus::Active);
            agent = Agent { last_heartbeat_at: Some(heard), ..agent };
        }
    }

    #[test]
    fn only_registering_brings_back_who_has_left(agent in agent(), to in status(), now in -200_i64..1_000) {
        let before = agent.status_at(after(now));
        let moved = agent.moved(to, after(now));
        if before.has_left() && to != before {
            prop_assert_eq!(code(moved), Some(Code::Gone));
        } else {
            let moved = moved.unwrap();
            prop_assert_eq!((moved.status, moved.version), (to, agent.version + 1));
            prop_assert_eq!(moved.draining_since.is_some(), to == AgentStatus::Draining);
        }
        let back = register(Some(&agent), ask(), "agent.ada", after(now)).unwrap();
        prop_assert_eq!(back.status_at(after(now)), AgentStatus::Active);
        prop_assert_eq!((back.version, back.draining_since), (agent.version + 1, None));
        prop_assert!(back.current_load == agent.current_load || before.has_left(), "who was here keeps its load");
    }

    #[test]
    fn draining_takes_as_long_as_it_may(agent in agent(), now in 0_i64..300) {
        let over = match (agent.status, agent.draining_since, agent.drain_timeout_seconds) {
            (AgentStatus::Draining, Some(since), Some(seconds)) => after(now) >= since + chrono::TimeDelta::seconds(seconds.into()),
            _ => false,
        };
        prop_assert_eq!(agent.drained(after(now)), over);
        if let Ok(draining) = agent.moved(AgentStatus::Draining, after(now)) {
            let again = draining.moved(AgentStatus::Draining, after(now + 1)).ok();
            let since = again.map(|again| again.draining_since);
            prop_assert!(since.is_none_or(|since| since == draining.draining_since), "asking again does not begin anew");
        }
    }

    #[test]
    fn an_agent_belongs_to_who_registered_it(agent in agent(), now in -200_i64..1_000) {
        let taken = register(Some(&agent), ask(), "agent.eve", after(now));
        prop_assert_eq!(code(taken), Some(Code::AlreadyRegistered), "not even when it has left");
    }

    #[test]
    fn a_role_reaches_who_takes_new_work(agent in agent(), now in -200_i64..1_000) {
        let status = agent.status_at(after(now));
        prop_assert!(!(status.has_left() && status.takes_work()));
        prop_assert!(!(status == AgentStatus::Draining && status.takes_work()), "it finishes what it has (RFC-0016)");
    }
}
