//! Attachments (RFC-0005): files by reference, under every set of names in use.

use entente_harness::{World, json, talk};

#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_added_listed_and_taken_off() {
    let world = World::start().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let intent = talk(&ada, json!({})).await.0;
    let path = format!("/intents/{intent}/attachments");
    let ask = json!({
        "filename": "report.pdf", "mime_type": "application/pdf", "size": 48_211,
        "storage_url": "https://files.example/report.pdf?signature=s3cr3t", "content_hash": "sha256:00ff",
        "metadata": { "pages": 12 },
    });
    let made = ada.post(&path, ask).await.is(200);
    let expected = json!({
        "id": made["id"], "intent_id": intent, "filename": "report.pdf", "mime_type": "application/pdf",
        "content_type": "application/pdf", "size": 48_211, "size_bytes": 48_211,
        "storage_url": "https://files.example/report.pdf?signature=s3cr3t",
        "url": "https://files.example/report.pdf?signature=s3cr3t", "content_hash": "sha256:00ff",
        "metadata": { "pages": 12 }, "uploaded_by": "agent.ada", "created_by": "agent.ada",
        "created_at": "2026-11-21T08:00:00.000000Z", "createdAt": "2026-11-21T08:00:00.000000Z",
    });
    assert_eq!(made, expected);
    // With the names of the SDK's asynchronous client.
    let other = json!({ "filename": "a.png", "content_type": "image/png", "url": "s3://bucket/a.png", "size_bytes": 7 });
    let second = bob.post(&path, other).await.is(200);
    assert_eq!((&second["mime_type"], &second["size"]), (&json!("image/png"), &json!(7)));
    assert_eq!(ada.get(&path).await.is(200), json!([made, second]));
    let log = ada.get(&format!("/intents/{intent}/events?event_type=attachment_added")).await.ok();
    assert_eq!(log[1]["payload"]["attachment_id"], made["id"]);
    assert_eq!(log[1]["payload"]["content_hash"], "sha256:00ff");
    assert!(!log.to_string().contains("s3cr3t"), "where a file is may open it: {log}");
    let one = format!("{path}/{}", made["id"].as_str().unwrap());
    assert_eq!(ada.delete(&one).await.status, 204);
    ada.delete(&one).await.refused(404, "not_found");
    assert_eq!(ada.get(&path).await.ok(), json!([second]));
    let log = ada.get(&format!("/intents/{intent}/events?limit=1")).await.ok();
    assert_eq!(
        (&log[0]["event_type"], &log[0]["payload"]["removed"]),
        (&json!("attachment_added"), &json!(true))
    );
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_file_elsewhere_is_refused() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let intent = talk(&ada, json!({})).await.0;
    let path = format!("/intents/{intent}/attachments");
    let with = |member: &str, value: entente_harness::Value| {
        let mut ask = json!({ "filename": "a", "storage_url": "https://files.example/a" });
        ask[member] = value;
        ask
    };
    for (member, value) in [
        ("storage_url", json!("file:///etc/passwd")),
        ("storage_url", json!("javascript:alert(1)")),
        ("storage_url", json!("data:text/plain,x")),
        ("storage_url", json!("https://")),
        ("storage_url", json!("https://ada:secret@files.example/a")),
        ("storage_url", json!("https://files.example/a b")),
        ("storage_url", json!(format!("https://files.example/{}", "a".repeat(2_048)))),
        ("filename", json!("../../.ssh/authorized_keys")),
        ("filename", json!("a\\b")),
        ("filename", json!("..")),
        ("filename", json!("")),
        ("filename", json!("a\nb")),
        ("filename", json!("a".repeat(256))),
        ("mime_type", json!("pdf")),
        ("mime_type", json!("text/html<script>")),
        ("size", json!(-1)),
        ("size", json!(1_u64 << 53)),
        ("content_hash", json!("a".repeat(201))),
        ("metadata", json!([1])),
    ] {
        ada.post(&path, with(member, value.clone())).await.refused(422, "invalid_request");
    }
    ada.post(&path, with("filename", json!("a\u{0}b"))).await.refused(422, "nul_character");
    ada.post(&path, with("metadata", json!({ "a": "x".repeat(17_000) }))).await.refused(413, "too_large");
    assert_eq!(ada.get(&path).await.ok(), json!([]));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_added_a_file_takes_it_off_and_who_is_admin() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let intent = talk(&ada, json!({})).await.0;
    for (who, level) in [("agent.r", "read"), ("agent.w", "write"), ("agent.x", "write")] {
        let entry = json!({ "principal_id": who, "permission": level });
        ada.post(&format!("/intents/{intent}/acl/entries"), entry).await.ok();
    }
    let (reader, writer, other) =
        (world.agent("agent.r").await, world.agent("agent.w").await, world.agent("agent.x").await);
    let path = format!("/intents/{intent}/attachments");
    let ask = json!({ "filename": "a", "storage_url": "gs://bucket/a" });
    reader.post(&path, ask.clone()).await.refused(403, "forbidden");
    let made = writer.post(&path, ask.clone()).await.is(200);
    let one = format!("{path}/{}", made["id"].as_str().unwrap());
    reader.delete(&one).await.refused(403, "forbidden");
    other.delete(&one).await.refused(403, "forbidden");
    // Nor through another intent.
    let elsewhere = talk(&other, json!({})).await.0;
    let detour = format!("/intents/{elsewhere}/attachments/{}", made["id"].as_str().unwrap());
    other.delete(&detour).await.refused(404, "not_found");
    assert_eq!(ada.delete(&one).await.status, 204);
    let made = writer.post(&path, ask).await.is(200);
    assert_eq!(writer.delete(&format!("{path}/{}", made["id"].as_str().unwrap())).await.status, 204);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_is_done_once_and_the_list_has_an_end() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let intent = talk(&ada, json!({})).await.0;
    let path = format!("/intents/{intent}/attachments");
    let ask = json!({ "filename": "a", "storage_url": "az://container/a" });
    let made = ada.once("k").post(&path, ask.clone()).await.is(200);
    assert_eq!(ada.once("k").post(&path, ask.clone()).await.is(200), made);
    assert_eq!(ada.get(&path).await.ok(), json!([made]));
    let sql = "INSERT INTO attachments (id, intent_id, seq, filename, mime_type, size, storage_url, metadata, uploaded_by,
                   created_at)
               SELECT gen_random_uuid(), intent_id, 1000 + n, filename, mime_type, size, storage_url, metadata, uploaded_by,
                   created_at FROM attachments, generate_series(1, 999) AS n";
    sqlx::query(sql).execute(&world.ctx().pool).await.unwrap();
    ada.post(&path, ask.clone()).await.refused(413, "too_large");
    assert_eq!(ada.get(&path).await.ok().as_array().unwrap().len(), 1_000);
    // A retry of a completed request succeeds even when the list is full.
    assert_eq!(ada.once("k").post(&path, ask).await.is(200), made);
    world.end().await;
}
