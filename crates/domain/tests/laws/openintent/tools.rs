//! Tools (RFC-0014): calls, grants, and the encryption of secrets.

mod tool_calls;
mod tool_grants;
mod tool_secrets;
mod vault_keys;
