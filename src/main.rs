//! The program's entry: arguments, a runtime, and the exit status.

use std::ffi::OsString;

use clap::Parser as _;
use entente::cli::{Arguments, Ended, run};
use mimalloc::MiMalloc;

/// A request allocates some dozens of times on one thread and frees on another; the system's allocator took an eighth of
/// the processor for that, this one takes half as much.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// `entente --stdio` is `entente arcp-stdio`: by that flag ARCP's client libraries start a server as their child.
fn renamed(given: impl Iterator<Item = OsString>) -> impl Iterator<Item = OsString> {
    given.enumerate().map(|(at, word)| if at == 1 && word == "--stdio" { "arcp-stdio".into() } else { word })
}

fn main() -> std::process::ExitCode {
    let arguments = Arguments::parse_from(renamed(std::env::args_os()));
    // Writers and background tasks; requests have threads of their own. A task that wakes on the thread that waited for
    // it is quicker than two threads that share.
    let threads = std::thread::available_parallelism().map_or(1, |cores| (cores.get() / 2).max(1));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build();
    let done = match runtime {
        Ok(runtime) => {
            let done = runtime.block_on(run(arguments));
            // Everything has ended in order; what may still read from a terminal cannot be told to stop.
            runtime.shutdown_background();
            done
        }
        Err(e) => Err(e.into()),
    };
    match done {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("entente: {e}");
            let code = e.downcast_ref::<Ended>().map(|ended| ended.code);
            code.map_or(std::process::ExitCode::FAILURE, std::process::ExitCode::from)
        }
    }
}
