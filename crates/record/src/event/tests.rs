//! The parser against texts of all kinds, and the look-up against a made-up machine.

use super::syntax::{self, EventList, Group, Name, Spec, Term, Value};
use super::{Error, EventSources, parse};
use perfdata::attr_flag as flag;
use proptest::prelude::*;
use std::path::Path;

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// A machine with a CPU's PMU, an uncore one, and three tracepoints.
fn machine(dir: &Path) -> EventSources {
    let pmus = dir.join("devices");
    for (file, text) in [
        ("cpu/type", "4\n"),
        ("cpu/format/event", "config:0-7,32-35\n"),
        ("cpu/format/umask", "config:8-15\n"),
        ("cpu/format/any", "config:21\n"),
        ("cpu/format/ldlat", "config1:0-15\n"),
        ("cpu/events/mem-loads", "event=0xcd,umask=0x1,ldlat=3\n"),
        ("cpu/events/mem-loads.unit", "x\n"),
        ("uncore/type", "17\n"),
        ("uncore/cpumask", "0\n"),
        ("uncore/format/event", "config:0-7\n"),
        ("late/type", "18\n"),
        ("late/format/x", "config3:0-7\n"),
    ] {
        write(&pmus.join(file), text);
    }
    for (name, id) in
        [("sched/sched_switch", "11\n"), ("sched/sched_wakeup", "12\n"), ("irq/irq_entry", "13\n")]
    {
        write(&dir.join("tracing/events").join(name).join("id"), id);
    }
    EventSources { pmus, tracefs: Some(dir.join("tracing")) }
}

fn resolved(text: &str) -> Result<Vec<super::Event>, Error> {
    let dir = tempfile::tempdir().unwrap();
    parse(&[text.to_owned()], &machine(dir.path()))
}

#[test]
fn terms_fill_the_bits_that_the_pmu_says() {
    let one = |text: &str| resolved(text).unwrap().remove(0);
    let event = one("cpu/event=0x13c,umask=2,any,period=77/u");
    assert_eq!((event.attr.kind, event.attr.config), (4, 0x1_0020_023c));
    assert_eq!(
        (event.settings.period, event.name.as_str()),
        (Some(77), "cpu/event=0x13c,umask=2,any,period=77/u")
    );
    assert_eq!(event.attr.flags & flag::EXCLUDE_KERNEL, flag::EXCLUDE_KERNEL);
    let event = one("cpu/mem-loads,ldlat=30/");
    assert_eq!((event.attr.config, event.attr.config1), (0x1cd, 30));
    assert_eq!(one("mem-loads:p").attr.config1, 3);
    assert_eq!(one("cpu/r1a8/").attr.config, 0x1a8);
    assert_eq!(one("cpu/config=0x5,config1=6,config2=7/").attr.config2, 7);
    assert_eq!(one("uncore/event=1/").cpus.as_deref(), Some("0"));
    assert_eq!(one("cycles/name='x y, z/w'/").name, "x y, z/w");
}

#[test]
fn groups_are_led_by_their_first_event() {
    let events = resolved("cs,{cycles:k,instructions}:uD,sched:*").unwrap();
    let leaders: Vec<usize> = events.iter().map(|event| event.leader).collect();
    assert_eq!(leaders, [0, 1, 1, 3, 4]);
    assert_eq!(events[1].attr.flags & (1 << 2), 1 << 2, "the leader is pinned");
    assert_eq!(events[2].attr.flags & (1 << 2), 0, "its members are not");
    assert_eq!(events[1].attr.flags & flag::EXCLUDE_USER, 0, "u comes on top of k");
    assert_eq!((events[4].name.as_str(), events[4].attr.config), ("sched:sched_wakeup", 12));
}

#[test]
fn what_is_wrong_is_said_with_what_was_probably_meant() {
    for (text, expected) in [
        ("cylces", "did you mean cycles?"),
        ("mem-load", "did you mean mem-loads"),
        ("cpi/event=1/", "no PMU \"cpi\""),
        ("cylces/period=3/", "did you mean cycles?"),
        ("cpu/evnt=1/", "did you mean event?"),
        ("cpu/umask=0x100/", "a number up to 0xff"),
        ("cycles/perid=1/", "did you mean period?"),
        ("cycles/period=0/", "from 1"),
        ("cycles/period/", "behind `=`"),
        ("sched:sched_swich", "did you mean sched:sched_switch"),
        ("{cycles", "`}`"),
        ("{}", "the name of an event"),
        ("cycles:x", "modifiers"),
        ("cycles:pppp", "three"),
        ("cycles:uu", "twice"),
        ("cycles:", "NAME"),
        ("cycles,", "the name of an event"),
        ("cycles}", "a comma"),
        ("cycles/name='x/", "closing"),
        ("mem:0x1000:rw", "breakpoints are not supported"),
        ("mem:0x1000", "breakpoints are not supported"),
        ("{cs,mem:0x1000/8:w}", "breakpoints are not supported"),
        ("late/x=1/", "config3"),
        ("", "the name of an event"),
    ] {
        let error = resolved(text).unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
    let none = EventSources { pmus: "/nowhere".into(), tracefs: None };
    let error = parse(&["sched:sched_switch".to_owned()], &none).unwrap_err().to_string();
    assert!(error.contains("mount -t tracefs"), "{error}");
}

#[test]
fn blanks_between_events_and_quotes_are_no_part_of_names() {
    let read = |text: &str| {
        syntax::parse(text).unwrap_or_else(|error| panic!("{text}: {error}")).to_string()
    };
    for (text, expected) in [
        ("cpu-clock, cs", "cpu-clock,cs"),
        (" cpu-clock:u ,\tcs:u ", "cpu-clock:u,cs:u"),
        ("{ cpu-clock , cs } :S , page-faults", "{cpu-clock,cs}:S,page-faults"),
        ("cpu/event=0x3c, umask=0 /u", "cpu/event=0x3c,umask=0/u"),
        ("cs /period=5, name = 'a, b' /", "cs/period=5,name='a, b'/"),
        ("cs/name=\" CPU_CLK.THREAD \"/", "cs/name=\" CPU_CLK.THREAD \"/"),
    ] {
        assert_eq!(read(text), expected, "{text}");
    }
    let names = |text: &str| {
        let none = EventSources { pmus: "/nowhere".into(), tracefs: None };
        let events = parse(&[text.to_owned()], &none).unwrap();
        events.into_iter().map(|event| event.name).collect::<Vec<_>>()
    };
    assert_eq!(
        names("cpu-clock/name=\"CPU_CLK_UNHALTED.THREAD\"/, cs"),
        ["CPU_CLK_UNHALTED.THREAD", "cs"]
    );
    assert_eq!(names("cpu-clock/name='a b'/u"), ["a b"]);
    for wrong in ["cs/name=\"a/", "cs/name=a\"b\"/", "cs\"a\"", "cs,, cs", "cs, "] {
        assert!(syntax::parse(wrong).is_err(), "{wrong}");
    }
}

fn term() -> impl Strategy<Value = Term> {
    let plain = "[a-z0-9_.:-]{1,8}".prop_map(Value::Plain);
    let value = prop_oneof![
        plain,
        "[^']{0,8}".prop_map(Value::Quoted),
        "[^\"]{0,8}".prop_map(Value::DoublyQuoted)
    ];
    ("[a-z][a-z0-9_-]{0,8}", proptest::option::of(value))
        .prop_map(|(key, value)| Term { key, value })
}

fn spec() -> impl Strategy<Value = Spec> {
    let modifiers = prop_oneof![Just(""), Just(":u"), Just(":kpp"), Just(":S")];
    let name = prop_oneof![
        prop_oneof![Just("cycles"), Just("r1a8"), Just("L1-dcache-loads"), Just("cpu")]
            .prop_map(|n| Name::Plain(n.into())),
        ("[a-z]{2,6}", "[a-z]{3}_[a-z]{1,6}")
            .prop_map(|(system, name)| Name::Tracepoint(system, name)),
    ];
    let terms = proptest::option::of(proptest::collection::vec(term(), 0..4));
    (name, terms, modifiers)
        .prop_map(|(name, terms, modifiers)| Spec { name, terms, modifiers: modifiers.to_owned() })
        // `cycles` and its kind are no systems of tracepoints.
        .prop_filter("a tracepoint's system", |spec| !matches!(&spec.name, Name::Tracepoint(system, _) if system == "mem" || super::names::is_generic(system)))
}

fn group() -> impl Strategy<Value = Group> {
    let single = spec().prop_map(|spec| Group {
        braces: None,
        events: vec![spec],
        modifiers: String::new(),
    });
    let modifiers = prop_oneof![Just(""), Just("u"), Just("SW")];
    let braced = ("[a-z]{0,4}", proptest::collection::vec(spec(), 1..4), modifiers).prop_map(
        |(name, events, modifiers)| Group {
            braces: Some(name),
            events,
            modifiers: modifiers.to_owned(),
        },
    );
    prop_oneof![single, braced]
}

proptest! {
    #[test]
    fn any_list_is_read_as_it_is_printed(groups in proptest::collection::vec(group(), 1..4)) {
        let list = EventList { groups };
        prop_assert_eq!(syntax::parse(&list.to_string()), Ok(list));
    }

    #[test]
    fn any_text_is_read_or_refused_and_what_is_read_prints_as_it_was(text in "[a-z0-9:/,{}='upkS *.é-]{0,40}") {
        if let Ok(list) = syntax::parse(&text) {
            let printed = list.to_string();
            prop_assert_eq!(syntax::parse(&printed), Ok(list));
            // Only the colon behind a group's name may be left out.
            let colons = |text: &str| text.replace(":{", "{");
            if !text.contains(' ') {
                prop_assert_eq!(colons(&printed), colons(&text));
            }
            // And blanks between the parts.
            let solid = |text: &str| colons(&text.replace(' ', ""));
            prop_assert_eq!(solid(&printed), solid(&text));
        }
        let none = EventSources { pmus: "/nowhere".into(), tracefs: None };
        let _ = parse(&[text], &none);
    }

    #[test]
    fn any_bytes_are_no_panic(text in any::<String>()) {
        let _ = syntax::parse(&text);
    }
}
