//! A calling context: the path of calls that led to a function, as context-sensitive profiles name
//! it.

use std::fmt;

use crate::{Location, Name};

/// A function on the way, and where in it the next one was called; in the last one that is no place
/// (0).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Frame {
    /// The function.
    pub function: Name,
    /// The call in it.
    pub location: Location,
}

/// A path of calls, outermost first, never empty. Sorted as LLVM sorts contexts: frame by frame.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Context {
    frames: Vec<Frame>,
}

impl Context {
    /// The context of `function` that `callers` led to.
    pub fn new(mut callers: Vec<Frame>, function: Name) -> Context {
        callers.push(Frame { function, location: Location::default() });
        Context { frames: callers }
    }

    /// Reads what stands between the brackets: `main:3 @ foo:2.1 @ bar`. A text that is no context
    /// is one function.
    pub fn parse(text: &str) -> Context {
        let inner = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
        let (callers, function) = match inner.rsplit_once(" @ ") {
            Some((callers, function)) => (Some(callers), function),
            None => (None, inner),
        };
        let callers: Option<Vec<Frame>> =
            callers.map_or(Some(Vec::new()), |callers| callers.split(" @ ").map(frame).collect());
        match callers {
            Some(callers) if !function.is_empty() || callers.is_empty() => {
                Context::new(callers, Name::parse(function))
            }
            _ => Context::new(Vec::new(), Name::text(text)),
        }
    }

    /// The context that a name of a context-sensitive profile spells.
    pub fn of(name: &Name) -> Context {
        match name {
            Name::Text(text) if name.is_context() => Context::parse(text),
            _ => Context::new(Vec::new(), name.clone()),
        }
    }

    /// Its name in a profile: `[main:3 @ foo]`, and a function alone without brackets.
    pub fn name(&self) -> Name {
        match self.frames.as_slice() {
            [only] => only.function.clone(),
            _ => Name::text(&format!("[{self}]")),
        }
    }

    /// All frames, the function itself last.
    pub fn frames(&self) -> &[Frame] {
        &self.frames
    }

    /// The function itself.
    pub fn function(&self) -> Name {
        self.frames.last().map(|frame| frame.function.clone()).unwrap_or_default()
    }

    /// Whether it is a function without callers.
    pub fn is_base(&self) -> bool {
        self.frames.len() == 1
    }

    /// The caller's context and the place of the call in it.
    pub fn caller(&self) -> Option<(Context, Location)> {
        let (_, callers) = self.frames.split_last()?;
        let (last, outer) = callers.split_last()?;
        Some((Context::new(outer.to_vec(), last.function.clone()), last.location))
    }

    /// The same with hashes in place of names.
    pub fn with_hashes(&self) -> Context {
        let hashed =
            |frame: &Frame| Frame { function: Name::Hash(frame.function.hash()), ..frame.clone() };
        Context { frames: self.frames.iter().map(hashed).collect() }
    }
}

impl fmt::Display for Context {
    /// Without brackets: `main:3 @ foo`.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let last = self.frames.len().saturating_sub(1);
        for (at, frame) in self.frames.iter().enumerate() {
            match at == last {
                true => write!(out, "{}", frame.function)?,
                false => write!(out, "{}:{} @ ", frame.function, frame.location)?,
            }
        }
        Ok(())
    }
}

/// `name:3` or `name:3.1`.
fn frame(text: &str) -> Option<Frame> {
    let (name, location) = text.rsplit_once(':')?;
    let (line, discriminator) = location.split_once('.').unwrap_or((location, "0"));
    // No format has a place for more.
    let line = number(line).filter(|line| *line <= u32::from(u16::MAX))?;
    let location = Location::new(line, number(discriminator)?);
    (!name.is_empty()).then(|| Frame { function: Name::parse(name), location })
}

fn number(text: &str) -> Option<u32> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_are_read_and_spelled_alike() {
        for text in ["[main:3 @ foo]", "[main:3 @ foo:2.7 @ 123]", "[a::b(c):65535 @ d]"] {
            let context = Context::of(&Name::text(text));
            assert_eq!(context.name(), Name::text(text));
            assert!(!context.is_base());
        }
        let context = Context::parse("[main:3 @ foo:2 @ bar]");
        assert_eq!(context.function(), Name::text("bar"));
        let (caller, at) = context.caller().unwrap_or_else(|| panic!("a caller"));
        assert_eq!((caller.name(), at), (Name::text("[main:3 @ foo]"), Location::new(2, 0)));
        assert!(Context::of(&Name::text("foo")).is_base());
        // No context: kept as a name, whatever it means.
        let odd = Context::of(&Name::text("[main @ foo]"));
        assert_eq!((odd.is_base(), odd.name()), (true, Name::text("[main @ foo]")));
        assert!(Context::of(&Name::text("[main:65536 @ foo]")).is_base());
    }

    #[test]
    fn contexts_are_sorted_by_frames_and_not_by_text() {
        let parse = Context::parse;
        assert!(parse("main:3 @ foo") < parse("main:10 @ foo"));
        assert!(parse("main") < parse("main:1 @ foo"));
        assert!(parse("a:1 @ z") < parse("b"));
    }
}
