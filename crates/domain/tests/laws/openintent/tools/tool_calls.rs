//! Tool calls: an agent's parameters cannot lead to another host, leave the path, or get into a header.

use entente_domain::openintent::tools::auth_types::AuthType;
use entente_domain::openintent::tools::tool_calls::{Connection, Invoked};
use entente_domain::openintent::tools::tool_secrets::ToolSecret;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::any::at;

#[expect(clippy::needless_pass_by_value, reason = "it is read better where it is called")]
fn connection(value: Value) -> Connection {
    Connection::read(value.as_object().unwrap()).unwrap().unwrap()
}

fn secret() -> ToolSecret {
    ToolSecret::given(AuthType::ApiKey, "the-key".to_owned()).unwrap()
}

#[test]
fn connections_that_cannot_be_are_refused() {
    assert!(Connection::read(&Map::new()).unwrap().is_none());
    for wrong in [
        json!({ "base_url": "file:///etc/passwd" }),
        json!({ "base_url": "https://u:p@x.example" }),
        json!({ "base_url": "https://x.example/#f" }),
        json!({ "base_url": 7 }),
        json!({ "base_url": "https://x.example", "endpoints": { "t": { "path": "no/slash" } } }),
        json!({ "base_url": "https://x.example", "endpoints": { "t": { "path": "//evil.example" } } }),
        json!({ "base_url": "https://x.example", "endpoints": { "t": { "path": "/a/%2E%2e/b" } } }),
        json!({ "base_url": "https://x.example", "endpoints": { "t": { "method": "TRACE" } } }),
        json!({ "base_url": "https://x.example", "endpoints": { "t": { "headers": { "Host": "evil" } } } }),
        json!({ "base_url": "https://x.example", "endpoints": { "t": { "headers": { "Authorization": "x" } } } }),
        json!({ "base_url": "https://x.example", "endpoints": { "t": { "headers": { "A": "x\r\nB: y" } } } }),
        json!({ "base_url": "https://x.example", "auth": { "header_name": "Host" } }),
        json!({ "base_url": "https://x.example", "auth": { "location": "body" } }),
    ] {
        assert!(Connection::read(wrong.as_object().unwrap()).is_err(), "{wrong}");
    }
}

#[test]
fn hosts_are_those_that_are_listed_and_what_is_below_them() {
    let at = at(0);
    let (parameters, tool) = (Map::new(), "t");
    for (host, listed, fine) in [
        ("api.example.com", "example.com", true),
        ("API.example.com", ".Example.com.", true),
        ("example.com", "example.com", true),
        ("badexample.com", "example.com", false),
        ("example.com.evil.net", "example.com", false),
    ] {
        let made = connection(json!({ "base_url": format!("https://{host}") }));
        let hosts = [vec![listed.to_owned()]];
        let invoked = Invoked { tool, parameters: &parameters, hosts: &hosts, now: at };
        assert_eq!(made.call(AuthType::ApiKey, &secret(), None, invoked).is_ok(), fine, "{host} {listed}");
    }
}

proptest! {
    #[test]
    fn nothing_that_is_said_leaves_its_place(value in "\\PC{0,30}", name in "\\PC{1,20}", tool in "[a-z./%#?@:\\\\]{1,20}") {
        let said = json!({ "id": value, name: value });
        let parameters = said.as_object().unwrap().clone();
        let at = at(0);
        let endpoint = |path: &str, method: &str| {
            connection(json!({ "base_url": "https://api.example.com/base", "endpoints": { "t": { "path": path, "method": method } } }))
        };
        let usual = connection(json!({ "base_url": "https://api.example.com/base" }));
        for (made, tool) in [
            (endpoint("/items/{id}/end", "POST"), "t"),
            (endpoint("/items/{id}", "GET"), "t"),
            (endpoint("/items", "GET"), "t"),
            (usual, tool.as_str()),
        ] {
            let invoked = Invoked { tool, parameters: &parameters, hosts: &[], now: at };
            let Ok(call) = made.call(AuthType::ApiKey, &secret(), None, invoked) else { continue };
            prop_assert_eq!(call.url.host_str(), Some("api.example.com"));
            prop_assert_eq!((call.url.scheme(), call.url.port(), call.url.username()), ("https", None, ""));
            prop_assert!(call.url.path().starts_with("/base/"), "{}", call.url);
            prop_assert!(call.url.fragment().is_none());
            let parts = call.url.path().matches('/').count();
            prop_assert!(parts <= 4, "{}", call.url);
            prop_assert!(call.headers.iter().all(|(name, value)| name == "Authorization" && value.as_str() == "the-key"));
        }
    }
}
