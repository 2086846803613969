//! What are the keys for?

use crate::views::View;

/// Keys and what they do, in groups.
pub(crate) fn all(live: bool) -> Vec<(&'static str, Vec<(&'static str, &'static str)>)> {
    let mut change = vec![
        ("b", "rows by another thing: function, library, thread, …; waits: by thread, by stack"),
        ("o", "another order"),
        ("e E", "the next event, the one before"),
        ("p", "leave out what is below a percentage"),
        ("f", "only the samples of this line: through the function, of the thread, …"),
        ("u Backspace", "take the last f back"),
    ];
    if live {
        change.extend([("z", "begin anew"), ("Space", "stand still, go on")]);
    } else {
        change.push(("t", "only a part of the time"));
    }
    vec![
        (
            "See",
            vec![
                ("1 … 8 Tab", "the views at the top"),
                ("Enter", "callers of a function; samples of a thread, …; open or close a line"),
                ("c", "callers: who called this function"),
                ("C", "callees: what this function called"),
                ("s", "source lines and instructions of this function"),
                ("w", "the whole name of this line"),
                ("Esc", "back to the view before"),
            ],
        ),
        (
            "Move",
            vec![
                ("Up Down k j", "a line"),
                ("PgUp PgDn", "a page"),
                ("Home End g G", "to the first, the last line"),
                ("Right Left", "open, close a line of a tree"),
                ("* -", "open, close all below it"),
            ],
        ),
        ("Search", vec![("/", "search for a name"), ("n N", "the next one, the one before")]),
        ("Change", change),
        (
            "End",
            vec![
                ("m", "mouse on, off: click a line (off, the terminal marks text)"),
                ("Ctrl-L", "draw anew"),
                ("Ctrl-Z", "suspend; `fg` comes back"),
                ("?", "this help"),
                ("q", "quit"),
            ],
        ),
    ]
}

/// The keys that matter most in a view, for the last line.
pub(crate) fn line(view: View, live: bool) -> Vec<(&'static str, &'static str)> {
    let mut keys = match view {
        View::Hot => vec![("Enter", "callers"), ("C", "callees"), ("s", "lines"), ("b", "by")],
        View::Callers | View::Callees | View::Tree => {
            vec![("Enter", "open"), ("c", "callers"), ("C", "callees"), ("s", "lines")]
        }
        View::Lines => vec![("Enter", "open"), ("o", "order"), ("Esc", "back")],
        View::Waits => vec![("Enter", "open"), ("b", "by stack"), ("e", "event")],
        View::Timeline | View::Notes => vec![("Esc", "back")],
    };
    if live {
        keys.push(("Space", "stand still"));
    } else if view == View::Hot {
        keys.push(("o", "order"));
    }
    keys.extend([("/", "search"), ("?", "keys"), ("q", "quit")]);
    keys
}
