//! The command line. `serve` and `dev` run a server; the client commands talk to one like any other client.

mod run;

use clap::{Parser, Subcommand};

/// The coordination server for AI agents.
#[derive(Debug, Parser)]
#[command(version, about, propagate_version = true)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a server in production: explicit configuration, nothing guessed
    Serve,
    /// Run a server for development: a private `PostgreSQL`, and a fresh key printed
    Dev(run::Dev),
}

/// What every command answers with.
pub type Done = Result<(), Box<dyn std::error::Error + Send + Sync>>;

/// Runs the command that the arguments name.
///
/// # Errors
/// Whatever went wrong, said for people.
pub async fn run(arguments: Arguments) -> Done {
    match arguments.command {
        Command::Serve => run::serve().await,
        Command::Dev(dev) => run::dev(dev).await,
    }
}
