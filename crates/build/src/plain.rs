//! What a parser says of a wrong value, in words for those who wrote it.

/// What serde calls a type, and what people call it.
const TYPES: [(&str, &str); 11] = [
    ("a sequence", "a list (as in [\"a\", \"b\"])"),
    ("a map", "a table"),
    ("a boolean", "true or false"),
    ("u8", "a whole number from 0 to 255"),
    ("u16", "a whole number from 0 to 65535"),
    ("u32", "a whole number from 0 to 4294967295"),
    ("u64", COUNT),
    ("usize", COUNT),
    ("i64", "a whole number"),
    ("f64", "a number"),
    ("f32", "a number"),
];
const COUNT: &str = "a whole number from 0";

/// The message with its `invalid type: string "x", expected u32` as `found the string "x" where a
/// whole number from 0 is expected`; other lines as they are.
pub(crate) fn plain(message: &str) -> String {
    message.lines().map(line).collect::<Vec<_>>().join("\n")
}

fn line(line: &str) -> String {
    reworded(line).or_else(|| one_of(line)).unwrap_or_else(|| line.to_owned())
}

fn reworded(line: &str) -> Option<String> {
    let (before, rest) =
        ["invalid type: ", "invalid value: "].iter().find_map(|words| line.split_once(words))?;
    let (found, wanted) = rest.rsplit_once(", expected ")?;
    let found = match found.split_once(' ') {
        Some(("string", text)) => format!("the string {text}"),
        Some(("integer", number)) => number.trim_matches('`').to_owned(),
        Some(("boolean", value)) => value.trim_matches('`').to_owned(),
        _ => match found.strip_prefix("floating point ") {
            Some(number) => number.trim_matches('`').to_owned(),
            None => match found {
                "sequence" => "a list".to_owned(),
                "map" => "a table".to_owned(),
                other => other.to_owned(),
            },
        },
    };
    let wanted = TYPES.iter().find(|(name, _)| *name == wanted).map_or(wanted, |(_, plain)| plain);
    Some(format!("{before}found {found} where {wanted} is expected"))
}

fn one_of(line: &str) -> Option<String> {
    let (before, rest) = line.split_once("unknown variant ")?;
    let (found, wanted) = rest.split_once(", expected ")?;
    Some(format!("{before}there is no {found}; expected {wanted}"))
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn types_have_the_names_that_people_give_them() {
        for (said, expected) in [
            (
                "invalid type: string \"x, expected\", expected u32",
                "found the string \"x, expected\" where a whole number from 0 to 4294967295 is expected",
            ),
            (
                "invalid value: integer `-3`, expected u32",
                "found -3 where a whole number from 0 to 4294967295 is expected",
            ),
            (
                "  invalid type: floating point `1.5`, expected u64",
                "  found 1.5 where a whole number from 0 is expected",
            ),
            (
                "invalid type: boolean `true`, expected a string",
                "found true where a string is expected",
            ),
            ("invalid type: sequence, expected a map", "found a list where a table is expected"),
            ("invalid type: map, expected f64", "found a table where a number is expected"),
            ("unknown variant `x`, expected `a` or `b`", "there is no `x`; expected `a` or `b`"),
            ("expected a command\nas is", "expected a command\nas is"),
        ] {
            assert_eq!(plain(said), expected);
        }
    }
}
