//! Principals, keys, people, and the keys that agents sign with.

mod authority;
mod identities;
mod keys;
mod people;
mod principals;
mod provider;
mod quotas;
mod signatures;
