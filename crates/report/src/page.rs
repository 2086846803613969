//! What do all pages have in common? One file that loads nothing: its head, its policy, the style
//! of text, tables and buttons, and data that cannot become markup.

use crate::compare::markup::Markup;
use crate::policy::policy;
use std::borrow::Cow;

/// A page but for its content.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame<'f> {
    /// What the window is called.
    pub(crate) title: &'f str,
    /// Its style, beginning with `page.css`.
    pub(crate) style: &'static str,
    /// What it can do.
    pub(crate) script: &'static str,
}

/// The page around its content. `data` is JSON that the script finds in the element `data`.
pub(crate) fn whole(frame: Frame<'_>, content: Markup, data: Option<&str>) -> String {
    let mut out = Markup::default();
    out.raw("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>");
    let policy = policy(frame.style, Some(frame.script));
    out.empty("meta", &[("http-equiv", &"Content-Security-Policy"), ("content", &policy)]);
    out.raw(
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/><meta \
         name=\"color-scheme\" content=\"light dark\"/><meta name=\"referrer\" \
         content=\"no-referrer\"/><link rel=\"icon\" href=\"data:,\"/>",
    );
    out.leaf("title", &[], frame.title);
    out.raw("<style>");
    out.raw(frame.style);
    out.raw("</style></head><body><main>");
    out.append(content);
    out.raw("</main>");
    if let Some(data) = data {
        out.raw("<script type=\"application/json\" id=\"data\">");
        out.json(data);
        out.raw("</script>");
    }
    out.raw("<script>");
    out.raw(frame.script);
    out.raw("</script></body></html>\n");
    out.finish()
}

/// JSON as it may stand within an element: the same value without anything that markup begins or
/// ends with.
pub(crate) fn inert(json: &str) -> Cow<'_, str> {
    let json = crate::escape::json(json);
    if !json.contains(['<', '>', '&']) {
        return json;
    }
    Cow::Owned(json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_keeps_its_value_and_ends_no_element() {
        let value = serde_json::json!(["</script><!--", "a&b", "\u{202e}\u{2028}\"'", "]]>"]);
        let text = value.to_string();
        let shown = inert(&text);
        assert!(!shown.contains(['<', '>', '&', '\u{202e}']), "{shown}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
        let frame = Frame { title: "</title>", style: "", script: "" };
        let page = whole(frame, Markup::default(), Some(&text));
        assert_eq!(page.matches("</script>").count(), 2, "{page}");
        assert_eq!(page.matches("</title>").count(), 1, "{page}");
    }
}
