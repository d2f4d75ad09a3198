//! Load benchmark (`make bench`): Entente over HTTP beside PostgreSQL's pgbench, interleaved on one machine in
//! one run, so that the figures are ratios independent of the machine. Prints a table and writes it to
//! `bench-results/latest.md`, unless only some scenes were chosen. After every load it checks that each acknowledged
//! message exists exactly once and in its sender's order. A scene that fails does not end the others: its rows are
//! marked as failed, and the program ends with status 1. With `--smoke` (`make bench-smoke`) each scene runs for about a
//! second to show that it works; that prints a line for each and writes no table. `shoot` and `cycle` are loads on a server
//! that runs already (`make bench-peers`).

#![expect(clippy::unwrap_used, reason = "a bench that cannot go on says where")]
#![expect(clippy::disallowed_methods, reason = "a bench has no server whose tasks or chance it could use")]
#![expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "these are measurements"
)]

mod client;
mod events;
mod growth;
mod jobs;
mod list;
mod operations;
mod peers;
mod place;
mod post;
mod report;
mod scale;
mod scenes;
mod sessions;
mod shoot;
mod stage;
mod streams;

use std::process::ExitCode;
use std::time::Instant;

use rustix::process::{Resource, getrlimit, setrlimit};

use list::{Outcome, SCENES, Scene, apart};
use report::Report;
use stage::Stage;

fn main() -> ExitCode {
    // `cargo bench` passes its own arguments as well; names of scenes select them.
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let wanted: Vec<&String> = arguments.iter().filter(|argument| !argument.starts_with('-')).collect();
    if arguments.iter().any(|argument| argument == "--smoke") {
        scale::make_small();
    }
    if let Some(ended) = shoot::run(&wanted) {
        return ended;
    }
    if let Some(unknown) = wanted.iter().find(|word| !SCENES.iter().any(|scene| scene.is_called(word))) {
        let names: Vec<&str> = SCENES.iter().map(|scene| scene.name).collect();
        eprintln!("there is no scene `{unknown}`; there are {}", names.join(", "));
        return ExitCode::from(2);
    }
    take_files();
    let (mut report, mut stage, mut failed) = (Report::new(), None, 0);
    for scene in SCENES {
        if wanted.is_empty() || wanted.iter().any(|word| scene.is_called(word)) {
            failed += usize::from(!run(scene, &mut stage, &mut report));
        }
    }
    if let Some(stage) = stage
        && let Err(reason) = apart(scale::limit(), stage.strike())
    {
        eprintln!("the server or PostgreSQL did not stop in order: {reason}");
        failed += 1;
    }
    // A run of some scenes would leave a table without the others' figures.
    if !scale::is_small() && wanted.is_empty() {
        report.finish();
    }
    if failed > 0 {
        eprintln!("{failed} failed; the panics above say where");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// Runs a scene and prints its outcome, which `scripts/test.py` reads; returns whether it did not fail.
fn run(scene: &Scene, stage: &mut Option<Stage>, report: &mut Report) -> bool {
    let begun = Instant::now();
    let outcome = scene.run(stage, report);
    let (verdict, reason) = match &outcome {
        Outcome::Done => ("ok", String::new()),
        Outcome::Skipped(reason) => ("skipped", format!(": {reason}")),
        Outcome::Failed(reason) => ("FAILED", format!(": {reason}")),
    };
    println!("scene {} {verdict} <{:.1}s>{reason}", scene.name, begun.elapsed().as_secs_f64());
    !matches!(outcome, Outcome::Failed(_))
}

/// Raises the limit of open files to its maximum: R10 has five thousand connections.
fn take_files() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    let _kept = setrlimit(Resource::Nofile, limit);
}
