//! Integration tests of the kernel: identities, limits, logs, webhooks, inboxes, loops and waits.
//! Real servers on a real PostgreSQL, raw JSON over real sockets, and a clock that the tests control.

#![expect(clippy::unwrap_used, reason = "a test that fails says where")]
#![expect(clippy::disallowed_methods, reason = "a test owns its tasks, and some follow the true clock")]
#![expect(clippy::similar_names, reason = "`asked` and `asker` are what they are")]

mod kernel;
