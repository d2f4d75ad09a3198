//! Feeds JSON into a type behind dynamic deserializers and a dynamic place for the value.
//!
//! A derived `Deserialize` is compiled once for each deserializer that it is used with, and a body passes through up to four of
//! them: the parser, the one that finds unknown members, the one that tracks the path of a fault, and the one that finds known
//! names. Behind [`erased_serde::Deserializer`] there is one.

use erased_serde::{Deserializer, Error};
use serde::de::DeserializeOwned;

/// A place for a value of some type.
pub(crate) trait Typed {
    /// Parses the value, and stores it.
    ///
    /// # Errors
    /// It is no value of this type, or no JSON.
    fn fill(&mut self, from: &mut dyn Deserializer<'_>) -> Result<(), Error>;

    /// Parses the value, and drops it.
    ///
    /// # Errors
    /// As [`Self::fill`].
    fn check(&self, from: &mut dyn Deserializer<'_>) -> Result<(), Error>;
}

impl<T: DeserializeOwned> Typed for Option<T> {
    fn fill(&mut self, from: &mut dyn Deserializer<'_>) -> Result<(), Error> {
        *self = Some(erased_serde::deserialize(from)?);
        Ok(())
    }

    fn check(&self, from: &mut dyn Deserializer<'_>) -> Result<(), Error> {
        erased_serde::deserialize::<T>(from).map(drop)
    }
}
