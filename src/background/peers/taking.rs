//! Takes commands that other servers hand over, and puts them into this server's group commit.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use entente_domain::ids::IntentId;
use entente_openintent::messages::writer::MessageWriter;
use entente_runtime::tasks::Tasks;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::sleep;

use super::frames::{Answer, Half, Request, Secret};

/// Connections of other servers at most.
const CONNECTIONS: usize = 256;

/// Batches of one connection that may be under way: more wait in the connection.
const UNDER_WAY: usize = 256;

/// Pause after a failure to accept a connection, for example because there are no more files.
const PAUSE: Duration = Duration::from_millis(200);

/// Starts to take commands.
pub(crate) fn start(listener: TcpListener, secret: Secret, writer: Arc<MessageWriter>, tasks: &Tasks) {
    let (listener, all, stopping) = (Arc::new(listener), tasks.clone(), tasks.stopping().clone());
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    tasks.keep("peer commands", move || {
        let (listener, secret, writer) = (Arc::clone(&listener), secret.clone(), Arc::clone(&writer));
        let (all, stopping, places) = (all.clone(), stopping.clone(), Arc::clone(&places));
        async move {
            while let Some(accepted) = stopping.run_until_cancelled(listener.accept()).await {
                let Ok((stream, _)) = accepted else {
                    sleep(PAUSE).await;
                    continue;
                };
                let Ok(place) = Arc::clone(&places).try_acquire_owned() else { continue };
                let (secret, writer, stopping) = (secret.clone(), Arc::clone(&writer), stopping.clone());
                all.spawn("peer connection", async move {
                    if let Some(Err(failure)) =
                        stopping.run_until_cancelled(serve(stream, secret, writer)).await
                    {
                        tracing::debug!(error = %failure, "the connection of another server has ended");
                    }
                    drop(place);
                });
            }
        }
    });
}

async fn serve(stream: TcpStream, secret: Secret, writer: Arc<MessageWriter>) -> std::io::Result<()> {
    let (from, to) = secret.welcome(stream).await?;
    let (sender, requests) = mpsc::channel(1);
    tokio::select! {
        ended = read(from, sender) => ended,
        ended = answer(requests, to, &writer) => ended,
    }
}

async fn read(mut from: Half<OwnedReadHalf>, requests: mpsc::Sender<Vec<Request>>) -> std::io::Result<()> {
    loop {
        let frame = from.read().await?;
        if requests.send(frame).await.is_err() {
            return Ok(());
        }
    }
}

/// Writes the arriving commands, and answers each batch when it is committed.
async fn answer(
    mut requests: mpsc::Receiver<Vec<Request>>,
    mut to: Half<OwnedWriteHalf>,
    writer: &MessageWriter,
) -> std::io::Result<()> {
    let mut under_way = FuturesUnordered::new();
    loop {
        tokio::select! {
            frame = requests.recv(), if under_way.len() < UNDER_WAY => {
                let Some(frame) = frame else { return Ok(()) };
                for (intent, batch) in by_intent(frame) {
                    under_way.push(write(writer, intent, batch));
                }
            }
            Some(done) = under_way.next(), if !under_way.is_empty() => {
                let mut answers: Vec<Answer> = done;
                // Answers that are ready by now travel together.
                while let Some(Some(more)) = under_way.next().now_or_never() {
                    answers.extend(more);
                }
                to.write(&answers).await?;
            }
        }
    }
}

/// Returns the commands of each intent, in their order.
fn by_intent(frame: Vec<Request>) -> BTreeMap<IntentId, Vec<Request>> {
    let mut batches: BTreeMap<IntentId, Vec<Request>> = BTreeMap::new();
    for request in frame {
        batches.entry(request.command.intent_id()).or_default().push(request);
    }
    batches
}

/// Writes commands on one intent. A refusal is not told: the other server judges the command itself.
async fn write(writer: &MessageWriter, intent: IntentId, batch: Vec<Request>) -> Vec<Answer> {
    let (numbers, commands): (Vec<u64>, Vec<_>) =
        batch.into_iter().map(|request| (request.number, request.command.command())).unzip();
    let written = writer.send_here(intent, commands).await;
    let answers = numbers.into_iter().zip(written);
    answers.map(|(number, written)| Answer { number, message: written.ok().map(|m| (*m).clone()) }).collect()
}
