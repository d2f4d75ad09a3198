//! The program's entry: arguments, a runtime, and the exit status.

use clap::Parser as _;
use entente::cli::{Arguments, Ended, run};
use mimalloc::MiMalloc;

/// A request allocates some dozens of times on one thread and frees on another; the system's allocator took an eighth of
/// the processor for that, this one takes half as much.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> std::process::ExitCode {
    let arguments = Arguments::parse();
    // Writers and background tasks; requests have threads of their own. A task that wakes on the thread that waited for
    // it is quicker than two threads that share.
    let threads = std::thread::available_parallelism().map_or(1, |cores| (cores.get() / 2).max(1));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build();
    let done = match runtime {
        Ok(runtime) => runtime.block_on(run(arguments)),
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
