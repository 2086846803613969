//! How is text set off on a terminal?

/// A colour with a meaning, never the only sign of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    /// Good news.
    Good,
    /// Bad news.
    Bad,
    /// Worth a look.
    Care,
    /// Background.
    Faint,
    /// A heading.
    Strong,
}

/// Whether escape sequences are written.
#[derive(Clone, Copy, Debug, Default)]
pub struct Style {
    /// True on a terminal whose user does not object (NO_COLOR).
    pub colour: bool,
}

impl Style {
    /// The text in a colour, or as it is.
    pub fn paint(self, colour: Colour, text: &str) -> String {
        if !self.colour {
            return text.to_owned();
        }
        let code = match colour {
            Colour::Good => "32",
            Colour::Bad => "31",
            Colour::Care => "33",
            Colour::Faint => "2",
            Colour::Strong => "1",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}
