//! A2A 1.0.

mod mapping;
