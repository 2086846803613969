//! Which steps lead from a kernel's tree to a measured, faster kernel? Each is a command that can be
//! typed by hand.

use crate::call::{Input, Output};
use crate::plan::STATE_DIRECTORY;
use crate::request::kernels::{Build, Configure, KernelRequest, Knowledge, LayoutFiles, Record};
use crate::request::{Layout, LayoutKind, Profile, Request};
use crate::{Plan, Step};
use kernel::cost::ALIGNED;
use kernel::machine::BootMachine;
use kernel::make::Make;
use kernel::{Architecture, Error};
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

/// What is optimised, and how.
#[derive(Debug)]
pub struct Wanted<'a> {
    /// The absolute top directory of the sources.
    pub tree: &'a Path,
    /// The processor that the kernel is for.
    pub architecture: Architecture,
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
    pub machine: &'a BootMachine,
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
        let initrd = self.initrd.map_or_else(|| in_state("initrd.cpio"), Path::to_owned);
        if self.initrd.is_none() {
            let (initrd, architecture) = (Output::from(&initrd), self.architecture);
            let request = KernelRequest::Workload { initrd, architecture };
            steps.push(Step::new("workload", Request::Kernel(request)));
        }
        steps.push(self.build("build", "base", BUILD, None));
        let mut recorded = "base".to_owned();
        for round in 1..=self.rounds {
            steps.push(self.record(&format!("record-{round}"), &recorded, &initrd));
            steps.push(profile(round, &recorded));
            let last = round == self.rounds;
            let knowledge = Knowledge {
                profile: Input::from(&profile_file(round)),
                first_round: round == 1,
                split: false,
                layout: None,
            };
            if !last || self.lays_out {
                recorded = format!("round-{round}");
                let name = format!("rebuild-{round}");
                steps.push(self.build(&name, &recorded, BUILD, Some(knowledge.clone())));
            }
            if last {
                let knowledge = Knowledge { split: true, ..knowledge };
                steps.push(self.build("autofdo", "autofdo", BUILD, Some(knowledge)));
            }
        }
        if self.lays_out {
            steps.push(self.record("record-layout", &recorded, &initrd));
            steps.extend(self.lay_out(&recorded));
        }
        if let Some(bytes) = self.align {
            let directory = format!("build-align-{bytes}");
            let option = format!("CONFIG_DEBUG_FORCE_FUNCTION_ALIGN_{bytes}B=y");
            steps.push(self.configure(&directory, "configure-aligned", &[option])?);
            steps.push(self.build("build-aligned", ALIGNED, &directory, None));
        }
        steps.push(self.measure(&initrd));
        Ok(Plan { steps })
    }

    /// Makes the `.config` of a build; `more` are lines that only this build has.
    fn configure(&self, directory: &str, name: &str, more: &[String]) -> Result<Step, Error> {
        let mut make = self.make.words(self.tree, Path::new("/"), self.architecture)?;
        make.retain(|word| !word.starts_with("O=") && !word.starts_with("-j"));
        let request = Configure {
            make,
            directory: directory.into(),
            begin: Input::from(CONFIG),
            lines: more.to_vec(),
            small: self.small,
            config: Output::from(&config_file(directory)),
        };
        let step = Step::new(name, Request::Kernel(KernelRequest::Configure(request)));
        Ok(step.besides([TREE_STATE.into()]))
    }

    fn check(&self) -> Step {
        let config = Input::from(&config_file(BUILD));
        let request = KernelRequest::Check { tree: self.tree.to_owned(), config };
        Step::new("check-config", Request::Kernel(request))
    }

    fn build(
        &self,
        name: &str,
        kernel: &str,
        directory: &str,
        knowledge: Option<Knowledge>,
    ) -> Step {
        let request = Build {
            tree: self.tree.to_owned(),
            directory: directory.into(),
            make: self.make.clone(),
            architecture: self.architecture,
            knowledge,
            vmlinux: Output::from(&vmlinux(kernel)),
            image: Output::from(&image(kernel, self.architecture)),
        };
        Step::new(name, Request::Kernel(KernelRequest::Build(request)))
            .besides([config_file(directory), TREE_STATE.into()])
    }

    fn record(&self, name: &str, kernel: &str, initrd: &Path) -> Step {
        let request = Record {
            image: Input::from(&image(kernel, self.architecture)),
            initrd: Input::from(initrd),
            machine: self.machine.clone(),
            period: self.period,
            cpus: self.cpus,
            output: Output::from(&recording(kernel)),
        };
        Step::new(name, Request::Kernel(KernelRequest::Record(request)))
    }

    fn lay_out(&self, recorded: &str) -> Vec<Step> {
        let prefix = in_state("layout");
        let kind = LayoutKind::Propeller;
        let files = kind.endings().iter().map(|ending| in_state(&format!("layout{ending}")));
        let files: Vec<PathBuf> = files.collect();
        let layout = Layout {
            counts: Input::from(&recording(recorded)),
            binary: Input::from(&vmlinux(recorded)),
            kind,
            prefix: Path::new(BUILD).join("layout"),
            own_directory: false,
            clone: false,
            allow_empty: false,
            files: files.iter().map(Output::from).collect(),
            summary: None,
        };
        let knowledge = Knowledge {
            profile: Input::from(&profile_file(self.rounds)),
            first_round: false,
            split: false,
            layout: Some(LayoutFiles { prefix, files: files.iter().map(Input::from).collect() }),
        };
        let layout = Step::new("layout", Request::Layout(layout));
        vec![layout, self.build("relink", "layout", BUILD, Some(knowledge))]
    }

    fn measure(&self, initrd: &Path) -> Step {
        let kernels = self.measured().into_iter();
        let request = KernelRequest::Measure {
            kernels: kernels
                .map(|name| (name.to_owned(), Input::from(&image(name, self.architecture))))
                .collect(),
            initrd: Input::from(initrd),
            machine: self.machine.clone(),
            counts: Output::from(&counts()),
        };
        Step::new("measure", Request::Kernel(request))
    }
}

/// The kernel that boots.
pub fn image(kernel: &str, architecture: Architecture) -> PathBuf {
    in_state(&format!("{kernel}.{}", architecture.image_target()))
}

/// The kernel with symbols.
pub fn vmlinux(kernel: &str) -> PathBuf {
    in_state(&format!("{kernel}.vmlinux"))
}

/// The configuration of the build in a directory.
fn config_file(directory: &str) -> PathBuf {
    in_state(&format!("{directory}.config"))
}

fn recording(kernel: &str) -> PathBuf {
    in_state(&format!("{kernel}.data"))
}

fn profile_file(round: u8) -> PathBuf {
    in_state(&format!("round-{round}.afdo"))
}

fn profile(round: u8, recorded: &str) -> Step {
    let request = Profile {
        counts: Input::from(&recording(recorded)),
        binary: Input::from(&vmlinux(recorded)),
        emit: None,
        symbol_list: false,
        allow_empty: false,
        profile: Output::from(&profile_file(round)),
        summary: None,
    };
    Step::new(format!("profile-{round}"), Request::Profile(request))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(rounds: u8, lays_out: bool, align: Option<u32>) -> Plan {
        plan_for(Architecture::X86_64, rounds, lays_out, align)
    }

    fn plan_for(
        architecture: Architecture,
        rounds: u8,
        lays_out: bool,
        align: Option<u32>,
    ) -> Plan {
        let make = Make { llvm: Some("-22".to_owned()), cc: None, jobs: None };
        let wanted = Wanted {
            tree: Path::new("/src/linux"),
            architecture,
            small: true,
            make: &make,
            rounds,
            lays_out,
            align,
            machine: &BootMachine { memory_mib: 700, append: None, timeout_s: 600 },
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
    fn a_kernel_for_another_processor_is_configured_built_and_booted_as_one() {
        let lines = plan_for(Architecture::Arm64, 1, false, None);
        let lines: Vec<String> = lines.steps.iter().map(|step| step.command_line()).collect();
        let all = lines.join("\n");
        for part in ["ARCH=arm64", "workload -o .planish/initrd.cpio --arch=arm64", "base.Image"] {
            assert!(all.contains(part), "no {part} in {all}");
        }
        assert!(!all.contains("bzImage") && !all.contains("x86"), "{all}");
        let usual = plan(1, false, None);
        assert!(usual.steps.iter().all(|step| !step.command_line().contains("--arch")));
    }

    #[test]
    fn every_step_reads_what_an_earlier_one_made() {
        let plan = plan(2, true, Some(64));
        let mut made: Vec<PathBuf> = Vec::new();
        for step in &plan.steps {
            let inputs = step.inputs();
            for input in inputs.iter().filter(|input| input.starts_with(STATE_DIRECTORY)) {
                assert!(made.contains(input), "{} reads {input:?} before it is made", step.name);
            }
            made.extend(step.outputs());
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
