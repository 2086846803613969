//! A function as JSON.

use super::FunctionLines;
use crate::calls::demangled;
use annotate::{Branch, Instruction, Line, Loop};
use counts::{Ledger, Reason};
use image::ImageAddr;
use image::code::InstructionKind;
use serde_json::{Value, json};

/// The function as JSON; addresses are those of its file.
pub fn lines_json(told: &FunctionLines<'_>) -> Value {
    let annotated = &told.annotated;
    let names = &told.selected.recorded.names;
    let linkage = names.function(told.function).map(|f| f.name.clone()).unwrap_or_default();
    let chosen = told.chosen();
    let lines = chosen.iter().filter_map(|&index| Some(line(told, annotated.lines.get(index)?)));
    let instructions = annotated.instructions.iter().filter_map(|one| {
        let position = chosen.binary_search(&one.line).ok()?;
        Some(instruction(told, one, position))
    });
    let sources = annotated.files.iter().zip(&told.sources).map(
        |(file, source)| json!({ "file": file, "read": source.path, "problem": source.problem }),
    );
    let mut head = told.selected.json("planish-report-lines");
    let mut put = |key: &str, value: Value| head.insert(key.to_owned(), value);
    put("function", json!(demangled(&linkage)));
    put("linkage_name", json!(linkage));
    put("library", json!(names.library(told.function).map(|library| &library.path)));
    put("address", json!(told.code.start.0));
    put("size", json!(told.code.end.0.saturating_sub(told.code.start.0)));
    put("self_weight", json!(told.own.period));
    put("self_samples", json!(told.own.samples));
    put("self_percent", json!(told.selected.share(told.own, told.selected.whole())));
    put("left_out", json!(annotated.lines.len() - chosen.len()));
    put("sources", sources.collect());
    put("lines", lines.collect());
    put("instructions", instructions.collect());
    put("branches", annotated.branches.iter().map(branch).collect());
    put("loops", annotated.loops.iter().map(turning).collect());
    let of_layout = annotated.moved.as_ref();
    put("moved_blocks", json!(of_layout.map(|all| all.iter().map(moved).collect::<Vec<_>>())));
    if let Some(Value::Object(ledger)) = head.get_mut("ledger") {
        ledger.insert("unplaced_samples".to_owned(), json!(annotated.unplaced.samples));
        ledger.insert("unplaced_weight".to_owned(), json!(annotated.unplaced.period));
        ledger.insert("left_out_bytes".to_owned(), json!(annotated.left_out_bytes));
        ledger.insert("branch_stacks".to_owned(), json!(told.stacks.as_ref().map(books)));
    }
    Value::Object(head)
}

/// What became of the entries of branch stacks and of the stretches between them.
fn books(ledger: &Ledger) -> Value {
    let book = |book: &counts::Book| {
        let sum = |reasons: &std::collections::BTreeMap<Reason, u64>| -> u64 {
            reasons.values().fold(0, |sum, count| sum.saturating_add(*count))
        };
        json!({ "read": book.entered, "used": book.used, "unused": sum(&book.unused) })
    };
    json!({ "entries": book(&ledger.branches), "stretches": book(&ledger.fall_throughs) })
}

fn line(told: &FunctionLines<'_>, line: &Line) -> Value {
    let place = told.place(line);
    json!({
        "file": place.map(|(path, _)| path),
        "line": place.map(|(_, number)| number).filter(|number| *number > 0),
        "source": told.source(line),
        "inlined": line.inlined.as_ref().map(|name| demangled(name)),
        "weight": line.weight.period,
        "samples": line.weight.samples,
        "percent": told.share(line.weight),
        "count": line.count,
        "instructions": line.instructions.len(),
    })
}

fn instruction(told: &FunctionLines<'_>, one: &Instruction, line: usize) -> Value {
    json!({
        "address": one.address.0,
        "size": one.size,
        "text": one.text,
        "kind": kind(one.kind),
        "target": one.target.map(|to| to.0),
        "target_function": one.target_function.as_ref().map(|(name, _)| demangled(name)),
        "line": line,
        "block": one.block.map(|block| block.0),
        "weight": one.weight.period,
        "samples": one.weight.samples,
        "percent": told.share(one.weight),
        "count": one.count,
    })
}

/// A block that the layout moved.
fn moved(moved: &annotate::Moved) -> Value {
    json!({
        "block": moved.block.0,
        "behind_before": moved.before.map(|block| block.0),
        "behind_now": moved.now.map(|block| block.0),
    })
}

fn branch(branch: &Branch) -> Value {
    let target = |target: &annotate::Target| json!({ "address": target.to.map(|ImageAddr(to)| to), "count": target.count });
    json!({
        "address": branch.address.0,
        "kind": kind(branch.kind),
        "taken": branch.taken,
        "not_taken": branch.not_taken,
        "taken_percent": branch.taken_percent(),
        "entries": branch.entries,
        "mispredicted": branch.mispredicted,
        "targets": branch.targets.iter().map(target).collect::<Vec<_>>(),
    })
}

fn turning(found: &Loop) -> Value {
    json!({
        "first": found.first.0,
        "last": found.last.0,
        "depth": found.depth,
        "entries": found.entries,
        "back_edges": found.back_edges,
        "iterations": found.iterations,
        "iterations_per_entry": found.trips(),
    })
}

fn kind(kind: InstructionKind) -> &'static str {
    match kind {
        InstructionKind::Other => "other",
        InstructionKind::ConditionalBranch => "conditional-branch",
        InstructionKind::UnconditionalBranch => "branch",
        InstructionKind::IndirectBranch => "indirect-branch",
        InstructionKind::Call => "call",
        InstructionKind::IndirectCall => "indirect-call",
        InstructionKind::Return => "return",
        InstructionKind::Syscall => "syscall",
        InstructionKind::Trap => "trap",
        InstructionKind::Invalid => "invalid",
    }
}
