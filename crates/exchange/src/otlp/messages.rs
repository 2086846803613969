//! The messages of OpenTelemetry profiles, as far as they are read or written here, as protocol
//! buffers and as JSON.
//!
//! Source: `opentelemetry/proto/profiles/v1development/profiles.proto` and `common/v1/common.proto`
//! of <https://github.com/open-telemetry/opentelemetry-proto>, with the tables in a dictionary
//! (since version 1.8); JSON as its specification maps it: names in camel case, numbers of 64 bits
//! as text.

use serde::Deserialize;
use serde::de::Deserializer;

#[derive(Clone, PartialEq, prost::Message, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ProfilesData {
    #[prost(message, repeated, tag = "1")]
    pub(crate) resource_profiles: Vec<ResourceProfiles>,
    #[prost(message, optional, tag = "2")]
    pub(crate) dictionary: Option<Dictionary>,
}

#[derive(Clone, PartialEq, prost::Message, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ResourceProfiles {
    #[prost(message, optional, tag = "1")]
    pub(crate) resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) scope_profiles: Vec<ScopeProfiles>,
}

#[derive(Clone, PartialEq, prost::Message, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Resource {
    #[prost(message, repeated, tag = "1")]
    pub(crate) attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, prost::Message, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct KeyValue {
    #[prost(string, tag = "1")]
    pub(crate) key: String,
    #[prost(message, optional, tag = "2")]
    pub(crate) value: Option<AnyValue>,
    #[prost(int32, tag = "3")]
    #[serde(deserialize_with = "number")]
    pub(crate) key_strindex: i32,
}

/// Of the kinds of values the texts only.
#[derive(Clone, PartialEq, prost::Message, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct AnyValue {
    #[prost(string, optional, tag = "1")]
    pub(crate) string_value: Option<String>,
    #[prost(int32, tag = "8")]
    #[serde(deserialize_with = "number")]
    pub(crate) string_value_strindex: i32,
}

#[derive(Clone, PartialEq, prost::Message, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ScopeProfiles {
    #[prost(message, optional, tag = "1")]
    pub(crate) scope: Option<Scope>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) profiles: Vec<Profile>,
}

#[derive(Clone, PartialEq, prost::Message, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Scope {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) version: String,
}

#[derive(Clone, PartialEq, prost::Message, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Profile {
    #[prost(message, optional, tag = "1")]
    pub(crate) sample_type: Option<ValueType>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) samples: Vec<Sample>,
    #[prost(fixed64, tag = "3")]
    #[serde(deserialize_with = "number")]
    pub(crate) time_unix_nano: u64,
    #[prost(uint64, tag = "4")]
    #[serde(deserialize_with = "number")]
    pub(crate) duration_nano: u64,
    #[prost(message, optional, tag = "5")]
    pub(crate) period_type: Option<ValueType>,
    #[prost(int64, tag = "6")]
    #[serde(deserialize_with = "number")]
    pub(crate) period: i64,
    /// In JSON it is text in hex, which nothing here needs.
    #[prost(bytes = "vec", tag = "7")]
    #[serde(skip)]
    pub(crate) profile_id: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ValueType {
    #[prost(int32, tag = "1")]
    #[serde(deserialize_with = "number")]
    pub(crate) type_strindex: i32,
    #[prost(int32, tag = "2")]
    #[serde(deserialize_with = "number")]
    pub(crate) unit_strindex: i32,
}

#[derive(Clone, PartialEq, prost::Message, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Sample {
    #[prost(int32, tag = "1")]
    #[serde(deserialize_with = "number")]
    pub(crate) stack_index: i32,
    #[prost(int64, repeated, tag = "4")]
    #[serde(deserialize_with = "numbers")]
    pub(crate) values: Vec<i64>,
    #[prost(fixed64, repeated, tag = "5")]
    #[serde(deserialize_with = "numbers")]
    pub(crate) timestamps_unix_nano: Vec<u64>,
}

#[derive(Clone, PartialEq, prost::Message, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Dictionary {
    #[prost(message, repeated, tag = "1")]
    pub(crate) mapping_table: Vec<Mapping>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) location_table: Vec<Location>,
    #[prost(message, repeated, tag = "3")]
    #[serde(skip)]
    pub(crate) function_table: Vec<Function>,
    #[prost(message, repeated, tag = "4")]
    #[serde(skip)]
    pub(crate) link_table: Vec<Link>,
    #[prost(string, repeated, tag = "5")]
    pub(crate) string_table: Vec<String>,
    #[prost(message, repeated, tag = "6")]
    pub(crate) attribute_table: Vec<KeyValueAndUnit>,
    #[prost(message, repeated, tag = "7")]
    pub(crate) stack_table: Vec<Stack>,
}

#[derive(Clone, PartialEq, Eq, prost::Message, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Mapping {
    #[prost(uint64, tag = "1")]
    #[serde(deserialize_with = "number")]
    pub(crate) memory_start: u64,
    #[prost(uint64, tag = "2")]
    #[serde(deserialize_with = "number")]
    pub(crate) memory_limit: u64,
    #[prost(uint64, tag = "3")]
    #[serde(deserialize_with = "number")]
    pub(crate) file_offset: u64,
    #[prost(int32, tag = "4")]
    #[serde(deserialize_with = "number")]
    pub(crate) filename_strindex: i32,
    #[prost(int32, repeated, tag = "5")]
    #[serde(deserialize_with = "numbers")]
    pub(crate) attribute_indices: Vec<i32>,
}

#[derive(Clone, PartialEq, prost::Message, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Location {
    #[prost(int32, tag = "1")]
    #[serde(deserialize_with = "number")]
    pub(crate) mapping_index: i32,
    #[prost(uint64, tag = "2")]
    #[serde(deserialize_with = "number")]
    pub(crate) address: u64,
    #[prost(message, repeated, tag = "3")]
    #[serde(skip)]
    pub(crate) lines: Vec<Line>,
    #[prost(int32, repeated, tag = "4")]
    #[serde(deserialize_with = "numbers")]
    pub(crate) attribute_indices: Vec<i32>,
}

#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub(crate) struct Line {
    #[prost(int32, tag = "1")]
    pub(crate) function_index: i32,
}

#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub(crate) struct Function {
    #[prost(int32, tag = "1")]
    pub(crate) name_strindex: i32,
    #[prost(int32, tag = "2")]
    pub(crate) system_name_strindex: i32,
}

/// Only the one that stands for none is ever written.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub(crate) struct Link {}

#[derive(Clone, PartialEq, prost::Message, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct KeyValueAndUnit {
    #[prost(int32, tag = "1")]
    #[serde(deserialize_with = "number")]
    pub(crate) key_strindex: i32,
    #[prost(message, optional, tag = "2")]
    pub(crate) value: Option<AnyValue>,
}

#[derive(Clone, PartialEq, Eq, prost::Message, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Stack {
    #[prost(int32, repeated, tag = "1")]
    #[serde(deserialize_with = "numbers")]
    pub(crate) location_indices: Vec<i32>,
}

/// A number, or text that is one.
#[derive(Deserialize)]
#[serde(untagged)]
enum Stated<'t> {
    Unsigned(u64),
    Signed(i64),
    #[serde(borrow)]
    Text(std::borrow::Cow<'t, str>),
}

impl Stated<'_> {
    fn number<T: TryFrom<i128>, E: serde::de::Error>(self) -> Result<T, E> {
        let wide = match &self {
            Stated::Unsigned(number) => Some(i128::from(*number)),
            Stated::Signed(number) => Some(i128::from(*number)),
            Stated::Text(text) => text.parse().ok(),
        };
        let number = wide.and_then(|wide| T::try_from(wide).ok());
        number.ok_or_else(|| E::custom("expected a whole number that fits its field"))
    }
}

fn number<'de, T: TryFrom<i128>, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
    Stated::deserialize(from)?.number()
}

fn numbers<'de, T: TryFrom<i128>, D: Deserializer<'de>>(from: D) -> Result<Vec<T>, D::Error> {
    /// One after the other, so that they are not in memory twice.
    struct Visitor<T>(std::marker::PhantomData<T>);
    impl<'de, T: TryFrom<i128>> serde::de::Visitor<'de> for Visitor<T> {
        type Value = Vec<T>;

        fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            formatter.write_str("a list of whole numbers")
        }

        fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut all: A) -> Result<Vec<T>, A::Error> {
            let mut numbers = Vec::new();
            while let Some(stated) = all.next_element::<Stated<'de>>()? {
                numbers.push(stated.number::<T, A::Error>()?);
            }
            Ok(numbers)
        }
    }
    from.deserialize_seq(Visitor(std::marker::PhantomData))
}
