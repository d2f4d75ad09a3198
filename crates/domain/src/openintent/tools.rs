//! Tools and the credentials they are called with (RFC-0014).

pub mod auth_types;
pub mod invocations;
pub mod tool_calls;
pub mod tool_credentials;
pub mod tool_grants;
pub mod tool_secrets;
pub mod vault_keys;
pub mod vaults;
