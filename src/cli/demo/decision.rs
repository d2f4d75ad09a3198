//! Scenario of a decision: a person refuses the question itself, and the agent must deliberate before it may
//! ask again.

use entente_client::moments::{path, written};
use entente_client::remote::Api;
use serde_json::{Value, json};

use super::{PATIENCE, Stage, hold, refused, say, text};
use crate::cli::{Done, Failure};

/// The person that decides.
pub(super) const PERSON: &str = "human.ada";

/// Builds a question of the agent.
fn question(stem: &str, options: &[(&str, &str)]) -> Value {
    let options: Vec<Value> =
        options.iter().map(|(label, reasoning)| json!({ "label": label, "reasoning": reasoning })).collect();
    json!({
        "synopsis": "Publish the summary of the Q1 dataset today.",
        "findings": ["The dataset has 48211 rows and no gaps.", "Two outliers are left in.", "The schema is v2.3."],
        "recommendations": ["Publish it with a note on both outliers.", "Tell the readers of last quarter's summary."],
        "offer": "Ask for detail on any item.",
        "question": { "stem": stem, "options": options, "recommended_idx": 0 },
        "meta": { "decision_class": "publication" },
    })
}

impl Stage {
    /// A question is asked, refused, deliberated, asked anew, and resolved; returns the person's client.
    pub(super) async fn decision(&self) -> Result<Api, Failure> {
        say("\n14. agent.researcher needs a decision that is a person's; it can ask, and nothing else")?;
        self.root.post("/principals", &json!({ "id": PERSON, "kind": "human" })).await?;
        let made = self.root.post(&format!("/people/{PERSON}/links"), &json!({})).await?;
        let person = self.root.log_in(text(&made, "path")?).await?;
        say(&format!("  {PERSON} opens the one-time link that the operator made, and is logged in"))?;
        let given =
            self.root.post(&format!("/principals/{PERSON}/keys"), &json!({ "label": "given" })).await?;
        let given = self.root.with_key(text(&given, "key")?);
        let when = question(
            "At what time should the summary go out?",
            &[
                ("Publish at noon", "Most readers look then."),
                ("Publish at six", "The last check is through by then."),
            ],
        );
        let first = self.ask(&when, &json!({})).await?;
        say("  it tries to answer for them")?;
        let own = answer(&first, &json!({ "kind": "option", "option_idx": 0 }));
        refused(self.researcher.post(&resolution(&first)?, &own).await, "not_the_principal")?;
        say("  so does the operator, with a key that he made for them")?;
        refused(given.post(&resolution(&first)?, &own).await, "not_the_principal")?;

        let objection = "Wrong question: first say why the outliers stay in.";
        say(&format!("  {PERSON} refuses the question: {objection}"))?;
        self.resolve(&person, &first, &json!({ "kind": "dialogue", "objection": objection })).await?;
        say("  agent.researcher asks the same once more")?;
        let again = json!({ "principal_id": PERSON, "binding_moment": when, "intent_id": self.intent });
        refused(self.researcher.post("/moments", &again).await, "same_question")?;
        let whether = question(
            "How should the two outliers go into the summary?",
            &[
                ("Publish with a note", "They are real, and a reader would wonder."),
                ("Publish without them", "The mean is smoother."),
            ],
        );
        say("  it asks something else, as if nothing had been said")?;
        let other = json!({ "principal_id": PERSON, "binding_moment": whether, "intent_id": self.intent });
        refused(self.researcher.post("/moments", &other).await, "deliberation_required")?;
        let words = format!("{}/words", path(text(&first, "id")?));
        let said = "Both are real visits, from two schools; I had not said so.";
        self.researcher.post(&words, &json!({ "text": said })).await?;
        say(&format!("  it deliberates: {said}"))?;

        let more = json!({ "supersedes": first["id"], "objection_response": said });
        let second = self.ask(&whether, &more).await?;
        let waits = format!("{}?wait={}", path(text(&second, "id")?), PATIENCE.as_secs());
        let decides = json!({ "kind": "option", "option_idx": 0 });
        let (heard, decided) =
            tokio::join!(self.researcher.get(&waits, &[]), self.resolve(&person, &second, &decides));
        decided?;
        let heard = heard?;
        hold(heard["resolution"]["kind"] == "option", "the agent did not hear of the answer")?;
        say(&format!("  {PERSON} decides, and agent.researcher, who waits, has {}", heard["resolution"]))?;
        self.researcher.post(&format!("{}/ack", path(text(&second, "id")?)), &json!({})).await?;
        let before = self.researcher.get(&path(text(&first, "id")?), &[]).await?;
        hold(before["state"] == "superseded", "the refused question still stands")?;
        say(
            "  the refused question is superseded; the answer is acknowledged, and its words will be taken out",
        )?;
        Ok(person)
    }

    /// Asks a question, and prints it as the person sees it.
    async fn ask(&self, slots: &Value, more: &Value) -> Result<Value, Failure> {
        let mut ask = json!({ "principal_id": PERSON, "binding_moment": slots, "intent_id": self.intent });
        if let (Some(ask), Some(more)) = (ask.as_object_mut(), more.as_object()) {
            ask.extend(more.clone());
        }
        let asked = self.researcher.post("/moments", &ask).await?;
        let mut remarks = asked["lints"].as_array().into_iter().flatten();
        hold(remarks.all(|one| one["level"] != "warn"), "the question is badly put")?;
        let now = entente_domain::clock::Clock::now(&entente_runtime::environment::SystemClock);
        let (shown, _fault) = written(&asked, now);
        shown.lines().try_for_each(|line| say(&format!("  | {line}")))?;
        Ok(asked)
    }

    async fn resolve(&self, person: &Api, moment: &Value, resolved: &Value) -> Done {
        person.post(&resolution(moment)?, &answer(moment, resolved)).await?;
        Ok(())
    }
}

/// Returns the path for answering a moment.
pub(super) fn resolution(moment: &Value) -> Result<String, Failure> {
    Ok(format!("{}/resolution", path(text(moment, "id")?)))
}

/// Builds an answer that refers to the displayed question.
pub(super) fn answer(moment: &Value, resolution: &Value) -> Value {
    json!({ "envelope_digest": moment["envelope_digest"], "resolution": resolution })
}
