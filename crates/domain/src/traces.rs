//! Traces (RFC-0020): what one request belongs to across agents and servers, in the words of W3C Trace Context.
//!
//! An event says its trace in `trace_id`. A request says its own in the header `traceparent`, and everything that it
//! records or sends on belongs to it.

use std::fmt;

use crate::ids::Chance;

/// A place in a trace: the trace itself, and the step in it that something is done for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trace {
    trace_id: u128,
    span_id: u64,
    sampled: bool,
}

impl Trace {
    /// A place in a trace by its numbers. `None` when one of them is zero, which is no id.
    #[must_use]
    pub fn new(trace_id: u128, span_id: u64, sampled: bool) -> Option<Self> {
        (trace_id != 0 && span_id != 0).then_some(Self { trace_id, span_id, sampled })
    }

    /// The trace's id as a number.
    #[must_use]
    pub fn trace_bits(&self) -> u128 {
        self.trace_id
    }

    /// The step's id as a number.
    #[must_use]
    pub fn span_bits(&self) -> u64 {
        self.span_id
    }

    /// Reads a `traceparent` header: `00-<32 hex>-<16 hex>-<2 hex>`, small letters, neither id all zeros. Of a version
    /// that is not known yet the first four parts are read, as the standard asks. `None` when it is not one: the
    /// standard has it ignored, not refused.
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

    /// A trace known by its id only (`trace_id` of an event), at a step of its own. `None` when it is no trace id.
    #[must_use]
    pub fn of_id(trace_id: &str, chance: &dyn Chance) -> Option<Self> {
        let trace_id = hex(&trace_id.to_ascii_lowercase(), 32).filter(|id| *id != 0)?;
        Some(Self { trace_id, span_id: 1, sampled: true }.step(chance))
    }

    /// The next step of the trace, for what is passed on to others.
    #[must_use]
    pub fn step(self, chance: &dyn Chance) -> Self {
        // The low half of 128 fresh bits; zero would be no id.
        let low = u64::try_from(chance.bits() & u128::from(u64::MAX)).unwrap_or(1);
        Self { span_id: low.max(1), ..self }
    }

    /// The trace's id: 32 hexadecimal digits.
    #[must_use]
    pub fn id(&self) -> String {
        format!("{:032x}", self.trace_id)
    }

    /// The step's id: 16 hexadecimal digits.
    #[must_use]
    pub fn span_id(&self) -> String {
        format!("{:016x}", self.span_id)
    }

    /// Whether whoever began the trace records it.
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

/// Exactly so many hexadecimal digits, small letters.
fn hex(text: &str, digits: usize) -> Option<u128> {
    let lawful =
        text.len() == digits && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    if lawful { u128::from_str_radix(text, 16).ok() } else { None }
}
