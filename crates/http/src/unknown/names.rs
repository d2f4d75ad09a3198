//! The known names of the objects in a body: a type's structs tell them only to the deserializer that feeds them.

use std::cell::RefCell;

use serde::de::value::{MapDeserializer, SeqDeserializer};
use serde::de::{Deserializer, IntoDeserializer, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::{Error, Value};

use super::typed::Typed;

/// The members of an object, as its type declares them, other spellings included.
type Fields = &'static [&'static str];

/// Returns for each path of a member the names that the members of its object have; `None` where the type does not tell.
pub(super) fn known(value: &dyn Typed, body: &Value, paths: &[&[String]]) -> Vec<Option<Fields>> {
    let found = RefCell::new(vec![None; paths.len()]);
    let open = paths.iter().copied().enumerate().collect();
    // The body was parsed before. Should this fail all the same, the names found until then are right.
    let probe = Probe { value: body, open, found: &found };
    let _parsed_again = value.check(&mut <dyn erased_serde::Deserializer<'_>>::erase(probe));
    found.into_inner()
}

/// Feeds a value into its type, and notes the names of the structs on the way to the wanted members.
struct Probe<'a> {
    value: &'a Value,
    /// The wanted members below this value: their numbers, and the rest of their paths.
    open: Vec<(usize, &'a [String])>,
    found: &'a RefCell<Vec<Option<Fields>>>,
}

impl<'a> Probe<'a> {
    /// Returns the probe of a member or item.
    fn below(&self, segment: &str, value: &'a Value) -> Self {
        let inside = |(index, path): &(usize, &'a [String])| match path.split_first() {
            Some((first, rest)) if first == segment && !rest.is_empty() => Some((*index, rest)),
            _ => None,
        };
        Self { value, open: self.open.iter().filter_map(inside).collect(), found: self.found }
    }

    fn note(&self, fields: Fields) {
        let mut found = self.found.borrow_mut();
        for (index, path) in &self.open {
            if path.len() == 1
                && let Some(place) = found.get_mut(*index)
            {
                *place = Some(fields);
            }
        }
    }
}

impl<'de> Deserializer<'de> for Probe<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.value {
            Value::Array(items) if !self.open.is_empty() => {
                let items = items.iter().enumerate();
                visitor.visit_seq(SeqDeserializer::new(
                    items.map(|(index, item)| self.below(&index.to_string(), item)),
                ))
            }
            Value::Object(members) if !self.open.is_empty() => visitor.visit_map(MapDeserializer::new(
                members.iter().map(|(name, member)| (name.as_str(), self.below(name, member))),
            )),
            value => value.deserialize_any(visitor),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: Fields,
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.note(fields);
        self.deserialize_any(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.value.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        if self.open.is_empty() {
            // Raw JSON passes for a newtype, which only the value's own deserializer knows.
            return self.value.deserialize_newtype_struct(name, visitor);
        }
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: Fields,
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.value.deserialize_enum(name, variants, visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map identifier ignored_any
    }
}

impl<'de> IntoDeserializer<'de, Error> for Probe<'de> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}
