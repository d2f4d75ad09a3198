//! What takes a whole machine for a while: a program of its own, with a PostgreSQL of its own, because it would keep the tests
//! of `tests/it` waiting that measure how soon something comes.

#![expect(clippy::unwrap_used, reason = "a test that fails says where")]
#![expect(clippy::disallowed_methods, reason = "a test owns its tasks, and follows the true clock")]

mod hanging;
#[path = "../it/harness/mod.rs"]
#[expect(dead_code, unused_imports, reason = "most of it is for the tests of `tests/it`")]
mod harness;
