//! Principals, their keys, and the caller of a request.

pub mod access_tokens;
pub mod agents;
pub mod authentication;
pub(crate) mod authority;
pub mod caller;
pub mod entities;
pub mod epochs;
pub mod grants;
pub mod identities;
pub mod keys;
pub mod people;
pub mod principals;
pub mod quotas;
pub mod seeds;
pub mod server_keys;
pub mod teams;
