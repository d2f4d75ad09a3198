//! Applies a workflow: looks up each thing, and creates or changes it only where it differs from the file.
//! After a failure all independent steps still run, and a second run continues from the results of the first.
//!
//! A workflow's intent is found again by its name under `constraints.workflow`, among the intents that the
//! same agent created, so other agents' intents with that mark are ignored. Anything that the file does not
//! mention stays as it is, and nothing is removed.

use serde_json::{Map, Value, json};

use super::compare::{both, differing, names, once, said};
use super::form::{ChannelForm, Form, TaskForm};
use super::steps::{Outcome, Report, Told};
use crate::remote::{Api, Failure, segment};

/// Items per page.
const PAGE: usize = 1_000;

/// Reason that a workflow could not be started.
#[derive(Debug, thiserror::Error)]
pub(super) enum Stopped {
    /// The server failed or could not be reached.
    #[error("{0}")]
    Server(#[from] Failure),
    /// The workflow's last intent has ended.
    #[error("{intent}, the intent of this workflow, is {status}. With --again a new one is begun")]
    Over {
        /// The intent's id.
        intent: String,
        /// The intent's status.
        status: String,
    },
}

/// State of applying a workflow.
pub(super) struct Site<'a> {
    pub api: &'a Api,
    pub form: &'a Form,
    pub dry_run: bool,
    pub report: Report,
}

/// Applies the workflow, and returns the report.
pub(super) async fn apply(api: &Api, form: &Form, dry_run: bool, again: bool) -> Result<Report, Stopped> {
    let mut site = Site { api, form, dry_run, report: Report::default() };
    site.intent(again).await?;
    site.agents().await;
    let tasks = site.tasks().await;
    site.channels(&tasks).await;
    site.retry().await;
    Ok(site.report)
}

impl Site<'_> {
    /// Returns a path below the intent, or `None` while there is no intent.
    pub(super) fn path(&self, rest: &str) -> Option<String> {
        self.report.intent.as_ref().map(|id| format!("/intents/{}{rest}", segment(id)))
    }

    /// Returns all pages of one of the intent's lists; empty while there is no intent.
    pub(super) async fn all(&self, rest: &str) -> Result<Vec<Value>, Failure> {
        let Some(path) = self.path(rest) else { return Ok(Vec::new()) };
        let mut items: Vec<Value> = Vec::new();
        loop {
            let query = [("limit", PAGE.to_string()), ("offset", items.len().to_string())];
            let page = self.api.get(&path, &query).await?;
            let page = page.as_array().cloned().unwrap_or_default();
            let last = page.len() < PAGE;
            items.extend(page);
            if last {
                return Ok(items);
            }
        }
    }

    /// Creates something in the intent.
    pub(super) async fn make(&self, kind: &str, name: &str, body: &Value) -> Result<Told, Failure> {
        let (false, Some(path)) = (self.dry_run, self.path(kind)) else {
            return Ok(Told::new(Outcome::Created, &Value::Null));
        };
        let key = once(&[&path, name, &body.to_string()]);
        Ok(Told::new(Outcome::Created, &self.api.post_once(&path, body, &key).await?))
    }

    /// Finds the workflow's intents: the active one, the latest ended one, and the number of ended ones.
    async fn find_intent(&self) -> Result<(Option<Value>, Option<Value>, usize), Failure> {
        let speaker = self.api.speaker().await?;
        let (mut before, mut over, mut count) = (None::<String>, None, 0);
        loop {
            let query = [("created_by", speaker.clone()), ("limit", PAGE.to_string())];
            let query = query.into_iter().chain(before.map(|id| ("before", id))).collect::<Vec<_>>();
            let page = self.api.get("/intents", &query).await?;
            let page = page["intents"].as_array().cloned().unwrap_or_default();
            for intent in page.iter().filter(|one| one["constraints"]["workflow"] == self.form.name()) {
                if matches!(intent["status"].as_str(), Some("completed" | "abandoned")) {
                    count += 1;
                    over.get_or_insert_with(|| intent.clone());
                } else {
                    return Ok((Some(intent.clone()), over, count));
                }
            }
            // A page may be cut short because of its size: only an empty one is the last.
            match page.last().and_then(|intent| intent["id"].as_str()).map(str::to_owned) {
                Some(id) => before = Some(id),
                None => return Ok((None, over, count)),
            }
        }
    }

    pub(super) async fn intent(&mut self, again: bool) -> Result<(), Stopped> {
        let (title, intent) = (&self.form.intent.title.value, &self.form.intent);
        let (found, over, count) = self.find_intent().await?;
        let mut constraints = intent.constraints.clone();
        constraints.insert("workflow".to_owned(), json!(self.form.name()));
        let wanted = said([
            ("title", Some(json!(title))),
            ("description", intent.description.as_ref().map(|text| json!(text))),
            ("constraints", Some(json!(constraints))),
        ]);
        if let Some(found) = found {
            let differing = differing(&wanted, &found);
            let outcome = if differing.is_empty() { Outcome::Unchanged } else { Outcome::Differs };
            let detail = if differing.is_empty() {
                String::new()
            } else {
                format!("{}: fixed at birth", names(&differing))
            };
            self.report.intent =
                self.report.note("intent", title, Ok(Told::new(outcome, &found).detail(detail)));
            return Ok(());
        }
        if let Some(over) = over.filter(|_| !again) {
            let text = |member: &str| over[member].as_str().unwrap_or_default().to_owned();
            return Err(Stopped::Over { intent: text("id"), status: text("status") });
        }
        let mut body = wanted;
        body.insert("state".to_owned(), json!(intent.state));
        let made = if self.dry_run {
            Ok(Told::new(Outcome::Created, &Value::Null))
        } else {
            let body = json!(body);
            // When the same file is applied twice concurrently, only one run creates the intent; `count`
            // differs for each successor.
            let key = once(&[self.form.name(), &count.to_string(), &body.to_string()]);
            self.api.post_once("/intents", &body, &key).await.map(|made| Told::new(Outcome::Created, &made))
        };
        self.report.intent = self.report.note("intent", title, Ok(made?));
        Ok(())
    }

    /// Creates or changes the tasks, each after its dependencies; returns their ids by name.
    async fn tasks(&mut self) -> Map<String, Value> {
        let form = self.form;
        let silent = TaskForm::default();
        let found = self.all("/tasks").await;
        let mut ids = Map::new();
        for name in form.order().unwrap_or_default() {
            let task = form.task(name).unwrap_or(&silent);
            let missing = task.depends_on.iter().find(|before| !ids.contains_key(&before.value));
            let told = match (&found, missing) {
                (Err(failure), _) => Ok(Told::skipped(failure.full())),
                (Ok(_), Some(before)) => Ok(Told::skipped(format!("needs `{}`", before.value))),
                (Ok(found), None) => self.task(name, task, found, &ids).await,
            };
            let there = told.as_ref().is_ok_and(|told| told.outcome != Outcome::Skipped);
            let id = self.report.note("task", name, told);
            if there {
                ids.insert(name.to_owned(), json!(id));
            }
        }
        ids
    }

    async fn task(
        &self,
        name: &str,
        task: &TaskForm,
        found: &[Value],
        ids: &Map<String, Value>,
    ) -> Result<Told, Failure> {
        let before: Vec<&Value> = task.depends_on.iter().filter_map(|name| ids.get(&name.value)).collect();
        // Members of a task that can change, and members that are fixed at creation.
        let open = said([
            ("description", task.description.as_ref().map(|text| json!(text))),
            ("priority", task.priority.as_ref().map(|word| json!(word))),
            ("input", task.input.as_ref().map(|input| json!(input))),
            ("depends_on", Some(json!(before))),
        ]);
        let fixed = said([
            ("capabilities_required", task.capabilities.as_ref().map(|words| json!(words))),
            ("timeout_seconds", task.timeout_seconds.map(|seconds| json!(seconds))),
            ("max_attempts", task.max_attempts.map(|attempts| json!(attempts))),
            ("retry_policy", task.retry_policy.as_ref().map(|policy| json!(policy))),
        ]);
        let assign = said([("assigned_agent", task.assign.as_ref().map(|agent| json!(agent.value)))]);
        let Some(found) = found.iter().find(|one| one["name"] == name) else {
            let mut body = open;
            body.extend(fixed);
            body.insert("name".to_owned(), json!(name));
            let made = self.make("/tasks", name, &json!(body)).await?;
            if let Some(id) = made.id.as_ref().filter(|_| !assign.is_empty()) {
                let path = format!("/tasks/{}", segment(id));
                let task = self.api.get(&path, &[]).await?;
                if !differing(&assign, &task).is_empty() {
                    self.api.patch_versioned(&path, &json!(assign), &task["version"]).await?;
                }
            }
            return Ok(made);
        };
        let status = found["status"].as_str().unwrap_or_default();
        if matches!(status, "completed" | "failed" | "cancelled" | "skipped") {
            return Ok(Told::new(Outcome::Unchanged, found).detail(status));
        }
        let mut change = differing(&open, found);
        if matches!(status, "pending" | "ready") {
            change.extend(differing(&assign, found));
        }
        let stuck = differing(&fixed, found);
        let outcome = match (stuck.is_empty(), change.is_empty()) {
            (false, _) => Outcome::Differs,
            (true, false) => Outcome::Changed,
            (true, true) => Outcome::Unchanged,
        };
        if !change.is_empty() && !self.dry_run {
            let path = format!("/tasks/{}", segment(found["id"].as_str().unwrap_or_default()));
            self.api.patch_versioned(&path, &json!(change), &found["version"]).await?;
        }
        let fixed =
            if stuck.is_empty() { String::new() } else { format!("{}: fixed at birth", names(&stuck)) };
        Ok(Told::new(outcome, found).detail(both(&names(&change), &fixed)))
    }

    pub(super) async fn channels(&mut self, tasks: &Map<String, Value>) {
        let form = self.form;
        let silent = ChannelForm::default();
        let found = match self.path("/channels") {
            Some(path) => self.api.get(&path, &[]).await,
            None => Ok(json!([])),
        };
        for (name, channel) in &form.channels {
            let channel = channel.as_ref().unwrap_or(&silent);
            let missing = channel.task.as_ref().filter(|task| !tasks.contains_key(&task.value));
            let told = match (&found, missing) {
                (Err(failure), _) => Ok(Told::skipped(failure.full())),
                (Ok(_), Some(task)) => Ok(Told::skipped(format!("needs the task `{}`", task.value))),
                (Ok(found), None) => {
                    let task = channel.task.as_ref().and_then(|task| tasks.get(&task.value));
                    self.channel(name, channel, found.as_array().map(Vec::as_slice).unwrap_or_default(), task)
                        .await
                }
            };
            self.report.note("channel", name, told);
        }
    }

    async fn channel(
        &self,
        name: &str,
        channel: &ChannelForm,
        found: &[Value],
        task: Option<&Value>,
    ) -> Result<Told, Failure> {
        let options = said([
            ("audit", channel.audit.map(|audit| json!(audit))),
            ("ttl_seconds", channel.ttl_seconds.map(|seconds| json!(seconds))),
            ("max_messages", channel.max_messages.map(|messages| json!(messages))),
        ]);
        let mut wanted = said([
            ("members", channel.members.as_ref().map(|members| json!(members))),
            ("member_policy", channel.member_policy.map(|policy| json!(policy))),
        ]);
        // Open channels come first; a channel closed by its time limit or its task is not opened again.
        let Some(found) = found.iter().find(|one| one["name"] == name) else {
            wanted.insert("name".to_owned(), json!(name));
            wanted.extend((!options.is_empty()).then(|| ("options".to_owned(), json!(options))));
            wanted.extend(task.map(|task| ("task_id".to_owned(), task.clone())));
            return self.make("/channels", name, &json!(wanted)).await;
        };
        if found["status"] != "open" {
            return Ok(Told::new(Outcome::Unchanged, found).detail("closed"));
        }
        let mut change = differing(&wanted, found);
        if !differing(&options, &found["options"]).is_empty() {
            let mut whole = found["options"].as_object().cloned().unwrap_or_default();
            whole.extend(options);
            change.insert("options".to_owned(), json!(whole));
        }
        let moved = task.is_some_and(|task| found["task_id"] != *task);
        if !change.is_empty() && !self.dry_run {
            let path = format!("/channels/{}", segment(found["id"].as_str().unwrap_or_default()));
            self.api.act(reqwest::Method::PATCH, &path, &json!(change)).await?;
        }
        let outcome = match (moved, change.is_empty()) {
            (true, _) => Outcome::Differs,
            (false, false) => Outcome::Changed,
            (false, true) => Outcome::Unchanged,
        };
        let fixed = if moved { "task: fixed at birth" } else { "" };
        Ok(Told::new(outcome, found).detail(both(&names(&change), fixed)))
    }

    async fn retry(&mut self) {
        let form = self.form;
        let Some(retry) = &form.retry else { return };
        let told = self.retry_policy(&json!(retry)).await;
        self.report.note("retry policy", form.name(), told);
    }

    pub(super) async fn retry_policy(&self, wanted: &Value) -> Result<Told, Failure> {
        let wanted = wanted.as_object().cloned().unwrap_or_default();
        let Some(path) = self.path("/retry-policy") else {
            return Ok(Told::new(Outcome::Created, &Value::Null));
        };
        let found = match self.api.get(&path, &[]).await {
            Ok(found) => Some(found),
            Err(failure) if failure.code() == Some("not_found") => None,
            Err(failure) => return Err(failure),
        };
        let change = found.as_ref().map_or_else(|| wanted.clone(), |found| differing(&wanted, found));
        let (outcome, detail) = match &found {
            Some(found) if change.is_empty() => return Ok(Told::new(Outcome::Unchanged, found)),
            Some(_) => (Outcome::Changed, names(&change)),
            None => (Outcome::Created, String::new()),
        };
        // A policy is replaced as a whole: members that the file omits keep their values.
        let mut body = found.as_ref().and_then(Value::as_object).cloned().unwrap_or_default();
        body.extend(wanted);
        if self.dry_run {
            return Ok(Told::new(outcome, &json!(body)).detail(detail));
        }
        let set: Value = self.api.put(&path, &json!(body)).await?;
        Ok(Told::new(outcome, &set).detail(detail))
    }
}
