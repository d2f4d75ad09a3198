//! Scenario of jobs: one with limited authority and budget, and one with a result that is streamed to a
//! client across a broken connection.

use entente_client::tail::{Frame, Frames};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{PATIENCE, Stage, hold, refused, say, text};
use crate::cli::{Done, Failure};

/// Parts of the streamed report.
const REPORT: [&str; 4] = ["48211 rows, ", "schema v2.3, ", "no gaps, ", "two outliers"];

/// A job that its worker has claimed.
struct Held {
    id: String,
    token: String,
    result_id: String,
}

impl Held {
    fn path(&self, verb: &str) -> String {
        format!("/jobs/{}/{verb}", self.id)
    }
}

impl Stage {
    /// A job may touch and spend only as its lease allows, and survives refusals.
    pub(super) async fn budget(&mut self) -> Done {
        say(
            "\n11. agent.data runs jobs: this one has a dollar, may search and nothing else, and lives on when it may not",
        )?;
        self.data.act(Method::PUT, "/arcp/agents/summariser/versions/1.0.0", &json!({})).await?;
        let worker = json!({ "name": "demo", "agents": ["summariser@1.0.0"], "slots": 1, "labels": {} });
        let worker = self.data.post("/workers", &worker).await?;
        text(&worker, "worker_id")?.clone_into(&mut self.worker);
        let lease = json!({ "tool.call": ["search.*"], "cost.budget": ["USD:1.00"] });
        let job = self.job(&json!({ "agent": "summariser", "lease_request": lease })).await?;
        self.authorized(&job, "search.web", "c1").await?;
        self.spent(&job, "0.58").await?;
        say("  it sends mail")?;
        let ask = |target: &str, call: &str| json!({ "claim_token": job.token, "capability": "tool.call", "target": target, "call_id": call });
        let mail = self.data.post(&job.path("authorize"), &ask("mail.send", "c2")).await;
        refused(mail, "PERMISSION_DENIED")?;
        self.authorized(&job, "search.news", "c3").await?;
        self.spent(&job, "0.42").await?;
        say("  it searches once more")?;
        refused(self.data.post(&job.path("authorize"), &ask("search.web", "c4")).await, "BUDGET_EXHAUSTED")?;
        let result = json!({ "claim_token": job.token, "result": "what a dollar buys" });
        self.data.post(&job.path("result"), &result).await?;
        let page = self.researcher.get(&job.path("events"), &[]).await?;
        let page = page["events"].as_array().cloned().unwrap_or_default();
        for (number, code) in [("c2", "PERMISSION_DENIED"), ("c4", "BUDGET_EXHAUSTED")] {
            let denied = page.iter().map(|event| &event["payload"]["body"]);
            let mut denied = denied.filter(|body| body["call_id"] == number);
            hold(
                denied.any(|body| body["error"]["code"] == code),
                "a refusal is not among the job's events",
            )?;
        }
        let end = page.last().ok_or("the job has no events")?;
        hold(end["payload"]["final_status"] == "success", "the job did not live on")?;
        say(&format!(
            "  agent.researcher reads {} events, both refusals among them, and {}",
            page.len(),
            end["payload"]
        ))
    }

    /// A streamed result reaches a client across a broken connection, each part once.
    pub(super) async fn streamed(&self) -> Done {
        say(
            "\n12. A job streams its result; agent.researcher's connection is cut half-way, and it misses nothing",
        )?;
        let job = self.job(&json!({ "agent": "summariser" })).await?;
        let events = job.path("events");
        self.chunks(&job, 0..2).await?;
        let mut frames = Frames::open(&self.researcher, &events, None).await?;
        let mut seen = vec![next(&mut frames).await?, next(&mut frames).await?];
        drop(frames);
        say(&format!("  two parts have come, then the connection is cut after {}", seen[1].id))?;
        self.chunks(&job, 2..REPORT.len()).await?;
        let end = json!({ "claim_token": job.token, "result_id": job.result_id, "summary": "four parts" });
        self.data.post(&job.path("result"), &end).await?;
        let mut frames = Frames::open(&self.researcher, &events, Some(&seen[1].id)).await?;
        while seen.last().is_none_or(|frame| frame.name == "job.event") {
            seen.push(next(&mut frames).await?);
        }
        let numbers: Vec<&str> = seen.iter().map(|frame| frame.id.as_str()).collect();
        hold(numbers == ["1", "2", "3", "4", "5"], "an event was lost, or came twice")?;
        let parts = seen.iter().filter_map(|frame| frame.data["payload"]["body"]["data"].as_str());
        let put_together: String = parts.collect();
        hold(put_together == REPORT.concat(), "the parts are not the result")?;
        let fetched = self.researcher.open(&job.path("result")).await?.text().await?;
        hold(fetched == put_together, "the server keeps another result")?;
        say(&format!("  events {} came once each: {put_together}", numbers.join(", ")))
    }

    /// Submits a job, and lets the worker claim it.
    async fn job(&self, ask: &Value) -> Result<Held, Failure> {
        let accepted = self.researcher.post("/jobs", ask).await?;
        let claim = json!({ "worker_id": self.worker, "max": 1, "wait_sec": PATIENCE.as_secs() });
        let claimed = self.data.post("/jobs/claim", &claim).await?;
        let claimed = &claimed["jobs"][0];
        hold(claimed["job_id"] == accepted["job_id"], "the worker did not get the job")?;
        say(&format!(
            "  {} of {}, with {}",
            text(claimed, "job_id")?,
            text(claimed, "agent")?,
            claimed["lease"]
        ))?;
        Ok(Held {
            id: text(claimed, "job_id")?.to_owned(),
            token: text(claimed, "claim_token")?.to_owned(),
            result_id: text(claimed, "result_id")?.to_owned(),
        })
    }

    async fn authorized(&self, job: &Held, target: &str, call: &str) -> Done {
        let ask =
            json!({ "claim_token": job.token, "capability": "tool.call", "target": target, "call_id": call });
        let answer = self.data.post(&job.path("authorize"), &ask).await?;
        hold(answer["decision"] == "allow", "what the lease covers was refused")?;
        say(&format!("  {target} is allowed"))
    }

    async fn spent(&self, job: &Held, amount: &str) -> Done {
        let value: Value = serde_json::from_str(amount)?;
        let body = json!({ "name": "cost.tool", "value": value, "unit": "USD" });
        let answer = self.report(job, "metric", body).await?;
        say(&format!("  that cost {amount}: {} is left", answer["budget"]))
    }

    async fn chunks(&self, job: &Held, parts: std::ops::Range<usize>) -> Done {
        for number in parts {
            let body = json!({
                "result_id": job.result_id, "chunk_seq": number, "data": REPORT[number], "encoding": "utf8",
                "more": number + 1 < REPORT.len(),
            });
            self.report(job, "result_chunk", body).await?;
        }
        Ok(())
    }

    async fn report(&self, job: &Held, kind: &str, body: Value) -> Result<Value, Failure> {
        let ts = entente_domain::clock::Clock::now(&entente_runtime::environment::SystemClock);
        let event = json!({ "kind": kind, "ts": entente_domain::clock::rfc3339(ts), "body": body });
        let report = json!({ "claim_token": job.token, "events": [event] });
        Ok(self.data.post(&job.path("events"), &report).await?)
    }
}

async fn next(frames: &mut Frames) -> Result<Frame, Failure> {
    let frame = timeout(PATIENCE, frames.next()).await.ok().flatten();
    frame.ok_or_else(|| "the job's stream broke off".into())
}
