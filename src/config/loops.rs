//! Settings of the policy for loops and storms, for intents that set none.

use std::str::FromStr;

use entente_domain::loops::policy::{LoopAction, LoopPolicy};

use super::Reader;

/// Actions against a loop or a storm, as words with commas between them.
#[derive(Debug, Clone)]
struct Steps(Vec<LoopAction>);

impl FromStr for Steps {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let steps = text.split(',').map(|word| LoopAction::parse(word.trim()).ok_or(()));
        steps.collect::<Result<_, _>>().map(Self)
    }
}

impl Reader<'_> {
    pub(super) fn loops(&mut self) -> LoopPolicy {
        let usual = LoopPolicy::default();
        let enabled = self.parsed("ENTENTE_LOOPS", usual.enabled, "`true` or `false`", |_| true);
        let broadcasts =
            self.parsed("ENTENTE_LOOP_BROADCASTS", usual.broadcasts, "`true` or `false`", |_| true);
        let mut number = |name: &str, default: u32, least: u32, most: u32| {
            let what = format!("a number from {least} to {most}");
            self.parsed(name, default, &what, |n| (least..=most).contains(n))
        };
        let policy = LoopPolicy {
            enabled,
            broadcasts,
            hops: number("ENTENTE_LOOP_HOPS", usual.hops, 2, 10_000),
            repeats: number("ENTENTE_LOOP_REPEATS", usual.repeats, 2, 16),
            patience: number("ENTENTE_LOOP_PATIENCE", usual.patience, 1, 10_000),
            slow_seconds: number("ENTENTE_LOOP_SLOW_SECONDS", usual.slow_seconds, 1, 3_600),
            window_seconds: number("ENTENTE_LOOP_WINDOW_SECONDS", usual.window_seconds, 10, 86_400),
            lineage_per_minute: number(
                "ENTENTE_STORM_LINEAGE_PER_MINUTE",
                usual.lineage_per_minute,
                0,
                1_000_000,
            ),
            pair_per_minute: number("ENTENTE_STORM_PAIR_PER_MINUTE", usual.pair_per_minute, 0, 1_000_000),
            fan_out: number("ENTENTE_STORM_FAN_OUT", usual.fan_out, 0, 1_000_000),
            loop_steps: usual.loop_steps,
            storm_steps: usual.storm_steps,
        };
        let mut steps = |name: &str, default: Vec<LoopAction>| {
            let is_ordered = |steps: &Steps| steps.0.windows(2).all(|pair| pair[0] < pair[1]);
            self.parsed(name, Steps(default), "some of `tell,slow,stop`, in this order", is_ordered).0
        };
        let loop_steps = steps("ENTENTE_LOOP_STEPS", policy.loop_steps.clone());
        let storm_steps = steps("ENTENTE_STORM_STEPS", policy.storm_steps.clone());
        LoopPolicy { loop_steps, storm_steps, ..policy }
    }
}
