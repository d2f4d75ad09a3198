//! Command line. `serve`, `dev` and `demo` run a server, `migrate` and `doctor` manage its database; the
//! client commands are in `entente_client`.

mod database;
mod demo;
mod run;
mod stdio;
mod vault_key;
mod welcome;

use std::io::Write as _;

use clap::{Parser, Subcommand};
use entente_api::app::document;

pub use entente_client::{Done, Ended, Failure};

/// The coordination server for AI agents.
#[derive(Debug, Parser)]
#[command(version, about, propagate_version = true)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a server in production, with explicit configuration only
    Serve,
    /// Run a server for development, with a private PostgreSQL and fresh keys, which are printed
    Dev(run::Dev),
    #[command(name = "arcp-stdio")]
    ArcpStdio(stdio::ArcpStdio),
    /// Run a complete scenario on a server of its own
    Demo(demo::Demo),
    /// Migrate the database's schema to the current version
    Migrate,
    /// Check the configuration and the database, and print remedies
    Doctor,
    #[command(flatten)]
    Client(Box<entente_client::Command>),
    /// Print the OpenAPI document
    Openapi,
}

/// Runs the command given by the arguments.
///
/// # Errors
/// Any failure of the command, with a message for people.
pub async fn run(arguments: Arguments) -> Done {
    match arguments.command {
        Command::Serve => run::serve().await,
        Command::Dev(dev) => run::dev(dev).await,
        Command::ArcpStdio(stdio) => stdio.run().await,
        Command::Demo(demo) => demo.run().await,
        Command::Migrate => database::migrate().await,
        Command::Doctor => database::doctor().await,
        Command::Client(command) => command.run().await,
        Command::Openapi => openapi(),
    }
}

/// Prints the OpenAPI document.
fn openapi() -> Done {
    std::io::stdout().lock().write_all(document().json.as_bytes())?;
    Ok(())
}
