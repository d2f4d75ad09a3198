//! The command line. `serve`, `dev` and `demo` run a server, `migrate` and `doctor` look after its database; the client
//! commands talk to a server like any other client. It decides nothing: what a command may do is the server's to say.

mod agents;
mod channels;
mod checkpoints;
mod database;
mod decide;
mod demo;
mod envelopes;
mod intents;
mod jobs;
mod keys;
mod leases;
mod messages;
mod moments;
mod output;
mod people;
mod principals;
mod remote;
mod run;
mod schemas;
mod stdio;
mod tail;
mod tasks;
mod traces;
mod vault_key;
mod verify;
mod webhooks;
mod welcome;
mod worker;
mod workflows;

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
    /// Run a server for development: a private PostgreSQL, and fresh keys printed
    Dev(run::Dev),
    #[command(name = "arcp-stdio")]
    ArcpStdio(stdio::ArcpStdio),
    /// See the whole story end to end, on a server of its own
    Demo(demo::Demo),
    /// Bring the database's schema up to date
    Migrate,
    /// Examine the configuration and the database, and say what to do
    Doctor,
    #[command(name = "principal")]
    Principals(principals::Principals),
    #[command(name = "person")]
    People(people::People),
    #[command(name = "key")]
    Keys(keys::Keys),
    Whoami(principals::Whoami),
    #[command(name = "agent")]
    Agents(agents::Agents),
    #[command(name = "identity")]
    Identities(checkpoints::Identities),
    #[command(name = "checkpoint")]
    Checkpoints(checkpoints::Checkpoints),
    #[command(name = "intent")]
    Intents(intents::Intents),
    #[command(name = "channel")]
    Channels(channels::Channels),
    #[command(name = "lease")]
    Leases(leases::Leases),
    #[command(name = "task")]
    Tasks(tasks::Tasks),
    #[command(name = "job")]
    Jobs(jobs::Jobs),
    Worker(worker::Worker),
    #[command(name = "workflow")]
    Workflows(workflows::Workflows),
    #[command(name = "envelope")]
    Envelopes(envelopes::Envelopes),
    Send(messages::Send),
    Ask(messages::Ask),
    Reply(messages::Reply),
    Messages(messages::Messages),
    Tail(tail::Tail),
    Trace(traces::Trace),
    #[command(name = "schema")]
    Schemas(schemas::Schemas),
    #[command(name = "webhook")]
    Webhooks(webhooks::Webhooks),
    #[command(name = "moment")]
    Moments(moments::Moments),
    Decide(decide::Decide),
    Verify(verify::Verify),
    /// Print the OpenAPI document
    Openapi,
}

/// What went wrong, for people.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// A job that was followed to an end that is no success: its exit status tells which (`cli/jobs/follow.rs`).
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Ended {
    /// The exit status.
    pub code: u8,
    /// How it ended.
    pub message: String,
}

/// What every command answers with.
pub type Done = Result<(), Failure>;

/// Runs the command that the arguments name.
///
/// # Errors
/// Whatever went wrong, said for people.
pub async fn run(arguments: Arguments) -> Done {
    match arguments.command {
        Command::Serve => run::serve().await,
        Command::Dev(dev) => run::dev(dev).await,
        Command::ArcpStdio(stdio) => stdio.run().await,
        Command::Demo(demo) => demo.run().await,
        Command::Migrate => database::migrate().await,
        Command::Doctor => database::doctor().await,
        Command::Principals(principals) => principals.run().await,
        Command::People(people) => people.run().await,
        Command::Keys(keys) => keys.run().await,
        Command::Whoami(whoami) => whoami.run().await,
        Command::Agents(agents) => agents.run().await,
        Command::Identities(identities) => identities.run().await,
        Command::Checkpoints(checkpoints) => checkpoints.run().await,
        Command::Intents(intents) => intents.run().await,
        Command::Channels(channels) => channels.run().await,
        Command::Leases(leases) => leases.run().await,
        Command::Tasks(tasks) => tasks.run().await,
        Command::Jobs(jobs) => jobs.run().await,
        Command::Worker(worker) => worker.run().await,
        Command::Workflows(workflows) => workflows.run().await,
        Command::Envelopes(envelopes) => envelopes.run().await,
        Command::Send(send) => send.run().await,
        Command::Ask(ask) => ask.run().await,
        Command::Reply(reply) => reply.run().await,
        Command::Messages(messages) => messages.run().await,
        Command::Tail(tail) => tail.run().await,
        Command::Trace(trace) => trace.run().await,
        Command::Schemas(schemas) => schemas.run().await,
        Command::Webhooks(webhooks) => webhooks.run().await,
        Command::Moments(moments) => moments.run().await,
        Command::Decide(decide) => decide.run().await,
        Command::Verify(verify) => verify.run(),
        Command::Openapi => verify::openapi(),
    }
}
