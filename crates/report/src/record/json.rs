//! The summary of a recording as JSON. The schema stands in `docs/reference/record.md`.

use record::{AuxSeen, Ending, LookAhead, Placement, RingLosses, Streamed, Summary};
use serde_json::{Map, Value, json};

/// The summary as one object.
pub fn object(summary: &Summary) -> Value {
    let (exit_code, signal) = match summary.ending {
        Ending::Code(code) => (Some(code), None),
        Ending::Signal(signal) => (None, Some(signal)),
        Ending::Unknown => (None, None),
    };
    let object = json!({
        "schema": "planish-record",
        "version": 1,
        "output": summary.output.display().to_string(),
        "bytes": summary.bytes,
        "branches": summary.branches,
        "event": summary.event,
        "notes": summary.notes,
        "samples": summary.samples,
        "branch_entries": summary.branch_entries,
        "lost_samples": summary.lost_samples,
        "taken_branches": summary.taken_branches,
        "processes": summary.processes,
        "native_programs": summary.native_programs,
        "elapsed_s": summary.elapsed.as_secs_f64(),
        "exit_code": exit_code,
        "signal": signal,
    });
    let Value::Object(mut fields) = object else { return object };
    if let Some(went) = &summary.look_ahead {
        fields.insert("look_ahead".to_owned(), look_ahead(went));
    }
    if let Some(aux) = &summary.aux {
        fields.insert("aux".into(), seen(aux));
    }
    if let Some(streamed) = &summary.streamed {
        add_streamed(streamed, &mut fields);
    }
    // Only the emulator counts processes and the programs they start; 0 would be a claim.
    if summary.branches != "emulated" {
        fields.remove("processes");
        fields.remove("native_programs");
    }
    Value::Object(fields)
}

fn look_ahead(went: &LookAhead) -> Value {
    json!({
        "depth": went.depth,
        "stops": went.stops,
        "full": went.full,
        "shorter": went.shorter,
        "empty": went.empty,
        "instructions": went.instructions,
        "stopped_s": went.stopped.as_secs_f64(),
        "tracer_cpu_s": went.tracer_cpu.as_secs_f64(),
        "program_cpu_s": went.program_cpu.as_secs_f64(),
        "births_s": went.births.as_secs_f64(),
        "threads": went.threads,
        "let_be": went.let_be,
        "checked": went.checked,
        "checked_instructions": went.checked_instructions,
        "cut": went.cut,
        "mismatches": went.mismatches,
        "clock_races": went.clock_races,
    })
}

fn seen(aux: &AuxSeen) -> Value {
    json!({
        "bytes": aux.bytes,
        "pieces": aux.pieces,
        "truncated": aux.truncated,
        "partial": aux.partial,
        "collided": aux.collided,
    })
}

fn add_streamed(streamed: &Streamed, fields: &mut Map<String, Value>) {
    let losses = &streamed.losses;
    let ring = |ring: &RingLosses| {
        json!({
            "cpu": ring.cpu,
            "bytes": ring.bytes,
            "lost": ring.lost,
            "paused_s": ring.paused.as_secs_f64(),
            "elapsed_s": ring.elapsed.as_secs_f64(),
        })
    };
    fields.insert("lost_records".into(), losses.records.into());
    fields.insert("throttled".into(), losses.throttled.0.into());
    fields.insert("unthrottled".into(), losses.throttled.1.into());
    fields.insert("rings".into(), losses.rings.iter().map(ring).collect());
    fields.insert("cpus_gone".into(), streamed.hotplug.gone.iter().copied().collect());
    fields.insert("cpus_not_recorded".into(), streamed.hotplug.came.iter().copied().collect());
    fields.insert("ended_at_size".into(), streamed.full.into());
    let files = streamed.files.iter().map(|file| file.display().to_string().into());
    fields.insert("files".into(), Value::Array(files.collect()));
    fields.insert("most_waited_bytes".into(), streamed.waited.into());
    let reader = |reader: &Placement| {
        json!({
            "cpus": reader.cpus,
            "bytes": reader.bytes,
            "bytes_near": reader.bytes_near,
            "pages": reader.pages,
            "pages_near": reader.pages_near,
        })
    };
    fields.insert("readers".into(), streamed.readers.iter().map(reader).collect());
    if let Some(level) = streamed.deepest {
        fields.insert("deepest_level".into(), level.into());
    }
    if let Some((before, after)) = streamed.compressed {
        fields.insert("uncompressed_bytes".into(), before.into());
        fields.insert("compressed_bytes".into(), after.into());
    }
}
