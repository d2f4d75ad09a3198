//! hearing
