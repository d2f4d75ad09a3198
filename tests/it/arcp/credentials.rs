//! Provisioned credentials (ARCP §9.8, §14): the requests to upstreams, and that no credential is left behind,
//! whichever step fails or crashes.

mod configuring;
mod minting;
mod revoking;
mod rotating;
mod sockets;
mod stage;
mod upstream;
mod working;
