//! Reading cursors: a tool that reads takes a short name, under which the server keeps the agent's place (MCP-W-6.3).
//!
//! `c1` continues after the last answer under this name, which acknowledges it. Every answer returns its number, as in
//! `c1.7`: sending that continues after it too. An answer that got lost is repeated by the cursor of the answer before it
//! (`c1.6`).

use entente_domain::refusal::{Code, Refusal};
use entente_http::error::Problem;
use entente_http::presence::Presence;
use entente_kernel::cursors;
use entente_kernel::cursors::{CursorName, ReadingCursor};

use super::Call;

/// Maximum length of a name: models copy short ones without faults.
const NAME_BYTES: usize = 32;

/// The place of a reader under a name.
pub(super) struct Place {
    subject: String,
    name: String,
    /// Number of the last stored answer; 0 for a new cursor.
    seen: i64,
    /// Number of the next answer.
    answer: i64,
    /// Position where the next answer begins.
    from: Option<String>,
}

impl Place {
    /// Returns the place of the cursor that a call names, if it names one. `after` sets a cursor to another position.
    ///
    /// # Errors
    /// The name is invalid, the number is none of the last two answers, or the agent has too many cursors.
    pub async fn open(
        call: &Call,
        subject: String,
        said: Option<&str>,
        after: Option<&str>,
    ) -> Result<Option<Self>, Problem> {
        let Some(said) = said else { return Ok(None) };
        let (name, number) = read(said).ok_or_else(|| invalid(said))?;
        let known = CursorName { subject: &subject, name };
        let found = cursors::find(call.ctx(), &call.caller, known).await?;
        let seen = found.as_ref().map_or(0, |found| found.answer);
        let set = after.map(str::to_owned);
        let (from, answer) = match (found, number) {
            _ if set.is_some() => (set, seen + 1),
            (Some(found), None) => (Some(found.ended), seen + 1),
            (Some(found), Some(number)) if number == seen => (Some(found.ended), seen + 1),
            (Some(found), Some(number)) if number.checked_add(1) == Some(seen) => (found.began, seen),
            (None, None | Some(0)) => (None, 1),
            (_, Some(_)) => return Err(stale(said, name).into()),
        };
        Ok(Some(Self { name: name.to_owned(), subject, seen, answer, from }))
    }

    /// Returns the position where a call reads on: that of its cursor, or else `after`.
    pub fn from<'a>(place: Option<&'a Self>, after: Option<&'a str>) -> Option<&'a str> {
        place.map_or(after, |place| place.from.as_deref())
    }

    /// Sets the position where the first answer of a new cursor begins, so that it can be repeated.
    pub fn begins(place: &mut Option<Self>, at: impl FnOnce() -> Option<String>) {
        if let Some(place) = place
            && place.from.is_none()
        {
            place.from = at();
        }
    }

    /// Stores the position after an answer, and returns the answer's cursor. A client that has disconnected gets no
    /// answer, so its place stays.
    ///
    /// # Errors
    /// The client has disconnected; another call has moved the cursor.
    pub async fn keep(place: Option<Self>, call: &Call, ended: &str) -> Result<Option<String>, Problem> {
        let Some(Self { subject, name, seen, answer, from }) = place else { return Ok(None) };
        if call.presence.is_gone().await {
            return Err(Presence::refusal());
        }
        let next = ReadingCursor { answer, began: from, ended: ended.to_owned() };
        let known = CursorName { subject: &subject, name: &name };
        if cursors::keep(call.ctx(), &call.caller, known, seen, &next).await? {
            return Ok(Some(format!("{name}.{answer}")));
        }
        let message = format!(
            "Another call has moved the cursor `{name}` meanwhile. Nothing is lost: call again with `{name}`, one call at a time."
        );
        Err(Refusal::new(Code::Unavailable, message).into())
    }
}

/// Reads `name` or `name.number`.
fn read(said: &str) -> Option<(&str, Option<i64>)> {
    let (name, number) = match said.split_once('.') {
        Some((name, number)) => (name, Some(number.parse().ok().filter(|number| *number >= 0)?)),
        None => (said, None),
    };
    let lawful = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    ((1..=NAME_BYTES).contains(&name.len()) && name.bytes().all(lawful)).then_some((name, number))
}

fn invalid(said: &str) -> Refusal {
    let message = format!(
        "`{said}` is no cursor: choose a name of up to {NAME_BYTES} letters, digits, `-` and `_`, such as `c1`, or send the \
         `cursor` of the last answer, such as `c1.7`."
    );
    Refusal::field(Code::InvalidRequest, "cursor", "pattern", message)
}

fn stale(said: &str, name: &str) -> Refusal {
    let message = format!(
        "`{said}` is neither the last answer of the cursor `{name}` nor the one before. Send `{name}` to continue, or to begin."
    );
    Refusal::field(Code::InvalidRequest, "cursor", "value", message)
}
