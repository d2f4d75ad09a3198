//! Failures of commands: the exit status of each kind, and the forms in which people and programs read them.
//! With `--json` a failure is one line of JSON on standard error; standard output has answers only.

use std::error::Error;
use std::fmt;
use std::io::{self, Write as _};

use entente_domain::moments::text::plain;
use serde_json::{Value, json};

use super::Failure;
use super::remote;
pub use crate::output::exit::{Ended, Exit};

/// Exit statuses, as the help text lists them.
pub const STATUSES: &str = "\
Exit status:
  0    done
  1    failed: a file, a check, or a part of the work
  2    the command line is wrong
  3    a followed job ended with an error (4: it was cancelled, 5: it timed out)
  6    not found, or not visible to you
  7    the server refused the request
  8    the server cannot be reached or is unavailable; the same command may succeed later
  9    nobody answered in time
  141  the reader of the output has closed it

With --json a failure is one line of JSON on standard error: `code`, `message`, `errors` and `exit_status`, and the rest of
the server's answer if it refused.";

/// Failure of one of several things, such as one of the files of a command.
#[derive(Debug, thiserror::Error)]
#[error("{place}: {failure}")]
pub(crate) struct Placed {
    /// The thing.
    pub place: String,
    /// Its failure.
    #[source]
    pub failure: remote::Failure,
}

/// Faults of a file, each with its position. The message has one line for each.
#[derive(Debug)]
pub(crate) struct Faulty {
    /// Message for people.
    pub message: String,
    /// The faults for programs: objects with `type`, `line`, `column`, `path` and `msg`.
    pub errors: Vec<Value>,
}

impl fmt::Display for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for Faulty {}

/// A failure in the forms in which it is shown.
#[derive(Debug)]
pub struct Report {
    /// Kind of the failure.
    pub exit: Exit,
    /// Form for programs.
    object: Value,
    /// Form for people.
    text: String,
}

impl Report {
    /// Returns the report on a failure.
    #[must_use]
    pub fn of(failure: &Failure) -> Self {
        let first: &(dyn Error + 'static) = &**failure;
        if is_closed(first) {
            return Self::new(Exit::Closed, first.to_string(), &[]);
        }
        for error in std::iter::successors(Some(first), |error: &&(dyn Error + 'static)| (*error).source()) {
            if let Some(ended) = error.downcast_ref::<Ended>() {
                return Self::new(ended.exit, first.to_string(), &[]);
            }
            if let Some(faulty) = error.downcast_ref::<Faulty>() {
                return Self::new(Exit::Failed, first.to_string(), &faulty.errors);
            }
            if let Some(remote) = error.downcast_ref::<remote::Failure>() {
                return Self::of_remote(remote, first.to_string());
            }
        }
        Self::new(Exit::Failed, first.to_string(), &[])
    }

    /// Returns the report on a wrong command line.
    #[must_use]
    pub fn usage(message: &str) -> Self {
        Self::new(Exit::Usage, message.trim_end().to_owned(), &[])
    }

    fn new(exit: Exit, message: String, errors: &[Value]) -> Self {
        let object = json!({
            "code": exit.code(), "message": message, "errors": errors, "exit_status": exit.status(),
        });
        Self { exit, object, text: message }
    }

    fn of_remote(failure: &remote::Failure, message: String) -> Self {
        let remote::Failure::Refused { status, code, problem, .. } = failure else {
            let is_local = matches!(failure, remote::Failure::Setup(_));
            let exit = if is_local { Exit::Failed } else { Exit::Unavailable };
            let mut report = Self::new(exit, message, &[]);
            if let remote::Failure::Stranger { status, .. } = failure {
                report.object["code"] = json!("not_entente");
                report.object["status"] = json!(status);
            }
            return report;
        };
        let exit = Exit::of_status(*status);
        let mut object = if problem.is_object() { (**problem).clone() } else { json!({}) };
        object["code"] = json!(code);
        object["message"] = json!(message);
        object["status"] = json!(status);
        object["exit_status"] = json!(exit.status());
        if !object["errors"].is_array() {
            object["errors"] = json!([]);
        }
        let lines = failure.errors().map(|error| format!("\n  {}", fault(error)));
        Self { exit, object, text: lines.fold(message, |text, line| text + &line) }
    }

    /// Writes the failure to standard error; nothing if the output was closed, because its reader wants no more.
    pub fn print(&self, as_json: bool) {
        if self.exit == Exit::Closed {
            return;
        }
        let mut out = io::stderr().lock();
        // Where standard error cannot be written to, the exit status remains.
        let _written =
            if as_json { writeln!(out, "{}", self.object) } else { writeln!(out, "entente: {}", self.text) };
    }
}

/// Returns whether a failure means that the reader of the output has closed it.
fn is_closed(failure: &(dyn Error + 'static)) -> bool {
    let kind = match failure.downcast_ref::<io::Error>() {
        Some(error) => Some(error.kind()),
        None => failure.downcast_ref::<serde_json::Error>().and_then(serde_json::Error::io_error_kind),
    };
    kind == Some(io::ErrorKind::BrokenPipe)
}

/// Renders one of a server's `errors` in one line: its place, its kind, and its description.
fn fault(error: &Value) -> String {
    let text = |member: &str| error[member].as_str().map(plain).unwrap_or_default();
    format!("{} ({}): {}", plain(&remote::place(error)), text("type"), text("msg"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(status: u16, problem: Value) -> remote::Failure {
        let text = |member: &str| problem[member].as_str().unwrap_or_default().to_owned();
        let (code, message, request_id) = (text("code"), text("message"), text("request_id"));
        remote::Failure::Refused { status, code, message, request_id, problem: Box::new(problem) }
    }

    #[test]
    fn every_fault_of_a_refusal_is_shown_in_both_forms() {
        let errors = json!([
            { "type": "missing", "loc": ["body", "a"], "pointer": "/a", "msg": "is missing" },
            { "type": "value", "loc": ["query", "b"], "msg": "is \u{1b}[2Jwrong" },
        ]);
        let problem = json!({
            "code": "invalid_request", "message": "Two faults.", "errors": errors, "request_id": "req_1",
            "current_version": 4,
        });
        let report = Report::of(&refused(422, problem).into());
        assert_eq!(report.exit.status(), 7);
        assert_eq!(
            report.text,
            "Two faults. (422 invalid_request, req_1)\n  a (missing): is missing\n  query/b (value): is \\u{1b}[2Jwrong"
        );
        assert_eq!((&report.object["errors"], &report.object["current_version"]), (&errors, &json!(4)));
        assert_eq!((&report.object["status"], &report.object["exit_status"]), (&json!(422), &json!(7)));
    }

    #[test]
    fn a_refusal_keeps_its_kind_behind_a_file_name() {
        for (status, exit) in [(404, 6), (410, 6), (409, 7), (401, 7), (408, 8), (429, 8), (500, 8), (503, 8)]
        {
            let failure = refused(status, json!({ "code": "c", "message": "m" }));
            let placed = Placed { place: "a.json".to_owned(), failure };
            let report = Report::of(&placed.into());
            assert_eq!(report.exit.status(), exit, "{status}");
            assert!(report.text.starts_with("a.json: m ("), "{}", report.text);
        }
    }

    #[test]
    fn only_the_output_itself_is_closed_by_its_reader() {
        let broken = || io::Error::from(io::ErrorKind::BrokenPipe);
        assert_eq!(Report::of(&broken().into()).exit, Exit::Closed);
        assert_eq!(Report::of(&io::Error::from(io::ErrorKind::NotFound).into()).exit, Exit::Failed);
        let json = serde_json::Error::io(broken());
        assert_eq!(Report::of(&json.into()).exit, Exit::Closed);
    }
}
