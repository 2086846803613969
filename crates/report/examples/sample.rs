//! What do the reports look like? Writes a made-up comparison: `cargo run -p report --example
//! sample -- html > a.html`.

#[path = "../tests/sample/mod.rs"]
mod sample;

use report::compare::{Screen, html, markdown, terminal};

fn main() {
    let form = std::env::args().nth(1).unwrap_or_default();
    let (single, runs) = sample::single();
    let (whole, all) = (sample::measurement(), sample::evidence(30));
    let screen = |width, ascii| Screen { width, ascii, ..Screen::default() };
    print!(
        "{}",
        match form.as_str() {
            "html" => html(&whole, &all),
            "html-single" => html(&single, &runs),
            "markdown" => markdown(&whole),
            "single" => terminal(&single, &runs, screen(100, false)),
            "ascii" => terminal(&single, &runs, screen(100, true)),
            "narrow" => terminal(&single, &runs, screen(48, false)),
            _ => terminal(&whole, &all, screen(100, false)),
        }
    );
}
