//! Follows a job to its end: shows each event once as it arrives, across broken connections and server
//! restarts.

use std::io::{self, IsTerminal as _, Write as _};
use std::time::Duration;

use serde_json::Value;
use tokio::time::sleep;

use super::path;
use super::screen::Screen;
use crate::Done;
use crate::output::exit::{Ended, Exit};
use crate::output::note;
use crate::remote::{Api, Failure};
use crate::tail::{Frame, Frames};

/// Silence after which the job's state is told.
const SILENCE: Duration = Duration::from_secs(3);

/// Pause before a broken stream is opened again.
const RECONNECT: Duration = Duration::from_millis(500);

/// Shows the events of a job after the number `after` until the job ends; fails unless it ends with success.
pub(super) async fn follow(api: &Api, id: &str, after: u64, json: bool, budget: &Value) -> Done {
    let events = path(id, "/events");
    let mut screen = Screen::new(!json && io::stdout().is_terminal(), budget);
    let mut last = after.to_string();
    let mut heard = false;
    let mut is_told = json;
    loop {
        match Frames::open(api, &events, Some(&last)).await {
            Ok(mut frames) => {
                heard = true;
                while let Some(frame) = next(api, id, &mut frames, &mut is_told).await {
                    last = frame.id;
                    show(&frame.data, json, &mut screen)?;
                    if frame.name != "job.event" {
                        return ended(&frame.data["payload"]);
                    }
                }
            }
            // A server that stops or starts is worth waiting for; a refusal is final.
            Err(failure @ (Failure::Refused { status: 400..500, .. } | Failure::Stranger { .. })) => {
                return Err(failure.into());
            }
            Err(failure) if !heard => return Err(failure.into()),
            Err(_away) => {}
        }
        sleep(RECONNECT).await;
    }
}

/// Returns the next frame. If none comes for a while, tells once why the job waits.
async fn next(api: &Api, id: &str, frames: &mut Frames, is_told: &mut bool) -> Option<Frame> {
    let next = frames.next();
    tokio::pin!(next);
    if !*is_told {
        tokio::select! {
            frame = &mut next => return frame,
            () = sleep(SILENCE) => {}
        }
        *is_told = true;
        // The events matter; the reason why the job waits is only a help.
        if let Some(told) = api.get(&path(id, ""), &[]).await.ok().as_ref().and_then(waits_for) {
            note(&told);
        }
    }
    next.await
}

/// Returns the reason why a job waits, if it is pending.
fn waits_for(job: &Value) -> Option<String> {
    let agent = job["agent"].as_str().filter(|_| job["status"] == "pending")?;
    Some(match job["start_at"].as_str() {
        Some(at) => format!("The job is in the queue, and may start at {at}. Ctrl-C leaves it there."),
        None => {
            format!("The job is in the queue, and waits for a worker of `{agent}`. Ctrl-C leaves it there.")
        }
    })
}

/// Shows the events so far, page by page.
pub(super) async fn pages(api: &Api, id: &str, after: u64, json: bool) -> Done {
    let mut screen = Screen::new(false, &Value::Null);
    let mut last = after;
    loop {
        let page = api.get(&path(id, "/events"), &[("from_event_seq", last.to_string())]).await?;
        let events = page["events"].as_array().map(Vec::as_slice).unwrap_or_default();
        for event in events {
            show(event, json, &mut screen)?;
        }
        if page["has_more"] != true {
            return Ok(());
        }
        last = page["last_event_seq"].as_u64().unwrap_or(last);
    }
}

fn show(envelope: &Value, json: bool, screen: &mut Screen) -> Done {
    if json {
        writeln!(io::stdout().lock(), "{envelope}")?;
        return Ok(());
    }
    screen.show(envelope)
}

/// Maps a job's end to the exit status.
fn ended(payload: &Value) -> Done {
    let status = payload["final_status"].as_str().unwrap_or("error");
    let exit = match status {
        "success" => return Ok(()),
        "cancelled" => Exit::JobCancelled,
        "timed_out" => Exit::JobTimedOut,
        _ => Exit::JobError,
    };
    let message = payload["message"].as_str().unwrap_or("it did not say why");
    Err(Ended { exit, message: format!("the job ended with {status}: {message}") }.into())
}
