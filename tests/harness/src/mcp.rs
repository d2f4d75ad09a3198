//! An MCP client of both protocol generations.

use crate::{Client, Reply, Value, World, json, talk};

/// A client's protocol generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Era {
    /// 2025-11-25 and earlier: a handshake, then calls.
    Handshake,
    /// 2026-07-28: each request is self-contained.
    Stateless,
}

pub const ERAS: [Era; 2] = [Era::Handshake, Era::Stateless];

/// An MCP client.
#[derive(Clone)]
pub struct Mcp {
    pub http: Client,
    pub era: Era,
}

impl Mcp {
    pub fn new(http: &Client, era: Era) -> Self {
        let http = http.with("accept", "application/json, text/event-stream");
        Self { http, era }
    }

    /// Sends a request as a client of this generation does.
    pub async fn request(&self, method: &str, mut params: Value) -> Reply {
        let mut http = self.http.clone();
        match self.era {
            Era::Handshake => http = http.with("mcp-protocol-version", "2025-11-25"),
            Era::Stateless => {
                http = http.with("mcp-protocol-version", "2026-07-28").with("mcp-method", method);
                let name = ["name", "uri", "taskId"].into_iter().find_map(|member| params[member].as_str());
                if let Some(name) = name {
                    http = http.with("mcp-name", name);
                }
                if params["_meta"].is_null() {
                    params["_meta"] = meta("2026-07-28");
                }
            }
        }
        let body = json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params });
        http.send("POST", "//mcp", Some(body.to_string())).await
    }

    /// Calls a tool and returns its result.
    pub async fn call(&self, tool: &str, arguments: Value) -> Value {
        let reply = self.request("tools/call", json!({ "name": tool, "arguments": arguments })).await;
        let answer = reply.is(200);
        assert_eq!(answer["id"], 7, "{answer}");
        assert_eq!(reply.header("content-type"), "application/json");
        answer["result"].clone()
    }

    /// Asserts that a result is a success and returns its structured content.
    #[track_caller]
    pub fn good(result: &Value) -> Value {
        assert_eq!(result["isError"], false, "{result}");
        let text = result["content"][0]["text"].as_str().unwrap();
        assert!(text.contains(&result["structuredContent"].to_string()) || text.contains("bm_"), "{text}");
        result["structuredContent"].clone()
    }

    /// Calls a tool that must succeed and returns its structured content.
    pub async fn ok(&self, tool: &str, arguments: Value) -> Value {
        Self::good(&self.call(tool, arguments).await)
    }

    /// Calls a tool that must be refused with this code; returns the text for the model.
    pub async fn refused(&self, tool: &str, arguments: Value, code: &str) -> String {
        let result = self.call(tool, arguments).await;
        assert_eq!(result["isError"], true, "{result}");
        assert_eq!(result["_meta"]["entente/problem"]["code"], code, "{result}");
        assert_eq!(result.get("structuredContent"), None, "{result}");
        let text = result["content"][0]["text"].as_str().unwrap().to_owned();
        assert!(text.starts_with(&format!("{code}: ")), "{text}");
        text
    }
}

/// Returns the `_meta` object that each request of the stateless generation carries about its client.
pub fn meta(version: &str) -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": { "name": "raw", "version": "1" },
    })
}

/// Creates unused cursors.
pub async fn lapsed(world: &World, many: u64) {
    let ada = world.agent("agent.ada").await;
    let mcp = Mcp::new(&ada, Era::Stateless);
    let channel = talk(&ada, json!({})).await.1;
    for n in 0..many {
        mcp.ok("read_messages", json!({ "channel": channel, "cursor": format!("c{n}") })).await;
    }
    world.clock.advance(30 * 24 * 3600 + 1);
}
