//! Operations by the scope that they need.

/// What each scope opens, as `method path`; `{i}`, `{c}` and `{m}` stand for an intent, a channel and a message.
pub const OPENED: &[(&str, &[&str])] = &[
    (
        "intents:read",
        &[
            "GET /intents",
            "GET /intents/{i}",
            "GET /intents/{i}/events",
            "GET /intents/{i}/events/verify",
            "GET /intents/{i}/export",
            "GET /intents/{i}/agents",
            "GET /intents/{i}/acl",
            "GET /intents/{i}/access-requests",
            "GET /intents/{i}/subscribe",
            "GET /federation/status",
            "GET /federation/dispatches/disp_01J9ZK4T6Q8R2V5X7Y9B1C3D5F",
        ],
    ),
    (
        "intents:write",
        &[
            r#"POST /intents {"title":"t"}"#,
            r#"POST /intents/{i}/state {"patches":[]}"#,
            r#"POST /intents/{i}/status {"status":"active"}"#,
            r#"POST /intents/{i}/events {"event_type":"note"}"#,
            r#"POST /intents/{i}/agents {"agent_id":"agent.x"}"#,
            "DELETE /intents/{i}/agents/agent.x",
            r#"PUT /intents/{i}/acl {"default_policy":"open"}"#,
            r#"POST /intents/{i}/acl/entries {"principal_id":"agent.x"}"#,
            "DELETE /intents/{i}/acl/entries/acl_01J9ZK4T6Q8R2V5X7Y9B1C3D5F",
            r#"POST /federation/dispatch {"intent_id":"intent_01J9ZK4T6Q8R2V5X7Y9B1C3D5F","target_server":"x"}"#,
        ],
    ),
    (
        "channels:read",
        &[
            "GET /intents/{i}/channels",
            "GET /channels/{c}",
            "GET /channels/{c}/messages",
            "GET /channels/{c}/messages?wait=1",
            "GET /channels/{c}/messages/{m}",
            "GET /channels/{c}/subscribe",
            "GET /subscribe/channels/{c}",
            "GET /agents/agent.ada/subscribe",
            r#"PATCH /channels/{c}/messages/{m} {"status":"read"}"#,
            r#"POST /channels/{c}/ask {"payload":{},"timeout":1}"#,
        ],
    ),
    (
        "channels:write",
        &[
            r#"POST /intents/{i}/channels {"name":"n"}"#,
            r#"PATCH /channels/{c} {"members":[]}"#,
            "DELETE /channels/{c}",
            r#"POST /channels/{c}/messages {"sender":"agent.ada","payload":{}}"#,
            r#"POST /channels/{c}/messages/batch {"messages":[{"sender":"agent.ada"}]}"#,
            r#"POST /channels/{c}/messages/{m}/reply {"sender":"agent.ada","payload":{}}"#,
            r#"POST /channels/{c}/ask {"payload":{},"timeout":1}"#,
            r#"POST /intents/{i}/channels/n/messages {"sender":"agent.ada","payload":{}}"#,
        ],
    ),
    (
        "agents:read",
        &["GET /agents", "GET /agents/agent.ada", "GET /agents/agent.ada/record", "GET /federation/agents"],
    ),
    (
        "agents:write",
        &[
            r#"POST /agents {"agent_id":"agent.ada"}"#,
            r#"POST /agents/register {"agent_id":"agent.ada"}"#,
            "POST /agents/agent.ada/heartbeat {}",
            r#"PATCH /agents/agent.ada/status {"status":"active"}"#,
            "POST /agents/agent.ada/drain {}",
            "DELETE /agents/agent.ada",
        ],
    ),
    (
        "moments:read",
        &[
            "GET /moments",
            "GET /moments/inbox",
            "GET /moments/stream",
            "GET /moments/rates",
            "GET /moments/bm_01J9ZK4T6Q8R2V5X7Y9B1C3D5F",
        ],
    ),
    (
        "moments:write",
        &[
            r#"POST /moments {"principal_id":"human.ada","binding_moment":{}}"#,
            r#"POST /moments/deliberations {"principal_id":"human.ada","text":"t"}"#,
            r#"POST /moments/bm_01J9ZK4T6Q8R2V5X7Y9B1C3D5F/words {"text":"t"}"#,
            "POST /moments/bm_01J9ZK4T6Q8R2V5X7Y9B1C3D5F/withdraw {}",
            "POST /moments/bm_01J9ZK4T6Q8R2V5X7Y9B1C3D5F/close {}",
            "POST /moments/bm_01J9ZK4T6Q8R2V5X7Y9B1C3D5F/ack {}",
            r#"POST /moments/bm_01J9ZK4T6Q8R2V5X7Y9B1C3D5F/resolution {"digest":"d","resolution":{"kind":"option","option_idx":0}}"#,
        ],
    ),
    (
        "admin",
        &[
            "GET /principals",
            "GET /principals/agent.bob",
            r#"POST /principals {"id":"agent.x","kind":"agent"}"#,
            "GET /principals/agent.bob/keys",
            "POST /principals/agent.bob/keys {}",
            "POST /principals/agent.ada/keys {}",
            "GET /audit",
            "GET /audit/verify",
        ],
    ),
];
