//! Opening, pings, acknowledgements and the end of a session (ARCP §5, §6 and §12).

use serde_json::{Value, json};
use tokio::time::Instant;

use super::{Session, envelope, hello, path};
use crate::check::checks;
use crate::finding::{Finding, Outcome, ensure, failed, list, members, same, skipped, text};
use crate::site::{Site, Who, in_seconds};
use crate::socket::Socket;

checks! {
    "ARCP §5", Must, envelope_has_its_members, "An envelope is an object with `arcp`, `id`, `type` and `payload`.";
    "ARCP §5", Must, unknown_members_are_ignored, "Unknown members of the envelope are ignored.";
    "ARCP §6.1", Must, wrong_token_is_unauthenticated, "A wrong token is UNAUTHENTICATED.";
    "ARCP §6.1", Must, no_token_is_refused, "Without a token there is no session.";
    "ARCP §6.2", Must, hello_is_welcomed, "`session.welcome` has the session, the runtime, a resume token and capabilities.";
    "ARCP §6.2", Must, agents_have_versions, "The inventory names each agent with its versions.";
    "ARCP §6.2", Must, sessions_differ, "Each session has an id and a resume token of its own.";
    "ARCP §6.4", Must, ping_is_answered, "A ping is answered by a pong with its nonce.";
    "ARCP §6.4", Must, pong_has_no_number, "Pings and pongs have no `event_seq`.";
    "ARCP §6.5", Must, ack_is_taken, "An acknowledgement is taken without an answer, and the session goes on.";
    "ARCP §6.7", Must, close_is_acknowledged, "`session.close` is answered by `session.closed`.";
    "ARCP §6.7", Must, jobs_outlive_the_session, "A job goes on when its session is closed.";
    "ARCP §12", Must, malformed_is_invalid, "A malformed envelope is INVALID_REQUEST.";
    "ARCP §12", Must, errors_say_retryable, "An error says whether it is retryable.";
    "ARCP §12", Should, broken_json_is_told, "A frame that is no JSON is answered, and harms no other session.";
}

async fn envelope_has_its_members(site: &Site) -> Outcome {
    let session = Session::open(site, Who::First).await?;
    members(&session.welcome, &["arcp", "id", "type", "session_id", "payload"])?;
    same(&session.welcome, "/arcp", "1.1")?;
    text(&session.welcome, "/id").map(drop)
}

async fn unknown_members_are_ignored(site: &Site) -> Outcome {
    site.needs_key()?;
    let mut first = envelope(site, "session.hello", &hello(site, Who::First));
    first["x-unknown"] = json!({ "of": "a later version" });
    let mut session = Session::with(site, &first).await?;
    let ping = json!({ "nonce": "p_1", "sent_at": in_seconds(0) });
    session.send_with("session.ping", &ping, &json!({ "later": true })).await?;
    session.until("`session.pong`", |frame| frame["type"] == json!("session.pong")).await.map(drop)
}

/// Sends a first message, and returns its answer; nothing if the connection is closed.
async fn first(site: &Site, message: &Value) -> Result<Option<Value>, Finding> {
    let mut socket = Socket::open(site, path(site)).await?;
    socket.send(&message.to_string()).await?;
    socket.next(Instant::now() + site.limit).await
}

async fn wrong_token_is_unauthenticated(site: &Site) -> Outcome {
    site.needs_key()?;
    let mut payload = hello(site, Who::First);
    payload["auth"]["token"] = json!("conform-knows-no-such-token");
    let answer = first(site, &envelope(site, "session.hello", &payload)).await?.unwrap_or(Value::Null);
    same(&answer, "/type", "session.error")?;
    same(&answer, "/payload/code", "UNAUTHENTICATED")
}

async fn no_token_is_refused(site: &Site) -> Outcome {
    site.needs_key()?;
    let mut payload = hello(site, Who::First);
    payload.as_object_mut().map(|payload| payload.remove("auth"));
    let answer = first(site, &envelope(site, "session.hello", &payload)).await?;
    let is_welcome = answer.as_ref().is_some_and(|answer| answer["type"] == json!("session.welcome"));
    ensure(!is_welcome, "no session", answer.unwrap_or(Value::Null))
}

async fn hello_is_welcomed(site: &Site) -> Outcome {
    let session = Session::open(site, Who::First).await?;
    let welcome = &session.welcome;
    text(welcome, "/payload/runtime/name")?;
    text(welcome, "/payload/resume_token")?;
    list(&welcome["payload"]["capabilities"]["features"])?;
    let interval = &welcome["payload"]["heartbeat_interval_sec"];
    let is_right =
        interval.as_f64().is_some_and(|seconds| seconds > 0.0) || session.needs("heartbeat").is_err();
    ensure(is_right, "a `heartbeat_interval_sec` above 0", welcome)
}

async fn agents_have_versions(site: &Site) -> Outcome {
    let session = Session::open(site, Who::First).await?;
    session.needs("agent_versions")?;
    let agents = list(&session.welcome["payload"]["capabilities"]["agents"])?;
    if agents.is_empty() {
        return Err(skipped("the server names no agent"));
    }
    for agent in agents {
        text(agent, "/name")?;
        ensure(!list(&agent["versions"])?.is_empty(), "at least one version", agent)?;
    }
    Ok(())
}

async fn sessions_differ(site: &Site) -> Outcome {
    let one = Session::open(site, Who::First).await?;
    let other = Session::open(site, Who::First).await?;
    ensure(one.id != other.id, "two ids", &one.id)?;
    let token = |session: &Session<'_>| text(&session.welcome, "/payload/resume_token");
    ensure(token(&one)? != token(&other)?, "two resume tokens", "one twice")
}

/// Sends a ping, and returns the pong.
pub(super) async fn pong(session: &mut Session<'_>) -> Result<Value, Finding> {
    session.needs("heartbeat")?;
    let ping = json!({ "nonce": "p_conform", "sent_at": in_seconds(0) });
    session.send("session.ping", &ping).await?;
    session.until("`session.pong`", |frame| frame["type"] == json!("session.pong")).await
}

async fn ping_is_answered(site: &Site) -> Outcome {
    let mut session = Session::open(site, Who::First).await?;
    same(&pong(&mut session).await?, "/payload/ping_nonce", "p_conform")
}

async fn pong_has_no_number(site: &Site) -> Outcome {
    let mut session = Session::open(site, Who::First).await?;
    let pong = pong(&mut session).await?;
    ensure(pong.get("event_seq").is_none(), "no `event_seq`", pong)
}

async fn ack_is_taken(site: &Site) -> Outcome {
    let mut session = Session::open(site, Who::First).await?;
    session.needs("ack")?;
    session.send("session.ack", &json!({ "last_processed_seq": 0 })).await?;
    let ping = json!({ "nonce": "p_1", "sent_at": in_seconds(0) });
    session.send("session.ping", &ping).await?;
    let is_answer =
        |frame: &Value| frame["type"] == json!("session.pong") || frame["type"] == json!("session.error");
    let answer = session.until("`session.pong`", is_answer).await?;
    same(&answer, "/type", "session.pong")
}

async fn close_is_acknowledged(site: &Site) -> Outcome {
    let mut session = Session::open(site, Who::First).await?;
    session.ask("session.close", &json!({}), "session.closed").await.map(drop)
}

async fn jobs_outlive_the_session(site: &Site) -> Outcome {
    let mut session = Session::open(site, Who::First).await?;
    session.needs("list_jobs")?;
    let job = session.echo().await?;
    // The answer is another check's.
    session.send("session.close", &json!({})).await?;
    drop(session);
    let mut later = Session::open(site, Who::First).await?;
    for _ in 0..20 {
        let jobs = later.ask("session.list_jobs", &json!({ "limit": 100 }), "session.jobs").await?;
        let found = list(&jobs["payload"]["jobs"])?.iter().find(|one| one["job_id"] == json!(job)).cloned();
        match found.as_ref().and_then(|one| one["status"].as_str()) {
            Some("success") => return Ok(()),
            Some("pending" | "running" | "preparing") => tokio::time::sleep(site.limit / 20).await,
            _ => return Err(failed(format!("{job} in the list, and its end"), &jobs)),
        }
    }
    Err(failed(format!("the end of {job}"), "none in time"))
}

async fn malformed_is_invalid(site: &Site) -> Outcome {
    let mut session = Session::open(site, Who::First).await?;
    session.refused("job.submit", &json!({ "agent": 7 }), &["INVALID_REQUEST"]).await.map(drop)
}

async fn errors_say_retryable(site: &Site) -> Outcome {
    let mut session = Session::open(site, Who::First).await?;
    let submit = json!({ "agent": "conform-knows-no-such-agent", "input": {} });
    let refusal = session.refused("job.submit", &submit, &["AGENT_NOT_AVAILABLE"]).await?;
    text(&refusal, "/payload/message")?;
    ensure(refusal["payload"]["retryable"].is_boolean(), "`retryable` as a boolean", refusal)
}

async fn broken_json_is_told(site: &Site) -> Outcome {
    let other = Session::open(site, Who::First).await?;
    let mut session = Session::open(site, Who::First).await?;
    session.socket.send("{\"arcp\":\"1.1\",").await?;
    let is_error = |frame: &Value| frame["type"] == json!("session.error");
    let error = session.until("`session.error`", is_error).await?;
    same(&error, "/payload/code", "INVALID_REQUEST")?;
    let mut other = other;
    pong(&mut other).await.map(drop)
}
