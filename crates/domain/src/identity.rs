//! Principals, people, keys and signatures.

pub mod agent_keys;
pub mod attestations;
pub mod authority;
pub mod epochs;
pub mod fences;
pub mod identities;
pub mod keys;
pub mod people;
pub mod principals;
pub mod provider;
pub mod provider_logins;
pub mod quotas;
pub mod signatures;
