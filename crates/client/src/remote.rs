//! A client of a running server, for the commands that talk to one: the same HTTP that everybody else speaks. The key
//! comes from the environment only, because a command line can be read by every user of the machine.

use std::time::Duration;

use clap::Args;
use entente_runtime::tls;
use reqwest::header::SET_COOKIE;
use reqwest::redirect::Policy;
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::Done;
use super::output::{Row, print_json, print_record, print_table};

/// How long a server may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Which server, as whom, and how to print: on every command that talks to a server.
#[derive(Debug, Clone, Args)]
pub(super) struct Remote {
    /// The server
    #[arg(
        long,
        env = "ENTENTE_URL",
        default_value = "http://127.0.0.1:8080",
        global = true,
        value_name = "URL"
    )]
    url: String,
    /// The agent to act as, if the key may
    // A global argument is known by its id: another's `--agent` must not be taken for it.
    #[arg(long = "as", global = true, value_name = "AGENT")]
    acting_as: Option<String>,
    /// Print what the server said, as JSON
    #[arg(long, global = true)]
    pub(super) json: bool,
}

/// Why a server did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// There is no server.
    #[error("no answer from {url}: {source}. Is the server running? Name another with --url or ENTENTE_URL")]
    Away {
        /// Where it was looked for.
        url: String,
        /// What went wrong.
        source: reqwest::Error,
    },
    /// It said no.
    #[error("{message} ({status} {code}, {request_id})")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// Which of the closed list of codes.
        code: String,
        /// What happened, why, and what to do.
        message: String,
        /// What its log knows the request by.
        request_id: String,
    },
    /// Something else answers there.
    #[error("{url} answered {status} with what is no answer of Entente. Check --url or ENTENTE_URL")]
    Stranger {
        /// Where.
        url: String,
        /// The HTTP status.
        status: u16,
    },
    /// The client cannot be set up.
    #[error("the HTTP client cannot be set up: {0}")]
    Setup(String),
}

impl Failure {
    /// The code of a refusal.
    pub fn code(&self) -> Option<&str> {
        match self {
            Self::Refused { code, .. } => Some(code),
            Self::Away { .. } | Self::Stranger { .. } | Self::Setup(_) => None,
        }
    }

    /// Whether the same may well be done a little later: the server is away, or has too much to do.
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::Away { .. } | Self::Refused { status: 429 | 503, .. })
    }
}

/// A client with a server, a key and perhaps an agent to act as.
#[derive(Debug, Clone)]
pub struct Api {
    http: reqwest::Client,
    base: String,
    key: Option<String>,
    agent: Option<String>,
}

impl Remote {
    /// The server's address, to put a path behind.
    pub(super) fn url(&self) -> &str {
        self.url.trim_end_matches('/')
    }

    /// The client that the arguments and the environment describe.
    pub(super) fn api(&self) -> Result<Api, Failure> {
        let api = Api::new(&self.url, api_key())?;
        Ok(Api { agent: self.acting_as.clone(), ..api })
    }

    /// Prints an answer: a list as a table, a record as its fields, anything as JSON when asked to.
    pub(super) fn show(&self, answer: &Value, columns: &[&str]) -> Done {
        match answer {
            _ if self.json => print_json(answer),
            Value::Array(items) => {
                let rows: Vec<Row<'_>> = items.iter().map(|item| Row::of(item, columns)).collect();
                print_table(columns, &rows)
            }
            _ => print_record(answer),
        }
    }
}

/// An HTTP client of the command line.
fn client(redirects: Policy) -> Result<reqwest::Client, Failure> {
    let setup = |e: &dyn std::error::Error| Failure::Setup(e.to_string());
    let tls = tls::client().map_err(|e| setup(&e))?;
    reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .connect_timeout(CONNECT_TIMEOUT)
        .user_agent(concat!("entente-cli/", env!("CARGO_PKG_VERSION")))
        .redirect(redirects)
        .build()
        .map_err(|e| setup(&e))
}

impl Api {
    /// A client of the server at `url`.
    ///
    /// # Errors
    /// The client cannot be set up.
    pub fn new(url: &str, key: Option<String>) -> Result<Self, Failure> {
        let http = client(Policy::default())?;
        Ok(Self { http, base: url.trim_end_matches('/').to_owned(), key, agent: None })
    }

    /// The same client with another key.
    pub fn with_key(&self, key: &str) -> Self {
        Self { key: Some(key.to_owned()), ..self.clone() }
    }

    /// Opens a one-time link as a browser does; the same client with the key of that login.
    ///
    /// # Errors
    /// The link opens nothing.
    pub async fn log_in(&self, link: &str) -> Result<Self, Failure> {
        // Where it leads to is no answer: the cookie comes with the redirect.
        let request = client(Policy::none())?.post(format!("{}{link}", self.base));
        let sent = request.header("Sec-Fetch-Site", "same-origin").send().await;
        let response = sent.map_err(|source| Failure::Away { url: self.base.clone(), source })?;
        let cookies = response.headers().get_all(SET_COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut keys = cookies.filter_map(|cookie| cookie.split_once("entente=")?.1.split(';').next());
        let key = keys.find(|key| !key.is_empty()).map(|key| self.with_key(key));
        key.ok_or_else(|| Failure::Stranger { url: self.base.clone(), status: response.status().as_u16() })
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let mut request = self.http.request(method, format!("{}/api/v1{path}", self.base));
        if let Some(key) = &self.key {
            request = request.header("X-API-Key", key);
        }
        if let Some(agent) = &self.agent {
            request = request.header("X-Agent-ID", agent);
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
        Err(Failure::Refused { status: status.as_u16(), code, message, request_id })
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

    /// GET.
    pub async fn get(&self, path: &str, query: &[(&str, String)]) -> Result<Value, Failure> {
        self.body(self.request(Method::GET, path).query(query)).await
    }

    /// POST of anything that is written as JSON, and read as what is expected: so that numbers stay as they were written.
    pub async fn ask<T: DeserializeOwned + Default>(
        &self,
        path: &str,
        body: &(impl Serialize + Sync),
    ) -> Result<T, Failure> {
        self.body(self.request(Method::POST, path).json(body)).await
    }

    /// GET of what may be no JSON, as it comes.
    pub async fn open(&self, path: &str) -> Result<Response, Failure> {
        self.answer(self.request(Method::GET, path)).await
    }

    /// POST, PUT, PATCH or DELETE.
    pub async fn act(&self, method: Method, path: &str, body: &Value) -> Result<Value, Failure> {
        self.body(self.request(method, path).json(body)).await
    }

    /// POST.
    pub async fn post(&self, path: &str, body: &Value) -> Result<Value, Failure> {
        self.act(Method::POST, path, body).await
    }

    /// POST of a JSON text, byte for byte: what is signed must not be written anew.
    pub async fn post_text(&self, path: &str, text: Vec<u8>) -> Result<Value, Failure> {
        let request = self.request(Method::POST, path).header("Content-Type", "application/json");
        self.body(request.body(text)).await
    }

    /// POST, done once however often it is sent with the same key.
    pub async fn post_once(&self, path: &str, body: &Value, once: &str) -> Result<Value, Failure> {
        self.body(self.request(Method::POST, path).header("Idempotency-Key", once).json(body)).await
    }

    /// PUT of what is sent as it was written.
    pub async fn put<T: DeserializeOwned + Default>(
        &self,
        path: &str,
        body: &(impl Serialize + Sync + ?Sized),
    ) -> Result<T, Failure> {
        self.body(self.request(Method::PUT, path).json(body)).await
    }

    /// DELETE.
    pub async fn delete(&self, path: &str) -> Result<Value, Failure> {
        self.body(self.request(Method::DELETE, path)).await
    }

    /// POST of what only holds for one version: `version`, or the one that is current.
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

    /// PATCH of what only holds for one version.
    pub async fn patch_versioned(&self, path: &str, body: &Value, version: &Value) -> Result<Value, Failure> {
        self.body(self.request(Method::PATCH, path).header("If-Match", version.to_string()).json(body)).await
    }

    /// Opens a stream of server-sent events, after the frame with this id.
    pub async fn stream(&self, path: &str, last: Option<&str>) -> Result<Response, Failure> {
        let mut request = self.request(Method::GET, path).header("Accept", "text/event-stream");
        if let Some(last) = last {
            request = request.header("Last-Event-ID", last);
        }
        self.answer(request).await
    }

    /// Which agent this client speaks as.
    pub async fn speaker(&self) -> Result<String, Failure> {
        let me = self.get("/principals/me", &[]).await?;
        Ok(me["agent_id"].as_str().unwrap_or_default().to_owned())
    }
}

/// A part of a path: letters that mean something in a URL are escaped.
pub fn segment(text: &str) -> String {
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

/// The key that the client commands send: from the environment only, because every user of a machine can read its
/// command lines.
#[expect(clippy::disallowed_methods, reason = "the client commands read nothing else of the environment")]
fn api_key() -> Option<String> {
    std::env::var("ENTENTE_API_KEY").ok().filter(|key| !key.is_empty())
}
