//! Traces (RFC-0020): correlate requests across agents and servers, following W3C Trace Context.
//!
//! An event names its trace in `trace_id`. A request names its own in the header `traceparent`; everything that it
//! records or sends belongs to that trace.

use std::fmt;

use crate::ids::Chance;

/// A position in a trace: the trace id and the current span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trace {
    trace_id: u128,
    span_id: u64,
    sampled: bool,
}

impl Trace {
    /// Creates a position from ids; `None` if one of them is zero, which is invalid.
    #[must_use]
    pub fn new(trace_id: u128, span_id: u64, sampled: bool) -> Option<Self> {
        (trace_id != 0 && span_id != 0).then_some(Self { trace_id, span_id, sampled })
    }

    /// Returns the trace id as a number.
    #[must_use]
    pub fn trace_bits(&self) -> u128 {
        self.trace_id
    }

    /// Returns the span id as a number.
    #[must_use]
    pub fn span_bits(&self) -> u64 {
        self.span_id
    }

    /// Parses a `traceparent` header: `00-<32 hex>-<16 hex>-<2 hex>`, lower case, neither id all zeros; `None` if it
    /// is invalid.
    ///
    /// Of a later version only the first four parts are read, as the standard asks; it also asks to ignore invalid
    /// headers, not to refuse them.
    #[must_use]
    pub fn parse(header: &str) -> Option<Self> {
        let mut parts = header.trim().splitn(5, '-');
        let version = hex(parts.next()?, 2)?;
        let trace_id = hex(parts.next()?, 32)?;
        let span_id = u64::try_from(hex(parts.next()?, 16)?).ok()?;
        let flags = hex(parts.next()?, 2)?;
        let more = parts.next().is_some();
        let lawful = version != 0xff && (version != 0 || !more);
        Self::new(trace_id, span_id, flags & 1 == 1).filter(|_| lawful)
    }

    /// Creates a position in a trace known only by its id (`trace_id` of an event), with a new span; `None` if the id
    /// is invalid.
    #[must_use]
    pub fn of_id(trace_id: &str, chance: &dyn Chance) -> Option<Self> {
        let trace_id = hex(&trace_id.to_ascii_lowercase(), 32).filter(|id| *id != 0)?;
        Some(Self { trace_id, span_id: 1, sampled: true }.step(chance))
    }

    /// Starts the next span of the trace, for outgoing requests.
    #[must_use]
    pub fn step(self, chance: &dyn Chance) -> Self {
        // The low half of 128 random bits; zero would be an invalid id.
        let low = u64::try_from(chance.bits() & u128::from(u64::MAX)).unwrap_or(1);
        Self { span_id: low.max(1), ..self }
    }

    /// Returns the trace id: 32 hexadecimal digits.
    #[must_use]
    pub fn id(&self) -> String {
        format!("{:032x}", self.trace_id)
    }

    /// Returns the span id: 16 hexadecimal digits.
    #[must_use]
    pub fn span_id(&self) -> String {
        format!("{:016x}", self.span_id)
    }

    /// Returns whether the originator of the trace records it.
    #[must_use]
    pub fn sampled(&self) -> bool {
        self.sampled
    }
}

impl fmt::Display for Trace {
    /// Writes the header `traceparent`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.trace_id, self.span_id, u8::from(self.sampled))
    }
}

/// Parses exactly so many hexadecimal digits in lower case.
fn hex(text: &str, digits: usize) -> Option<u128> {
    let lawful =
        text.len() == digits && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    if lawful { u128::from_str_radix(text, 16).ok() } else { None }
}
