//! Bundles: files of one intent that show every change of themselves.

mod files;
