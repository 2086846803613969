//! Are the closures of a build so empty that something must be missing? Who patches by them would
//! leave code behind.

use crate::analysis::Analysis;
use crate::graph::{Reason, Source};

/// Of so many functions some are inlined, where a whole program is optimised at once.
const FEW: usize = 8;
/// Of so many functions some are inlined, where each file is optimised alone.
const MANY: usize = 100;

/// Why the closures of a build cannot be right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Implausible {
    /// The program was optimised when it was linked, and nothing says how.
    LinkTime {
        /// Functions, each of them alone.
        functions: usize,
        /// Object files that were left to the link.
        objects: usize,
    },
    /// The compiler wrote dumps, and none of them ties two functions.
    Dumps {
        /// Functions, each of them alone.
        functions: usize,
    },
}

impl std::fmt::Display for Implausible {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Implausible::LinkTime { functions, objects } => write!(
                f,
                "{objects} object files were compiled for link-time optimisation, and not one of \
                 {functions} functions shares code with another: the link's own dumps are \
                 missing, or are of another link; give the options for dumps to the link too (gcc \
                 -flto … -fdump-ipa-clones -fdump-ipa-icf-details, clang -flto … \
                 -fsave-optimization-record), link in this directory, and keep the program beside \
                 its dumps"
            ),
            Implausible::Dumps { functions } => write!(
                f,
                "there are dumps of the compiler, and not one of {functions} functions shares \
                 code with another: the dumps are of another build, or it was built without \
                 optimisation (then every function is alone, and needs no closure); clean and \
                 build again as the program that runs was built"
            ),
        }
    }
}

impl Analysis {
    /// Whether no function is tied to another although the compiler must have tied some.
    pub fn implausible(&self) -> Option<Implausible> {
        let origins =
            self.graph.nodes().filter(|(_, node)| crate::symbols::origin(&node.name).is_none());
        let (functions, with_code) = origins
            .fold((0, 0), |(all, code), (_, node)| (all + 1, code + usize::from(node.has_code)));
        // That the link knows a function under one name in two files ties it to nothing but itself.
        let alone = self.graph.edges().iter().all(|edge| edge.reason == Reason::LinkTime);
        let dumps = Source::ALL.iter().zip(self.covered);
        let has_dumps = dumps
            .filter(|(source, _)| matches!(source, Source::IpaClones | Source::Remarks))
            .any(|(_, units)| units > 0);
        match () {
            // Files that were left to the link have no code: what says how it was made is of the
            // program, which is absent.
            () if self.link_time > 0
                && functions > 0
                && (with_code == 0 || alone && functions >= FEW) =>
            {
                Some(Implausible::LinkTime { functions, objects: self.link_time })
            }
            () if !alone => None,
            () if has_dumps && functions >= MANY => Some(Implausible::Dumps { functions }),
            () => None,
        }
    }
}
