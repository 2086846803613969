//! Which steps lead from a kernel's tree to a measured, faster kernel? Each is a command that can be
//! typed by hand.

use crate::plan::{STATE_DIRECTORY, text};
use crate::{Plan, Program, Step, quoted};
use kernel::Error;
use kernel::cost::ALIGNED;
use kernel::machine::Machine;
use kernel::make::Make;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

/// What is optimised, and how.
#[derive(Debug)]
pub struct Wanted<'a> {
    /// The absolute top directory of the sources.
    pub tree: &'a Path,
    /// Whether `kernel.config` holds the few options of a small kernel, all others being off.
    pub small: bool,
    /// How make is called.
    pub make: &'a Make,
    /// Rounds of recording and rebuilding with a sample profile.
    pub rounds: u8,
    /// Whether a layout comes on top.
    pub lays_out: bool,
    /// Bytes to align functions to in a further kernel, for comparison.
    pub align: Option<u32>,
    /// The machine that kernels boot on.
    pub machine: &'a Machine,
    /// Taken branches between two samples, where that is not the recorder's to say.
    pub period: Option<NonZeroU64>,
    /// CPUs of the machine that is recorded.
    pub cpus: u8,
    /// The initrd with the workload; absent for planish's own.
    pub initrd: Option<&'a Path>,
}

/// The directory of the build, in the directory of the plan.
const BUILD: &str = "build";
/// The configuration to begin with, in the directory of the plan.
pub const CONFIG: &str = "kernel.config";
/// The file that says which state the sources have.
pub const TREE_STATE: &str = "tree.state";
/// Where the counts of all kernels go.
pub fn counts() -> PathBuf {
    in_state("measure.json")
}

fn in_state(name: &str) -> PathBuf {
    Path::new(STATE_DIRECTORY).join(name)
}

impl Wanted<'_> {
    /// The kernels that are measured, the base first.
    fn measured(&self) -> Vec<&'static str> {
        let mut names = vec!["base", "autofdo"];
        names.extend(self.lays_out.then_some("layout"));
        names.extend(self.align.map(|_| ALIGNED));
        names
    }

    /// All steps.
    ///
    /// # Errors
    /// Where make cannot be called so.
    pub fn plan(&self) -> Result<Plan, Error> {
        let mut steps = vec![self.configure(BUILD, "configure", &[])?, self.check()];
        let initrd = match self.initrd {
            Some(path) => path.to_owned(),
            None => {
                let output = in_state("initrd.cpio");
                let words = ["kernel", "workload", "-o", &text(&output)];
                let mut step = Step::planish("workload", &words);
                step.outputs = vec![output.clone()];
                steps.push(step);
                output
            }
        };
        steps.push(self.build("build", "base", BUILD, &[], Vec::new()));
        let mut recorded = "base".to_owned();
        for round in 1..=self.rounds {
            steps.push(self.record(&format!("record-{round}"), &recorded, &initrd));
            steps.push(profile(round, &recorded));
            let file = profile_file(round);
            let mut flags = vec!["--profile".to_owned(), text(&file)];
            let first = round == 1;
            flags.extend(first.then(|| "--first-round".to_owned()));
            let last = round == self.rounds;
            if !last || self.lays_out {
                recorded = format!("round-{round}");
                steps.push(self.build(
                    &format!("rebuild-{round}"),
                    &recorded,
                    BUILD,
                    &flags,
                    vec![file.clone()],
                ));
            }
            if last {
                flags.push("--split".to_owned());
                steps.push(self.build("autofdo", "autofdo", BUILD, &flags, vec![file]));
            }
        }
        if self.lays_out {
            steps.push(self.record("record-layout", &recorded, &initrd));
            steps.extend(self.lay_out(&recorded));
        }
        if let Some(bytes) = self.align {
            let directory = format!("build-align-{bytes}");
            let option = format!("CONFIG_DEBUG_FORCE_FUNCTION_ALIGN_{bytes}B=y");
            steps.push(self.configure(&directory, "configure-aligned", &[&option])?);
            steps.push(self.build("build-aligned", ALIGNED, &directory, &[], Vec::new()));
        }
        steps.push(self.measure(&initrd));
        Ok(Plan { steps })
    }

    /// Makes the `.config` of a build; `more` are lines that only this build has.
    fn configure(&self, directory: &str, name: &str, more: &[&str]) -> Result<Step, Error> {
        let mut step = Step::new(name, Program::Named("sh".to_owned()));
        let mut make = vec!["make".to_owned()];
        make.extend(self.make.words(self.tree, Path::new("/"))?);
        make.retain(|word| !word.starts_with("O=") && !word.starts_with("-j"));
        let make: Vec<String> = make.iter().map(|word| quoted(word)).collect();
        let line = |line: &&str| format!("echo {} >> {directory}/all.config; ", quoted(line));
        let lines: String = more.iter().map(line).collect();
        let goal = if self.small { "allnoconfig" } else { "alldefconfig" };
        // kbuild takes the fragment by an absolute name.
        let script = format!(
            "set -e; mkdir -p {directory}; cat {CONFIG} > {directory}/all.config; {lines}{} \
             O=\"$PWD/{directory}\" KCONFIG_ALLCONFIG=\"$PWD/{directory}/all.config\" {goal}",
            make.join(" "),
        );
        step.arguments = vec!["-c".to_owned(), script];
        let output = in_state(&format!("{directory}.config"));
        step.inputs = vec![CONFIG.into(), TREE_STATE.into()];
        step.collect = vec![(Path::new(directory).join(".config"), output.clone())];
        step.outputs = vec![output];
        Ok(step)
    }

    fn check(&self) -> Step {
        let config = in_state(&format!("{BUILD}.config"));
        let words = ["kernel", "config", "check", &text(self.tree), &text(&config)];
        let mut step = Step::planish("check-config", &words);
        step.inputs = vec![config];
        step
    }

    fn build(
        &self,
        name: &str,
        kernel: &str,
        directory: &str,
        flags: &[String],
        inputs: Vec<PathBuf>,
    ) -> Step {
        let words = ["kernel", "build", &text(self.tree), "--build", directory];
        let mut step = Step::planish(name, &words);
        step.arguments.extend_from_slice(flags);
        step.arguments.extend(self.make.llvm.iter().map(|llvm| format!("--llvm={llvm}")));
        step.arguments.extend(self.make.cc.iter().map(|cc| format!("--cc={cc}")));
        step.arguments.extend(self.make.jobs.map(|jobs| format!("--jobs={jobs}")));
        step.inputs = inputs;
        step.inputs.extend([in_state(&format!("{directory}.config")), TREE_STATE.into()]);
        let made = Path::new(directory);
        step.collect = vec![
            (made.join("vmlinux"), vmlinux(kernel)),
            (made.join("arch/x86/boot/bzImage"), image(kernel)),
        ];
        step.outputs = vec![vmlinux(kernel), image(kernel)];
        step
    }

    fn record(&self, name: &str, kernel: &str, initrd: &Path) -> Step {
        let output = in_state(&format!("{kernel}.data"));
        let (image_of, initrd_of, to) = (text(&image(kernel)), text(initrd), text(&output));
        let mut step =
            Step::planish(name, &["kernel", "record", &image_of, "--initrd", &initrd_of]);
        step.arguments.extend(["--sections", "train", "-o", &to].map(str::to_owned));
        step.arguments.extend(self.machine.words());
        step.arguments.extend(self.period.map(|period| format!("--period={period}")));
        // A guest whose clock follows an emulating host sees time pass ten times too fast for its
        // work: the scheduler then takes other branches than on a CPU. Time counted in instructions
        // is right, and is what is measured with.
        step.arguments.push(match self.cpus {
            0 | 1 => "--deterministic".to_owned(),
            cpus => format!("--cpus={cpus}"),
        });
        step.inputs = vec![image(kernel), initrd.to_owned()];
        step.outputs = vec![output];
        step
    }

    fn lay_out(&self, recorded: &str) -> Vec<Step> {
        let prefix = in_state("layout");
        let files =
            ["_cc_profile.txt", "_ld_profile.txt"].map(|end| in_state(&format!("layout{end}")));
        // An argument that equals an output is replaced while the step runs; a prefix is not, so it
        // is put in place.
        let mut step =
            from_recording("layout", "layout", recorded, &Path::new(BUILD).join("layout"));
        step.collect = files
            .iter()
            .map(|file| (Path::new(BUILD).join(file.file_name().unwrap_or_default()), file.clone()))
            .collect();
        step.outputs = files.to_vec();
        let file = profile_file(self.rounds);
        let flags = ["--profile".to_owned(), text(&file), "--layout".to_owned(), text(&prefix)];
        let mut inputs = files.to_vec();
        inputs.push(file);
        vec![step, self.build("relink", "layout", BUILD, &flags, inputs)]
    }

    fn measure(&self, initrd: &Path) -> Step {
        let mut step = Step::planish("measure", &["kernel", "measure"]);
        for name in self.measured() {
            step.arguments.push(format!("{name}={}", text(&image(name))));
            step.inputs.push(image(name));
        }
        step.inputs.push(initrd.to_owned());
        let more = ["--initrd", &text(initrd), "--format", "json"];
        step.arguments.extend(more.map(str::to_owned));
        step.arguments.extend(self.machine.words());
        step.outputs = vec![counts()];
        step.stdout = Some(counts());
        // A negative finding is told at the end.
        step.also_fine = vec![1];
        step
    }
}

/// The kernel that boots.
pub fn image(kernel: &str) -> PathBuf {
    in_state(&format!("{kernel}.bzImage"))
}

/// The kernel with symbols.
pub fn vmlinux(kernel: &str) -> PathBuf {
    in_state(&format!("{kernel}.vmlinux"))
}

fn profile_file(round: u8) -> PathBuf {
    in_state(&format!("round-{round}.afdo"))
}

fn profile(round: u8, recorded: &str) -> Step {
    let output = profile_file(round);
    let mut step = from_recording(&format!("profile-{round}"), "profile", recorded, &output);
    step.outputs = vec![output];
    step
}

/// A command on what was recorded of a kernel, for the kernel with symbols.
fn from_recording(name: &str, command: &str, recorded: &str, output: &Path) -> Step {
    let (data, program) = (in_state(&format!("{recorded}.data")), vmlinux(recorded));
    let words = [command, &text(&data), "--binary", &text(&program), "-o", &text(output)];
    let mut step = Step::planish(name, &words);
    step.inputs = vec![data, program];
    step
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(rounds: u8, lays_out: bool, align: Option<u32>) -> Plan {
        let make = Make { llvm: Some("-22".to_owned()), cc: None, jobs: None };
        let wanted = Wanted {
            tree: Path::new("/src/linux"),
            small: true,
            make: &make,
            rounds,
            lays_out,
            align,
            machine: &Machine { memory_mib: 700, append: None, timeout_s: 600 },
            period: None,
            cpus: 1,
            initrd: None,
        };
        wanted.plan().unwrap()
    }

    fn names(plan: &Plan) -> String {
        plan.steps.iter().map(|step| step.name.as_str()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn two_rounds_come_before_the_layout() {
        assert_eq!(
            names(&plan(2, true, Some(64))),
            "configure check-config workload build record-1 profile-1 rebuild-1 record-2 \
             profile-2 rebuild-2 autofdo record-layout layout relink configure-aligned \
             build-aligned measure"
        );
        assert_eq!(
            names(&plan(1, false, None)),
            "configure check-config workload build record-1 profile-1 autofdo measure"
        );
    }

    #[test]
    fn every_step_reads_what_an_earlier_one_made() {
        let plan = plan(2, true, Some(64));
        let mut made: Vec<&PathBuf> = Vec::new();
        for step in &plan.steps {
            for input in step.inputs.iter().filter(|input| input.starts_with(STATE_DIRECTORY)) {
                assert!(made.contains(&input), "{} reads {input:?} before it is made", step.name);
            }
            made.extend(&step.outputs);
        }
        let line =
            |name: &str| plan.steps.iter().find(|step| step.name == name).unwrap().command_line();
        assert!(
            line("rebuild-1").contains("--first-round")
                && !line("rebuild-2").contains("--first-round")
        );
        assert!(line("autofdo").contains("--split") && !line("relink").contains("--split"));
        assert!(line("configure-aligned").contains("FUNCTION_ALIGN_64B=y"));
    }
}
