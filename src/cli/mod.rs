//! Command line. `serve`, `dev` and `demo` run a server, `migrate`, `doctor`, `prune`, `backup` and `restore` manage its
//! database; the
//! client commands are in `entente_client`.

mod backup;
mod conform;
mod database;
mod demo;
mod dev_keys;
mod first_key;
mod private_file;
mod prune;
mod ready;
mod run;
mod stdio;
mod vault_key;
mod welcome;

use std::ffi::OsString;
use std::io::Write as _;

use clap::{ArgMatches, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use clap_complete::Shell;
use entente_api::app::document;

pub use entente_client::failures::Report;
use entente_client::failures::STATUSES;
pub use entente_client::{Done, Failure};

/// Version of the program, with the commit that it was built from (`build.rs`).
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("ENTENTE_COMMIT"), ")");

/// The coordination server for AI agents.
#[derive(Debug, Parser)]
#[command(version = VERSION, about, propagate_version = true, after_long_help = STATUSES)]
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
    /// Ask the server of this configuration, on this machine, whether it is ready, for a health check; fails unless it is
    Ready,
    /// Delete now what is past its retention, or count it; servers may run meanwhile
    Prune(prune::Prune),
    /// Back up the database, and the keys outside of it, into a directory; servers may run meanwhile
    Backup(backup::Backup),
    /// Restore a backup into an empty database or a new data directory
    Restore(backup::Restore),
    #[command(flatten)]
    Client(Box<entente_client::Command>),
    Conform(Box<entente_conform::Arguments>),
    /// Print a fresh key, for `ENTENTE_BOOTSTRAP_KEY` or its file; it needs no server
    BootstrapKey,
    /// Print the OpenAPI document
    Openapi,
    /// Print a script that completes the commands in a shell, such as `source <(entente completions bash)`
    Completions {
        /// The shell
        shell: Shell,
    },
}

/// A parsed command line.
#[derive(Debug)]
pub struct Parsed {
    /// The command with its arguments.
    pub arguments: Arguments,
    /// Whether `--json` was given: failures are then written as JSON.
    pub json: bool,
}

/// Parses the command line. A wrong one, `--help` and `--version` end the process.
pub fn parse(words: impl Iterator<Item = OsString>) -> Parsed {
    let words: Vec<OsString> = words.collect();
    let matches = match Arguments::command().try_get_matches_from(&words) {
        Ok(matches) => matches,
        Err(error) => refuse(&error, &words),
    };
    match Arguments::from_arg_matches(&matches) {
        Ok(arguments) => Parsed { arguments, json: wants_json(&matches) },
        Err(error) => refuse(&error.format(&mut Arguments::command()), &words),
    }
}

/// Ends the process with clap's message, or with the same as JSON if that was asked for.
fn refuse(error: &clap::Error, words: &[OsString]) -> ! {
    if error.use_stderr() && words.iter().any(|word| word == "--json") {
        Report::usage(&error.to_string()).print(true);
        std::process::exit(error.exit_code());
    }
    error.exit()
}

/// Whether this command or the one below it has the flag `--json`.
fn wants_json(matches: &ArgMatches) -> bool {
    let here = matches.try_get_one::<bool>("json").ok().flatten().copied().unwrap_or(false);
    here || matches.subcommand().is_some_and(|(_name, below)| wants_json(below))
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
        Command::Ready => ready::run().await,
        Command::Prune(prune) => prune.run().await,
        Command::Backup(backup) => backup.run().await,
        Command::Restore(restore) => restore.run().await,
        Command::Client(command) => command.run().await,
        Command::Conform(arguments) => Box::pin(conform::run(*arguments)).await,
        Command::BootstrapKey => first_key::print(),
        Command::Openapi => openapi(),
        Command::Completions { shell } => completions(shell),
    }
}

/// Prints the OpenAPI document.
fn openapi() -> Done {
    std::io::stdout().lock().write_all(document().json.as_bytes())?;
    Ok(())
}

/// Prints the completions of a shell.
fn completions(shell: Shell) -> Done {
    let mut command = Arguments::command();
    // Into memory first: the generator panics where it cannot write.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, "entente", &mut script);
    std::io::stdout().lock().write_all(&script)?;
    Ok(())
}
