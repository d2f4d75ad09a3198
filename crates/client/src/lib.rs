//! Client commands of the command line. They talk to a server like any other client and enforce nothing: the
//! server decides which requests are allowed.

mod agents;
mod attach;
mod budgets;
mod channels;
mod checkpoints;
mod decide;
mod envelopes;
pub mod failures;
mod inbox;
mod intents;
mod jobs;
mod leases;
mod messages;
pub mod moments;
mod output;
mod people;
mod principals;
pub mod remote;
pub mod tail;
mod tasks;
mod top;
mod traces;
mod verify;
mod webhooks;
mod worker;
mod workflows;

use clap::{ArgMatches, FromArgMatches, Subcommand};

/// A client command, as a part of a command line.
#[derive(Debug)]
pub struct Command(Verb);

#[derive(Debug, Subcommand)]
enum Verb {
    #[command(name = "principal")]
    Principals(principals::Principals),
    #[command(name = "person")]
    People(people::People),
    #[command(name = "contact")]
    Contacts(people::contacts::Contacts),
    #[command(name = "key")]
    Keys(principals::keys::Keys),
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
    #[command(name = "budget")]
    Budgets(budgets::Budgets),
    #[command(name = "team")]
    Teams(budgets::Teams),
    #[command(name = "stop")]
    Stops(budgets::Stops),
    Spend(budgets::Spend),
    #[command(name = "workflow")]
    Workflows(workflows::Workflows),
    #[command(name = "envelope")]
    Envelopes(envelopes::Envelopes),
    Send(messages::Send),
    Ask(messages::Ask),
    Reply(messages::Reply),
    Messages(messages::Messages),
    Inbox(inbox::Inbox),
    Attach(attach::Attach),
    Setup(attach::Setup),
    Tail(tail::Tail),
    Top(top::Top),
    Trace(traces::Trace),
    Search(messages::search::Search),
    #[command(name = "schema")]
    Schemas(envelopes::schemas::Schemas),
    #[command(name = "webhook")]
    Webhooks(webhooks::Webhooks),
    #[command(name = "moment")]
    Moments(moments::Moments),
    Decide(decide::Decide),
    Verify(verify::Verify),
    Handover(agents::handover::Handover),
    Turn(agents::turn::TakeTurn),
    Waits(agents::waits::Waits),
    Loops(agents::loops::Loops),
}

/// Error with a message for people.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Result of every command.
pub type Done = Result<(), Failure>;

impl FromArgMatches for Command {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Verb::from_arg_matches(matches).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.0.update_from_arg_matches(matches)
    }
}

impl Subcommand for Command {
    fn augment_subcommands(command: clap::Command) -> clap::Command {
        Verb::augment_subcommands(command)
    }

    fn augment_subcommands_for_update(command: clap::Command) -> clap::Command {
        Verb::augment_subcommands_for_update(command)
    }

    fn has_subcommand(name: &str) -> bool {
        Verb::has_subcommand(name)
    }
}

impl Command {
    /// Runs the command.
    ///
    /// # Errors
    /// Any failure of the command, with a message for people.
    pub async fn run(self) -> Done {
        match self.0 {
            Verb::Principals(principals) => principals.run().await,
            Verb::People(people) => people.run().await,
            Verb::Contacts(contacts) => contacts.run().await,
            Verb::Keys(keys) => keys.run().await,
            Verb::Whoami(whoami) => whoami.run().await,
            Verb::Agents(agents) => agents.run().await,
            Verb::Identities(identities) => identities.run().await,
            Verb::Checkpoints(checkpoints) => checkpoints.run().await,
            Verb::Intents(intents) => intents.run().await,
            Verb::Channels(channels) => channels.run().await,
            Verb::Leases(leases) => leases.run().await,
            Verb::Tasks(tasks) => tasks.run().await,
            Verb::Jobs(jobs) => jobs.run().await,
            Verb::Worker(worker) => worker.run().await,
            Verb::Budgets(budgets) => budgets.run().await,
            Verb::Teams(teams) => teams.run().await,
            Verb::Stops(stops) => stops.run().await,
            Verb::Spend(spend) => spend.run().await,
            Verb::Workflows(workflows) => workflows.run().await,
            Verb::Envelopes(envelopes) => envelopes.run().await,
            Verb::Send(send) => send.run().await,
            Verb::Ask(ask) => ask.run().await,
            Verb::Reply(reply) => reply.run().await,
            Verb::Messages(messages) => messages.run().await,
            Verb::Inbox(inbox) => inbox.run().await,
            Verb::Attach(attach) => attach.run().await,
            Verb::Setup(setup) => setup.run(),
            Verb::Top(top) => top.run().await,
            Verb::Tail(tail) => tail.run().await,
            Verb::Trace(trace) => trace.run().await,
            Verb::Search(search) => search.run().await,
            Verb::Schemas(schemas) => schemas.run().await,
            Verb::Webhooks(webhooks) => webhooks.run().await,
            Verb::Moments(moments) => moments.run().await,
            Verb::Decide(decide) => decide.run().await,
            Verb::Handover(handover) => handover.run().await,
            Verb::Turn(turn) => turn.run().await,
            Verb::Verify(verify) => verify.run(),
            Verb::Waits(waits) => waits.run().await,
            Verb::Loops(loops) => loops.run().await,
        }
    }
}
