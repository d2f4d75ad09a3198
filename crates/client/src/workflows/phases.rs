//! Applies a workflow in the form of the SDK: an intent for the workflow, and below it one for each phase, with its
//! dependencies, limits, access, agent and retry policy. Phases are found again by `constraints.phase` among the
//! parts of the workflow's intent that the same agent created. As for every workflow, nothing is removed, and a second
//! run continues the first.

use std::collections::BTreeMap;

use entente_domain::clock::parse;
use serde_json::{Map, Value, json};

use super::apply::{Site, Stopped};
use super::compare::{both, differing, names, said};
use super::form::AgentForm;
use super::sdk::{Access, Phase, SdkForm};
use super::steps::{Outcome, Report, Told};
use crate::remote::{Api, Failure, segment};

/// Parts per page.
const PAGE: usize = 1_000;

/// Applies the workflow, and returns the report.
pub(super) async fn apply(api: &Api, form: &SdkForm, dry_run: bool, again: bool) -> Result<Report, Stopped> {
    let mut site = Site { api, form: &form.root, dry_run, report: Report::default() };
    site.intent(again).await?;
    let name = form.root.name();
    if !form.policy.is_empty() {
        let told = site.governance(&form.policy).await;
        site.report.note("policy", name, told);
    }
    for (agent, capabilities) in &form.agents {
        let told = site.register(agent, said([("capabilities", Some(json!(capabilities)))])).await;
        site.report.note("agent", agent, told);
    }
    site.channels(&Map::new()).await;
    let found = site.parts().await;
    let mut ids = BTreeMap::new();
    for phase in &form.phases {
        site.phase(phase, &found, &mut ids).await;
    }
    Ok(site.report)
}

/// The phases that exist, by their keys; without an id in a dry run.
type Ids<'a> = BTreeMap<&'a str, Option<String>>;

impl Site<'_> {
    /// Returns the parts of the workflow's intent that the caller created; none while there is no intent.
    async fn parts(&self) -> Result<Vec<Value>, Failure> {
        let Some(root) = &self.report.intent else { return Ok(Vec::new()) };
        // Others may add parts with the mark of a phase; those are theirs.
        let speaker = self.api.speaker().await?;
        let mut parts: Vec<Value> = Vec::new();
        loop {
            let before = parts.last().and_then(|part| part["id"].as_str()).map(str::to_owned);
            let query =
                [("parent_id", root.clone()), ("created_by", speaker.clone()), ("limit", PAGE.to_string())];
            let query = query.into_iter().chain(before.map(|id| ("before", id))).collect::<Vec<_>>();
            let mut page = self.api.get("/intents", &query).await?;
            let Value::Array(page) = page["intents"].take() else { return Ok(parts) };
            let last = page.is_empty();
            parts.extend(page);
            // A page may be cut short because of its size: only an empty one is the last.
            if last {
                return Ok(parts);
            }
        }
    }

    /// Applies one phase; one whose intent has ended stays as it is.
    async fn phase<'p>(&mut self, phase: &'p Phase, found: &Result<Vec<Value>, Failure>, ids: &mut Ids<'p>) {
        let missing = phase.depends_on.iter().find(|key| !ids.contains_key(key.as_str()));
        let told = match (found, missing) {
            (Err(failure), _) => Ok(Told::skipped(failure.full())),
            (Ok(_), Some(before)) => Ok(Told::skipped(format!("needs the phase `{before}`"))),
            (Ok(found), None) => {
                let found = found.iter().find(|one| one["constraints"]["phase"] == phase.key.as_str());
                let ended = found.and_then(|one| one["status"].as_str());
                let ended = ended.filter(|status| matches!(*status, "completed" | "abandoned"));
                if let (Some(found), Some(status)) = (found, ended) {
                    let told = Told::new(Outcome::Unchanged, found).detail(status);
                    ids.insert(phase.key.as_str(), self.report.note("phase", &phase.key, Ok(told)));
                    return;
                }
                self.phase_intent(phase, found, ids).await
            }
        };
        let there = told.as_ref().is_ok_and(|told| told.outcome != Outcome::Skipped);
        let id = self.report.note("phase", &phase.key, told);
        if there {
            ids.insert(phase.key.as_str(), id.clone());
            let mut part =
                Site { api: self.api, form: self.form, dry_run: self.dry_run, report: Report::of(id) };
            part.settings(phase).await;
            self.report.absorb(part.report);
        }
    }

    /// Creates the intent of a phase, or adds the dependencies that it lacks.
    async fn phase_intent(
        &self,
        phase: &Phase,
        found: Option<&Value>,
        ids: &Ids<'_>,
    ) -> Result<Told, Failure> {
        let fixed = said([
            ("title", Some(json!(phase.title))),
            ("description", Some(json!(phase.description))),
            ("constraints", Some(json!(phase.constraints))),
        ]);
        let before = phase.depends_on.iter().filter_map(|key| Some(ids.get(key.as_str())?.as_deref()));
        let before: Vec<Option<&str>> = before.collect();
        let Some(found) = found else {
            let mut body = fixed;
            body.insert("state".to_owned(), json!(phase.state));
            body.insert("depends_on".to_owned(), json!(before));
            return self.make("/children", &phase.key, &json!(body)).await;
        };
        let has =
            |id: &str| found["depends_on"].as_array().is_some_and(|had| had.iter().any(|one| one == id));
        let lacking: Vec<Option<&str>> = before.into_iter().filter(|id| !id.is_some_and(has)).collect();
        if !self.dry_run {
            let path = format!("/intents/{}", segment(found["id"].as_str().unwrap_or_default()));
            for id in &lacking {
                let body = json!({ "dependency_id": id });
                self.api.post_versioned(&path, &format!("{path}/dependencies"), &body, None).await?;
            }
        }
        let stuck = differing(&fixed, found);
        let outcome = match (stuck.is_empty(), lacking.is_empty()) {
            (false, _) => Outcome::Differs,
            (true, false) => Outcome::Changed,
            (true, true) => Outcome::Unchanged,
        };
        let stuck =
            if stuck.is_empty() { String::new() } else { format!("{}: fixed at birth", names(&stuck)) };
        let added = if lacking.is_empty() { "" } else { "depends_on" };
        Ok(Told::new(outcome, found).detail(both(added, &stuck)))
    }

    /// Applies the settings of a phase: limits and access first, so that they hold when its agent hears of it. Without
    /// them it is not assigned.
    async fn settings(&mut self, phase: &Phase) {
        let mut missing = None;
        if !phase.policy.is_empty() {
            let told = self.governance(&phase.policy).await;
            missing = told.is_err().then_some("policy");
            self.report.note("policy", &phase.key, told);
        }
        if let Some(access) = &phase.access {
            let told = self.access(access).await;
            missing = missing.or(told.is_err().then_some("access list"));
            self.report.note("access", &phase.key, told);
        }
        if let Some(retry) = &phase.retry {
            let told = self.retry_policy(&json!(retry)).await;
            self.report.note("retry policy", &phase.key, told);
        }
        if let Some(missing) = missing {
            let told = Told::skipped(format!("needs the {missing} of the phase"));
            self.report.note("assignment", &phase.assign, Ok(told));
            return;
        }
        let assigned = match self.path("/agents") {
            Some(path) => self.api.get(&path, &[]).await,
            None => Ok(json!([])),
        };
        let told = match &assigned {
            Ok(assigned) => {
                let assigned = assigned.as_array().map(Vec::as_slice).unwrap_or_default();
                self.assign(&phase.assign, &AgentForm::default(), assigned).await
            }
            Err(failure) => Ok(Told::skipped(failure.full())),
        };
        self.report.note("assignment", &phase.assign, told);
    }

    /// Sets members of the intent's governance policy; others stay.
    async fn governance(&self, wanted: &Map<String, Value>) -> Result<Told, Failure> {
        let Some(path) = self.path("/governance") else {
            return Ok(Told::new(Outcome::Created, &Value::Null));
        };
        let found = self.api.get(&path, &[]).await?;
        let change = differing(wanted, &found["governance_policy"]);
        if change.is_empty() {
            return Ok(Told::new(Outcome::Unchanged, &found));
        }
        let mut policy = found["governance_policy"].as_object().cloned().unwrap_or_default();
        let outcome = if policy.is_empty() { Outcome::Created } else { Outcome::Changed };
        policy.extend(change.clone());
        if !self.dry_run {
            self.api.put_versioned(&path, &json!(policy), &found["version"]).await?;
        }
        Ok(Told::new(outcome, &found).detail(names(&change)))
    }

    /// Sets the intent's access list; entries of others stay.
    async fn access(&self, wanted: &Access) -> Result<Told, Failure> {
        let Some(path) = self.path("/acl") else { return Ok(Told::new(Outcome::Created, &Value::Null)) };
        let found = self.api.get(&path, &[]).await?;
        let entries = found["entries"].as_array().cloned().unwrap_or_default();
        let has = |agent: &str, level: &str, expires: Option<&str>| {
            entries.iter().any(|entry| {
                entry["principal_id"] == agent
                    && entry["permission"] == level
                    && entry["expires_at"].as_str().and_then(parse) == expires.and_then(parse)
            })
        };
        let is_there = wanted
            .entries
            .iter()
            .all(|(agent, (level, expires))| has(agent, level.as_str(), expires.as_deref()));
        if is_there && found["default_policy"] == wanted.policy {
            return Ok(Told::new(Outcome::Unchanged, &found));
        }
        let is_new = entries.is_empty() && found["default_policy"] == "open";
        let outcome = if is_new { Outcome::Created } else { Outcome::Changed };
        let is_other = |entry: &&Value| {
            entry["principal_id"].as_str().is_some_and(|agent| !wanted.entries.contains_key(agent))
        };
        let kept = entries.iter().filter(is_other).map(|entry| {
            json!({
                "principal_id": entry["principal_id"], "principal_type": entry["principal_type"],
                "permission": entry["permission"], "expires_at": entry["expires_at"], "reason": entry["reason"],
            })
        });
        let named = wanted.entries.iter().map(|(agent, (level, expires))| {
            json!({ "principal_id": agent, "permission": level.as_str(), "expires_at": expires })
        });
        let list: Vec<Value> = kept.chain(named).collect();
        if !self.dry_run {
            let body = json!({ "default_policy": wanted.policy, "entries": list });
            self.api.act(reqwest::Method::PUT, &path, &body).await?;
        }
        Ok(Told::new(outcome, &found).detail(wanted.policy))
    }
}
