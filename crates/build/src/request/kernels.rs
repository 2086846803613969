//! Which requests lead from a kernel's tree to a measured, faster kernel? Those on the way from a
//! recording to a profile and a layout are the same as for programs.

use crate::call::{Call, Input, Output, Word};
use crate::words::quoted;
use kernel::Architecture;
use kernel::machine::{BootMachine, MEMORY_MIB, TIMEOUT_S};
use kernel::make::Make;
use std::num::NonZeroU64;
use std::path::PathBuf;

/// One stage's request about kernels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KernelRequest {
    /// Make the `.config` of a build.
    Configure(Configure),
    /// Check that a `.config` has what profiles and layouts need.
    Check {
        /// The top directory of the sources.
        tree: PathBuf,
        /// The `.config`.
        config: Input,
    },
    /// Make the initrd with planish's workload.
    Workload {
        /// The initrd.
        initrd: Output,
        /// The processor that its program is for.
        architecture: Architecture,
    },
    /// Build a kernel.
    Build(Build),
    /// Boot a kernel, and record it in the workload's training sections.
    Record(Record),
    /// Boot kernels, and count what each executes.
    Measure {
        /// The kernels by name, the base first.
        kernels: Vec<(String, Input)>,
        /// The initrd with the workload.
        initrd: Input,
        /// What they boot on.
        machine: BootMachine,
        /// What was counted.
        counts: Output,
    },
}

impl KernelRequest {
    pub(super) fn call(&self) -> Call {
        match self {
            KernelRequest::Configure(request) => request.call(),
            KernelRequest::Check { tree, config } => {
                Call::planish(["kernel", "config", "check"]).with(tree.as_path()).with(config)
            }
            KernelRequest::Workload { initrd, architecture } => {
                let call = Call::planish(["kernel", "workload", "-o"]).with(initrd);
                call.with_all(arch_word(*architecture))
            }
            KernelRequest::Build(request) => request.call(),
            KernelRequest::Record(request) => request.call(),
            KernelRequest::Measure { kernels, initrd, machine, counts } => {
                let mut call = Call::planish(["kernel", "measure"])
                    .with_all(kernels.iter().map(|(name, image)| {
                        let word = format!("{name}={}", image.as_ref().display());
                        Word::Naming(word, image.clone())
                    }))
                    .with("--initrd")
                    .with(initrd)
                    .with_json(counts)
                    .with_all(machine_words(machine));
                // A negative finding is told at the end.
                call.negative_is_fine = true;
                call
            }
        }
    }
}

/// Make the `.config` of a build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configure {
    /// The words of make behind its name.
    pub make: Vec<String>,
    /// The directory of the build.
    pub directory: PathBuf,
    /// The configuration to begin with.
    pub begin: Input,
    /// Lines that only this build has.
    pub lines: Vec<String>,
    /// Whether options that are not named are off.
    pub small: bool,
    /// The `.config`.
    pub config: Output,
}

impl Configure {
    fn call(&self) -> Call {
        let directory = self.directory.display();
        let begin = self.begin.as_ref().display();
        let make = ["make".to_owned()].into_iter().chain(self.make.iter().cloned());
        let make: Vec<String> = make.map(|word| quoted(&word)).collect();
        let line = |line: &String| format!("echo {} >> {directory}/all.config; ", quoted(line));
        let lines: String = self.lines.iter().map(line).collect();
        let goal = if self.small { "allnoconfig" } else { "alldefconfig" };
        // kbuild takes the fragment by an absolute name.
        let script = format!(
            "set -e; mkdir -p {directory}; cat {begin} > {directory}/all.config; {lines}{} \
             O=\"$PWD/{directory}\" KCONFIG_ALLCONFIG=\"$PWD/{directory}/all.config\" {goal}",
            make.join(" "),
        );
        let mut call = Call::named("sh").with("-c").with(Word::Naming(script, self.begin.clone()));
        call.collect = vec![(self.directory.join(".config"), self.config.clone())];
        call
    }
}

/// Build a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Build {
    /// The top directory of the sources.
    pub tree: PathBuf,
    /// The directory of the build.
    pub directory: PathBuf,
    /// How make is called.
    pub make: Make,
    /// The processor that the `.config` is for.
    pub architecture: Architecture,
    /// What the build knows of runs; absent for nothing.
    pub knowledge: Option<Knowledge>,
    /// The kernel with symbols.
    pub vmlinux: Output,
    /// The kernel that boots.
    pub image: Output,
}

/// What a build knows of runs of the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Knowledge {
    /// The sample profile.
    pub profile: Input,
    /// Whether the kernel that was recorded had none.
    pub first_round: bool,
    /// Whether cold code goes to sections of its own.
    pub split: bool,
    /// The layout, where there is one.
    pub layout: Option<LayoutFiles>,
}

/// The files of a layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayoutFiles {
    /// What their names begin with.
    pub prefix: PathBuf,
    /// The files.
    pub files: Vec<Input>,
}

impl Build {
    fn call(&self) -> Call {
        let mut call = Call::planish(["kernel", "build"])
            .with(self.tree.as_path())
            .with("--build")
            .with(self.directory.as_path());
        if let Some(Knowledge { profile, first_round, split, layout }) = &self.knowledge {
            call = call.with("--profile").with(profile);
            call = call.with_if(*first_round, "--first-round").with_if(*split, "--split");
            if let Some(LayoutFiles { prefix, files }) = layout {
                call = call.with("--layout").with(prefix.as_path());
                call.reads.extend(files.iter().cloned());
            }
        }
        let Make { llvm, cc, jobs } = &self.make;
        call = call.with_all(llvm.iter().map(|llvm| format!("--llvm={llvm}")));
        call = call.with_all(cc.iter().map(|cc| format!("--cc={cc}")));
        call = call.with_all(jobs.map(|jobs| format!("--jobs={jobs}")));
        let made = [("vmlinux", &self.vmlinux), (self.architecture.image(), &self.image)];
        call.collect =
            made.map(|(name, output)| (self.directory.join(name), output.clone())).to_vec();
        call
    }
}

/// Boot a kernel, and record it in the workload's training sections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The kernel that boots.
    pub image: Input,
    /// The initrd with the workload.
    pub initrd: Input,
    /// What it boots on.
    pub machine: BootMachine,
    /// Taken branches between two samples; absent: the recorder's to say.
    pub period: Option<NonZeroU64>,
    /// CPUs of the machine.
    pub cpus: u8,
    /// The recording.
    pub output: Output,
}

impl Record {
    fn call(&self) -> Call {
        Call::planish(["kernel", "record"])
            .with(&self.image)
            .with("--initrd")
            .with(&self.initrd)
            .with_option("--sections", "train")
            .with("-o")
            .with(&self.output)
            .with_all(machine_words(&self.machine))
            .with_all(self.period.map(|period| format!("--period={period}")))
            // A guest whose clock follows an emulating host sees time pass ten times too fast for
            // its work: the scheduler then takes other branches than on a CPU. Time counted in
            // instructions is right, and is what is measured with.
            .with(match self.cpus {
                0 | 1 => "--deterministic".to_owned(),
                cpus => format!("--cpus={cpus}"),
            })
    }
}

/// The option of `planish kernel` that names a processor which is not the usual one.
pub fn arch_word(architecture: Architecture) -> Option<String> {
    (architecture != Architecture::default()).then(|| format!("--arch={}", architecture.name()))
}

/// The options of `planish kernel` that ask for a machine.
fn machine_words(machine: &BootMachine) -> Vec<String> {
    let BootMachine { memory_mib, append, timeout_s } = machine;
    let mut words = Vec::new();
    words.extend((*memory_mib != MEMORY_MIB).then(|| format!("--memory={memory_mib}")));
    words.extend((*timeout_s != TIMEOUT_S).then(|| format!("--timeout={timeout_s}")));
    words.extend(append.iter().map(|append| format!("--append={append}")));
    words
}
