//! Protobuf's text form as a tree, as far as the fixtures use it: `name: value`, `name { … }`,
//! `name: { … }`, `#` comments.

/// A message: its fields in file order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Message(Vec<(String, Value)>);

/// The value of a field.
#[derive(Debug, Clone, PartialEq)]
enum Value {
    /// A number, a word, or a string without its quotes.
    Scalar(String),
    Message(Message),
}

impl Message {
    /// Parses a whole file.
    pub fn parse(text: &str) -> Message {
        let mut words = Vec::new();
        for line in text.lines() {
            let line = line.split('#').next().unwrap();
            let spaced = line.replace('{', " { ").replace('}', " } ").replace(':', ": ");
            words.extend(spaced.split_whitespace().map(str::to_owned));
        }
        let mut words = words.into_iter();
        let message = Self::fields(&mut words);
        assert_eq!(words.next(), None, "a closing brace too much");
        message
    }

    fn fields(words: &mut std::vec::IntoIter<String>) -> Message {
        let mut fields = Vec::new();
        while let Some(word) = words.next() {
            if word == "}" {
                break;
            }
            let value = match words.next().expect("a value").as_str() {
                "{" => Value::Message(Self::fields(words)),
                scalar => Value::Scalar(scalar.trim_matches('"').to_owned()),
            };
            let name = word.strip_suffix(':').unwrap_or(&word).to_owned();
            fields.push((name, value));
        }
        Message(fields)
    }

    /// The messages of a repeated field.
    pub fn messages<'m>(&'m self, name: &'m str) -> impl Iterator<Item = &'m Message> {
        self.0.iter().filter(move |(field, _)| field == name).map(move |(_, value)| match value {
            Value::Message(message) => message,
            Value::Scalar(scalar) => panic!("expected a message as {name}, found {scalar}"),
        })
    }

    /// The texts of a repeated field.
    pub fn scalars<'m>(&'m self, name: &'m str) -> impl Iterator<Item = &'m str> {
        self.0.iter().filter(move |(field, _)| field == name).map(move |(_, value)| match value {
            Value::Scalar(scalar) => scalar.as_str(),
            Value::Message(_) => panic!("expected a value as {name}, found a message"),
        })
    }

    /// A number; `None` where the field is not there.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.scalars(name).next().map(|text| text.parse().expect("a number"))
    }
}
