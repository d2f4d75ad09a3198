//! Resuming a session on another connection (ARCP §6.3 and §8.3).

use serde_json::{Value, json};
use tokio::time::Instant;

use super::sessions::pong;
use super::{Session, envelope, hello, path};
use crate::check::checks;
use crate::finding::{Finding, Outcome, ensure, failed, same, text};
use crate::site::{Site, Who};
use crate::socket::Socket;

checks! {
    "ARCP §6.3", Must, session_is_resumed, "A session goes on under its id on another connection.";
    "ARCP §6.3", Must, resume_token_rotates, "The resume token is another one after each welcome.";
    "ARCP §6.3", Must, events_are_replayed, "Events behind `last_event_seq` come again with their numbers.";
    "ARCP §6.3", Must, used_token_is_worthless, "A resume token resumes nothing once the client has gone on with a later one.";
    "ARCP §6.3", Must, foreign_token_is_worthless, "A wrong resume token resumes nothing.";
}

/// Resumes a session, in the form of the specification (`session.resume`) or in that of the SDKs (in the hello).
async fn resume<'a>(site: &'a Site, id: &str, token: &str, last: u64) -> Result<Session<'a>, Finding> {
    let mut payload = hello(site, Who::First);
    let resume = json!({ "session_id": id, "resume_token": token, "last_event_seq": last });
    payload["resume"] = resume.clone();
    let by_hello = Session::with(site, &envelope(site, "session.hello", &payload)).await;
    if matches!(&by_hello, Ok(session) if session.id == id) {
        return by_hello;
    }
    let mut payload = resume;
    payload["auth"] = hello(site, Who::First)["auth"].clone();
    let mut message = envelope(site, "session.resume", &payload);
    message["session_id"] = json!(id);
    let resumed = Session::with(site, &message).await?;
    if resumed.id == id { Ok(resumed) } else { Err(failed(format!("the session {id}"), &resumed.id)) }
}

fn token(session: &Session<'_>) -> Result<String, Finding> {
    text(&session.welcome, "/payload/resume_token")
}

async fn session_is_resumed(site: &Site) -> Outcome {
    let session = Session::open(site, Who::First).await?;
    let (id, token) = (session.id.clone(), token(&session)?);
    drop(session);
    resume(site, &id, &token, 0).await.map(drop)
}

async fn resume_token_rotates(site: &Site) -> Outcome {
    let session = Session::open(site, Who::First).await?;
    let (id, first) = (session.id.clone(), token(&session)?);
    drop(session);
    let resumed = resume(site, &id, &first, 0).await?;
    ensure(token(&resumed)? != first, "another resume token", "the same one")
}

async fn events_are_replayed(site: &Site) -> Outcome {
    let mut session = Session::open(site, Who::First).await?;
    let job = session.echo().await?;
    session.end(&job).await?;
    let numbers = |session: &Session<'_>| -> Vec<u64> {
        session.events.iter().filter_map(|frame| frame["event_seq"].as_u64()).collect()
    };
    let (id, token, seen) = (session.id.clone(), token(&session)?, numbers(&session));
    drop(session);
    let mut resumed = resume(site, &id, &token, 0).await?;
    resumed.end(&job).await?;
    let again = numbers(&resumed);
    ensure(seen == again, format!("the events {seen:?}"), format!("{again:?}"))
}

async fn used_token_is_worthless(site: &Site) -> Outcome {
    let session = Session::open(site, Who::First).await?;
    let (id, first) = (session.id.clone(), token(&session)?);
    drop(session);
    let mut resumed = resume(site, &id, &first, 0).await?;
    // Until then the welcome with the later token may have been lost on its way.
    pong(&mut resumed).await?;
    drop(resumed);
    let again = resume(site, &id, &first, 0).await;
    ensure(again.is_err(), "no session for a token that was used", &id)
}

async fn foreign_token_is_worthless(site: &Site) -> Outcome {
    let session = Session::open(site, Who::First).await?;
    let id = session.id.clone();
    drop(session);
    let mut payload = hello(site, Who::First);
    payload["resume"] =
        json!({ "session_id": id, "resume_token": "rt_conform-knows-none", "last_event_seq": 0 });
    let mut socket = Socket::open(site, path(site)).await?;
    socket.send(&envelope(site, "session.hello", &payload).to_string()).await?;
    let answer = socket.next(Instant::now() + site.limit).await?.unwrap_or(Value::Null);
    if answer["type"] == json!("session.welcome") {
        return ensure(answer["session_id"] != json!(id), "no session for a wrong token", answer);
    }
    same(&answer, "/type", "session.error")
}
