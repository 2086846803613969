//! A record written is the record read, for every combination of sample fields and both byte
//! orders.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use perfdata::sample_type as st;
use perfdata::write::{Encoder, SampleValues, StackValues};
use perfdata::{
    BranchEntry, BranchFlags, CpuMode, Endian, EventAttr, MmapEvent, Record, RuntimeAddr, SampleId,
    TaskEvent, attr_flag, branch_sample, raw_records, read_format, sample_type,
};
use proptest::prelude::*;

fn attr(sample_type: u64) -> EventAttr {
    EventAttr {
        kind: 1,
        size_bytes: EventAttr::WRITTEN_BYTES,
        period_or_freq: 1000,
        sample_type,
        flags: attr_flag::SAMPLE_ID_ALL | attr_flag::MMAP2 | attr_flag::COMM | attr_flag::TASK,
        branch_sample_type: branch_sample::USER | branch_sample::ANY,
        ids: vec![71, 72],
        name: Some("cpu-clock".to_owned()),
        ..EventAttr::default()
    }
}

fn id(time: u64) -> SampleId {
    SampleId {
        pid: Some(40),
        tid: Some(41),
        time: Some(time),
        id: Some(72),
        stream_id: Some(71),
        cpu: Some(1),
    }
}

fn words(most: usize) -> impl Strategy<Value = Vec<u64>> {
    prop::collection::vec(any::<u64>(), 0..most)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_sample_written_is_the_sample_read_for_every_sample_type(
        sample_type in 0..=sample_type::KNOWN,
        format in 0u64..32,
        branch_bits in 0u64..4,
        big in any::<bool>(),
        masks in (any::<u64>(), any::<u64>()),
        plain in prop::collection::vec(any::<u64>(), 18),
        callchain in words(40),
        branches in prop::collection::vec((any::<u64>(), any::<u64>(), 0u64..1 << 33), 0..40),
        raw in prop::collection::vec(any::<u8>(), 0..100),
        stack in prop::collection::vec(any::<u8>(), 0..100),
        group in 0u64..5,
    ) {
        let endian = if big { Endian::Big } else { Endian::Little };
        let hw = (branch_bits & 1) * branch_sample::HW_INDEX;
        let counted = (branch_bits >> 1) * branch_sample::COUNTERS;
        let attr = EventAttr {
            read_format: format,
            branch_sample_type: branch_sample::ANY | hw | counted,
            sample_regs_user: masks.0,
            sample_regs_intr: masks.1,
            ..attr(sample_type)
        };
        let each = 1 + (format & (read_format::ID | read_format::LOST)).count_ones() as usize;
        let times = (format & 3).count_ones() as usize;
        let read: Vec<u64> = if format & read_format::GROUP == 0 {
            (0..each + times).map(|word| plain[word]).collect()
        } else {
            std::iter::once(group).chain((0..times + each * group as usize).map(|word| plain[word % 18])).collect()
        };
        let registers = |mask: u64| -> Vec<u64> { (0..mask.count_ones() as usize).map(|at| plain[at % 18]).collect() };
        let (user, intr) = (registers(masks.0), registers(masks.1));
        let entries: Vec<BranchEntry> = branches
            .iter()
            .map(|&(from, to, flags)| BranchEntry { from: RuntimeAddr(from), to: RuntimeAddr(to), flags: BranchFlags(flags) })
            .collect();
        let counters: Vec<u64> = branches.iter().map(|&(from, _, _)| !from).collect();
        let values = SampleValues {
            cpumode: CpuMode::Kernel,
            exact_ip: big,
            id: SampleId {
                pid: Some(plain[0] as i32), tid: Some(plain[1] as i32), time: Some(plain[2]),
                id: Some(plain[3]), stream_id: Some(plain[4]), cpu: Some(plain[5] as u32),
            },
            ip: plain[6], addr: plain[7], period: plain[8], weight: plain[9], data_src: plain[10],
            transaction: plain[11], phys_addr: plain[12], cgroup: plain[13],
            data_page_size: plain[14], code_page_size: plain[15],
            stacks: StackValues {
                callchain: &callchain, branches: &entries, hw_idx: plain[16], counters: &counters, raw: &raw,
                read: &read, regs_user: (2, &user), regs_intr: (0, &[]), stack_user: &stack,
                stack_room_bytes: 64, aux: &raw,
            },
        };
        let _ = intr;
        let mut bytes = Vec::new();
        Encoder::with_endian(&attr, endian).sample(&mut bytes, &values).unwrap();
        let table = perfdata::LayoutTable::new(std::slice::from_ref(&attr), endian);
        let record = raw_records(&bytes, 0, endian).next().unwrap();
        prop_assert_eq!(record.body.len() + 8, bytes.len());
        let has = |bit: u64| sample_type & bit != 0;
        let (parsed, _) = Record::parse(&record, &table).unwrap();
        let Record::Sample(sample) = parsed else { panic!("a sample is a sample") };
        prop_assert!(sample.rest.is_empty());
        prop_assert_eq!((sample.cpumode, sample.exact_ip), (CpuMode::Kernel, big));
        prop_assert_eq!(sample.ip, has(st::IP).then_some(RuntimeAddr(plain[6])));
        prop_assert_eq!((sample.pid, sample.tid), (has(st::TID).then_some(plain[0] as i32), has(st::TID).then_some(plain[1] as i32)));
        prop_assert_eq!(sample.time, has(st::TIME).then_some(plain[2]));
        prop_assert_eq!(sample.id, has(st::ID | st::IDENTIFIER).then_some(plain[3]));
        prop_assert_eq!((sample.stream_id, sample.cpu), (has(st::STREAM_ID).then_some(plain[4]), has(st::CPU).then_some(plain[5] as u32)));
        prop_assert_eq!((sample.addr, sample.period), (has(st::ADDR).then_some(RuntimeAddr(plain[7])), has(st::PERIOD).then_some(plain[8])));
        prop_assert_eq!(sample.weight, has(st::WEIGHT | st::WEIGHT_STRUCT).then_some(plain[9]));
        prop_assert_eq!((sample.data_src, sample.transaction), (has(st::DATA_SRC).then_some(plain[10]), has(st::TRANSACTION).then_some(plain[11])));
        prop_assert_eq!((sample.phys_addr, sample.cgroup), (has(st::PHYS_ADDR).then_some(plain[12]), has(st::CGROUP).then_some(plain[13])));
        prop_assert_eq!((sample.data_page_size, sample.code_page_size), (has(st::DATA_PAGE_SIZE).then_some(plain[14]), has(st::CODE_PAGE_SIZE).then_some(plain[15])));
        prop_assert_eq!(sample.callchain.map(|chain| chain.iter().collect::<Vec<_>>()), has(st::CALLCHAIN).then_some(callchain));
        prop_assert_eq!(sample.read.map(|read| read.words.iter().collect::<Vec<_>>()), has(st::READ).then_some(read));
        if let Some(values) = sample.read {
            let count = if format & read_format::GROUP == 0 { 1 } else { group as usize };
            prop_assert_eq!(values.counters().count(), count);
            prop_assert!(values.counters().all(|(_, id, lost)| id.is_some() == (format & 4 != 0) && lost.is_some() == (format & 16 != 0)));
        }
        prop_assert_eq!(sample.branches.is_some(), has(st::BRANCH_STACK));
        if let Some(stack) = sample.branches {
            prop_assert_eq!(stack.iter().collect::<Vec<_>>(), entries);
            prop_assert_eq!(stack.hw_idx(), (hw != 0 && plain[16] != u64::MAX).then_some(plain[16]));
            prop_assert_eq!(stack.counters().map(|c| c.iter().collect::<Vec<_>>()), (counted != 0).then_some(counters));
        }
        prop_assert_eq!(sample.raw.map(|data| data[..raw.len()].to_vec()), has(st::RAW).then_some(raw.clone()));
        prop_assert_eq!(sample.aux.map(|data| data[..raw.len()].to_vec()), has(st::AUX).then_some(raw));
        prop_assert_eq!(sample.regs_user.map(|r| r.values.iter().collect::<Vec<_>>()), has(st::REGS_USER).then_some(user));
        prop_assert_eq!(sample.regs_intr.map(|r| r.values.len()), has(st::REGS_INTR).then_some(0));
        prop_assert_eq!(sample.stack_user.map(|s| s.bytes.to_vec()), has(st::STACK_USER).then_some(stack));
        let fast = table.for_sample(record.body).unwrap().fast(&record).unwrap();
        prop_assert_eq!(fast.ip, sample.ip.unwrap_or_default());
        prop_assert_eq!((fast.pid, fast.tid), (sample.pid.unwrap_or(-1), sample.tid.unwrap_or(-1)));
        prop_assert_eq!((fast.time, fast.id), (sample.time.unwrap_or(0), sample.id));
        prop_assert_eq!(fast.branches, sample.branches.unwrap_or_default());
        for cut in 0..record.body.len() {
            let short = perfdata::RawRecord { body: &record.body[..cut], ..record };
            let layout = &table.layouts()[0];
            prop_assert!(layout.parse(&short).is_err(), "cut to {} of {}", cut, record.body.len());
            let _ = layout.fast(&short);
        }
    }

    #[test]
    fn side_band_records_keep_their_fields_and_trailers(
        trailer in 0..=sample_type::KNOWN,
        big in any::<bool>(),
        pid in any::<i32>(),
        time in any::<u64>(),
        path in "[a-z/]{0,60}",
        build_id in prop::option::of(prop::collection::vec(any::<u8>(), 1..=20)),
    ) {
        let endian = if big { Endian::Big } else { Endian::Little };
        let attr = attr(trailer);
        let encoder = Encoder::with_endian(&attr, endian);
        let table = perfdata::LayoutTable::new(std::slice::from_ref(&attr), endian);
        let map = MmapEvent {
            pid, tid: 5, start: RuntimeAddr(time), len: 9, pgoff: !time, executable: false,
            build_id: build_id.as_deref(),
            inode: build_id.is_none().then_some((1, 2, time, 4)),
            prot: 1, flags: 2, path: path.as_bytes(), cpumode: CpuMode::User,
        };
        let task = TaskEvent { pid, parent_pid: 2, tid: 3, parent_tid: 4, time };
        let mut bytes = Vec::new();
        encoder.mmap2(&mut bytes, &map, &id(time)).unwrap();
        encoder.comm(&mut bytes, pid, 7, path.as_bytes(), true, &id(time)).unwrap();
        encoder.fork(&mut bytes, &task, &id(time)).unwrap();
        encoder.exit(&mut bytes, &task, &id(time)).unwrap();
        encoder.lost_samples(&mut bytes, time, &id(time)).unwrap();
        let expected = [
            Record::Mmap(map),
            Record::Comm { pid, tid: 7, exec: true, name: path.as_bytes() },
            Record::Fork(task),
            Record::Exit(task),
            Record::LostSamples { lost: time },
        ];
        let mut seen = 0;
        for (raw, expected) in raw_records(&bytes, 0, endian).zip(expected) {
            let (record, sample_id) = Record::parse(&raw, &table).unwrap();
            prop_assert_eq!(record, expected);
            prop_assert_eq!(sample_id.time, (trailer & sample_type::TIME != 0).then_some(time));
            prop_assert_eq!(sample_id.cpu, (trailer & sample_type::CPU != 0).then_some(1));
            let with_id = trailer & (sample_type::ID | sample_type::IDENTIFIER) != 0;
            prop_assert_eq!(sample_id.id, with_id.then_some(72));
            seen += 1;
        }
        prop_assert_eq!(seen, 5);
    }
}
