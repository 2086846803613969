//! `planish layout link` where a link alone cannot lay a program out.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[test]
fn what_no_link_can_lay_out_is_built_by_the_command() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let write = |name: &str, text: &str| std::fs::write(at(name), text).unwrap();
    write("p_cc_profile.txt", "v1\n");
    write("p_ld_profile.txt", "main\n");
    write("empty.tar", "");
    write("damaged.tar", "no archive");
    let link = |objects: &str, out: &str, command: &[&str]| {
        let words = ["layout", "link", "--objects", objects, "--prefix", "p", "-o", out];
        let mut planish = std::process::Command::new(env!("CARGO_BIN_EXE_planish"));
        let done = planish.args(words).args(command).current_dir(folder.path()).output().unwrap();
        (done.status.code(), String::from_utf8_lossy(&done.stderr).into_owned())
    };
    let (code, said) = link("empty.tar", "out", &[]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("was not kept") && said.contains("planish build --layout p"), "{said}");
    let (code, said) = link("damaged.tar", "out", &[]);
    assert!(code == Some(2) && said.contains("damaged.tar: damaged at byte"), "{said}");
    let (code, said) = link("empty.tar", "p_ld_profile.txt", &[]);
    assert!(code == Some(2) && said.contains("p_ld_profile.txt"), "{said}");
    assert!(!at("out").exists());
    let (code, said) = link("empty.tar", "out", &["--", "sh", "-c", "echo built >out; exit 7"]);
    assert!(code == Some(7) && said.contains("needs a whole build"), "{said}");
    assert_eq!(std::fs::read_to_string(at("out")).unwrap(), "built\n");
    // What lies there from before has not the layout.
    let (code, said) = link("empty.tar", "out", &["--", "true"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("true ended well, and left out as it was"), "{said}");
    let (code, said) = link("empty.tar", "none", &["--", "sh", "-c", "true"]);
    assert!(code == Some(2) && said.contains("sh ended well, and made no none"), "{said}");
    let (code, _) = link("empty.tar", "out", &["--", "sh", "-c", "echo again >out"]);
    assert_eq!(code, Some(0));
    let (code, said) = link("empty.tar", "out", &["--", "sh", "-c", "kill -KILL $$"]);
    assert_eq!(code, Some(137), "{said}");
}
