//! Arm SPE data of made-up recordings is counted as it was written. No data of a real machine was
//! at hand; perf's own decoder is asked whether the packets mean what they are meant to.

#![allow(clippy::unwrap_used, reason = "a helper that cannot go on shall fail its test")]

mod program;
mod recording;

use counts::aggregate::{Aggregated, CountOptions, aggregate};
use counts::resolve::Rules;
use counts::{Counts, Error, Reason, text};
use image::Image;
use perfdata::{Input, aux_flag, tracer};
use program::Program;
use recording::{Branch, MISPREDICTED, NOT_TAKEN, Packets, RETIRED, Recording};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

const PID: i32 = 4242;

fn options(threads: usize) -> CountOptions {
    CountOptions { rules: Rules::Auto, threads, pid: None, paths: false }
}

fn read(
    recording: &Recording,
    program: &Program,
    options: CountOptions,
) -> Result<Aggregated, Error> {
    let path = program.path.with_extension("data");
    recording.write(&path);
    read_file(&path, program, options)
}

fn read_file(path: &Path, program: &Program, options: CountOptions) -> Result<Aggregated, Error> {
    let images = [Arc::new(Image::open(&program.path).unwrap())];
    let found = aggregate(path, &Input::open(path).unwrap(), &images, options, &|_| ())?;
    assert!(found.counts.ledger.balances(), "{:?}", found.counts.ledger);
    Ok(found)
}

fn begun(program: &Program) -> Recording {
    let mut recording = Recording::new(tracer::ARM_SPE);
    recording.map(PID, 10, program.piece, &program.path);
    recording.started(PID, 20, 0);
    recording
}

/// The three branches of a round: call, return, jump back; each with the target of the one before.
fn round(p: &Program) -> [Branch; 3] {
    [
        Branch::new(p.call, p.work).after(p.head),
        Branch::new(p.ret, p.back).after(p.work),
        Branch::new(p.jump, p.head).after(p.back),
    ]
}

fn without_targets_before(branch: Branch) -> Branch {
    Branch { before: None, ..branch }
}

/// The three blocks of the text form, of one image.
fn expected(
    p: &Program,
    ranges: &[(u64, u64, u64)],
    samples: &[(u64, u64)],
    branches: &[(u64, u64, u64)],
) -> String {
    let (mut ranges, mut samples, mut branches) =
        (ranges.to_vec(), samples.to_vec(), branches.to_vec());
    ranges.sort_unstable();
    samples.sort_unstable();
    branches.sort_unstable();
    let image = Image::open(&p.path).unwrap();
    let mut out =
        format!("# image {} {}\n{}\n", image.build_id().unwrap(), p.path.display(), ranges.len());
    ranges.iter().for_each(|(first, last, count)| out += &format!("{first:x}-{last:x}:{count}\n"));
    out += &format!("{}\n", samples.len());
    samples.iter().for_each(|(address, count)| out += &format!("{address:x}:{count}\n"));
    out += &format!("{}\n", branches.len());
    branches.iter().for_each(|(from, to, count)| out += &format!("{from:x}->{to:x}:{count}\n"));
    out
}

#[test]
fn a_loop_recorded_with_previous_targets_gives_branches_and_ranges() {
    let directory = tempfile::tempdir().unwrap();
    let Some(p) = program::build(directory.path()) else { return };
    let mut recording = begun(&p);
    let [call, back, jump] = round(&p);
    // Two processors, several buffers; the program's records lie in both.
    for time in 0..4 {
        let mut packets = Packets::default();
        packets.branch(call).branch(back);
        packets.branch(Branch { events: RETIRED | MISPREDICTED, ..jump });
        // Counted as a sample and no more: the last jump, which fell through, and a load.
        packets.branch(Branch { events: RETIRED | NOT_TAKEN, to: p.jump + 4, ..jump });
        packets.address(0, p.work, 0).operation(1, 0).events(RETIRED).end(None);
        // Begun on a wrong path.
        packets.branch(Branch { events: 0, ..call });
        recording.aux(&packets.0, 0, PID, 100 + time, time as u32 % 2);
    }
    for threads in [1, 3] {
        let found = read(&recording, &p, options(threads)).unwrap();
        let ranges = [(p.head, p.call, 4), (p.work, p.ret, 4), (p.back, p.jump, 4)];
        let samples = [(p.call, 4), (p.ret, 4), (p.jump, 8), (p.work, 4)];
        let branches = [(p.call, p.work, 4), (p.ret, p.back, 4), (p.jump, p.head, 4)];
        assert_eq!(text::render(&found.counts), expected(&p, &ranges, &samples, &branches));
        let missed: Vec<u64> =
            found.counts.images[0].branches.iter().map(|b| b.mispredicted).collect();
        assert_eq!((missed.iter().sum::<u64>(), found.samples), (4, 24));
        let ledger = &found.counts.ledger;
        assert_eq!(ledger.samples.unused.get(&Reason::WrongPath), Some(&4));
        assert_eq!(ledger.branches.unused.get(&Reason::WrongPath), Some(&4));
        assert_eq!((ledger.spe.buffers, ledger.spe.records, ledger.spe.taken), (4, 24, 16));
        assert_eq!((ledger.spe.not_taken, ledger.spe.other_operations), (4, 4));
        assert_eq!((ledger.spe.with_previous_target, ledger.spe.inferred_ranges), (16, 0));
        assert!(found.notes.is_empty(), "{:?}", found.notes);
    }
}

#[test]
fn without_previous_targets_code_counts_up_to_the_next_transfer_and_that_is_said() {
    let directory = tempfile::tempdir().unwrap();
    let Some(p) = program::build(directory.path()) else { return };
    let mut recording = begun(&p);
    let mut packets = Packets::default();
    for branch in round(&p) {
        packets.branch(without_targets_before(branch));
    }
    recording.aux(&packets.0, 0, PID, 100, 0);
    let found = read(&recording, &p, options(1)).unwrap();
    let ranges = [(p.head, p.call, 1), (p.work, p.ret, 1), (p.back, p.jump, 1)];
    let samples = [(p.call, 1), (p.ret, 1), (p.jump, 1)];
    let branches = [(p.call, p.work, 1), (p.ret, p.back, 1), (p.jump, p.head, 1)];
    assert_eq!(text::render(&found.counts), expected(&p, &ranges, &samples, &branches));
    assert_eq!(found.counts.ledger.spe.inferred_ranges, 3);
    assert!(
        found.notes.iter().any(|note| note.contains("no fall-through ranges")),
        "{:?}",
        found.notes
    );
}

#[test]
fn damage_costs_the_record_it_is_in_and_is_counted_with_its_place() {
    let directory = tempfile::tempdir().unwrap();
    let Some(p) = program::build(directory.path()) else { return };
    let mut recording = begun(&p);
    let mut packets = Packets::default();
    packets.branch(round(&p)[0]).branch(round(&p)[1]).branch(round(&p)[2]);
    // The operation type of the second record becomes a header that nothing has.
    let record = packets.0.len() / 3;
    packets.0[record + 9] = 0xff;
    // The buffer was full within a fourth one.
    packets.address(0, p.call, 0).operation(2, 0).padding(64);
    let flags = aux_flag::TRUNCATED | aux_flag::COLLISION;
    recording.aux(&packets.0, flags, PID, 100, 0);
    let found = read(&recording, &p, options(1)).unwrap();
    let ranges = [(p.head, p.call, 1), (p.back, p.jump, 1)];
    let samples = [(p.call, 1), (p.jump, 1)];
    let branches = [(p.call, p.work, 1), (p.jump, p.head, 1)];
    assert_eq!(text::render(&found.counts), expected(&p, &ranges, &samples, &branches));
    let spe = &found.counts.ledger.spe;
    assert_eq!(
        (spe.damaged, spe.incomplete, spe.truncated, spe.collided, spe.partial),
        (1, 1, 1, 1, 0)
    );
    let file = std::fs::read(p.path.with_extension("data")).unwrap();
    let place = usize::try_from(spe.first_damage.unwrap()).unwrap();
    assert_eq!(file[place], 0xff);
    let notes = found.notes.join("\n");
    assert!(notes.contains("buffer full 1, with gaps 0") && notes.contains("1 places"), "{notes}");

    // The file ends within the data: what is there counts.
    std::fs::write(p.path.with_extension("cut"), &file[..place]).unwrap();
    let cut = read_file(&p.path.with_extension("cut"), &p, options(1)).unwrap();
    assert_eq!(cut.counts.ledger.spe.records, 1);
    assert!(cut.counts.ledger.truncated_bytes > 0);
}

/// Samples of each process, which the option that selects one tells.
fn samples_of(recording: &Recording, p: &Program, pid: i32) -> u64 {
    let found = read(recording, p, CountOptions { pid: Some(pid), ..options(1) });
    found.map_or(0, |found| found.counts.ledger.samples.used)
}

#[test]
fn a_record_belongs_to_the_process_that_context_buffer_switch_or_aux_record_name() {
    let directory = tempfile::tempdir().unwrap();
    let Some(p) = program::build(directory.path()) else { return };
    let [call, ..] = round(&p);
    let begun = || {
        let mut recording = Recording::new(tracer::ARM_SPE);
        recording.conversion(1, 1000);
        for pid in [PID, 77] {
            recording.map(pid, 10, p.piece, &p.path);
        }
        recording.fork(PID, PID + 1, 15);
        recording
    };
    let of = |context: Option<u32>, ticks: Option<u64>| {
        let mut packets = Packets::default();
        packets.branch(Branch { context, ticks, ..call });
        packets.0
    };
    // The context is a thread; the AUX record was made when another process ran.
    let mut recording = begun();
    recording.aux(&of(Some(PID as u32 + 1), None), 0, 77, 100, 0);
    assert_eq!((samples_of(&recording, &p, PID), samples_of(&recording, &p, 77)), (1, 0));
    // The thread of a buffer.
    let mut recording = begun();
    recording.buffer(&of(None, None), 0, (PID + 1, u32::MAX));
    assert_eq!((samples_of(&recording, &p, PID), samples_of(&recording, &p, 77)), (1, 0));
    // The AUX record.
    let mut recording = begun();
    recording.aux(&of(None, None), 0, 77, 100, 0);
    recording.aux(&of(None, None), 0, PID, 101, 0);
    recording.aux(&of(None, None), 0, PID, 101, 1);
    assert_eq!((samples_of(&recording, &p, PID), samples_of(&recording, &p, 77)), (2, 1));
    // Whole processors: who came on last by the record's own time, which lies 1000 ns behind the
    // ticks.
    let mut recording = begun();
    recording.came_on(PID, 1050, 0);
    recording.came_on(77, 1060, 0);
    recording.came_on(PID, 1060, 1);
    let three = [of(None, Some(51)), of(None, Some(59)), of(None, Some(61))].concat();
    recording.aux(&three, 0, 77, 1100, 0);
    assert_eq!((samples_of(&recording, &p, PID), samples_of(&recording, &p, 77)), (2, 1));
    // Nothing tells: whole processors without times.
    let mut recording = begun();
    recording.came_on(PID, 1050, 0);
    recording.aux(&[of(None, None), of(Some(77), None)].concat(), 0, PID, 1100, 0);
    let found = read(&recording, &p, options(1)).unwrap();
    assert_eq!(found.counts.ledger.samples.unused.get(&Reason::NoProcess), Some(&1));
    assert_eq!(found.counts.ledger.branches.unused.get(&Reason::NoProcess), Some(&1));
}

#[test]
fn mappings_are_looked_up_at_the_time_of_the_record() {
    let directory = tempfile::tempdir().unwrap();
    let Some(p) = program::build(directory.path()) else { return };
    let mut recording = Recording::new(tracer::ARM_SPE);
    recording.conversion(2, 0);
    let mut packets = Packets::default();
    // At 80 ns nothing is mapped yet, at 120 ns it is.
    for ticks in [40, 60] {
        packets.branch(Branch { ticks: Some(ticks), ..round(&p)[0] });
    }
    recording.aux(&packets.0, 0, PID, 200, 0);
    recording.map(PID, 100, p.piece, &p.path);
    let ledger = read(&recording, &p, options(1)).unwrap().counts.ledger;
    assert_eq!((ledger.samples.used, ledger.samples.unused.get(&Reason::Unmapped)), (1, Some(&1)));
}

#[test]
fn what_holds_no_record_or_is_of_another_tracer_is_refused_with_the_reason() {
    let directory = tempfile::tempdir().unwrap();
    let Some(p) = program::build(directory.path()) else { return };
    let says = |recording: &Recording, part: &str| {
        let error = read(recording, &p, options(1)).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    };
    let mut empty = begun(&p);
    empty.aux(&[0; 4096], 0, PID, 100, 0);
    says(&empty, "4096 bytes of Arm SPE data without a record");
    let mut other = Recording::new(tracer::INTEL_PT);
    other.aux(&[2; 64], 0, PID, 100, 0);
    says(&other, "64 bytes of AUX data of Intel PT");
    // Without taken branches there are samples, and a word on what to record.
    let mut loads = begun(&p);
    let mut packets = Packets::default();
    packets.address(0, p.work, 0).operation(1, 0).events(RETIRED).end(None);
    loads.aux(&packets.0, 0, PID, 100, 0);
    let found = read(&loads, &p, options(1)).unwrap();
    assert!(found.notes.iter().any(|note| note.contains("branch_filter=1")), "{:?}", found.notes);
}

#[test]
fn perf_reads_the_same_packets_out_of_the_recording() {
    let directory = tempfile::tempdir().unwrap();
    let Some(p) = program::build(directory.path()) else { return };
    let mut recording = begun(&p);
    let mut packets = Packets::default();
    let [call, back, _] = round(&p);
    packets.branch(Branch {
        context: Some(PID as u32),
        ticks: Some(0x1234_5678),
        ..without_targets_before(call)
    });
    packets.branch(Branch {
        events: RETIRED | NOT_TAKEN | MISPREDICTED,
        ..without_targets_before(back)
    });
    packets.branch(Branch { level: 1, from: 0xff80_0010_0000, ..without_targets_before(back) });
    recording.aux(&packets.0, aux_flag::COLLISION, PID, 100, 0);
    let path = p.path.with_extension("data");
    recording.write(&path);
    let dump = Command::new("perf").args(["script", "-D", "-i"]).arg(&path).output();
    let Ok(dump) = dump else {
        eprintln!("skipped: perf is not installed");
        return;
    };
    let text = String::from_utf8_lossy(&dump.stdout);
    assert!(dump.status.success(), "{}", String::from_utf8_lossy(&dump.stderr));
    if !text.contains("ARM SPE data") {
        eprintln!(
            "skipped: this perf shows no Arm SPE data: {}",
            String::from_utf8_lossy(&dump.stderr)
        );
        return;
    }
    let said = |part: &str, times: usize| {
        assert_eq!(text.matches(part).count(), times, "{part} in {text}")
    };
    said(&format!("PC 0x{:x} el0 ns=1", p.call), 1);
    said(&format!("TGT 0x{:x} el0 ns=1", p.work), 1);
    said(&format!("PC 0x{:x} el0 ns=1", p.ret), 1);
    said("PC 0xff8000100000 el1 ns=1", 1);
    said(&format!("CONTEXT 0x{PID:x} el2"), 1);
    said("RETIRED", 3);
    said("NOT-TAKEN", 1);
    said("MISPRED", 1);
    said(&format!("TS {}", 0x1234_5678), 1);
    let ends = text.lines().filter(|line| line.trim_end().ends_with(" END")).count();
    assert_eq!(ends, 2, "{text}");
    said(" BAD", 0);
}

#[test]
fn a_processors_buffer_belongs_to_who_ran_there_not_to_the_thread_that_perf_names() {
    let directory = tempfile::tempdir().unwrap();
    let Some(p) = program::build(directory.path()) else { return };
    let child = PID + 1;
    // Only the child has the program; perf names the recorded command, its parent, of every buffer.
    let mut recording = Recording::new(tracer::ARM_SPE);
    recording.map(child, 10, p.piece, &p.path);
    let mut packets = Packets::default();
    round(&p).into_iter().for_each(|branch| {
        packets.branch(branch);
    });
    recording.aux_of(&packets.0, child, 100, (PID, 0));
    let found = read(&recording, &p, options(1)).unwrap();
    assert_eq!((found.counts.ledger.samples.used, found.samples), (3, 3));
    // Where no record of the kernel's says who ran, that thread is better than nobody.
    let mut recording = Recording::new(tracer::ARM_SPE);
    recording.map(PID, 10, p.piece, &p.path);
    recording.buffer(&packets.0, 0, (PID, 0));
    let found = read(&recording, &p, options(1)).unwrap();
    assert_eq!((found.counts.ledger.samples.used, found.samples), (3, 3));
}

#[test]
fn the_counts_survive_the_artefact() {
    let directory = tempfile::tempdir().unwrap();
    let Some(p) = program::build(directory.path()) else { return };
    let mut recording = begun(&p);
    let mut packets = Packets::default();
    round(&p).into_iter().for_each(|branch| {
        packets.branch(branch);
    });
    recording.aux(&packets.0, aux_flag::TRUNCATED, PID, 100, 0);
    let counts = read(&recording, &p, options(1)).unwrap().counts;
    let path = directory.path().join("run.counts");
    let mut file = std::fs::File::create(&path).unwrap();
    counts::artefact::write(&path, &counts, &mut file).unwrap();
    let again: Counts = counts::artefact::read(&path, std::fs::File::open(&path).unwrap()).unwrap();
    assert_eq!(again, counts);
}
