//! The program's entry: arguments, a runtime, and the exit status.

use clap::Parser as _;
use entente::cli::{Arguments, run};

fn main() -> std::process::ExitCode {
    let arguments = Arguments::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let done = match runtime {
        Ok(runtime) => runtime.block_on(run(arguments)),
        Err(e) => Err(e.into()),
    };
    match done {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("entente: {e}");
            std::process::ExitCode::FAILURE
        }
    }
}
