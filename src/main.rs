//! Program entry: arguments, runtime, and exit status.

use std::ffi::OsString;

use entente::cli::{Parsed, Report, parse, run};
use mimalloc::MiMalloc;

/// Allocator of the process.
///
/// A request allocates some dozens of times on one thread and frees on another; the system's allocator used
/// an eighth of the CPU time for that, `mimalloc` uses half as much.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Maps `entente --stdio` to `entente arcp-stdio`: ARCP's client libraries start a server as a child process
/// with that flag.
fn renamed(given: impl Iterator<Item = OsString>) -> impl Iterator<Item = OsString> {
    given.enumerate().map(|(at, word)| if at == 1 && word == "--stdio" { "arcp-stdio".into() } else { word })
}

fn main() -> std::process::ExitCode {
    let Parsed { arguments, json } = parse(renamed(std::env::args_os()));
    // For writers and background tasks; requests have their own threads. Waking a task on the thread that
    // waited for it is faster than sharing between two threads.
    let threads = std::thread::available_parallelism().map_or(1, |cores| (cores.get() / 2).max(1));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build();
    let done = match runtime {
        Ok(runtime) => {
            let done = runtime.block_on(run(arguments));
            // Everything has ended in order, but a blocking read from a terminal cannot be cancelled.
            runtime.shutdown_background();
            done
        }
        Err(e) => Err(e.into()),
    };
    match done {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(failure) => {
            let report = Report::of(&failure);
            report.print(json);
            report.exit.status().into()
        }
    }
}
