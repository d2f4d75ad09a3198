//! Resources of tools and the credentials they are called with (RFC-0014).

pub(crate) mod invocations;
pub(crate) mod tool_credentials;
pub(crate) mod tool_grants;
pub(crate) mod vaults;
