//! Tools and the credentials they are called with (RFC-0014).

pub mod invocations;
pub mod tool_credentials;
pub mod tool_grants;
pub mod vaults;
