//! What does a real browser make of the page? Chromium opens it, clicks, and is asked for errors
//! and requests.
#![allow(clippy::unwrap_used)] // In a test the place of the failure says enough.

mod chromium;
mod sample;

use chromium::Browser;
use compare::result::{Evidence, Measurement};
use serde_json::json;
use std::time::Duration;

/// Names that would do something if they were taken for markup.
fn hostile() -> (Measurement, Vec<Evidence>) {
    let (mut m, e) = (sample::measurement(), sample::evidence(6));
    let text = serde_json::to_string(&m).unwrap();
    let names = [
        ("profile", "<script>document.title='taken'</script>"),
        ("no-ipa-sra", "\"><img src=x onerror=\"document.title='taken'\">"),
        ("select-join", "]]></title></style><svg onload=alert(1)>"),
        ("n1-arm", "'); document.title='taken'; //"),
    ];
    let quoted = |name: &str| serde_json::to_string(name).unwrap();
    let replaced =
        names.iter().fold(text, |text, (old, new)| text.replace(&quoted(old), &quoted(new)));
    m.clone_from(&serde_json::from_str(&replaced).unwrap());
    (m, e)
}

/// One browser for all questions: starting it is what takes time.
#[test]
fn the_page_works_in_chromium_without_errors_and_without_network() {
    let Some(browser) = Browser::start() else { return };
    let (m, e) = (sample::measurement(), sample::evidence(12));

    browser.open(&report::compare::html(&m, &e));
    let shown = "return [document.querySelectorAll('details.machine[open]').length, document.querySelectorAll('svg.pic').length]";
    assert_eq!(browser.run(shown), json!([0, 41]));
    browser.assert_silent();

    // A click on a cell opens the pictures behind it.
    browser.click("a.cell[href='#b1m0']");
    let state = "return [document.querySelector('#b1m0').open, document.activeElement.parentElement.id, \
                 document.querySelector('#b1m0 svg').getBoundingClientRect().width > 100, \
                 Math.abs(document.querySelector('#b1m0').getBoundingClientRect().top) < 200, \
                 document.querySelectorAll('details.machine[open]').length]";
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(browser.run(state), json!([true, "b1m0", true, true, 1]));

    // The keyboard does the same.
    browser.run("document.querySelector(\"a.cell[href='#b2m1']\").focus()");
    browser.key("Enter");
    std::thread::sleep(Duration::from_millis(100));
    let state =
        "return [document.querySelector('#b2m1').open, document.activeElement.parentElement.id]";
    assert_eq!(browser.run(state), json!([true, "b2m1"]));
    browser.click("button[data-all='open']");
    assert_eq!(
        browser.run("return document.querySelectorAll('details.machine:not([open])').length"),
        json!(0)
    );
    browser.click("button[data-all='close']");
    assert_eq!(
        browser.run("return document.querySelectorAll('details.machine[open]').length"),
        json!(0)
    );
    // Paper shows everything.
    browser.run("window.dispatchEvent(new Event('beforeprint'))");
    assert_eq!(
        browser.run("return document.querySelectorAll('details:not([open])').length"),
        json!(0)
    );
    browser.assert_silent();

    // Nothing is wider than the window, but for what moves sideways by itself.
    browser.assert_good_to_look_at("compare");

    let (m, e) = hostile();
    browser.open(&report::compare::html(&m, &e));
    let harmless = "return [document.title.includes('<script>'), document.images.length, document.scripts.length, \
                    document.querySelectorAll('[onerror],[onload]').length, document.body.innerText.includes('<img src=x')]";
    assert_eq!(browser.run(harmless), json!([true, 0, 1, 0, true]));
    browser.click("a.cell[href='#b1m1']");
    browser.assert_silent();

    // The check itself is not blind.
    browser.run(
        "document.body.appendChild(document.createElement('img')).src = 'http://127.0.0.1:9/a.png'",
    );
    std::thread::sleep(Duration::from_millis(200));
    let (complaints, requests) = browser.said();
    assert!(complaints[0].as_str().unwrap().contains("Content Security Policy"), "{complaints:?}");
    assert_eq!(requests, ["http://127.0.0.1:9/a.png"]);
}
