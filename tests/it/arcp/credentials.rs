//! Provisioned credentials (ARCP §9.8, §14): what upstreams are asked, and that nothing that was made is left, whatever
//! fails or dies in between.

mod configuring;
mod minting;
mod revoking;
mod rotating;
mod sockets;
mod stage;
mod upstream;
mod working;
