//! Trust (AEE §11.2, §11.5): where signatures are required, and who may submit the signed envelopes of others
//! (`ENTENTE_AEE_RELAYS`).

use super::{mail, task_envelope, two, with};
use entente_harness::envelopes::signed;
use entente_harness::identities::key;
use entente_harness::{Client, Setup, Value, World, json};

async fn world(settings: Vec<(&'static str, &'static str)>) -> (World, Client, Client) {
    let world = World::with(Setup { settings, live: false }).await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    (world, ada, bob)
}

/// Registers the entity's key that is derived from this number.
async fn register(client: &Client, entity: &str, n: u8) {
    let ask =
        json!({ "entity": entity, "kid": "one", "algorithm": "ed25519", "public_key": key(n).public_key() });
    client.post("/aee/keys", ask).await.is(201);
}

#[tokio::test]
async fn a_relay_hands_in_what_its_own_entities_have_signed_and_nothing_else() {
    let relays = "agent.gateway=partner.**, agent.wide = **";
    let (world, ada, bob) = world(vec![("ENTENTE_AEE_RELAYS", relays)]).await;
    let (gateway, wide) = (world.agent("agent.gateway").await, world.agent("agent.wide").await);
    let any = world.any();
    for (entity, n) in
        [("partner.acme", 1), ("partner.acme.shop", 2), ("other.acme", 3), ("service.entente", 4)]
    {
        register(&any, entity, n).await;
    }
    let said = |id: &str, from: &str| task_envelope(&world, id, (from, "agent.bob"));
    let taken = gateway.post("/aee/envelopes", signed(said("envelope-1", "partner.acme"), 1)).await.is(202);
    assert_eq!(taken["verified"], json!({ "by": "sig", "kid": "one" }));
    gateway.post("/aee/envelopes", signed(said("envelope-2", "partner.acme.shop"), 2)).await.is(202);
    wide.post("/aee/envelopes", signed(said("envelope-3", "other.acme"), 3)).await.is(202);
    let before = mail(&bob, "agent.bob").await.len();
    let tampered = with(signed(said("envelope-4", "partner.acme"), 1), json!({ "priority": "urgent" }));
    let theirs = signed(said("envelope-5", "other.acme"), 3);
    for (client, envelope, status, code) in [
        // A relay vouches for nobody: without a signature it has no special rights.
        (&gateway, said("envelope-6", "partner.acme"), 403, "from_mismatch"),
        (&gateway, with(said("envelope-7", "partner.acme"), json!({ "sig": null })), 403, "from_mismatch"),
        (&gateway, tampered, 403, "bad_signature"),
        // Signed with the key of another of its entities, and from an entity that is not its own.
        (&gateway, signed(said("envelope-8", "partner.acme"), 2), 403, "bad_signature"),
        (&gateway, theirs.clone(), 403, "from_mismatch"),
        // Signed envelopes from agents that are no relays; and nobody may send as the server.
        (&ada, signed(said("envelope-9", "partner.acme"), 1), 403, "from_mismatch"),
        (&bob, theirs, 403, "from_mismatch"),
        (&wide, signed(said("envelope-10", "service.entente"), 4), 403, "from_mismatch"),
    ] {
        client.post("/aee/envelopes", envelope).await.refused(status, code);
    }
    assert_eq!(mail(&bob, "agent.bob").await.len(), before, "nothing of it was kept");
    // A relay may neither read nor send on its own behalf as these entities.
    gateway.get("/aee/mailboxes/partner.acme").await.refused(404, "not_found");
    gateway.get("/aee/envelopes/envelope-1").await.refused(404, "not_found");
    gateway.get("/aee/keys?entity=partner.acme").await.refused(404, "not_found");
    any.delete("/aee/keys/one?entity=partner.acme").await.ok();
    let late = signed(said("envelope-11", "partner.acme"), 1);
    gateway.post("/aee/envelopes", late).await.refused(403, "bad_signature");
    world.end().await;
}

#[tokio::test]
async fn without_a_word_nobody_hands_in_what_others_have_signed() {
    let (world, ada, _bob) = two().await;
    register(&world.any(), "partner.acme", 1).await;
    let theirs = signed(task_envelope(&world, "envelope-1", ("partner.acme", "agent.bob")), 1);
    ada.post("/aee/envelopes", theirs.clone()).await.refused(403, "from_mismatch");
    // A principal that may act as the entity needs no relay.
    world.any().post("/aee/envelopes", theirs).await.is(202);
    world.end().await;
}

#[tokio::test]
async fn signatures_are_required_where_the_operator_says_so() {
    for (setting, plain, at_boundary) in [("never", 202, 202), ("boundary", 202, 403), ("always", 403, 403)] {
        let (world, ada, bob) = world(vec![("ENTENTE_AEE_REQUIRE_SIGNATURE", setting)]).await;
        let admin = world.admin().await;
        admin.put("/aee/rules/ends", json!({ "to": "agent.eve" })).await.ok();
        world.agent("agent.eve").await;
        register(&ada, "agent.ada", 1).await;
        for (to, status) in [("agent.bob", plain), ("agent.eve", at_boundary)] {
            let unsigned = task_envelope(&world, &format!("plain-to-{to}"), ("agent.ada", to));
            let reply = ada.post("/aee/envelopes", unsigned).await;
            assert_eq!(reply.status, status, "{setting}, to {to}: {}", reply.text);
            if status == 403 {
                reply.refused(403, "signature_required");
            }
            let signed = signed(task_envelope(&world, &format!("signed-to-{to}"), ("agent.ada", to)), 1);
            ada.post("/aee/envelopes", signed).await.is(202);
        }
        // A signature is always verified if present, and an envelope with an invalid one is not stored.
        let wrong = signed(task_envelope(&world, "envelope-w", ("agent.ada", "agent.bob")), 2);
        ada.post("/aee/envelopes", wrong).await.refused(403, "bad_signature");
        ada.get("/aee/envelopes/envelope-w").await.refused(404, "not_found");
        assert_eq!(mail(&bob, "agent.bob").await.len(), if plain == 202 { 2 } else { 1 });
        world.end().await;
    }
}

#[tokio::test]
async fn a_flood_of_urgent_does_not_hold_up_what_others_send() {
    let (world, ada, bob) = world(vec![("ENTENTE_AEE_URGENT_PER_MINUTE", "2")]).await;
    let eve = world.agent("agent.eve").await;
    let urgent = json!({ "priority": "urgent" });
    let flood: Vec<Value> = (0..6)
        .map(|n| {
            with(task_envelope(&world, &format!("envelope-{n}"), ("agent.ada", "agent.bob")), urgent.clone())
        })
        .collect();
    let reply = ada.post("/aee/envelopes/batch", json!(flood)).await.is(202);
    let effective: Vec<&Value> = reply["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["accepted"]["effective_priority"])
        .collect();
    assert_eq!(effective, ["urgent", "urgent", "high", "high", "high", "high"]);
    assert!(reply["results"][2]["accepted"]["warnings"].to_string().contains("priority_lowered"));
    // The first urgent envelope of another sender stays urgent, and the stored envelope keeps its original
    // priority.
    let other = with(task_envelope(&world, "envelope-e", ("agent.eve", "agent.bob")), urgent);
    assert_eq!(eve.post("/aee/envelopes", other).await.is(202)["effective_priority"], "urgent");
    let lies = mail(&bob, "agent.bob").await;
    assert!(lies.iter().all(|(_, one)| one["priority"] == "urgent"), "{lies:?}");
    let picked = bob.post("/aee/mailboxes/agent.bob/pick", json!({ "max": 3 })).await.ok();
    let ids: Vec<&Value> = picked.as_array().unwrap().iter().map(|item| &item["envelope"]["id"]).collect();
    assert_eq!(ids, ["envelope-0", "envelope-1", "envelope-e"], "{picked}");
    world.end().await;
}

/// AEE-W-9.6: the draft's own form of a signature, which nobody can verify.
fn opaque(letter: Value) -> Value {
    with(letter, json!({ "sig": { "alg": "ed25519", "kid": "one", "value": "c2ln", "more": [1.0] } }))
}

#[tokio::test]
async fn a_signature_that_nobody_can_verify_passes_where_the_operator_allows_it_and_counts_for_nothing() {
    for setting in [vec![], vec![("ENTENTE_AEE_OPAQUE_SIGNATURES", "refuse")]] {
        let (world, ada, bob) = world(setting).await;
        let task = opaque(task_envelope(&world, "envelope-1", ("agent.ada", "agent.bob")));
        ada.post("/aee/envelopes", task).await.refused(422, "sig_unverifiable");
        assert_eq!(mail(&bob, "agent.bob").await, []);
        world.end().await;
    }
    let settings =
        vec![("ENTENTE_AEE_OPAQUE_SIGNATURES", "pass"), ("ENTENTE_AEE_RELAYS", "agent.gateway=partner.**")];
    let (world, ada, bob) = world(settings).await;
    let (admin, gateway) = (world.admin().await, world.agent("agent.gateway").await);
    register(&ada, "agent.ada", 1).await;
    register(&world.any(), "partner.acme", 2).await;
    let said = |id: &str, from: &str, to: &str| task_envelope(&world, id, (from, to));
    let text = opaque(said("envelope-1", "agent.ada", "agent.bob")).to_string().replace(':', " : ");
    let text = text.replace("08 : 00 : 00", "08:00:00");
    let receipt = ada.send("POST", "/aee/envelopes", Some(text.clone())).await.is(202);
    let unverified = json!({ "by": "token", "sig": "unverified" });
    assert_eq!(receipt["verified"], unverified);
    assert!(receipt["warnings"].as_array().unwrap().contains(&json!("sig_unverified")), "{receipt}");
    let page = bob.get("/aee/mailboxes/agent.bob").await;
    assert!(page.text.contains(&text), "not to the byte: {}", page.text);
    assert_eq!(page.ok()["items"][0]["verified"], unverified);
    assert_eq!(bob.get("/aee/envelopes/envelope-1").await.ok()["verified"], unverified);
    // The same envelope again has the same receipt.
    let again = ada.send("POST", "/aee/envelopes", Some(text)).await.refused(409, "duplicate_id");
    assert_eq!(again["receipt"]["verified"], unverified);
    // It proves no sender to a relay, satisfies no rule, and is no way around the profile.
    let strict = json!({ "to": "agent.eve", "require_signature": true });
    admin.put("/aee/rules/signed", strict).await.ok();
    world.agent("agent.eve").await;
    let damaged = |id: &str| {
        let mut letter = signed(said(id, "agent.ada", "agent.bob"), 1);
        letter["payload"] = json!({ "n": 2 });
        letter
    };
    let texts = with(said("envelope-5", "agent.ada", "agent.bob"), json!({ "sig": "c2ln" }));
    for (client, letter, status, code) in [
        (&gateway, opaque(said("envelope-2", "partner.acme", "agent.bob")), 403, "from_mismatch"),
        (&ada, opaque(said("envelope-3", "agent.ada", "agent.eve")), 403, "signature_required"),
        (&ada, damaged("envelope-4"), 403, "bad_signature"),
        (&ada, texts, 422, "sig_unverifiable"),
    ] {
        client.post("/aee/envelopes", letter).await.refused(status, code);
    }
    // A person who is asked for their consent learns of it, and their consent signs nothing.
    let asked = json!({ "requires": { "human_approval": true } });
    let held = opaque(with(said("envelope-6", "agent.ada", "agent.bob"), asked));
    assert_eq!(ada.post("/aee/envelopes", held).await.is(202)["status"], "held");
    let waiting = world.human("human.eve").await.get("/aee/approvals").await.ok();
    assert_eq!(waiting[0]["verified"], unverified);
    world.end().await;
}

#[tokio::test]
async fn where_all_must_be_signed_an_unverifiable_signature_is_refused() {
    let settings =
        vec![("ENTENTE_AEE_OPAQUE_SIGNATURES", "pass"), ("ENTENTE_AEE_REQUIRE_SIGNATURE", "always")];
    let (world, ada, bob) = world(settings).await;
    let task = opaque(task_envelope(&world, "envelope-1", ("agent.ada", "agent.bob")));
    ada.post("/aee/envelopes", task).await.refused(422, "sig_unverifiable");
    assert_eq!(mail(&bob, "agent.bob").await, []);
    world.end().await;
}

/// AEE-W-6.2: the signature covers the double; a text that means another number is refused.
#[tokio::test]
async fn a_number_is_signed_as_the_double_that_it_is() {
    let (world, ada, bob) = two().await;
    register(&ada, "agent.ada", 1).await;
    let number = |id: &str, text: &str| {
        let task = with(
            task_envelope(&world, id, ("agent.ada", "agent.bob")),
            json!({ "payload": { "n": 1e20, "m": 9_007_199_254_740_992_u64 } }),
        );
        // The signature is over 1e20; the text says it in other words.
        let mut letter = signed(task, 1);
        letter["payload"]["n"] = json!("@");
        letter.to_string().replace("\"@\"", text)
    };
    for (index, text) in
        ["1e20", "1E+20", "100000000000000000000", "100000000000000000000.0"].iter().enumerate()
    {
        let sent = number(&format!("envelope-{index}"), text);
        let receipt = ada.send("POST", "/aee/envelopes", Some(sent.clone())).await.is(202);
        assert_eq!(receipt["verified"]["by"], "sig", "{text}");
        assert!(bob.get(&format!("/aee/envelopes/envelope-{index}")).await.text.contains(&sent), "{text}");
    }
    for text in ["100000000000000000001", "99999999999999999999", "100000000000000000000.5"] {
        let sent = number("envelope-w", text);
        let refused = ada.send("POST", "/aee/envelopes", Some(sent)).await.refused(422, "sig_unverifiable");
        assert!(refused["message"].as_str().unwrap().contains(text), "{refused}");
    }
    let odd = number("envelope-w", "1").replace("9007199254740992", "9007199254740993");
    ada.send("POST", "/aee/envelopes", Some(odd)).await.refused(422, "sig_unverifiable");
    // Without a signature the text is passed on as it is.
    let plain = task_envelope(&world, "envelope-p", ("agent.ada", "agent.bob")).to_string();
    let plain = plain.replace("{\"n\":1}", "{\"n\":100000000000000000001}");
    ada.send("POST", "/aee/envelopes", Some(plain.clone())).await.is(202);
    assert!(bob.get("/aee/envelopes/envelope-p").await.text.contains(&plain));
    world.end().await;
}
