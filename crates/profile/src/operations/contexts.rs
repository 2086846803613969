//! Calling contexts: put aside, merged where they are cold, and turned into inlined calls.
//!
//! The rules are those of llvm-profgen with `--csspgo-preinliner=0`: a context whose total is below
//! the smallest hot count of the profile (contexts put aside) goes into its function without
//! context; then, for clang, each context becomes a call inlined into its caller's context where
//! that has counts, and adds to its function alone where it has none. A copy that clang then does
//! not inline it adds to the function itself.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{HOT_SHARE, Summary, add_function};
use crate::context::Context;
use crate::{FunctionProfile, Name, SampleProfile};

/// What merging cold contexts did.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct ColdContexts {
    /// Contexts with a smaller total were merged into their function without context.
    pub threshold: u64,
    /// Contexts left, functions without context among them.
    pub kept: u64,
    /// Contexts merged.
    pub merged: u64,
    /// Sum of their totals (saturating).
    pub merged_total: u64,
}

/// The same profile without contexts: each function once, with the sum of its counts.
pub fn flatten_contexts(profile: &SampleProfile) -> SampleProfile {
    let mut flat =
        SampleProfile { functions: BTreeMap::new(), context_sensitive: false, ..profile.clone() };
    for function in profile.functions.values() {
        let name = Context::of(&function.name).function();
        let own = flat.function(&name);
        add_function(own, function, 1);
        // What is marked is the context.
        own.attributes = 0;
    }
    flat
}

/// Merges contexts whose total is below `threshold` (`None`: the smallest hot count) into their
/// functions without context.
pub fn merge_cold_contexts(profile: &mut SampleProfile, threshold: Option<u64>) -> ColdContexts {
    let usual = || Summary::of(profile).min_count(HOT_SHARE).unwrap_or(0);
    let threshold = threshold.unwrap_or_else(usual);
    let mut report = ColdContexts { threshold, ..ColdContexts::default() };
    let names: Vec<Name> =
        profile.functions.keys().filter(|name| name.is_context()).cloned().collect();
    for name in names {
        if profile.functions.get(&name).is_none_or(|function| function.total >= threshold) {
            continue;
        }
        let Some(cold) = profile.functions.remove(&name) else { continue };
        report.merged += 1;
        report.merged_total = report.merged_total.saturating_add(cold.total);
        add_alone(profile, &cold);
    }
    report.kept = profile.functions.len() as u64;
    report
}

/// Adds a context to its function alone, which was inlined only where all its contexts were.
fn add_alone(profile: &mut SampleProfile, context: &FunctionProfile) {
    let name = Context::of(&context.name).function();
    let known = profile.functions.get(&name).map(|function| function.attributes);
    let alone = profile.function(&name);
    add_function(alone, context, 1);
    alone.attributes = known.unwrap_or(context.attributes) & context.attributes;
}

/// A context with the contexts that were called from it.
#[derive(Default)]
struct Node {
    profile: Option<FunctionProfile>,
    called: BTreeMap<(crate::Location, Name), Node>,
}

/// Turns contexts into inlined calls, for compilers that know no contexts and for clang's inliner,
/// which follows such calls first. A context whose caller's context has no counts adds to its
/// function alone.
pub fn nest_contexts(profile: &SampleProfile) -> SampleProfile {
    let mut root = Node::default();
    for function in profile.functions.values() {
        let context = Context::of(&function.name);
        let mut node = &mut root;
        let mut at = crate::Location::default();
        for frame in context.frames() {
            node = node.called.entry((at, frame.function.clone())).or_default();
            at = frame.location;
        }
        node.profile = Some(FunctionProfile { name: context.function(), ..function.clone() });
    }
    let mut nested =
        SampleProfile { functions: BTreeMap::new(), context_sensitive: false, ..profile.clone() };
    nest(root, &mut nested);
    nested
}

/// Nests what was called from a context into its profile, which is given back. The depth is that of
/// contexts.
fn nest(node: Node, nested: &mut SampleProfile) -> Option<FunctionProfile> {
    let mut profile = node.profile;
    for ((at, name), called) in node.called {
        let Some(callee) = nest(called, nested) else { continue };
        let Some(profile) = &mut profile else {
            add_alone(nested, &callee);
            continue;
        };
        profile.total = profile.total.saturating_add(callee.total);
        // The call is the inlined copy's business from now on.
        if let Some(sample) = profile.body.get_mut(&at) {
            let calls = sample.targets.remove(&name).unwrap_or(0).min(sample.count);
            sample.count -= calls;
            profile.total = profile.total.saturating_sub(calls);
            if sample.count == 0 {
                profile.body.remove(&at);
            }
        }
        profile.callsites.entry(at).or_default().insert(name, callee);
    }
    profile
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::text;

    fn read(text: &str) -> SampleProfile {
        text::read(text.as_bytes()).unwrap_or_else(|error| panic!("{error}"))
    }

    const PROFILE: &str = "[main:2 @ foo]:90:10\n 1: 10\n 2: 80 bar:30\n[main]:20:1\n 1: 1\n 2: \
                           10 foo:10\n 3: 9 foo:9\n[main:2 @ foo:2 @ bar]:31:30\n 1: 31\n[main:3 \
                           @ foo]:9:9\n 1: 9\n[other:7 @ lone]:5:5\n 1: 5\n";

    #[test]
    fn cold_contexts_go_into_their_function() {
        let mut profile = read(PROFILE);
        let report = merge_cold_contexts(&mut profile, Some(10));
        assert_eq!((report.merged, report.merged_total, report.kept), (2, 14, 5));
        assert_eq!(
            profile.functions.get(&Name::text("foo")).map(|f| (f.total, f.head)),
            Some((9, 9))
        );
        let flat = flatten_contexts(&profile);
        assert_eq!(flat.functions.len(), 4);
        assert_eq!(flat.functions.get(&Name::text("foo")).map(|f| f.total), Some(99));
        assert!(!flat.context_sensitive);
    }

    #[test]
    fn contexts_become_inlined_calls_of_their_callers() {
        let nested = nest_contexts(&read(PROFILE));
        let names: Vec<String> = nested.functions.keys().map(Name::to_string).collect();
        assert_eq!(names, ["lone", "main"]);
        let total = |name: &str| nested.functions.get(&Name::text(name)).map(|f| f.total);
        // foo: 90 + 31 of bar - 30 of the call, and 9 in the other context.
        assert_eq!(total("main"), Some(20 + 91 - 10 + 9 - 9));
        assert_eq!(total("lone"), Some(5), "nothing is known of its caller");
        let text = String::from_utf8_lossy(&text::write(&nested)).into_owned();
        assert!(text.contains("\n 2: foo:91\n  1: 10\n  2: 50\n  2: bar:31\n   1: 31\n"), "{text}");
    }
}
