//! How is it told what was done to a kernel's tree?

use kernel::prepare::Done;

/// One sentence.
pub fn sentence(done: &Done) -> String {
    let what = match done.result {
        "prepared" => "prepared",
        "reverted" => "taken back",
        "was-prepared" => "is prepared already; nothing to do",
        "was-plain" => "is not prepared; nothing to take back",
        _ => "has AUTOFDO_CLANG and PROPELLER_CLANG by itself; nothing to do",
    };
    format!("{}: Linux {}: {what}", done.tree, done.linux)
}

/// The sentence, and the files.
pub fn text(done: &Done) -> String {
    let files = done.files.iter().map(|file| format!("  {:<8} {}\n", file.change, file.path));
    format!("{}\n{}", sentence(done), files.collect::<String>())
}
