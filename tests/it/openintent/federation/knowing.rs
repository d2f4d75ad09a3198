//! Discovery between servers: a server's own description, the agents that it exports, and the operator's list of
//! peers.

use entente_domain::openintent::federation::signing::show_key;

use super::{Two, did, peer, signer, url};
use entente_harness::{Client, Value, World, json};

#[tokio::test(flavor = "multi_thread")]
async fn agents_are_seen_when_the_operator_exports_them() {
    let two = Two::start().await;
    for (name, word) in
        [("agent.public.dora", "unlisted"), ("agent.public.eve", "private"), ("agent.fred", "public")]
    {
        let client = two.b.agent(name).await;
        let ask = json!({ "agent_id": name, "metadata": { "federation_visibility": word } });
        client.post("/agents/register", ask).await.ok();
    }
    let names = |list: Value| -> Vec<String> {
        let agents = list["agents"].as_array().unwrap().clone();
        agents.iter().map(|agent| agent["agent_id"].as_str().unwrap().to_owned()).collect()
    };
    let own = two.bob.get("/federation/agents").await.ok();
    assert_eq!(own["agents"][0]["capabilities"], json!(["translate"]));
    assert_eq!((&own["agents"][0]["server_did"], &own["next"]), (&json!(did(two.ports.1)), &Value::Null));
    assert_eq!(names(own), ["agent.public.bob"]);
    let asks = two.bob.with("x-source-server", &url(two.ports.0));
    assert_eq!(names(asks.get("/federation/agents").await.ok()), ["agent.public.bob", "agent.public.dora"]);
    two.bob
        .with("x-source-server", "https://x.example")
        .get("/federation/agents")
        .await
        .refused(403, "forbidden");
    // With the peer's own key, which shows no other peer's view.
    let theirs = two.b.agent(&did(two.ports.0)).await;
    assert_eq!(names(theirs.get("/federation/agents").await.ok()), ["agent.public.bob", "agent.public.dora"]);
    assert_eq!(
        names(theirs.get("/federation/agents?after=agent.public.bob").await.ok()),
        ["agent.public.dora"]
    );
    // An agent that has left is not listed.
    two.bob.delete("/agents/agent.public.bob").await.ok();
    assert_eq!(names(theirs.get("/federation/agents").await.ok()), ["agent.public.dora"]);
    two.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_says_who_it_is_and_to_its_own_whom_it_knows() {
    let two = Two::start().await;
    let manifest = two.a.anon().get("//.well-known/openintent-federation.json").await;
    assert_eq!(manifest.header("cache-control"), "public, max-age=300");
    let manifest = manifest.ok();
    assert_eq!(manifest["server_did"], did(two.ports.0));
    assert_eq!((&manifest["peers"], &manifest["trust_policy"]), (&json!([]), &json!("allowlist")));
    assert_eq!(manifest["public_key"], show_key(&signer(1).public_key()));
    let found = two.a.anon().get("//.well-known/openintent.json").await.ok();
    assert_eq!(found["endpoints"]["federation"], "/.well-known/openintent-federation.json");
    let features = two.a.anon().get("/server/config").await.ok()["features"].clone();
    assert_eq!((&features["federation"], &features["federationReceive"]), (&json!(true), &json!(true)));
    let document = two.a.anon().get("//.well-known/did.json").await.ok();
    let method = &document["verificationMethod"][0];
    assert_eq!(
        (&document["id"], &method["publicKeyBase64"]),
        (&manifest["server_did"], &manifest["public_key"])
    );
    let key = signer(1).public_key().did();
    assert_eq!(format!("did:key:{}", method["publicKeyMultibase"].as_str().unwrap()), key);
    // Everyone sees the peers, but only its own dispatches are counted.
    let intent = two.intent().await;
    two.dispatch(&intent, json!({ "agent_id": "agent.public.bob" })).await;
    let eve = two.a.agent("agent.eve").await;
    let count = async |client: &Client| {
        let status = client.get("/federation/status").await.ok();
        assert_eq!((&status["enabled"], &status["peer_count"]), (&json!(true), &json!(1)));
        [&status["active_dispatches"], &status["total_dispatches"], &status["total_received"]]
            .map(|n| n.as_i64().unwrap())
    };
    assert_eq!(count(&two.ada).await, [1, 1, 0]);
    assert_eq!(count(&eve).await, [0, 0, 0]);
    assert_eq!(count(&two.a.admin().await).await, [1, 1, 0]);
    two.carry().await;
    assert_eq!(count(&two.bob).await, [0, 0, 1]);
    assert_eq!(count(&two.b.agent(&did(two.ports.0)).await).await, [0, 0, 1]);
    let peers = two.ada.get("/federation/status").await.ok()["peers"].clone();
    assert_eq!(
        (&peers[0]["server_url"], &peers[0]["server_did"]),
        (&json!(url(two.ports.1)), &json!(did(two.ports.1)))
    );
    two.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_an_operators_word_there_is_no_federation() {
    let world = World::start().await;
    for path in ["//.well-known/openintent-federation.json", "//.well-known/did.json"] {
        world.anon().get(path).await.refused(404, "not_found");
    }
    let ada = world.agent("agent.ada").await;
    let status = ada.get("/federation/status").await.ok();
    assert_eq!((&status["enabled"], &status["peers"]), (&json!(false), &json!([])));
    assert_eq!(ada.get("/federation/agents").await.ok(), json!({ "agents": [], "next": null }));
    let intent = ada.post("/intents", json!({ "title": "t" })).await.ok();
    let ask = json!({ "intent_id": intent["id"], "target_server": "https://b.example" });
    ada.post("/federation/dispatch", ask).await.refused(404, "not_found");
    let delivery = json!({ "dispatch_id": "d", "source_server": "https://a.example", "intent_id": "i", "intent_title": "t" });
    ada.post("/federation/receive", delivery).await.refused(404, "not_found");
    world.end().await;
}

#[test]
fn a_list_of_peers_that_cannot_be_meant_stops_the_start() {
    use entente::config::federation::read;
    let good = peer(8080, 1);
    let with = |name: &str, value: Value| {
        let mut peer = good.clone();
        peer[name] = value;
        peer
    };
    let own = "https://b.example";
    let read =
        |peers: Value, export: Value| read(&json!({ "peers": peers, "export": export }).to_string(), own);
    let federation = read(json!([good]), json!(["agent.*"])).unwrap();
    assert_eq!(federation.peers[0].did, did(8080));
    let bad = [
        (json!([good, good]), "one URL"),
        (json!([with("url", json!("https://b.example/"))]), "own URL"),
        (json!([with("url", json!("https://a.example/path"))]), "without a path"),
        (json!([with("url", json!("a.example"))]), "without a path"),
        (json!([with("public_keys", json!([]))]), "public_keys"),
        (json!([with("public_keys", json!(["AAAA"]))]), "public key"),
        (json!([with("did", json!("some-server"))]), "no DID"),
        (json!([with("trust_on_first_use", json!(true))]), "unknown field"),
        (json!([with("share", json!(["everything"]))]), "unknown variant"),
    ];
    for (peers, why) in bad {
        let said = read(peers, json!([])).unwrap_err();
        assert!(said.contains(why), "{said}");
    }
    assert!(read(json!([]), json!([""])).unwrap_err().contains("pattern"));
    let alone = entente::config::Config::read(&|name| {
        (name == "ENTENTE_FEDERATION_FILE").then(|| "/nowhere".to_owned())
    });
    assert!(alone.unwrap_err().to_string().contains("needs ENTENTE_PUBLIC_URL"));
}
