//! powers
