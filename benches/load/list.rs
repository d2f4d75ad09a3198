//! List of the scenes, and how one runs: apart from the others, with a time limit. A failure ends only its scene.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::Duration;

use entente_store::binaries::Binaries;
use futures_util::future::LocalBoxFuture;

use super::report::Report;
use super::stage::Stage;
use super::{events, growth, jobs, operations, peers, post, scale, scenes, sessions, streams};

/// Characters of a failure's reason in the table.
const REASON_CHARS: usize = 300;
/// Time limit for the tasks that a scene leaves behind.
const LEFTOVERS_LIMIT: Duration = Duration::from_secs(5);

/// A scene: a part of the benchmark that runs, fails or is skipped as a whole.
pub struct Scene {
    /// Unique name; each of its parts between hyphens selects the scene as well.
    pub name: &'static str,
    /// Names of the rows that it adds to the report.
    rows: &'static [&'static str],
    /// Prerequisites on the machine.
    needs: &'static [Need],
    play: Play,
}

/// A scene's function, and the server that it uses.
enum Play {
    /// Starts its own servers.
    Alone(for<'a> fn(&'a mut Report) -> LocalBoxFuture<'a, ()>),
    /// Uses the server of the scenes before it.
    Shared(for<'a> fn(&'a Stage, &'a mut Report) -> LocalBoxFuture<'a, ()>),
    /// Uses a fresh process, because it measures memory.
    Fresh(for<'a> fn(&'a Stage, &'a mut Report) -> LocalBoxFuture<'a, ()>),
}
use Play::{Alone, Fresh, Shared};

/// A prerequisite that a machine may lack.
#[derive(Clone, Copy)]
enum Need {
    Pgbench,
    /// Linux's figures of processes.
    Proc,
}
use Need::{Pgbench, Proc};

/// End of a scene; with the reason unless it succeeded.
pub enum Outcome {
    Done,
    Skipped(String),
    Failed(String),
}

const fn scene(
    name: &'static str,
    rows: &'static [&'static str],
    needs: &'static [Need],
    play: Play,
) -> Scene {
    Scene { name, rows, needs, play }
}

/// All scenes in their order. Those that are disturbed by what a load leaves to the followers come first, those that measure memory
/// last.
pub const SCENES: &[Scene] = &[
    scene(
        "start",
        &["Start, new directory", "Start, existing directory"],
        &[],
        Alone(|report| Box::pin(scenes::start(report))),
    ),
    scene("idle", &["Idle server"], &[], Shared(|stage, report| Box::pin(peers::idle(stage, report)))),
    scene(
        "r13",
        &["R13 GET intent"],
        &[Pgbench],
        Shared(|stage, report| Box::pin(operations::reads(stage, report))),
    ),
    scene(
        "r1-r5",
        &[
            "R1 at 32 clients, one channel",
            "R1 at 32 clients, 100 intents",
            "R1 at 64 clients, one channel",
            "R1 at 64 clients, 100 intents",
            "R5 p99 at 60 % load",
        ],
        &[Pgbench],
        Shared(|stage, report| Box::pin(scenes::sends(stage, report))),
    ),
    scene(
        "r2",
        &["R2 batches, one channel", "R2 batches, 100 intents"],
        &[Pgbench],
        Shared(|stage, report| Box::pin(scenes::batches(stage, report))),
    ),
    scene("r3", &["R3 hot channel"], &[], Shared(|stage, report| Box::pin(scenes::spread(stage, report)))),
    scene(
        "r4-cycles",
        &["R4 full job cycle"],
        &[Pgbench],
        Shared(|stage, report| Box::pin(jobs::cycles(stage, report))),
    ),
    scene(
        "r4-events",
        &["Job events into one job"],
        &[],
        Shared(|stage, report| Box::pin(jobs::events(stage, report))),
    ),
    scene("r4-wake", &["Claim wake-up"], &[], Shared(|stage, report| Box::pin(jobs::wake(stage, report)))),
    scene(
        "sessions-submit",
        &["Submit over WebSocket"],
        &[],
        Shared(|stage, report| Box::pin(sessions::submit(stage, report))),
    ),
    scene(
        "post-signed",
        &["R14 signed envelopes"],
        &[],
        Shared(|stage, report| Box::pin(post::signed(stage, report))),
    ),
    scene("post-bus", &["Bus of 1,000"], &[], Shared(|stage, report| Box::pin(post::fan_out(stage, report)))),
    scene("r6", &["R6 all features"], &[], Shared(|stage, report| Box::pin(scenes::features(stage, report)))),
    scene(
        "r11",
        &["R11 events, one intent", "R11 events, 100 intents"],
        &[],
        Shared(|stage, report| Box::pin(events::posted(stage, report))),
    ),
    scene(
        "r12",
        &["R12 task", "R12 claim", "R12 complete", "R12 lease", "R12 cost", "R12 intent"],
        &[Pgbench],
        Shared(|stage, report| Box::pin(operations::operations(stage, report))),
    ),
    scene(
        "r7",
        &["R7 subscribers"],
        &[Proc],
        Shared(|stage, report| Box::pin(streams::subscribers(stage, report))),
    ),
    scene(
        "r8-snapshot",
        &["R8 held snapshot, one channel", "R8 held snapshot, 100 intents"],
        &[],
        Shared(|stage, report| Box::pin(growth::snapshot(stage, report))),
    ),
    scene(
        "r8-intents",
        &["R8 9,000 intents"],
        &[],
        Shared(|stage, report| Box::pin(growth::intents(stage, report))),
    ),
    scene(
        "r8-history",
        &["R8 sends into a history", "R8 reads from a history"],
        &[],
        Alone(|report| Box::pin(growth::history(report))),
    ),
    scene(
        "since",
        &["GET …/messages?since="],
        &[],
        Shared(|stage, report| Box::pin(scenes::since(stage, report))),
    ),
    scene(
        "nodes",
        &["Two servers"],
        &[],
        Shared(|stage, report| Box::pin(streams::two_servers(stage, report))),
    ),
    scene(
        "r15",
        &["R15 two servers, one channel", "R15 two servers, 100 intents", "R15 second server idle"],
        &[Proc],
        Shared(|stage, report| Box::pin(peers::two_servers(stage, report))),
    ),
    scene("r16", &["R16 two cells"], &[Proc], Alone(|report| Box::pin(peers::cells(report)))),
    scene(
        "r10",
        &["R10 idle stream"],
        &[Proc],
        Fresh(|stage, report| Box::pin(streams::idle(stage, report))),
    ),
    scene(
        "sessions-idle",
        &["Idle session"],
        &[Proc],
        Fresh(|stage, report| Box::pin(sessions::idle(stage, report))),
    ),
];

impl Scene {
    /// Whether `word` selects the scene.
    pub fn is_called(&self, word: &str) -> bool {
        self.name == word || self.name.split('-').any(|part| part == word)
    }

    /// Runs the scene. `stage` is set if the scene needs one and there is none, and removed if the scene fails: the
    /// next scene gets a server and a database that the failure has not touched. Rows without a figure are marked.
    pub fn run(&self, stage: &mut Option<Stage>, report: &mut Report) -> Outcome {
        if let Some(reason) = self.needs.iter().find_map(|need| need.lacking()) {
            report.mark(self.rows, "skipped", &reason);
            return Outcome::Skipped(reason);
        }
        let ended = apart(scale::limit(), self.perform(stage, report));
        let missing = report.missing(self.rows).join(", ");
        let reason = match ended {
            Ok(()) if missing.is_empty() => return Outcome::Done,
            Ok(()) => format!("it has no figure for: {missing}"),
            Err(reason) => reason,
        };
        *stage = None;
        report.mark(self.rows, "failed", &reason);
        Outcome::Failed(reason)
    }

    async fn perform(&self, stage: &mut Option<Stage>, report: &mut Report) {
        match self.play {
            Alone(play) => play(report).await,
            Shared(play) => play(ready(stage).await, report).await,
            Fresh(play) => {
                let stage = ready(stage).await;
                stage.restart().await;
                play(stage, report).await;
            }
        }
    }
}

async fn ready(stage: &mut Option<Stage>) -> &mut Stage {
    if stage.is_none() {
        *stage = Some(Stage::set().await);
    }
    stage.as_mut().unwrap()
}

impl Need {
    /// Returns the reason for skipping, if the machine lacks it.
    fn lacking(self) -> Option<String> {
        match self {
            Pgbench => {
                // Without PostgreSQL the scene fails, and its message says how to install it.
                let dir = Binaries::find(None).ok()?.dir;
                (!dir.join("pgbench").exists()).then(|| {
                    format!("{} has no pgbench; on Debian, install postgresql-contrib", dir.display())
                })
            }
            Proc => (!Path::new("/proc/self/stat").exists())
                .then(|| "this system has no /proc with the figures of a process".to_owned()),
        }
    }
}

/// Runs `work` on a runtime of its own and ends all its tasks; a panic, or more time than `limit`, is an error.
pub fn apart<T>(limit: Duration, work: impl Future<Output = T>) -> Result<T, String> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let ended = catch_unwind(AssertUnwindSafe(|| {
        runtime.block_on(async { tokio::time::timeout(limit, work).await })
    }));
    runtime.shutdown_timeout(LEFTOVERS_LIMIT);
    match ended {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(_late)) => Err(format!("not done after {} s", limit.as_secs())),
        Err(panic) => Err(reason(&*panic)),
    }
}

/// Returns a panic's message as one line.
fn reason(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("it panicked");
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").chars().take(REASON_CHARS).collect()
}
