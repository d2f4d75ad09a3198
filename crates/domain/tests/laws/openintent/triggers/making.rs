//! The intents of triggers: placeholders in braces, lineage, and that a template does nothing else.

use entente_domain::ids::FiringId;
use entente_domain::openintent::triggers::making::{Assigned, FiringContext, IntentTemplate, Made};
use entente_domain::openintent::triggers::template::{Filling, Unfilled};
use entente_domain::openintent::triggers::{Cause, Condition, Lineage, Trigger, TriggerKind};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::trigger;
use crate::any::{Dice, at, json as any_json, text};

#[expect(clippy::needless_pass_by_value, reason = "it is read better where it is called")]
fn object(value: Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

fn made(one: &Trigger, cause: Cause, brought: Value) -> Result<Made, Unfilled> {
    let (brought, lineage) = (object(brought), Lineage::default().with(one.id));
    let firing = FiringId::mint(at(0), &Dice(2));
    one.make(&FiringContext { firing, cause, at: at(0), due_at: None, brought: &brought, lineage: &lineage })
}

fn with(template: IntentTemplate) -> Trigger {
    template.check().unwrap();
    Trigger { template: Some(template), ..trigger(TriggerKind::Webhook, Condition::default()) }
}

#[test]
fn a_template_is_filled_in() {
    let one = with(IntentTemplate {
        r#type: "billing".to_owned(),
        title: "Pay {{ body.amount }} to {{body.who.0}}, {{ body.urgent }}".to_owned(),
        description: "{{ trigger.name }} {{ trigger.fire_count }} {{ today }}".to_owned(),
        assignee: Some("agent.{{ body.desk }}".to_owned()),
        assignments: vec![Assigned { agent_id: "agent.boss".to_owned(), role: "coordinator".to_owned() }],
        context: object(
            json!({ "all": "{{ body }}", "n": "{{ body.amount }}", "list": ["{{ query.q }}", 1] }),
        ),
        state: object(json!({ "n": 7 })),
        constraints: object(json!({ "who": "{{ headers.x-who }}" })),
        tags: vec!["{{ body.desk }}".to_owned()],
        ..IntentTemplate::default()
    });
    let body = json!({ "amount": 5.5, "who": ["Ada"], "urgent": true, "desk": "till" });
    let brought = json!({ "body": body, "query": { "q": "x" }, "headers": { "x-who": "me" } });
    let made = made(&one, Cause::Webhook, brought).unwrap();
    assert_eq!(made.ask.title, "Pay 5.5 to Ada, true");
    assert_eq!(made.ask.description, "review 1 1970-01-01");
    // A text that consists of one path gets the value itself; the state's own members take precedence over the
    // context's.
    assert_eq!(made.ask.state["all"], body);
    assert_eq!((&made.ask.state["n"], &made.ask.state["list"]), (&json!(7), &json!(["x", 1])));
    assert_eq!(made.ask.constraints["who"], "me");
    let mark = &made.ask.state["trigger"];
    assert_eq!((&mark["trigger_id"], &mark["trigger_depth"]), (&json!(one.id), &json!(1)));
    assert_eq!(
        (&mark["type"], &mark["tags"], &mark["priority"]),
        (&json!("billing"), &json!(["till"]), &json!("medium"))
    );
    let names: Vec<&str> = made.assignments.iter().map(|assigned| assigned.agent_id.as_str()).collect();
    assert_eq!(names, ["agent.till", "agent.boss"]);
}

#[test]
fn what_is_not_there_is_said() {
    for (title, brought, word) in [
        ("{{ body.amount }}", json!({ "body": {} }), "`body.amount`, which is not there"),
        ("{{ event.id }}", json!({}), "`event.id`, which is not there"),
        ("a {{ body.list }}", json!({ "body": { "list": [] } }), "where there is no text"),
        ("a {{ body.gone }}", json!({ "body": { "gone": null } }), "where there is no text"),
    ] {
        let one = with(IntentTemplate { title: title.to_owned(), ..IntentTemplate::default() });
        let why = made(&one, Cause::Hand, brought).unwrap_err().0;
        assert!(why.contains(word), "{title}: {why}");
    }
    let one =
        with(IntentTemplate { assignee: Some("{{ body.who }}".to_owned()), ..IntentTemplate::default() });
    assert!(made(&one, Cause::Hand, json!({ "body": { "who": "*" } })).is_err());
}

#[test]
fn what_can_never_be_filled_in_is_refused_at_once() {
    let wrong = [
        "{{ body.x",
        "{{ }}",
        "{{ body..x }}",
        "{{ env.HOME }}",
        "{{ 1 + 1 }}",
        "{{ body.x() }}",
        "{{ body['x'] }}",
    ];
    for title in wrong {
        let template = IntentTemplate { title: title.to_owned(), ..IntentTemplate::default() };
        assert!(template.check().is_err(), "{title}");
    }
    let marked = IntentTemplate { state: object(json!({ "trigger": {} })), ..IntentTemplate::default() };
    let nobody = IntentTemplate { assignee: Some("*".to_owned()), ..IntentTemplate::default() };
    let parent = IntentTemplate { parent_intent_id: Some("x".to_owned()), ..IntentTemplate::default() };
    let large = IntentTemplate { description: "x".repeat(70_000), ..IntentTemplate::default() };
    for template in [marked, nobody, parent, large] {
        assert!(template.check().is_err(), "{template:?}");
    }
}

#[test]
fn a_template_cannot_be_blown_up() {
    let known = object(json!({ "body": "x".repeat(100_000) }));
    let mut filling = Filling::new(&known);
    let many = Value::Array(vec![json!("{{ body }}"); 20]);
    assert!(filling.value(&many).unwrap_err().0.contains("more than"));
}

#[test]
fn a_transform_is_for_webhooks() {
    let transform = object(json!({ "amount": "{{ body.amount }}" }));
    let condition = Condition { transform: Some(transform), ..Condition::default() };
    let one = trigger(TriggerKind::Webhook, condition);
    let made_of = made(&one, Cause::Webhook, json!({ "body": { "amount": 5 } })).unwrap();
    assert_eq!((made_of.ask.title.as_str(), &made_of.ask.state["amount"]), ("review", &json!(5)));
    assert!(made(&one, Cause::Hand, json!({})).is_ok());
}

proptest! {
    #[test]
    fn what_is_put_in_is_not_read_again(inside in any_json(), before in text(), after in text()) {
        prop_assume!(!before.contains("{{") && !after.contains("{{") && !before.ends_with('{'));
        let known = object(json!({ "body": { "x": inside, "t": "{{ body.x }}" } }));
        let mut filling = Filling::new(&known);
        prop_assert_eq!(filling.value(&json!("{{ body.x }}")).unwrap(), inside);
        let around = filling.text(&format!("{before}{{{{ body.t }}}}{after}")).unwrap();
        prop_assert_eq!(around, format!("{before}{{{{ body.x }}}}{after}"));
    }

    #[test]
    fn what_has_no_braces_stays_as_it_is(value in any_json()) {
        prop_assume!(!value.to_string().contains("{{"));
        let known = Map::new();
        prop_assert_eq!(Filling::new(&known).value(&value).unwrap(), value);
    }

    #[test]
    fn any_text_is_a_template_or_refused(title in text()) {
        let template = IntentTemplate { title: title.clone(), ..IntentTemplate::default() };
        let plain = !title.contains("{{");
        prop_assert!(!plain || template.check().is_ok());
    }
}
