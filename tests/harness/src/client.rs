//! HTTP client that speaks raw JSON, so that tests see both directions of every body as clients do.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use reqwest::header::HeaderMap;
use serde_json::Value;

use super::conformity;

/// How long a patient client retries, and the pause between two attempts.
const PATIENCE: Duration = Duration::from_mins(1);
const PAUSE: Duration = Duration::from_millis(50);

/// A client: base URL, API key and headers that it sends with every request.
#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    pub base: String,
    headers: Vec<(String, String)>,
    patient: bool,
}

/// An HTTP response.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: HeaderMap,
    pub text: String,
    pub asked: String,
}

impl Reply {
    /// Parses the body as JSON; null if it is empty.
    pub fn json(&self) -> Value {
        if self.text.is_empty() {
            return Value::Null;
        }
        serde_json::from_str(&self.text)
            .unwrap_or_else(|e| panic!("{}: not JSON ({e}): {}", self.asked, self.text))
    }

    /// Asserts the status and returns the body.
    #[track_caller]
    pub fn is(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{} answered {}", self.asked, self.text);
        self.json()
    }

    /// Asserts a 2xx status and returns the body.
    #[track_caller]
    pub fn ok(&self) -> Value {
        assert!((200..300).contains(&self.status), "{} answered {} {}", self.asked, self.status, self.text);
        self.json()
    }

    /// Asserts a problem document with this status and code, and returns the body.
    #[track_caller]
    pub fn refused(&self, status: u16, code: &str) -> Value {
        let body = self.is(status);
        assert_eq!(self.headers["content-type"], "application/problem+json", "{}", self.asked);
        assert_eq!(body["code"], code, "{} answered {}", self.asked, self.text);
        assert_eq!(body["status"], status);
        for member in ["type", "title", "detail", "message", "errors", "request_id"] {
            assert!(body.get(member).is_some(), "{} answered without `{member}`: {}", self.asked, self.text);
        }
        assert_eq!(body["request_id"], self.headers["x-request-id"].to_str().unwrap());
        if status == 409 {
            // A client recognises a lease conflict by this word (OI-3.5.3).
            assert_eq!(
                self.text.to_lowercase().contains("lease"),
                code.starts_with("lease_"),
                "a 409 speaks of what it is not about, or not of what it is about: {}",
                self.text
            );
        }
        body
    }

    /// Returns the text of a header.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).unwrap_or_else(|| panic!("{}: no header {name}", self.asked)).to_str().unwrap()
    }
}

impl Client {
    pub fn new(address: SocketAddr, key: Option<&str>) -> Self {
        let headers = key.map(|key| ("x-api-key".to_owned(), key.to_owned())).into_iter().collect();
        Self { http: http(), base: format!("http://{address}/api/v1"), headers, patient: false }
    }

    /// Returns a copy of this client that sends one more header.
    pub fn with(&self, name: &str, value: &str) -> Self {
        let mut client = self.clone();
        client.headers.retain(|(known, _)| known != name);
        client.headers.push((name.to_owned(), value.to_owned()));
        client
    }

    /// Returns a copy of this client that acts as `agent`.
    pub fn acting_as(&self, agent: &str) -> Self {
        self.with("x-agent-id", agent)
    }

    /// Returns a copy of this client that sends this idempotency key.
    pub fn once(&self, key: &str) -> Self {
        self.with("idempotency-key", key)
    }

    /// Returns a copy of this client that sends this version in `If-Match`.
    pub fn seen(&self, version: &Value) -> Self {
        self.with("if-match", &version.to_string())
    }

    /// Returns a copy of this client that retries on 503. It is for races with many requests, where a slow
    /// machine makes requests wait longer than the server allows. A request answered with 503 has changed
    /// nothing.
    pub fn patient(&self) -> Self {
        Self { patient: true, ..self.clone() }
    }

    /// Returns the headers that this client sends.
    pub fn headers(&self) -> &[(String, String)] {
        &self.headers
    }

    pub async fn get(&self, path: &str) -> Reply {
        self.send("GET", path, None).await
    }

    pub async fn delete(&self, path: &str) -> Reply {
        self.send("DELETE", path, None).await
    }

    pub async fn post(&self, path: &str, body: Value) -> Reply {
        self.send("POST", path, Some(body.to_string())).await
    }

    pub async fn put(&self, path: &str, body: Value) -> Reply {
        self.send("PUT", path, Some(body.to_string())).await
    }

    pub async fn patch(&self, path: &str, body: Value) -> Reply {
        self.send("PATCH", path, Some(body.to_string())).await
    }

    /// Sends a request with the body as it is. A path that begins with `//` is relative to the server's root.
    pub async fn send(&self, method: &str, path: &str, body: Option<String>) -> Reply {
        let began = Instant::now();
        loop {
            let reply = self.try_to(method, path, body.clone()).await;
            let reply = reply.unwrap_or_else(|e| panic!("{method} {path}: {e:?}"));
            if reply.status != 503 || !self.patient || began.elapsed() > PATIENCE {
                return reply;
            }
            assert!(!reply.header("retry-after").is_empty());
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Like [`Self::send`], for a server that may be down: `None` if there was no complete response.
    pub async fn try_send(&self, method: &str, path: &str, body: Option<String>) -> Option<Reply> {
        self.try_to(method, path, body).await.ok()
    }

    /// Like [`Self::send`], but returns the transport error if there was no response.
    pub async fn try_to(&self, method: &str, path: &str, body: Option<String>) -> reqwest::Result<Reply> {
        let url = match path.strip_prefix("//") {
            Some(path) => format!("{}/{path}", self.base.trim_end_matches("/api/v1")),
            None => format!("{}{path}", self.base),
        };
        let mut request = self.http.request(method.parse().unwrap(), &url);
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        if let Some(body) = &body {
            request = request.header("content-type", "application/json").body(body.clone());
        }
        let asked = format!("{method} {path}");
        let response = request.send().await?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let reply = Reply { status, headers, text: response.text().await?, asked };
        conformity::check(method, &url, body.as_deref(), &reply);
        Ok(reply)
    }
}

/// Returns the HTTP client of the tests.
pub fn http() -> reqwest::Client {
    // `reqwest` requires a crypto provider even for plain HTTP.
    let _already = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).build().unwrap()
}
