//! Scenario of money: a budget's threshold asks a person, who raises it; and one call stops everybody.

use entente_client::moments::written;
use entente_client::remote::Api;
use serde_json::{Value, json};

use super::decision::{PERSON, answer, resolution};
use super::{Stage, refused, say, text, until};
use crate::cli::Done;

/// The person's choice: raise the limit by as much again.
const DOUBLE: usize = 1;

impl Stage {
    /// An agent spends half of its budget; the person who is asked about it doubles the limit; the operator stops and
    /// restarts the whole system.
    pub(super) async fn spending(&self, person: &Api) -> Done {
        say(&format!(
            "\n15. agent.data may spend 2 USD on models, and {PERSON} is asked when half of it is gone"
        ))?;
        let thresholds = json!([{ "percent": 50, "ask": { "person": PERSON } }]);
        let budget = json!({
            "scope": "agent:agent.data", "name": "models of agent.data", "unit": "USD", "limit": 2,
            "thresholds": thresholds,
        });
        let budget = self.root.post("/budgets", &budget).await?;
        let path = format!("/budgets/{}", text(&budget, "id")?);
        let held = self.reserve("1.20").await?;
        let settle = format!("/spend/reservations/{}/settle", text(&held, "reservation_id")?);
        self.data.post(&settle, &json!({ "cost": { "USD": "1.10" } })).await?;
        say("  a call reserves 1.20 before it is made, and costs 1.10")?;
        say("  another one would cost 1.00")?;
        refused(self.reserve("1.00").await, "BUDGET_EXHAUSTED")?;

        let asked = until("the person was not asked", async || {
            let inbox = person.get("/moments/inbox", &[]).await?;
            let mut open = inbox["moments"].as_array().into_iter().flatten();
            Ok(open.find(|one| one["decision_class"] == "budget.threshold").cloned())
        });
        let asked = asked.await?;
        let now = entente_domain::clock::Clock::now(&entente_runtime::environment::SystemClock);
        let (shown, _fault) = written(&asked, now);
        shown.lines().try_for_each(|line| say(&format!("  | {line}")))?;
        let double = json!({ "kind": "option", "option_idx": DOUBLE });
        person.post(&resolution(&asked)?, &answer(&asked, &double)).await?;
        let raised = until("the limit was not raised", async || {
            let usage = self.root.get(&path, &[]).await?["usage"].clone();
            Ok((usage["limit"] == 4).then_some(usage))
        });
        say(&format!("  {PERSON} doubles it: {}", raised.await?))?;
        let held = self.reserve("1.00").await?;
        self.data.delete(&format!("/spend/reservations/{}", text(&held, "reservation_id")?)).await?;
        say("  the call is allowed now; it is not made, and its 1.00 is given back")?;

        say("  the operator stops everybody, with one call")?;
        let stop = json!({ "scope": "system", "reason": "The provider's prices have changed." });
        let stop = self.root.post("/stops", &stop).await?;
        refused(self.reserve("0.01").await, "stopped")?;
        let note = json!({ "sender": "agent.researcher", "payload": {} });
        refused(self.researcher.post(&self.path("/messages"), &note).await, "stopped")?;
        self.root.delete(&format!("/stops/{}", text(&stop, "id")?)).await?;
        self.researcher.post(&self.path("/messages"), &note).await?;
        say("  it is lifted, and work goes on")
    }

    async fn reserve(&self, amount: &str) -> Result<Value, entente_client::remote::Failure> {
        self.data
            .post("/spend/reservations", &json!({ "model": "gpt-large", "reserve": { "USD": amount } }))
            .await
    }
}
