//! Failures as responses of both bindings (A2A §9.5, §11.6).

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use actix_web::http::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use entente_domain::a2a::errors::{Failure, Fault};
use entente_domain::a2a::tasks::Task;
use entente_domain::refusal::{Code, Refusal};
use entente_http::error::{Problem, status};
use entente_kernel::AppError;
use serde::Serialize;
use serde_json::{Value, json};

/// Media type of the responses of HTTP+JSON.
pub(crate) const MEDIA_TYPE: &str = "application/a2a+json";

/// A response that is a task.
#[derive(Serialize)]
pub(crate) struct TaskBody {
    /// The task.
    pub task: Task,
}

/// A failed operation.
#[derive(Debug)]
pub(crate) struct Failed {
    pub failure: Failure,
    retry_after: Option<u64>,
}

impl From<Failure> for Failed {
    fn from(failure: Failure) -> Self {
        Self { failure, retry_after: None }
    }
}

impl From<Problem> for Failed {
    fn from(problem: Problem) -> Self {
        let body = problem.body();
        let refusal = Refusal { errors: body.errors, ..Refusal::new(problem.code(), body.message) };
        Self { failure: refusal.into(), retry_after: problem.retry_after }
    }
}

impl From<Refusal> for Failed {
    fn from(refusal: Refusal) -> Self {
        Problem::from(refusal).into()
    }
}

impl From<AppError> for Failed {
    fn from(error: AppError) -> Self {
        Problem::from(error).into()
    }
}

impl Failed {
    /// Reports a defect.
    pub fn internal(why: &dyn std::fmt::Display) -> Self {
        Problem::internal(&why.to_string()).into()
    }

    /// Names the task that it is about.
    pub fn about(mut self, task: &str) -> Self {
        self.failure.task = Some(task.chars().take(100).collect());
        self
    }

    /// Whether it is this server's refusal with this code.
    pub fn is(&self, code: Code) -> bool {
        self.failure.fault == Fault::Refused(code)
    }

    fn status(&self) -> u16 {
        let refused = match self.failure.fault {
            // An agent without versions is none, and its address leads nowhere.
            Fault::Refused(Code::AgentNotAvailable | Code::AgentVersionNotAvailable) => 404,
            Fault::Refused(code) => match status(code).as_u16() {
                422 => 400,
                status => status,
            },
            _ => 400,
        };
        self.failure.fault.status(refused)
    }

    fn build(&self, status: u16, kind: &'static str, body: &Value) -> HttpResponse {
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = HttpResponse::build(status);
        if let Some(seconds) = self.retry_after {
            response.insert_header((RETRY_AFTER, seconds));
        }
        if status == StatusCode::UNAUTHORIZED {
            response.insert_header((WWW_AUTHENTICATE, "Bearer realm=\"entente\""));
        }
        response.content_type(kind).body(body.to_string())
    }

    /// Returns the response of JSON-RPC: a 200, unless a proxy or a client's HTTP layer has to know.
    pub fn rpc(&self, id: &Value) -> HttpResponse {
        let status = match self.status() {
            status @ (401 | 413 | 429 | 503) => status,
            _ => 200,
        };
        let body = json!({ "jsonrpc": "2.0", "id": id, "error": self.failure.rpc() });
        self.build(status, "application/json", &body)
    }

    /// Returns the response of HTTP+JSON.
    pub fn http(&self) -> HttpResponse {
        let status = self.status();
        self.build(status, "application/json", &self.failure.http(status))
    }
}
