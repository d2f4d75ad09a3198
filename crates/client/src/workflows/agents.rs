//! Agents of a workflow: registers those that the file describes beyond their names, and assigns all of them.

use serde_json::{Map, Value, json};

use super::apply::Site;
use super::compare::{differing, names, said};
use super::form::AgentForm;
use super::steps::{Outcome, Told};
use crate::remote::{Failure, segment};

/// Default role of an assignment.
const ROLE: &str = "worker";

impl Site<'_> {
    /// Registers and assigns the agents.
    pub(super) async fn agents(&mut self) {
        let form = self.form;
        let silent = AgentForm::default();
        // The server lists all assignments at once, without pages.
        let assigned = match self.path("/agents") {
            Some(path) => self.api.get(&path, &[]).await,
            None => Ok(json!([])),
        };
        for (id, agent) in &form.agents {
            let agent = agent.as_ref().unwrap_or(&silent);
            let wanted = said([
                ("name", agent.name.as_ref().map(|name| json!(name))),
                ("role_id", agent.role_id.as_ref().map(|role| json!(role))),
                ("capabilities", agent.capabilities.as_ref().map(|words| json!(words))),
            ]);
            if !wanted.is_empty() {
                let told = self.register(id, wanted).await;
                self.report.note("agent", id, told);
            }
            let told = match &assigned {
                Ok(assigned) => {
                    self.assign(id, agent, assigned.as_array().map(Vec::as_slice).unwrap_or_default()).await
                }
                Err(failure) => Ok(Told::skipped(failure.full())),
            };
            self.report.note("assignment", id, told);
        }
    }

    /// Registers an agent. Other members of its record stay, because the agent itself may have set them.
    pub(super) async fn register(&self, id: &str, wanted: Map<String, Value>) -> Result<Told, Failure> {
        let found = match self.api.get(&format!("/agents/{}", segment(id)), &[]).await {
            Ok(found) => Some(found),
            Err(failure) if failure.code() == Some("not_found") => None,
            Err(failure) => return Err(failure),
        };
        let gone =
            found.as_ref().is_some_and(|one| matches!(one["status"].as_str(), Some("dead" | "deregistered")));
        let differing = found.as_ref().map_or_else(|| wanted.clone(), |found| differing(&wanted, found));
        if let Some(found) = found.as_ref().filter(|_| differing.is_empty() && !gone) {
            return Ok(Told::new(Outcome::Unchanged, found));
        }
        let (outcome, detail) = match &found {
            None => (Outcome::Created, String::new()),
            Some(_) if gone => (Outcome::Changed, "had left".to_owned()),
            Some(_) => (Outcome::Changed, names(&differing)),
        };
        if self.dry_run {
            return Ok(Told::new(outcome, &json!({ "id": id })).detail(detail));
        }
        let mut body = Map::new();
        for kept in [
            "name",
            "role_id",
            "capabilities",
            "capacity",
            "endpoint",
            "heartbeat_config",
            "metadata",
            "drain_timeout_seconds",
        ] {
            let known = found.as_ref().map(|found| found[kept].clone()).filter(|value| !value.is_null());
            body.extend(known.map(|value| (kept.to_owned(), value)));
        }
        body.extend(wanted);
        body.insert("agent_id".to_owned(), json!(id));
        let made = self.api.post("/agents/register", &json!(body)).await?;
        Ok(Told::new(outcome, &made).detail(detail))
    }

    pub(super) async fn assign(
        &self,
        id: &str,
        agent: &AgentForm,
        assigned: &[Value],
    ) -> Result<Told, Failure> {
        let found = assigned.iter().find(|one| one["agent_id"] == id);
        let role = agent.role.as_deref();
        if let Some(found) = found.filter(|found| role.is_none_or(|role| found["role"] == role)) {
            return Ok(Told::new(Outcome::Unchanged, found));
        }
        let body = json!({ "agent_id": id, "role": role.unwrap_or(ROLE) });
        let (outcome, detail) =
            if found.is_some() { (Outcome::Changed, "role") } else { (Outcome::Created, "") };
        let (false, Some(path)) = (self.dry_run, self.path("/agents")) else {
            return Ok(Told::new(outcome, found.unwrap_or(&Value::Null)).detail(detail));
        };
        // Without an idempotency key: a role may change back, and a removed agent may return. Repeating the
        // request has no further effect.
        Ok(Told::new(outcome, &self.api.post(&path, &body).await?).detail(detail))
    }
}
