//! Do the lists and the rules that stand elsewhere hold for every command?

mod plans;

use super::*;
use std::collections::BTreeSet;

/// All commands that do something by themselves, by their words.
fn commands(command: &clap::Command, words: &str, found: &mut BTreeSet<String>) {
    let mut below = command.get_subcommands().filter(|sub| sub.get_name() != "help").peekable();
    if below.peek().is_none() || !command.is_subcommand_required_set() && !words.is_empty() {
        found.insert(words.to_owned());
    }
    for sub in below {
        commands(sub, format!("{words} {}", sub.get_name()).trim(), found);
    }
}

#[test]
fn the_help_lists_every_command_once_and_fits_a_screen() {
    let help = Cli::command().render_help().to_string();
    assert!(help.lines().count() <= 40, "{help}");
    for sub in Cli::command().get_subcommands().filter(|sub| !sub.is_hide_set()) {
        let listed = help.matches(&format!("\n  {:<12} ", sub.get_name())).count();
        let shell = ["completions", "man"].contains(&sub.get_name());
        assert_eq!(listed, usize::from(!shell), "{}: {help}", sub.get_name());
        assert!(sub.get_about().is_some(), "{}", sub.get_name());
    }
}

/// docs/reference/conventions.md states the rule.
#[test]
fn options_mean_the_same_in_every_command() {
    let mut wrong = Vec::new();
    each(&Cli::command(), "", &mut |command, words| {
        for option in command.get_arguments() {
            let Some(long) = option.get_long() else { continue };
            let values = option.get_possible_values();
            let forms = ["text", "json", "html", "markdown"];
            let named = |name: &str| option.get_value_names().is_some_and(|all| all[0] == *name);
            let of_one = option.get_num_args().is_none_or(|count| count.max_values() == 1);
            let fits = match long {
                "format" => values.iter().all(|form| forms.contains(&form.get_name())),
                "emit" => !values.is_empty() && named("KIND"),
                "output" => of_one && !named("DIR") && !named("PREFIX"),
                "output-dir" => named("DIR"),
                "prefix" => named("PREFIX"),
                _ => option.get_short() != Some('o') || long == "output",
            };
            if !fits {
                wrong.push(format!("{words} --{long}"));
            }
        }
    });
    assert!(wrong.is_empty(), "{wrong:?}");
}

/// Visits a command and all below it.
fn each(command: &clap::Command, words: &str, visit: &mut impl FnMut(&clap::Command, &str)) {
    visit(command, words);
    for sub in command.get_subcommands() {
        each(sub, format!("{words} {}", sub.get_name()).trim(), visit);
    }
}

#[test]
fn the_list_of_what_only_reads_names_every_command() {
    let list = include_str!("../../tests/hostile/commands.txt");
    let lines = list.lines().filter(|line| !line.starts_with('#'));
    let named: BTreeSet<String> =
        lines.filter_map(|line| Some(line.split('|').nth(1)?.trim().to_owned())).collect();
    let mut there = BTreeSet::new();
    commands(&Cli::command(), "", &mut there);
    assert_eq!(
        named, there,
        "tests/hostile/commands.txt must say of each whether it reads, runs or writes"
    );
    let mut dry = BTreeSet::new();
    with_option(&Cli::command(), "", "dry_run", &mut dry);
    let tried = |command: &String| {
        let of = |line: &str| line.split('|').nth(1).map(str::trim) == Some(command.as_str());
        list.lines().any(|line| of(line) && line.contains("--dry-run"))
    };
    assert!(
        dry.len() >= 5 && dry.iter().all(tried),
        "{dry:?}: each --dry-run is tried in the hostile directory"
    );
}

/// The commands that have an option.
fn with_option(command: &clap::Command, words: &str, option: &str, found: &mut BTreeSet<String>) {
    if command.get_arguments().any(|argument| argument.get_id() == option) {
        found.insert(words.to_owned());
    }
    for sub in command.get_subcommands() {
        with_option(sub, format!("{words} {}", sub.get_name()).trim(), option, found);
    }
}

/// What prints JSON: docs/reference/conventions.md states what each object has.
#[test]
fn the_list_of_what_prints_json_names_every_command_that_does() {
    let list = include_str!("../../tests/json/commands.txt");
    let lines = list.lines().filter(|line| !line.starts_with('#'));
    let listed: BTreeSet<String> =
        lines.filter_map(|line| Some(line.split('|').nth(1)?.trim().to_owned())).collect();
    let mut there = BTreeSet::from(["train time".to_owned()]);
    each(&Cli::command(), "", &mut |command, words| {
        let json = |option: &clap::Arg| {
            let values = option.get_possible_values();
            option.get_id() == "format" && values.iter().any(|value| value.get_name() == "json")
        };
        if command.get_arguments().any(json) {
            there.insert(words.to_owned());
        }
    });
    assert_eq!(listed, there, "tests/json/commands.txt");
}

/// The arguments that name a file, as far as their type says so: command and argument.
fn named_files(command: &clap::Command, words: &str, found: &mut BTreeSet<(String, String)>) {
    let path = clap::value_parser!(std::path::PathBuf).type_id();
    let paths =
        command.get_arguments().filter(|argument| argument.get_value_parser().type_id() == path);
    found.extend(paths.map(|argument| (words.to_owned(), argument.get_id().to_string())));
    for sub in command.get_subcommands() {
        named_files(sub, format!("{words} {}", sub.get_name()).trim(), found);
    }
}

#[test]
fn the_list_of_what_bombs_are_given_to_names_every_argument_that_is_a_file() {
    let list = include_str!("../../tests/bombs/arguments.txt");
    let lines = list.lines().filter(|line| !line.starts_with('#'));
    let listed: BTreeSet<(String, String)> = lines
        .filter_map(|line| {
            let mut cells = line.split('|').skip(1).map(|cell| cell.trim().to_owned());
            Some((cells.next()?, cells.next()?))
        })
        .collect();
    let mut there = BTreeSet::new();
    named_files(&Cli::command(), "", &mut there);
    assert!(there.len() > 50, "{there:?}");
    let missing: Vec<_> = there.difference(&listed).collect();
    assert!(missing.is_empty(), "tests/bombs/arguments.txt must say what becomes of {missing:?}");
}

/// `docs/reference/options.md` is what the commands say of themselves: `make options` writes it.
#[test]
fn the_page_of_options_is_what_the_commands_say() {
    let mut page = String::from(
        "# All options\n\nWhat `--help` of each command prints. Written by `make options`; do not edit.\n",
    );
    let mut all = Cli::command().term_width(100);
    all.build();
    each(&all, "planish", &mut |command, words| {
        if !command.is_hide_set() && command.get_name() != "help" && !words.contains(" help") {
            let help = command.clone().render_long_help().to_string();
            let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
            page += &format!("\n## {words}\n\n```text\n{}\n```\n", lines.join("\n").trim_end());
        }
    });
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/options.md");
    if std::env::var_os("PLANISH_WRITE_OPTIONS").is_some() {
        std::fs::write(path, &page).expect("the page can be written");
    }
    let kept = std::fs::read_to_string(path).unwrap_or_default();
    let differs = kept.lines().zip(page.lines()).position(|(kept, said)| kept != said);
    assert!(kept == page, "{path} differs from line {differs:?} on; run `make options`");
}

/// A line that clap breaks cannot be pasted into a shell; a backslash at its end can.
#[test]
fn examples_of_the_help_fit_on_a_terminal_of_80_columns() {
    let mut wide = Vec::new();
    let all = Cli::command();
    each(&all, "planish", &mut |command, words| {
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let lines = help.lines().filter(|line| line.chars().count() > 80);
        wide.extend(lines.map(|line| format!("{words}: {line}")));
    });
    assert!(wide.is_empty(), "{}", wide.join("\n"));
}
