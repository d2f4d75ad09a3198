//! `entente conform`: checks a server against the clauses of a protocol, with the kit of `entente_conform`.

use entente_client::failures::{Ended, Exit};
use entente_conform::{Arguments, Broken};

use super::{Done, Failure};

/// Runs the checks; each way to fail has its exit status.
pub(super) async fn run(arguments: Arguments) -> Done {
    arguments.run().await.map_err(|broken| {
        let (exit, message) = match broken {
            Broken::Failed(message) => (Exit::Failed, message),
            Broken::Unreachable(message) => (Exit::Unavailable, message),
            Broken::Usage(message) => (Exit::Usage, message),
            Broken::Output(error) => return Failure::from(error),
        };
        Ended { exit, message }.into()
    })
}
