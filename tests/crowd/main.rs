//! Tests that load a whole machine. They are a separate binary with its own PostgreSQL, because they would
//! slow down the latency tests of `tests/it`.

#![expect(clippy::unwrap_used, reason = "a test that fails says where")]
#![expect(clippy::disallowed_methods, reason = "a test owns its tasks, and follows the true clock")]

mod hanging;
#[path = "../it/harness/mod.rs"]
#[expect(dead_code, unused_imports, reason = "most of it is for the tests of `tests/it`")]
mod harness;
