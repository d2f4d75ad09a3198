//! Discovery (OI-4.9): the reported features match the routes, and no key is needed.

use entente_api::app;

use entente_harness::{Setup, Value, World, json};

/// Each feature with a route that it requires. The list is independent of the code, so that a removed or moved
/// route is noticed.
const FEATURES: [(&str, &str); 34] = [
    ("intents", "/api/v1/intents"),
    ("events", "/api/v1/intents/{intent_id}/events"),
    ("statePatches", "/api/v1/intents/{intent_id}/state"),
    ("optimisticConcurrency", "/api/v1/intents/{intent_id}/status"),
    ("agents", "/api/v1/intents/{intent_id}/agents"),
    ("intentGraphs", "/api/v1/intents/{intent_id}/children"),
    ("leasing", "/api/v1/intents/{intent_id}/leases"),
    ("arbitration", "/api/v1/intents/{intent_id}/arbitrate"),
    ("portfolios", "/api/v1/portfolios"),
    ("portfolioIntents", "/api/v1/portfolios/{portfolio_id}/intents"),
    ("attachments", "/api/v1/intents/{intent_id}/attachments"),
    ("subscriptions", "/api/v1/subscriptions"),
    ("serverSentEvents", "/api/v1/intents/{intent_id}/subscribe"),
    ("costTracking", "/api/v1/intents/{intent_id}/costs"),
    ("retryPolicies", "/api/v1/intents/{intent_id}/retry-policy"),
    ("failures", "/api/v1/intents/{intent_id}/failures"),
    ("accessControl", "/api/v1/intents/{intent_id}/acl"),
    ("tasks", "/api/v1/tasks"),
    ("plans", "/api/v1/plans"),
    ("coordinators", "/api/v1/coordinators"),
    ("governance", "/api/v1/intents/{intent_id}/governance"),
    ("governanceEnforcement", "/api/v1/intents/{intent_id}/approvals"),
    ("escalations", "/api/v1/escalations"),
    ("tools", "/api/v1/tools/invoke"),
    ("memory", "/api/v1/memory"),
    ("agentLifecycle", "/api/v1/agents/{agent_id}/heartbeat"),
    ("triggers", "/api/v1/triggers"),
    ("identity", "/api/v1/agents/{agent_id}/identity"),
    ("verifiableLogs", "/api/v1/intents/{intent_id}/events/verify"),
    ("checkpoints", "/api/v1/checkpoints"),
    ("tracing", "/api/v1/events"),
    ("channels", "/api/v1/intents/{intent_id}/channels"),
    ("messages", "/api/v1/channels/{channel_id}/messages"),
    ("federation", "/api/v1/federation/status"),
];

/// The same for features that the reference server has no name for.
const MORE: [(&str, &str); 2] = [
    ("federationReceive", "/api/v1/federation/receive"),
    ("suspension", "/api/v1/intents/{intent_id}/suspend/respond"),
];

/// Returns a path with unnamed parameters.
fn shape(path: &str) -> String {
    let part = |part: &str| if part.starts_with('{') { "{}".to_owned() } else { part.to_owned() };
    path.split('/').map(part).collect::<Vec<_>>().join("/")
}

fn paths() -> Vec<String> {
    let document: Value = serde_json::from_str(&app::document().json).unwrap();
    document["paths"].as_object().unwrap().keys().map(|path| shape(path)).collect()
}

#[tokio::test]
async fn what_is_said_to_be_there_is_there() {
    let world = World::start().await;
    let anon = world.anon();
    let paths = paths();
    let compat = anon.get("//.well-known/openintent-compat.json").await.is(200);
    assert_eq!(compat["implementation"], "Entente");
    let features = compat["features"].as_object().unwrap();
    for (word, there) in features {
        let known = FEATURES.iter().chain(&MORE).find(|(known, _)| known == word);
        let (_, route) = known.unwrap_or_else(|| panic!("no route is known for `{word}`"));
        // Federation is available only if the operator has configured it.
        let set_up = !word.starts_with("federation");
        assert_eq!(*there, json!(set_up && paths.contains(&shape(route))), "{word}");
    }
    assert_eq!(features.len(), FEATURES.len() + MORE.len());
    // An RFC is reported as complete only if all of its features are.
    let rfcs = compat["rfcCompliance"].as_object().unwrap();
    for rfc in [
        "RFC-0001", "RFC-0005", "RFC-0006", "RFC-0009", "RFC-0010", "RFC-0018", "RFC-0019", "RFC-0020",
        "RFC-0021",
    ] {
        assert_eq!(rfcs[rfc], "full", "{rfc}");
    }
    for (rfc, compliance) in rfcs {
        assert_eq!(compat["gaps"].get(rfc).is_some(), compliance == "partial", "{rfc}");
    }
    let found = anon.get("//.well-known/openintent.json").await.is(200);
    assert_eq!(
        (&found["protocol"], &found["version"]),
        (&json!("OpenIntent Coordination Protocol"), &json!("0.1"))
    );
    let listed: Vec<&Value> = found["rfcs"].as_array().unwrap().iter().map(|one| &one["rfc"]).collect();
    assert_eq!(listed, rfcs.keys().map(|rfc| json!(rfc)).collect::<Vec<_>>().iter().collect::<Vec<_>>());
    assert_eq!(found["endpoints"]["federation"], Value::Null);
    let words = found["capabilities"].as_array().unwrap().len();
    assert_eq!(words, features.values().filter(|there| **there == json!(true)).count());
    world.end().await;
}

#[tokio::test]
async fn what_it_names_answers() {
    let world = World::start().await;
    let anon = world.anon();
    let found = anon.get("//.well-known/openintent.json").await.is(200);
    let mut named: Vec<&str> =
        found["rfcUrls"].as_array().unwrap().iter().map(|url| url.as_str().unwrap()).collect();
    named.push(found["openApiUrl"].as_str().unwrap());
    let places = ["docs", "health", "ready", "config", "compatibility"];
    named.extend(places.iter().map(|name| found["endpoints"][name].as_str().unwrap()));
    for path in named {
        assert_eq!(anon.get(&format!("/{path}")).await.status, 200, "{path}");
    }
    // These use other protocols; it is enough that they exist.
    for name in ["mcp", "arcp"] {
        assert_ne!(
            anon.get(&format!("/{}", found["endpoints"][name].as_str().unwrap())).await.status,
            404,
            "{name}"
        );
    }
    world.end().await;
}

#[tokio::test]
async fn the_configuration_is_the_one_that_is_set() {
    let settings = vec![("ENTENTE_STRICT_RFC0021", "true"), ("ENTENTE_MAX_BODY_BYTES", "70000")];
    let world = World::with(Setup { settings, ..Setup::default() }).await;
    let anon = world.anon();
    let config = anon.get("/server/config").await.is(200);
    assert_eq!((&config["protocol_version"], &config["strict_rfc0021"]), (&json!("0.1"), &json!(true)));
    assert_eq!(config["suspension"], json!({ "default_retry_policy": null }));
    assert_eq!(
        (&config["limits"]["body_bytes"], &config["limits"]["page_items"]),
        (&json!(70_000), &json!(1_000))
    );
    let compat = anon.get("//.well-known/openintent-compat.json").await.is(200);
    assert_eq!(config["features"], compat["features"]);
    // An invalid key is ignored, and the other prefix gives the same response.
    assert_eq!(world.client("wrong").get("//v1/server/config").await.is(200), config);
    world.end().await;
}
