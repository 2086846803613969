//! The contexts of a profile as a tree that contexts can be moved about in.
//!
//! The root stands for no function; below it are the functions without callers, below each context
//! the ones called from it. A context that is moved to the root is merged into what is there, its
//! callees with it. The order of siblings is that of LLVM's hash of call and callee, since the
//! order in which contexts are merged says which attributes win.
//!
//! Cost: a walk over what is moved. Memory: a node for each frame on a path to a context.

use std::collections::{BTreeMap, VecDeque};

use rustc_hash::FxHashMap;

use crate::operations::add_function;
use crate::{Context, Frame, FunctionProfile, Location, Name, SampleProfile};

/// LLVM's attribute of a context that the compiler is to inline.
pub(super) const SHOULD_BE_INLINED: u32 = 2;

/// Number of a node; the root is [`ROOT`].
pub(super) type NodeId = usize;
/// Number of a profile of one context.
pub(super) type ProfileId = usize;

/// What all contexts are below.
pub(super) const ROOT: NodeId = 0;

/// A frame on the path to a context.
#[derive(Debug, Default)]
pub(super) struct Node {
    pub(super) function: Name,
    /// The function's hash, which is what it is looked up by.
    pub(super) guid: u64,
    /// The call in the function above.
    pub(super) callsite: Location,
    /// The node above; the root is its own.
    pub(super) parent: NodeId,
    pub(super) children: BTreeMap<u64, NodeId>,
    /// Absent where the context itself has no counts.
    pub(super) profile: Option<ProfileId>,
}

/// The counts of a context.
#[derive(Debug)]
pub(super) struct InContext {
    /// Named by its function.
    pub(super) counts: FunctionProfile,
    pub(super) node: NodeId,
    pub(super) inlined: bool,
    /// Its counts went into another one.
    merged: bool,
}

#[derive(Debug)]
pub(super) struct Trie {
    nodes: Vec<Node>,
    profiles: Vec<InContext>,
    /// The contexts that each function had at first, in the order in which they are merged.
    of_function: FxHashMap<Name, Vec<ProfileId>>,
    /// Contexts whose counts went into another one.
    pub(super) merged: u64,
}

/// LLVM's hash of a call of a function at a place.
pub(super) fn call_hash(guid: u64, at: Location) -> u64 {
    let place = u64::from(at.discriminator) << 32 | u64::from(at.line_offset);
    guid.wrapping_add(place << 5).wrapping_add(place)
}

impl Trie {
    /// Takes the functions out of a context-sensitive profile.
    pub(super) fn of(profile: &mut SampleProfile) -> Trie {
        let mut trie = Trie {
            nodes: vec![Node::default()],
            profiles: Vec::with_capacity(profile.functions.len()),
            of_function: FxHashMap::default(),
            merged: 0,
        };
        for (name, function) in std::mem::take(&mut profile.functions) {
            let context = Context::of(&name);
            let mut node = ROOT;
            let mut at = Location::default();
            for frame in context.frames() {
                node = trie.child_or_new(node, at, &frame.function);
                at = frame.location;
            }
            let counts = FunctionProfile { name: context.function(), ..function };
            let id = trie.profiles.len();
            trie.profiles.push(InContext { counts, node, inlined: false, merged: false });
            if let Some(node) = trie.nodes.get_mut(node) {
                node.profile = Some(id);
            }
        }
        for node in trie.breadth_first() {
            if let Some(Node { profile: Some(id), function, .. }) = trie.nodes.get(node) {
                trie.of_function.entry(function.clone()).or_default().push(*id);
            }
        }
        trie
    }

    /// All nodes but the root, callers before callees.
    pub(super) fn breadth_first(&self) -> Vec<NodeId> {
        let mut order = Vec::with_capacity(self.nodes.len());
        let mut next = VecDeque::from([ROOT]);
        while let Some(node) = next.pop_front() {
            next.extend(self.children(node));
            order.extend((node != ROOT).then_some(node));
        }
        order
    }

    pub(super) fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(id)
    }

    pub(super) fn profile(&self, id: ProfileId) -> Option<&InContext> {
        self.profiles.get(id)
    }

    /// The counts at a node.
    pub(super) fn counts(&self, id: NodeId) -> Option<&FunctionProfile> {
        Some(&self.profiles.get(self.nodes.get(id)?.profile?)?.counts)
    }

    /// What is directly below a node, in the order of the hashes.
    pub(super) fn children(&self, id: NodeId) -> Vec<NodeId> {
        self.nodes.get(id).map(|node| node.children.values().copied().collect()).unwrap_or_default()
    }

    /// Marks a context as one that stays where it is.
    pub(super) fn mark_inlined(&mut self, id: ProfileId) {
        if let Some(profile) = self.profiles.get_mut(id) {
            profile.inlined = true;
            profile.counts.attributes |= SHOULD_BE_INLINED;
        }
    }

    /// Merges all contexts of a function that are not to be inlined; the profile of the function
    /// without callers, if there is one then.
    pub(super) fn merged_base(&mut self, function: &Name) -> Option<ProfileId> {
        let guid = function.hash();
        for id in self.of_function.get(function).cloned().unwrap_or_default() {
            let Some(profile) = self.profiles.get(id) else { continue };
            let from = profile.node;
            if profile.inlined || profile.merged || self.top(guid) == Some(from) {
                continue;
            }
            self.move_to_root(from);
        }
        self.nodes.get(self.top(guid)?)?.profile
    }

    fn top(&self, guid: u64) -> Option<NodeId> {
        let key = call_hash(guid, Location::default());
        self.nodes.get(ROOT)?.children.get(&key).copied()
    }

    fn child_or_new(&mut self, parent: NodeId, at: Location, function: &Name) -> NodeId {
        let guid = function.hash();
        let key = call_hash(guid, at);
        let next = self.nodes.len();
        let Some(above) = self.nodes.get_mut(parent) else { return ROOT };
        let id = *above.children.entry(key).or_insert(next);
        if id == next {
            let function = function.clone();
            let node = Node { function, guid, callsite: at, parent, ..Node::default() };
            self.nodes.push(node);
        }
        id
    }

    fn move_to_root(&mut self, from: NodeId) {
        let Some(node) = self.nodes.get(from) else { return };
        let (parent, key) = (node.parent, call_hash(node.guid, node.callsite));
        if let Some(parent) = self.nodes.get_mut(parent) {
            parent.children.remove(&key);
        }
        let mut waiting = vec![(from, ROOT)];
        while let Some((from, parent)) = waiting.pop() {
            let Some(node) = self.nodes.get(from) else { continue };
            let at = if parent == ROOT { Location::default() } else { node.callsite };
            let key = call_hash(node.guid, at);
            let there = self.nodes.get(parent).and_then(|node| node.children.get(&key)).copied();
            let Some(to) = there else {
                self.put(from, parent, at, key);
                continue;
            };
            self.merge(from, to);
            let callees = self.nodes.get_mut(from).map(|node| std::mem::take(&mut node.children));
            waiting.extend(callees.unwrap_or_default().into_values().map(|callee| (callee, to)));
        }
    }

    /// Hangs a node with all below it under another.
    fn put(&mut self, id: NodeId, parent: NodeId, at: Location, key: u64) {
        if let Some(node) = self.nodes.get_mut(id) {
            (node.parent, node.callsite) = (parent, at);
        }
        if let Some(parent) = self.nodes.get_mut(parent) {
            parent.children.insert(key, id);
        }
    }

    /// Adds the counts of one node to those of another, or gives them to it.
    fn merge(&mut self, from: NodeId, to: NodeId) {
        let Some(id) = self.nodes.get_mut(from).and_then(|node| node.profile.take()) else {
            return;
        };
        let Some(target) = self.nodes.get_mut(to) else { return };
        let Some(into) = target.profile else {
            target.profile = Some(id);
            if let Some(profile) = self.profiles.get_mut(id) {
                profile.node = to;
            }
            return;
        };
        let Some(profile) = self.profiles.get_mut(id) else { return };
        profile.merged = true;
        let counts = std::mem::take(&mut profile.counts);
        self.merged += 1;
        if let Some(target) = self.profiles.get_mut(into) {
            // Whether the copy was inlined before is not asked of what is merged into it.
            let attributes = target.counts.attributes | counts.attributes & SHOULD_BE_INLINED;
            add_function(&mut target.counts, &counts, 1);
            target.counts.attributes = attributes;
        }
    }

    /// The profile again, each context named by where it is now.
    pub(super) fn put_back(mut self, profile: &mut SampleProfile) {
        let mut waiting: Vec<(NodeId, Vec<Frame>)> =
            self.children(ROOT).into_iter().map(|node| (node, Vec::new())).collect();
        while let Some((id, callers)) = waiting.pop() {
            let Some(node) = self.nodes.get(id) else { continue };
            for callee in node.children.values() {
                let at = self.nodes.get(*callee).map(|node| node.callsite).unwrap_or_default();
                let mut callers = callers.clone();
                callers.push(Frame { function: node.function.clone(), location: at });
                waiting.push((*callee, callers));
            }
            let counts = node.profile.and_then(|id| self.profiles.get_mut(id));
            if let Some(own) = counts {
                let name = Context::new(callers, node.function.clone()).name();
                let function = std::mem::take(&mut own.counts);
                profile.functions.insert(name.clone(), FunctionProfile { name, ..function });
            }
        }
    }
}
