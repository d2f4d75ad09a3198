//! vetoes
