//! Tests that load a whole machine. They are a separate binary with its own PostgreSQL, because they would
//! slow down the latency tests of `tests/it`.

mod hanging;
