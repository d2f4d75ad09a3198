//! Options of connections to NATS, for the bus of servers and the brokers of sinks.

use async_nats::{ConnectOptions, ServerAddr};
use percent_encoding::percent_decode_str;

/// Returns the options of a connection that re-establishes itself, with the user and password, or the token, in the URL.
pub(super) fn options(address: &ServerAddr) -> ConnectOptions {
    let options = ConnectOptions::new().name("entente").retry_on_initial_connect();
    match (address.username(), address.password()) {
        (Some(user), Some(password)) => options.user_and_password(unescaped(user), unescaped(password)),
        (Some(token), None) => options.token(unescaped(token)),
        (None, _) => options,
    }
}

/// Returns a part of a URL as it was before it was escaped.
fn unescaped(part: &str) -> String {
    percent_decode_str(part).decode_utf8_lossy().into_owned()
}
