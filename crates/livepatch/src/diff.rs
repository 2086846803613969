//! How closures differ between two builds: other flags, another profile, another source.

use crate::analysis::Analysis;
use crate::closure::closure;
use crate::graph::NodeId;
use crate::select::{Unclear, select};
use std::collections::{BTreeMap, BTreeSet};

/// A function whose closure is not the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Unit and name.
    pub function: (String, String),
    /// Units and names that changed with it only in the old build.
    pub lost: BTreeSet<(String, String)>,
    /// Units and names that change with it only in the new build.
    pub gained: BTreeSet<(String, String)>,
}

/// How the closures of two builds differ.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Differences {
    /// How many functions both builds have.
    pub compared: usize,
    /// Those whose closures differ, by unit and name.
    pub functions: Vec<Difference>,
}

impl Differences {
    /// Keeps those of the functions named; says which of the names are in one build alone, and
    /// whether that is the old one.
    ///
    /// # Errors
    /// At a name that neither build knows, or that stands for several functions.
    pub fn keep<'n>(
        &mut self,
        old: &Analysis,
        new: &Analysis,
        names: &'n [String],
    ) -> Result<Vec<(&'n str, bool)>, Unclear> {
        let (mut asked, mut alone) = (BTreeSet::new(), Vec::new());
        let of = |analysis: &Analysis, nodes: Vec<NodeId>| -> BTreeSet<(String, String)> {
            nodes.into_iter().filter_map(|node| analysis.full_name(node)).collect()
        };
        for name in names {
            match (select(old, name), select(new, name)) {
                (Ok(before), Ok(after)) => {
                    asked.extend(of(old, before).intersection(&of(new, after)).cloned());
                }
                (Ok(_), Err(Unclear::Unknown { .. })) => alone.push((name.as_str(), true)),
                (Err(Unclear::Unknown { .. }), Ok(_)) => alone.push((name.as_str(), false)),
                (Err(unclear), _) | (_, Err(unclear)) => return Err(unclear),
            }
        }
        self.functions.retain(|difference| asked.contains(&difference.function));
        self.compared = asked.len();
        Ok(alone)
    }
}

/// The functions of both builds whose closures differ.
pub fn diff(old: &Analysis, new: &Analysis) -> Differences {
    let (old_names, new_names) = (names(old), names(new));
    let (mut found, mut compared) = (Vec::new(), 0);
    for (name, &node) in &old_names {
        let Some(&other) = new_names.get(name) else { continue };
        compared += 1;
        let (before, after) = (members(old, node), members(new, other));
        if before != after {
            found.push(Difference {
                function: name.clone(),
                lost: before.difference(&after).cloned().collect(),
                gained: after.difference(&before).cloned().collect(),
            });
        }
    }
    Differences { compared, functions: found }
}

fn names(analysis: &Analysis) -> BTreeMap<(String, String), NodeId> {
    let nodes = analysis.graph.nodes();
    nodes.filter_map(|(id, _)| Some((analysis.full_name(id)?, id))).collect()
}

fn members(analysis: &Analysis, node: NodeId) -> BTreeSet<(String, String)> {
    let closure = closure(&analysis.graph, &[node]);
    closure.members.iter().filter_map(|member| analysis.full_name(member.node)).collect()
}

impl Analysis {
    /// Unit and name of a function.
    pub fn full_name(&self, node: NodeId) -> Option<(String, String)> {
        let node = self.graph.get(node)?;
        Some((self.units.get(node.unit.0 as usize)?.clone(), node.name.to_string()))
    }
}
