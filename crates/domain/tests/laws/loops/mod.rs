//! Loops: agents that repeat each other are stopped within bounded messages, honest talk never is, and whoever is sent
//! something new is free.

use chrono::TimeDelta;
use entente_domain::ids::{ChannelId, LineageId, MessageId};
use entente_domain::loops::lineages::{Hold, LineageState, LoopCause, lineage_of};
use entente_domain::loops::policy::{LoopAction, LoopPolicy, LoopPolicyAsk};
use entente_domain::loops::talk::{Ending, GivenWork, News, Reach, Spoken, Talk};
use entente_domain::loops::words::{Sketch, normalised};
use entente_domain::refusal::Code;
use proptest::prelude::*;
use uuid::Uuid;

use crate::any::at;

const NAMES: [&str; 5] = ["agent.a", "agent.b", "agent.c", "agent.d", "agent.e"];

/// A talk with its clock: each message comes a second after the one before.
struct Room {
    talk: Talk,
    policy: LoopPolicy,
    seconds: i64,
    number: u128,
}

impl Room {
    fn new(policy: LoopPolicy) -> Self {
        Self { talk: Talk::default(), policy, seconds: 0, number: 0 }
    }

    fn hear(&mut self, said: &Spoken<'_>) -> (LineageId, u32) {
        let heard = self.talk.hear(said, &self.policy);
        // As the follower stores and loads it.
        let (changed, news) = (self.talk.take_changed(), self.talk.take_news());
        self.talk = serde_json::from_str(&serde_json::to_string(&self.talk).unwrap()).unwrap();
        assert!(changed.iter().any(|one| one.id == heard.0));
        assert!(news.iter().all(|one| one.lineage.state != LineageState::Ended || one.ending.is_some()));
        heard
    }

    fn say(&mut self, from: &str, to: &[&str], text: &str) -> (LineageId, u32) {
        let to: Vec<String> = to.iter().map(|name| (*name).to_owned()).collect();
        let said = self.spoken(from, Reach::These(&to), text);
        self.hear(&said)
    }

    fn spoken<'a>(&mut self, from: &'a str, reach: Reach<'a>, text: &str) -> Spoken<'a> {
        self.seconds += 1;
        self.number += 1;
        Spoken {
            id: MessageId::from(Uuid::from_u128(self.number)),
            channel_id: ChannelId::from(Uuid::from_u128(1)),
            sender: from,
            is_person: false,
            reach,
            is_request: false,
            answers: None,
            at: at(self.seconds * 1_000_000),
            is_public: true,
            sketch: Sketch::of(&serde_json::json!({ "text": text }).to_string()),
        }
    }

    fn give(&mut self, giver: &str, agent: &str, is_person: bool) {
        self.seconds += 1;
        let work = GivenWork { agent, giver, is_person, at: at(self.seconds * 1_000_000) };
        self.talk.give(&work, &self.policy);
        self.talk = serde_json::from_str(&serde_json::to_string(&self.talk).unwrap()).unwrap();
    }

    fn held(&self) -> Vec<Hold> {
        self.talk.held(&self.policy)
    }

    fn is_stopped(&self, agent: &str) -> bool {
        self.held().iter().any(|hold| hold.agent == agent && hold.action == LoopAction::Stop)
    }
}

fn word() -> impl Strategy<Value = String> {
    "[a-z]{3,9}"
}

fn sentence() -> impl Strategy<Value = String> {
    prop::collection::vec(word(), 8..20).prop_map(|words| words.join(" "))
}

proptest! {
    #[test]
    fn case_space_punctuation_and_numbers_in_prose_do_not_matter(
        words in prop::collection::vec(word(), 3..12), one in 0..10_000_u32, other in 0..10_000_u32,
    ) {
        let quiet = serde_json::json!({ "text": format!("{} {one}", words.join(" ")) }).to_string();
        let loud = words.join(",\n  ").to_uppercase();
        let loud = serde_json::json!({ "text": format!("{loud}! ({other})") }).to_string();
        prop_assert_eq!(normalised(&quiet), normalised(&loud));
        prop_assert!(Sketch::of(&quiet).repeats(&Sketch::of(&loud)));
    }

    #[test]
    fn numbers_in_data_are_content(one in any::<u32>(), other in any::<u32>()) {
        let payload = |n: u32| serde_json::json!({ "op": "square", "n": n }).to_string();
        prop_assert_eq!(Sketch::of(&payload(one)).repeats(&Sketch::of(&payload(other))), one == other);
    }

    #[test]
    fn ids_and_times_do_not_matter(one in any::<u128>(), other in any::<u128>(), words in sentence()) {
        let payload = |id: u128| serde_json::json!({ "id": Uuid::from_u128(id).to_string(), "text": words }).to_string();
        // A UUID with fewer than four digits is a word.
        let digits = |id: u128| Uuid::from_u128(id).to_string().chars().filter(char::is_ascii_digit).count() >= 4;
        prop_assume!(digits(one) && digits(other));
        prop_assert!(Sketch::of(&payload(one)).repeats(&Sketch::of(&payload(other))));
    }

    #[test]
    fn repetition_is_mutual_and_of_oneself(one in ".{0,300}", other in ".{0,300}") {
        let (one, other) = (Sketch::of(&one), Sketch::of(&other));
        prop_assert!(one.repeats(&one) && other.repeats(&other));
        prop_assert_eq!(one.repeats(&other), other.repeats(&one));
    }
}

proptest! {
    // Each case is a whole conversation.
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_circle_of_agents_is_told_slowed_and_stopped_in_bounded_messages(
        size in 2..5_usize, hops in 2..40_u32, repeats in 2..16_u32, patience in 1..20_u32, text in sentence(),
    ) {
        let policy = LoopPolicy { hops, repeats, patience, ..LoopPolicy::default() };
        let mut room = Room::new(policy);
        let mut sent = 0_u32;
        while !room.is_stopped(NAMES[sent as usize % size]) {
            let (from, to) = (NAMES[sent as usize % size], NAMES[(sent as usize + 1) % size]);
            // The greeting differs from everything.
            let text = if sent == 0 { "begin".to_owned() } else { format!("{text}, thanks no {sent}") };
            let (lineage, at) = room.say(from, &[to], &text);
            prop_assert_eq!((lineage, at), (lineage_of(MessageId::from(Uuid::from_u128(1))), sent));
            sent += 1;
            prop_assert!(sent <= hops + 17 + 2 * patience + 1, "{} messages", sent);
        }
        // Not before there is evidence.
        prop_assert!(sent > hops && sent > repeats);
        // All of them are stopped, and what one of them sends nevertheless belongs to it.
        prop_assert!(NAMES[..size].iter().all(|name| room.is_stopped(name)));
        let refusal = room.held()[0].objection(at(room.seconds * 1_000_000)).unwrap();
        prop_assert_eq!(refusal.code, Code::LoopStopped);
        // Waiting does not free them; something new from outside frees whom it is sent to.
        room.seconds += 100_000;
        room.talk.tidy(at(room.seconds * 1_000_000), &room.policy);
        prop_assert!(NAMES[..size].iter().all(|name| room.is_stopped(name)));
        let (lineage, hops) = room.say(NAMES[4], &[NAMES[0]], "please do something else");
        prop_assert!(hops == 0 && lineage != lineage_of(MessageId::from(Uuid::from_u128(1))));
        prop_assert!(!room.is_stopped(NAMES[0]) && room.is_stopped(NAMES[1]));
        // And whoever it talks to then.
        room.say(NAMES[0], &NAMES[1..size], "there is something else");
        prop_assert!(room.held().is_empty());
        room.talk.tidy(at(room.seconds * 1_000_000), &room.policy);
        let news = room.talk.take_news();
        prop_assert_eq!(news.iter().filter_map(|one| one.ending).collect::<Vec<_>>(), [Ending::Left]);
    }

    #[test]
    fn work_from_outside_frees_and_work_from_inside_does_not(
        text in sentence(), waits in 0..100_000_i64, is_person in any::<bool>(), broadcasts in any::<bool>(),
    ) {
        let mut room = Room::new(LoopPolicy { hops: 6, repeats: 4, patience: 2, broadcasts, ..LoopPolicy::default() });
        let mut sent = 0;
        while !room.is_stopped(NAMES[sent % 3]) {
            room.say(NAMES[sent % 3], &[NAMES[(sent + 1) % 3]], &format!("{text}, thanks no {sent}"));
            sent += 1;
        }
        let stopped = room.held()[0].lineage;
        // What they give each other, or themselves, is more of the same, however late.
        room.seconds += waits;
        for (giver, agent) in [(0, 1), (1, 2), (2, 0), (0, 0)] {
            room.give(NAMES[giver], NAMES[agent], false);
        }
        prop_assert!(NAMES[..3].iter().all(|name| room.is_stopped(name)));
        room.give(if is_person { "human.ada" } else { NAMES[4] }, NAMES[0], is_person);
        prop_assert!(!room.is_stopped(NAMES[0]) && room.is_stopped(NAMES[1]));
        // It says something new, and gives it to the others.
        let (lineage, hops) = room.say(NAMES[0], &["agent.f"], &text);
        prop_assert!(lineage != stopped && hops == 0);
        room.give(NAMES[0], NAMES[1], false);
        prop_assert!(!room.is_stopped(NAMES[1]) && room.is_stopped(NAMES[2]));
        let (of_second, hops) = room.say(NAMES[1], &["agent.f"], &text);
        prop_assert_eq!((of_second, hops), (lineage, 1));
    }

    #[test]
    fn an_honest_dialogue_goes_on(texts in prop::collection::vec(sentence(), 100..300), size in 2..5_usize) {
        let mut room = Room::new(LoopPolicy { hops: 2, ..LoopPolicy::default() });
        for (sent, text) in texts.iter().enumerate() {
            let (_, hops) = room.say(NAMES[sent % size], &[NAMES[(sent + 1) % size]], text);
            prop_assert_eq!(usize::try_from(hops).unwrap(), sent);
            prop_assert!(room.held().is_empty());
        }
    }

    #[test]
    fn what_a_person_says_is_new_and_a_person_is_never_held(lines in prop::collection::vec(0..3_usize, 1..200)) {
        let mut room = Room::new(LoopPolicy { hops: 2, repeats: 2, patience: 1, ..LoopPolicy::default() });
        let to = [NAMES[0].to_owned()];
        for who in lines {
            if who == 2 {
                let mut said = room.spoken("human.ada", Reach::These(&to), "go on, please");
                said.is_person = true;
                let (lineage, hops) = room.hear(&said);
                prop_assert_eq!((lineage, hops), (lineage_of(said.id), 0));
                prop_assert!(!room.is_stopped(NAMES[0]));
            } else {
                room.say(NAMES[who], &[NAMES[1 - who], "human.ada"], "thank you very much");
            }
            prop_assert!(room.held().iter().all(|hold| hold.agent != "human.ada"));
        }
    }

    #[test]
    fn its_size_is_bounded(
        lines in prop::collection::vec((0..2_000_usize, 0..2_000_usize, any::<bool>(), any::<bool>()), 500..1_500),
    ) {
        let policy = LoopPolicy { hops: 2, repeats: 2, patience: 1, broadcasts: true, ..LoopPolicy::default() };
        let mut room = Room::new(policy);
        for (from, to, to_all, is_request) in lines {
            let (from, to) = (format!("agent.{from}"), [format!("agent.{to}")]);
            let reach = if to_all { Reach::Everyone } else { Reach::These(&to) };
            let mut said = room.spoken(&from, reach, "the same words for all of you");
            said.is_request = is_request;
            room.talk.hear(&said, &room.policy.clone());
            room.talk.take_changed();
            room.talk.take_news();
        }
        prop_assert!(serde_json::to_string(&room.talk).unwrap().len() < 1_000_000);
    }

    #[test]
    fn a_talk_is_forgotten_when_its_window_is_over(count in 1..60_usize, gap in 0..400_i64) {
        let mut room = Room::new(LoopPolicy::default());
        for sent in 0..count {
            room.say(NAMES[sent % 2], &[NAMES[1 - sent % 2]], &format!("say{sent}x"));
            room.seconds += gap;
        }
        let due = room.talk.due_at(&room.policy).unwrap();
        room.talk.tidy(due - TimeDelta::seconds(2), &room.policy);
        prop_assert!(!room.talk.is_empty());
        room.talk.tidy(at((room.seconds + 700) * 1_000_000), &room.policy);
        prop_assert!(room.talk.is_empty() && room.talk.due_at(&room.policy).is_none());
    }

    #[test]
    fn a_policy_is_checked_as_a_whole(hops in any::<u32>(), repeats in any::<u32>(), slow in any::<u32>()) {
        let ask = LoopPolicyAsk { hops: Some(hops), repeats: Some(repeats), slow_seconds: Some(slow), ..LoopPolicyAsk::default() };
        let policy = ask.over(&LoopPolicy::default());
        let lawful = (2..=10_000).contains(&hops) && (2..=16).contains(&repeats) && (1..=3_600).contains(&slow);
        prop_assert_eq!(policy.check().is_ok(), lawful);
    }
}

/// Lets a loop of two run until it is stopped; returns the events.
fn looped(room: &mut Room) -> Vec<News> {
    let mut news = Vec::new();
    for sent in 0..100 {
        if room.is_stopped(NAMES[0]) {
            break;
        }
        let to = [NAMES[1 - sent % 2].to_owned()];
        let said = room.spoken(NAMES[sent % 2], Reach::These(&to), "thank you very much indeed");
        room.talk.hear(&said, &room.policy.clone());
        news.extend(room.talk.take_news());
    }
    news
}

#[test]
fn the_steps_follow_each_other_and_a_release_begins_anew() {
    let mut room = Room::new(LoopPolicy { hops: 6, repeats: 4, patience: 3, ..LoopPolicy::default() });
    let news = looped(&mut room);
    let states: Vec<_> =
        news.iter().map(|one| (one.lineage.state, one.lineage.messages, one.ending)).collect();
    assert_eq!(
        states,
        [(LineageState::Told, 7, None), (LineageState::Slowed, 10, None), (LineageState::Stopped, 13, None)]
    );
    let id = news[0].lineage.id;
    assert!(room.talk.release(id) && !room.talk.release(id));
    assert_eq!(room.talk.take_news()[0].ending, Some(Ending::Released));
    assert!(room.held().is_empty());
    // As many hops as at first, from the one that agent.a was sent last.
    let again = looped(&mut room);
    assert_eq!((again[0].lineage.state, again[0].lineage.messages), (LineageState::Told, 20));
}

#[test]
fn storms_have_their_limits() {
    let limits: [(LoopPolicy, LoopCause); 3] = [
        (LoopPolicy { pair_per_minute: 5, ..LoopPolicy::default() }, LoopCause::PairRate),
        (LoopPolicy { lineage_per_minute: 5, ..LoopPolicy::default() }, LoopCause::LineageRate),
        (LoopPolicy { fan_out: 5, ..LoopPolicy::default() }, LoopCause::FanOut),
    ];
    for (policy, cause) in limits {
        let mut room = Room::new(policy);
        for sent in 0..5 {
            room.say(NAMES[0], &[NAMES[1]], &format!("word{sent}x other{sent}y"));
        }
        let to = [NAMES[1].to_owned()];
        let said = room.spoken(NAMES[0], Reach::These(&to), "one too many");
        room.talk.hear(&said, &room.policy.clone());
        let news = room.talk.take_news();
        assert_eq!((news.len(), news[0].lineage.cause), (1, Some(cause)));
        // A storm is told, then slowed, and never stopped unless the policy says so.
        for sent in 0..40 {
            room.say(NAMES[0], &[NAMES[1]], &format!("more{sent}x"));
        }
        let held = room.held();
        assert_eq!(held.iter().map(|hold| hold.action).collect::<Vec<_>>(), [LoopAction::Slow]);
        let now = at(room.seconds * 1_000_000);
        let refusal = held[0].objection(now).unwrap();
        assert_eq!((refusal.code, refusal.retry_after_seconds), (Code::LoopSlowed, Some(6)));
        assert!(held[0].objection(now + TimeDelta::seconds(5)).is_none());
    }
}

#[test]
fn messages_of_the_same_time_have_an_order() {
    let mut room = Room::new(LoopPolicy { broadcasts: true, ..LoopPolicy::default() });
    for sent in 0..60_u32 {
        let mut said = room.spoken(NAMES[sent as usize % 2], Reach::Everyone, "thank you all, my friends");
        said.at = at(1_000_000);
        assert_eq!(room.hear(&said).1, sent);
    }
    assert!(room.is_stopped(NAMES[0]) && room.is_stopped(NAMES[1]) && !room.is_stopped(NAMES[2]));
}

#[test]
fn an_answer_belongs_to_its_request() {
    let mut room = Room::new(LoopPolicy::default());
    let to = [NAMES[1].to_owned()];
    let mut asked = room.spoken(NAMES[0], Reach::These(&to), "how many?");
    asked.is_request = true;
    let (lineage, _) = room.hear(&asked);
    // Something else comes in between.
    room.say(NAMES[2], &[NAMES[1]], "by the way");
    let back = [NAMES[0].to_owned()];
    let mut answer = room.spoken(NAMES[1], Reach::These(&back), "seven");
    answer.answers = Some(asked.id);
    assert_eq!(room.hear(&answer), (lineage, 1));
}

#[test]
fn agents_that_announce_the_same_again_and_again_are_no_loop() {
    let mut room = Room::new(LoopPolicy::default());
    for sent in 0..200_usize {
        let said = room.spoken(NAMES[sent % 3], Reach::Everyone, "I am alive and well");
        assert_eq!(room.hear(&said).1, 0);
    }
    assert!(room.held().is_empty());
}

#[test]
fn an_agent_may_ask_the_same_again_and_again() {
    let mut room = Room::new(LoopPolicy::default());
    let (to, back) = ([NAMES[1].to_owned()], [NAMES[0].to_owned()]);
    for _ in 0..200 {
        let mut asked = room.spoken(NAMES[0], Reach::These(&to), "is it ready?");
        asked.is_request = true;
        assert_eq!(room.hear(&asked).1, 0);
        let mut answer = room.spoken(NAMES[1], Reach::These(&back), "not yet");
        answer.answers = Some(asked.id);
        assert_eq!(room.hear(&answer).1, 1);
    }
    assert!(room.held().is_empty());
}
