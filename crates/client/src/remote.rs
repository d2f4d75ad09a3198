//! Client of a running server for the client commands: the same HTTP API as for every other client. The key
//! comes from the environment only, because every user of the machine can read a command line.

pub mod relay;

use std::path::Path;
use std::time::Duration;

use clap::Args;
use entente_domain::identity::{epochs, fences};
use entente_runtime::tls::{self, Authorities};
use reqwest::header::SET_COOKIE;
use reqwest::redirect::Policy;
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::Done;
use super::output::{TableRow, print_json, print_record, print_table};

/// Time that a server may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// URL of a server that was started without one.
const DEFAULT_URL: &str = "http://127.0.0.1:8080";

/// Options of every command that talks to a server: address, identity and output format.
#[derive(Debug, Clone, Args)]
pub(super) struct Remote {
    /// The server's URL
    #[arg(
        long,
        env = "ENTENTE_URL",
        default_value = DEFAULT_URL,
        global = true,
        value_name = "URL"
    )]
    url: String,
    /// The agent to act as, if the key allows it
    // Clap identifies global arguments by id: another command's `--agent` must not be mistaken for this one.
    #[arg(long = "as", global = true, value_name = "AGENT")]
    acting_as: Option<String>,
    /// The epoch of the agent's session: writes take effect only while it is the latest (`entente agent session`)
    #[arg(long, env = "ENTENTE_EPOCH", global = true, value_name = "NUMBER")]
    epoch: Option<u64>,
    /// A lease with its fencing token: writes take effect only while it is held
    #[arg(long, env = "ENTENTE_LEASE", global = true, value_name = "LEASE;token=NUMBER")]
    under_lease: Option<String>,
    /// A task or a job with the token of its claim: writes take effect only while that claim holds
    #[arg(long, env = "ENTENTE_CLAIM", global = true, value_name = "ID;token=TOKEN")]
    under_claim: Option<String>,
    /// Print the server's answer as JSON
    #[arg(long, global = true)]
    pub(super) json: bool,
}

/// Failure of a request to a server.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The server does not answer.
    #[error("no answer from {url}: {source}. Is the server running? Name another with --url or ENTENTE_URL")]
    Away {
        /// The server's address.
        url: String,
        /// The cause.
        source: reqwest::Error,
    },
    /// The server accepts no connection in time.
    #[error(
        "no answer from {url} within {seconds} s. Is the server running? Name another with --url or ENTENTE_URL"
    )]
    Late {
        /// The server's address.
        url: String,
        /// The time limit in seconds.
        seconds: u64,
    },
    /// The server refused the request.
    #[error("{message} ({status} {code}, {request_id})")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// The error code, from a closed list.
        code: String,
        /// The message: the problem, its reason, and how to fix it.
        message: String,
        /// The request's id in the server's log.
        request_id: String,
        /// The whole answer: an object in the form of `application/problem+json`.
        problem: Box<Value>,
    },
    /// Something other than Entente answered.
    #[error("{url} answered {status} with what is no answer of Entente. Check --url or ENTENTE_URL")]
    Stranger {
        /// The address.
        url: String,
        /// The HTTP status.
        status: u16,
    },
    /// The HTTP client cannot be set up.
    #[error("the HTTP client cannot be set up: {0}")]
    Setup(String),
}

impl Failure {
    /// Returns the code of a refusal.
    #[must_use]
    pub fn code(&self) -> Option<&str> {
        match self {
            Self::Refused { code, .. } => Some(code),
            Self::Away { .. } | Self::Late { .. } | Self::Stranger { .. } | Self::Setup(_) => None,
        }
    }

    /// Returns the faults that a refusal lists in `errors`: objects with `type`, `loc`, `msg` and, for a member of the
    /// body, `pointer`.
    pub(crate) fn errors(&self) -> impl Iterator<Item = &Value> {
        let problem = match self {
            Self::Refused { problem, .. } => Some(problem),
            Self::Away { .. } | Self::Late { .. } | Self::Stranger { .. } | Self::Setup(_) => None,
        };
        problem.and_then(|problem| problem["errors"].as_array()).into_iter().flatten()
    }

    /// Returns the message with all faults, in one line.
    pub(crate) fn full(&self) -> String {
        let message = match self {
            Self::Refused { message, .. } => message.as_str(),
            Self::Away { .. } | Self::Late { .. } | Self::Stranger { .. } | Self::Setup(_) => "",
        };
        // A single fault is often the message itself.
        let others = self.errors().filter(|error| error["msg"].as_str() != Some(message));
        others.fold(self.to_string(), |text, error| {
            format!("{text}; {}: {}", place(error), error["msg"].as_str().unwrap_or_default())
        })
    }

    /// Returns whether a retry may succeed: the server is unreachable or overloaded.
    pub(crate) fn may_pass(&self) -> bool {
        matches!(self, Self::Away { .. } | Self::Refused { status: 429 | 503, .. })
    }
}

/// HTTP client with a server, a key and an optional agent to act as.
#[derive(Debug, Clone)]
pub struct Api {
    http: reqwest::Client,
    base: String,
    key: Option<String>,
    agent: Option<String>,
    /// Headers of the fences that its writes require: an epoch, a lease, a claim.
    fences: Vec<(&'static str, String)>,
}

impl Remote {
    /// Returns the server's base URL.
    pub(super) fn url(&self) -> &str {
        self.url.trim_end_matches('/')
    }

    /// Returns the agent that the arguments name.
    pub(super) fn acting_as(&self) -> Option<&str> {
        self.acting_as.as_deref()
    }

    /// Returns the options that name another server or agent than the usual ones, for commands that others run.
    pub(super) fn options(&self) -> Vec<String> {
        let url = (self.url != DEFAULT_URL).then(|| ["--url".to_owned(), self.url.clone()]);
        let agent = self.acting_as.clone().map(|agent| ["--as".to_owned(), agent]);
        url.into_iter().chain(agent).flatten().collect()
    }

    /// Creates the client that the arguments and the environment describe.
    pub(super) fn api(&self) -> Result<Api, Failure> {
        let api = Api::new(&self.url, api_key())?;
        let epoch = self.epoch.map(|epoch| (epochs::HEADER, epoch.to_string()));
        let lease = self.under_lease.clone().map(|lease| (fences::LEASE_HEADER, lease));
        let claim = self.under_claim.clone().map(|claim| (fences::CLAIM_HEADER, claim));
        let fences = [epoch, lease, claim].into_iter().flatten().collect();
        Ok(Api { agent: self.acting_as.clone(), fences, ..api })
    }

    /// Prints an answer: a list as a table, a record as its fields, or anything as JSON on request.
    pub(super) fn show(&self, answer: &Value, columns: &[&str]) -> Done {
        match answer {
            _ if self.json => print_json(answer),
            Value::Array(items) => {
                let rows: Vec<TableRow<'_>> = items.iter().map(|item| TableRow::of(item, columns)).collect();
                print_table(columns, &rows)
            }
            _ => print_record(answer),
        }
    }
}

/// Builds the command line's HTTP client.
fn client(redirects: Policy) -> Result<reqwest::Client, Failure> {
    built(builder()?.redirect(redirects))
}

fn builder() -> Result<reqwest::ClientBuilder, Failure> {
    let authorities = match variable("ENTENTE_CA_FILE") {
        Some(path) => Authorities::read(Path::new(&path))
            .map_err(|why| Failure::Setup(format!("ENTENTE_CA_FILE={path}: {why}")))?,
        None => Authorities::default(),
    };
    let tls = tls::client(&authorities).map_err(|e| Failure::Setup(e.to_string()))?;
    Ok(reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .connect_timeout(CONNECT_TIMEOUT)
        .user_agent(concat!("entente-cli/", env!("CARGO_PKG_VERSION"))))
}

fn built(builder: reqwest::ClientBuilder) -> Result<reqwest::Client, Failure> {
    builder.build().map_err(|e| Failure::Setup(e.to_string()))
}

impl Api {
    /// Creates a client of the server at `url`.
    ///
    /// # Errors
    /// The HTTP client cannot be set up.
    pub fn new(url: &str, key: Option<String>) -> Result<Self, Failure> {
        let http = client(Policy::default())?;
        Ok(Self { http, base: url.trim_end_matches('/').to_owned(), key, agent: None, fences: Vec::new() })
    }

    /// Returns the same client with another key.
    #[must_use]
    pub fn with_key(&self, key: &str) -> Self {
        Self { key: Some(key.to_owned()), ..self.clone() }
    }

    /// Opens a one-time link as a browser does, and returns the client with the key of that login.
    ///
    /// # Errors
    /// The link is not valid.
    pub async fn log_in(&self, link: &str) -> Result<Self, Failure> {
        // The redirect is not followed: the cookie comes with it.
        let request = client(Policy::none())?.post(format!("{}{link}", self.base));
        let sent = request.header("Sec-Fetch-Site", "same-origin").send().await;
        let response = sent.map_err(|source| Failure::Away { url: self.base.clone(), source })?;
        let cookies = response.headers().get_all(SET_COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut keys = cookies.filter_map(|cookie| cookie.split_once("entente=")?.1.split(';').next());
        let key = keys.find(|key| !key.is_empty()).map(|key| self.with_key(key));
        key.ok_or_else(|| Failure::Stranger { url: self.base.clone(), status: response.status().as_u16() })
    }

    /// Returns the same client with a connection for each request: a request that cannot connect was certainly not
    /// delivered, and one on a connection that was kept may have been.
    pub(crate) fn without_reuse(self) -> Result<Self, Failure> {
        Ok(Self { http: built(builder()?.pool_max_idle_per_host(0))?, ..self })
    }

    /// Returns the server's base URL.
    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    /// Prepares a message to the MCP endpoint, which lists the tools of this set.
    pub(crate) fn mcp(&self, tools: &str) -> RequestBuilder {
        self.request_at(Method::POST, &format!("/mcp?tools={}", segment(tools)))
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.request_at(method, &format!("/api/v1{path}"))
    }

    fn request_at(&self, method: Method, path: &str) -> RequestBuilder {
        let mut request = self.http.request(method, format!("{}{path}", self.base));
        if let Some(key) = &self.key {
            request = request.header("X-API-Key", key);
        }
        if let Some(agent) = &self.agent {
            request = request.header("X-Agent-ID", agent);
        }
        for (name, value) in &self.fences {
            request = request.header(*name, value);
        }
        request
    }

    async fn answer(&self, request: RequestBuilder) -> Result<Response, Failure> {
        let response =
            request.send().await.map_err(|source| Failure::Away { url: self.base.clone(), source })?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let stranger = || Failure::Stranger { url: self.base.clone(), status: status.as_u16() };
        let problem: Value = response.json().await.map_err(|_no_json| stranger())?;
        let text = |member: &str| problem[member].as_str().map(str::to_owned);
        let (Some(code), Some(mut message)) = (text("code"), text("message")) else { return Err(stranger()) };
        if status == StatusCode::UNAUTHORIZED && self.key.is_none() {
            message.push_str(" Put your key in ENTENTE_API_KEY.");
        }
        let request_id = text("request_id").unwrap_or_default();
        Err(Failure::Refused {
            status: status.as_u16(),
            code,
            message,
            request_id,
            problem: Box::new(problem),
        })
    }

    async fn body<T: DeserializeOwned + Default>(&self, request: RequestBuilder) -> Result<T, Failure> {
        let response = self.answer(request).await?;
        let status = response.status();
        if status == StatusCode::NO_CONTENT {
            return Ok(T::default());
        }
        let stranger = |_no_json| Failure::Stranger { url: self.base.clone(), status: status.as_u16() };
        response.json().await.map_err(stranger)
    }

    /// Sends a GET request.
    ///
    /// # Errors
    /// The request failed, or the server refused it.
    pub async fn get(&self, path: &str, query: &[(&str, String)]) -> Result<Value, Failure> {
        self.body(self.request(Method::GET, path).query(query)).await
    }

    /// Returns the server's metrics, which need no key.
    ///
    /// # Errors
    /// The request failed.
    pub(crate) async fn metrics(&self) -> Result<String, Failure> {
        let response = self.answer(self.request_at(Method::GET, "/metrics")).await?;
        response.text().await.map_err(|source| Failure::Away { url: self.base.clone(), source })
    }

    /// Sends a POST request with typed bodies, so that numbers keep their notation.
    ///
    /// # Errors
    /// The request failed, or the server refused it.
    pub async fn ask<T: DeserializeOwned + Default>(
        &self,
        path: &str,
        body: &(impl Serialize + Sync),
    ) -> Result<T, Failure> {
        self.body(self.request(Method::POST, path).json(body)).await
    }

    /// Sends a GET request and returns the raw response, which need not be JSON.
    ///
    /// # Errors
    /// The request failed, or the server refused it.
    pub async fn open(&self, path: &str) -> Result<Response, Failure> {
        self.answer(self.request(Method::GET, path)).await
    }

    /// Sends a request with a JSON body.
    ///
    /// # Errors
    /// The request failed, or the server refused it.
    pub async fn act(&self, method: Method, path: &str, body: &Value) -> Result<Value, Failure> {
        self.body(self.request(method, path).json(body)).await
    }

    /// Sends a POST request.
    ///
    /// # Errors
    /// The request failed, or the server refused it.
    pub async fn post(&self, path: &str, body: &Value) -> Result<Value, Failure> {
        self.act(Method::POST, path, body).await
    }

    /// Sends a POST request with a JSON text, byte for byte: signed content must not be serialised anew.
    pub(crate) async fn post_text(&self, path: &str, text: Vec<u8>) -> Result<Value, Failure> {
        let request = self.request(Method::POST, path).header("Content-Type", "application/json");
        self.body(request.body(text)).await
    }

    /// Sends a POST request with a file, piece by piece.
    pub(crate) async fn upload(
        &self,
        path: &str,
        query: &[(&str, String)],
        file: tokio::fs::File,
        length: u64,
    ) -> Result<Value, Failure> {
        let request =
            self.request(Method::POST, path).query(query).header("Content-Type", "application/x-ndjson");
        self.body(request.header("Content-Length", length).body(file)).await
    }

    /// Sends a POST request that the server executes once, however often it is sent with the same key.
    ///
    /// # Errors
    /// The request failed, or the server refused it.
    pub async fn post_once(&self, path: &str, body: &Value, once: &str) -> Result<Value, Failure> {
        self.body(self.request(Method::POST, path).header("Idempotency-Key", once).json(body)).await
    }

    /// Sends a PUT request with typed bodies.
    pub(crate) async fn put<T: DeserializeOwned + Default>(
        &self,
        path: &str,
        body: &(impl Serialize + Sync + ?Sized),
    ) -> Result<T, Failure> {
        self.body(self.request(Method::PUT, path).json(body)).await
    }

    /// Sends a PUT request conditional on a version.
    pub(crate) async fn put_versioned(
        &self,
        path: &str,
        body: &Value,
        version: &Value,
    ) -> Result<Value, Failure> {
        self.body(self.request(Method::PUT, path).header("If-Match", version.to_string()).json(body)).await
    }

    /// Sends a DELETE request.
    ///
    /// # Errors
    /// The request failed, or the server refused it.
    pub async fn delete(&self, path: &str) -> Result<Value, Failure> {
        self.body(self.request(Method::DELETE, path)).await
    }

    /// Sends a POST request conditional on `version`, or on the current version of `record`.
    ///
    /// # Errors
    /// The request failed, or the server refused it.
    pub async fn post_versioned(
        &self,
        record: &str,
        path: &str,
        body: &Value,
        version: Option<i64>,
    ) -> Result<Value, Failure> {
        let version = match version {
            Some(version) => json!(version),
            None => self.get(record, &[]).await?["version"].clone(),
        };
        self.body(self.request(Method::POST, path).header("If-Match", version.to_string()).json(body)).await
    }

    /// Sends a PATCH request conditional on a version.
    pub(crate) async fn patch_versioned(
        &self,
        path: &str,
        body: &Value,
        version: &Value,
    ) -> Result<Value, Failure> {
        self.body(self.request(Method::PATCH, path).header("If-Match", version.to_string()).json(body)).await
    }

    /// Opens a stream of server-sent events, after the frame with the id `last`.
    pub(crate) async fn stream(&self, path: &str, last: Option<&str>) -> Result<Response, Failure> {
        let mut request = self.request(Method::GET, path).header("Accept", "text/event-stream");
        if let Some(last) = last {
            request = request.header("Last-Event-ID", last);
        }
        self.answer(request).await
    }

    /// Returns the agent that this client acts as.
    pub(crate) async fn speaker(&self) -> Result<String, Failure> {
        let me = self.get("/principals/me", &[]).await?;
        Ok(me["agent_id"].as_str().unwrap_or_default().to_owned())
    }
}

/// Returns the place of a fault in a request: the path of a member of the body, or the part of the request with its name.
pub(crate) fn place(error: &Value) -> String {
    if let Some(pointer) = error["pointer"].as_str().filter(|pointer| !pointer.is_empty()) {
        return pointer.trim_start_matches('/').to_owned();
    }
    let parts = error["loc"].as_array().into_iter().flatten();
    parts
        .map(|part| part.as_str().map_or_else(|| part.to_string(), str::to_owned))
        .collect::<Vec<_>>()
        .join("/")
}

/// Encodes a path segment: reserved characters are escaped.
pub(crate) fn segment(text: &str) -> String {
    let keep = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~');
    text.bytes().fold(String::with_capacity(text.len()), |mut path, byte| {
        if keep(byte) {
            path.push(char::from(byte));
        } else {
            path.push('%');
            path.push_str(&entente_domain::canonical::hex(&[byte]).to_uppercase());
        }
        path
    })
}

/// Returns the key for the client commands, from the environment only, because every user of a machine can
/// read its command lines.
fn api_key() -> Option<String> {
    variable("ENTENTE_API_KEY")
}

/// Returns a variable of the environment, unless it is empty.
#[expect(clippy::disallowed_methods, reason = "the client commands read the environment only here")]
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
