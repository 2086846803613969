//! Names are found where nobody else can put programs, and what is asked stands in a neutral
//! directory.

use super::*;
use std::fs;

fn program(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn surroundings(path: &[PathBuf], project: &Path) -> Surroundings {
    Surroundings::of(&std::env::join_paths(path).unwrap(), None, &[project.to_owned()])
}

#[test]
fn entries_of_path_that_the_directory_can_fill_are_left_out_and_said() {
    let folder = tempfile::tempdir().unwrap();
    let (project, good) = (folder.path().join("project"), folder.path().join("good"));
    let link = folder.path().join("link");
    program(&project.join("bin/tool"), "");
    program(&good.join("tool"), "");
    std::os::unix::fs::symlink(project.join("bin"), &link).unwrap();
    let path = ["".into(), ".".into(), "bin".into(), project.join("bin"), link, good.clone()];
    let found = surroundings(&path, &project);
    assert_eq!(found.find("tool"), Some(good.join("tool")));
    let why: Vec<Why> = found.left_out().iter().map(|left| left.why).collect();
    assert_eq!(why, [Why::Relative, Why::Relative, Why::Relative, Why::Inside, Why::Inside]);
    assert_eq!(found.left_out()[2].to_string(), "\"bin\" (relative)");
    // A good entry may hold a link to what the directory can fill.
    std::os::unix::fs::symlink(project.join("bin/tool"), good.join("linked")).unwrap();
    assert_eq!(found.find("linked"), None);
    let inside = project.join("bin/tool").to_string_lossy().into_owned();
    assert_eq!(found.find(&inside), None);
    assert_eq!(found.find("./bin/tool"), None);
    // Who names it wants it.
    assert_eq!(found.named(&inside), Some(PathBuf::from(inside)));
}

#[test]
fn a_directory_that_holds_the_home_or_the_system_is_no_project() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home/me");
    program(&home.join(".cargo/bin/rustc"), "");
    let path = home.join(".cargo/bin").into_os_string();
    let find = |at: &Path| Surroundings::of(&path, Some(&home), &[at.to_owned()]).find("rustc");
    assert!(find(&home).is_some() && find(&folder.path().join("home")).is_some());
    assert!(find(Path::new("/")).is_some() && find(Path::new("/usr")).is_some());
    assert_eq!(find(&home.join(".cargo")), None);
}

#[test]
fn what_is_asked_stands_in_the_root_with_a_clean_path() {
    let folder = tempfile::tempdir().unwrap();
    let asked = folder.path().join("bin/asked");
    program(&asked, "#!/bin/sh\npwd; echo \"$PATH\"; echo \"$RUSTUP_AUTO_INSTALL\"\n");
    let path = [".".into(), folder.path().join("project/bin"), "/usr/bin".into(), "/bin".into()];
    let here = surroundings(&path, &folder.path().join("project"));
    let done = here.ask(&asked).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&done.stdout), "/\n/usr/bin:/bin\n0\n");
}

#[test]
fn git_runs_no_hook_monitor_or_program_that_a_repository_names() {
    let folder = tempfile::tempdir().unwrap();
    let (tree, marker) = (folder.path().join("tree"), folder.path().join("ran"));
    let run = |words: &[&str]| {
        let done = Command::new("git").arg("-C").arg(folder.path()).args(words).output();
        done.is_ok_and(|done| done.status.success())
    };
    if !run(&["init", "-q", "tree"]) {
        return eprintln!("skipped: git is not installed");
    }
    let evil = folder.path().join("evil");
    program(&evil, &format!("#!/bin/sh\necho \"$0\" >> {}\nexit 1\n", marker.display()));
    let made = git(&tree, false)
        .args(["-c", "user.name=a", "-c", "user.email=a@b"])
        .args(["commit", "-q", "--allow-empty", "-m", "first"])
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    for hook in ["post-checkout", "post-index-change", "reference-transaction", "pre-commit"] {
        fs::copy(&evil, tree.join(".git/hooks").join(hook)).unwrap();
    }
    for setting in ["core.fsmonitor", "gpg.program", "diff.external", "core.pager"] {
        assert!(run(&["-C", "tree", "config", setting, evil.to_str().unwrap()]));
    }
    assert!(run(&["-C", "tree", "config", "log.showSignature", "true"]));
    let work = folder.path().join("work").to_string_lossy().into_owned();
    let asked: [&[&str]; 4] = [
        &["rev-parse", "--verify", "HEAD^{commit}"],
        &["log", "-1", "--format=%s"],
        &["status", "--porcelain"],
        &["worktree", "add", "--quiet", "--detach", &work, "HEAD"],
    ];
    for words in asked {
        let done = git(&tree, false).args(words).output().unwrap();
        assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
    }
    assert_eq!(fs::read_to_string(&marker).ok(), None);
    // The same without our settings is what it is about.
    assert!(
        Command::new("git").arg("-C").arg(&tree).args(["status", "--porcelain"]).output().is_ok()
    );
    assert!(marker.exists());
}
