//! `entente attach`: connects the LLM host of an agent (Claude Code, Codex) with a server. The host starts it as an MCP
//! server on stdin and stdout, and as the command of its hooks, which show the agent's inbox to the model as it works.

mod hook;
mod hosts;
mod install;
mod mcp;
mod members;
mod session;
mod setup;
mod text;

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::Done;
use super::remote::Remote;
use hosts::Host;
pub(super) use setup::Setup;

/// Attach an LLM host to the server: install, hooks, MCP
#[derive(Debug, Args)]
pub(super) struct Attach {
    #[command(flatten)]
    remote: Remote,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Write the host's settings: its hooks and the MCP server; repeating it changes nothing
    Install(Place),
    /// Remove the settings that `install` wrote
    Uninstall(Place),
    /// Serve MCP on stdin and stdout by passing messages on to the server; a host starts it
    Mcp {
        /// The tools to list: core, attention or all
        #[arg(long, value_name = "SET", default_value = "all")]
        tools: String,
    },
    /// Answer one hook of the host: its JSON comes on stdin, the answer goes to stdout; a host runs it
    Hook {
        /// The host
        host: Host,
        /// Wait up to this number of seconds for an entry that wakes, as a hook in the background
        #[arg(long, value_name = "SECONDS")]
        wait: Option<u64>,
    },
}

/// Where settings of a host are.
#[derive(Debug, Args)]
struct Place {
    /// The host
    host: Host,
    /// Settings of the project in this folder [default: the user's]
    #[arg(long, value_name = "DIR")]
    project: Option<PathBuf>,
    /// Print the files instead of writing them
    #[arg(long)]
    print: bool,
}

impl Attach {
    pub(super) async fn run(self) -> Done {
        match self.verb {
            Verb::Install(place) => {
                install::run(&self.remote, place.host, place.project.as_deref(), place.print, true)
            }
            Verb::Uninstall(place) => {
                install::run(&self.remote, place.host, place.project.as_deref(), place.print, false)
            }
            Verb::Mcp { tools } => mcp::run(self.remote.api()?, &tools).await,
            Verb::Hook { host, wait } => {
                hook::run(&self.remote, host, wait).await;
                Ok(())
            }
        }
    }
}
