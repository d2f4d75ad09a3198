//! Loads on a server that runs already, for comparisons with other programs (`scripts/bench-peers.sh`): a request that is
//! sent over and over, in HTTP or in a protocol of lines, and cycles of jobs on Entente. Prints the result as JSON.

use std::fs;
use std::net::SocketAddr;
use std::process::ExitCode;

use serde::Deserialize;
use serde_json::{Value, json};

use super::client::{Talk, closed_in};
use super::jobs::{cycle, register};
use super::scale::spell;

/// A load, as its caller describes it.
#[derive(Deserialize)]
struct Shoot {
    address: SocketAddr,
    clients: usize,
    /// The request of each client; `{client}` is its number.
    request: String,
    talk: Talk,
}

/// Runs the command `shoot FILE`, or `cycle ADDRESS INPUT`; `None` if the arguments are no command.
pub fn run(arguments: &[&String]) -> Option<ExitCode> {
    let words: Vec<&str> = arguments.iter().map(|word| word.as_str()).collect();
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let result = match words[..] {
        ["shoot", file] => {
            runtime().block_on(shoot(serde_json::from_slice(&fs::read(file).unwrap()).unwrap()))
        }
        ["cycle", address, input] => runtime().block_on(async {
            let address = address.parse().unwrap();
            register(address).await;
            json!({ "rate": cycle(address, &serde_json::from_str(input).unwrap()).await })
        }),
        _ => return None,
    };
    println!("{result}");
    Some(ExitCode::SUCCESS)
}

/// Sends requests from all clients during [`spell`].
async fn shoot(asked: Shoot) -> Value {
    let Shoot { address, clients, request, talk } = asked;
    let of = |client: usize| request.replace("{client}", &client.to_string()).into_bytes();
    let requests: Vec<Vec<u8>> = (0..clients).map(of).collect();
    let mut load =
        closed_in(&talk, address, clients, spell(), move |client, _| (0, requests[client].clone())).await;
    json!({
        "rate": load.rate(), "failures": load.failures,
        "p50": load.quantile(0.5) / 1e3, "p99": load.quantile(0.99) / 1e3,
    })
}
