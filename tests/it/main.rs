//! The tests through the door: a real server on a real PostgreSQL, raw JSON over real sockets, time in the test's hand.

mod access;
mod agents;
mod asks;
mod channels;
mod events;
mod harness;
mod intents;
mod keys;
mod messages;
mod streams;
