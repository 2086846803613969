//! A made-up comparison with everything in it: three variants, two machines, four benchmarks, eight
//! matched layouts.
#![allow(dead_code)] // Every test takes what it needs.

use compare::result::*;
use std::collections::BTreeMap;

/// Numbers that look like noise and are the same every time (xorshift).
pub struct Noise(u64);

impl Noise {
    pub fn new(seed: u64) -> Noise {
        Noise(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn uniform(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Near enough to a standard normal number.
    pub fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }
}

const VARIANTS: [&str; 3] = ["base", "profile", "no-ipa-sra"];
const BENCHMARKS: [(&str, &str, f64); 4] = [
    ("insert rows=100000", "{bin} :memory: -init insert.sql", 498.2e6),
    ("select-join", "{bin} test.db < join.sql", 1.231e9),
    ("json-parse", "{bin} :memory: -init json.sql", 212.4e6),
    ("throughput clients=4", "{bin} --bench --clients 4", 48_210.0),
];
/// True effects by benchmark and variant, and how far the link as built is off.
const EFFECTS: [[(f64, f64); 2]; 4] = [
    [(0.931, 0.012), (1.004, 0.021)],
    [(0.962, -0.008), (1.017, 0.004)],
    [(0.999, 0.004), (1.001, 0.0)],
    [(1.054, 0.0), (0.985, 0.0)],
];

fn verdict(benchmark: usize, variant: usize, machine: usize) -> (Verdict, bool) {
    use Verdict::*;
    match (benchmark, variant, machine) {
        (0, 1, _) | (1, 1, _) | (3, 1, 0) => (Faster, false),
        (0, 2, _) => (LayoutLuck, false),
        (1, 2, 0) => (Slower, false),
        (3, 2, 1) => (Slower, true),
        (2, _, _) => (Same, false),
        _ => (Undecided, false),
    }
}

/// The comparison.
pub fn measurement() -> Measurement {
    let metric = |name: &str, words: &str, unit: &str, better| MetricInfo {
        name: name.into(),
        words: words.into(),
        unit: unit.into(),
        better,
    };
    let benchmark = |(index, (name, command, _)): (usize, &(&str, &str, f64))| Benchmark {
        name: (*name).into(),
        command: (*command).into(),
        parameters: BTreeMap::new(),
        metrics: if index == 3 {
            vec![metric("rate", "transactions per second", "tx/s", Direction::Higher)]
        } else {
            vec![
                metric("cpu", "CPU time (user + system)", "ns", Direction::Lower),
                metric("maxrss", "largest resident set", "bytes", Direction::Lower),
            ]
        },
    };
    let mut comparisons = Vec::new();
    for b in 0..BENCHMARKS.len() {
        for machine in 0..2 {
            for v in 1..VARIANTS.len() {
                comparisons.push(compared(b, v, machine));
            }
        }
    }
    Measurement {
        schema: SCHEMA.into(),
        version: VERSION,
        planish: "0.1.0".into(),
        seed: 1,
        margin: 0.01,
        correction: "holm".into(),
        among: 16,
        machines: vec![machine("epyc-vm", true), machine("n1-arm", false)],
        benchmarks: BENCHMARKS.iter().enumerate().map(benchmark).collect(),
        variants: VARIANTS.iter().enumerate().map(variant).collect(),
        comparisons,
        indices: indices(),
        accumulated: accumulated(),
        stopped: vec![],
        alignment: vec![Alignment {
            align: 32,
            benchmark: BENCHMARKS[0].0.into(),
            variant: VARIANTS[2].into(),
            effect: Effect { ratio: 1.002, interval: Some([0.998, 1.006]), p_value: 0.31 },
            sentence:
                "The difference as built (+2.5 %) vanishes when functions are aligned to 32 bytes."
                    .into(),
            sizes: [
                Sizes { text: 1_310_720, data: 18_432, bss: 4_096, file: Some(1_500_000) },
                Sizes { text: 1_318_912, data: 18_432, bss: 4_096, file: Some(1_500_000) },
            ],
        }],
        interrupted: false,
        raw: vec!["compare.epyc-vm.jsonl".into(), "compare.n1-arm.jsonl".into()],
        warnings: vec![],
    }
}

/// Each benchmark on both machines.
fn accumulated() -> Vec<Accumulated> {
    let extreme = |benchmark: usize, ratio: f64, machine: &str| Extreme {
        ratio,
        benchmark: BENCHMARKS[benchmark].0.into(),
        machine: machine.into(),
    };
    let of = |(b, v): (usize, usize)| {
        let mean = EFFECTS[b][v - 1].0;
        Accumulated {
            benchmark: BENCHMARKS[b].0.split(' ').next().unwrap_or_default().into(),
            variant: VARIANTS[v].into(),
            rows: 2,
            better: Direction::Lower,
            mean,
            interval: Some([mean - 0.004, mean + 0.004]),
            lowest: extreme(b, mean - 0.01, "epyc-vm"),
            highest: extreme(b, mean + 0.01, "n1-arm"),
        }
    };
    (0..BENCHMARKS.len()).flat_map(|b| [(b, 1), (b, 2)]).map(of).collect()
}

fn indices() -> Vec<Index> {
    let index = |variant: &str, machine: Option<&str>, mean: f64| Index {
        variant: variant.into(),
        machine: machine.map(str::to_owned),
        rows: 4,
        mean,
        interval: Some([mean - 0.004, mean + 0.004]),
        sample_interval: Some([mean - 0.03, mean + 0.03]),
        range: [mean - 0.04, mean + 0.03],
        random_effects: None,
        prediction: None,
        signs_p: 0.6,
    };
    vec![
        index(VARIANTS[1], Some("epyc-vm"), 0.961),
        index(VARIANTS[2], Some("epyc-vm"), 1.006),
        index(VARIANTS[1], Some("n1-arm"), 0.968),
        index(VARIANTS[2], Some("n1-arm"), 1.004),
        Index {
            rows: 8,
            random_effects: Some(0.965),
            prediction: Some([0.91, 1.02]),
            ..index(VARIANTS[1], None, 0.9645)
        },
        Index {
            rows: 8,
            random_effects: Some(1.005),
            prediction: Some([0.98, 1.03]),
            ..index(VARIANTS[2], None, 1.005)
        },
    ]
}

fn machine(name: &str, calibrated: bool) -> MeasuredMachine {
    let mut noise = Noise::new(77);
    let mut p_values: Vec<f64> = (0..400).map(|_| noise.uniform()).collect();
    p_values.sort_by(f64::total_cmp);
    MeasuredMachine {
        name: name.into(),
        fingerprint: "0123".into(),
        cpu: if calibrated { "AMD EPYC 7B13" } else { "Neoverse-N1" }.into(),
        cores: 2,
        kernel: "6.12.43".into(),
        calibration: calibrated.then(|| Calibration {
            date: "2026-11-20".into(),
            command: "sqlite3 :memory: -init insert.sql".into(),
            rounds: 30,
            comparisons: 400,
            false_positive_rate: 0.046,
            interval: [0.031, 0.065],
            uniform_p: 0.41,
            p_values,
            lag1: 0.52,
            within_sd: 0.021,
            layout_sd: Some(0.012),
            relinked_rate: Some(0.05),
            relinked_interval: Some([0.034, 0.071]),
            smallest_effect: 0.008,
            gauge: false,
            others_share: Some(0.01),
            queued_share: Some(0.001),
        }),
    }
}

fn variant((index, name): (usize, &&str)) -> Variant {
    let code = |taken: f64| {
        BTreeMap::from([
            ("instructions".to_owned(), 5.1e9 + taken),
            ("taken branches".to_owned(), taken),
        ])
    };
    Variant {
        name: (*name).into(),
        description: ["-O2", "-O2 -fprofile-sample-use=app.prof", "-O2 -fno-ipa-sra"][index].into(),
        layouts: 8,
        freedom: if index == 0 { "order of functions, padding".into() } else { String::new() },
        matched_share: (index > 0).then_some(0.972),
        sizes: Some(Sizes {
            text: 1_252_340 + 13_000 * index as u64,
            data: 18_432,
            bss: 4_096,
            file: Some(1_500_000),
        }),
        code_metrics: BTreeMap::from([(
            BENCHMARKS[0].0.to_owned(),
            code(6.12e8 - 5e7 * index as f64),
        )]),
    }
}

fn compared(b: usize, v: usize, machine: usize) -> Compared {
    let (verdict, negligible) = verdict(b, v, machine);
    let (effect, luck) = EFFECTS[b][v - 1];
    let effect = effect + 0.004 * machine as f64;
    let layouts = b < 3;
    let half = if verdict == Verdict::Undecided { 0.018 } else { 0.0035 + 0.001 * b as f64 };
    let real = matches!(verdict, Verdict::Faster | Verdict::Slower);
    let averaged = Effect {
        ratio: effect,
        interval: Some([effect - half, effect + half]),
        p_value: if real { 0.0003 } else { 0.38 },
    };
    let (name, _, median) = BENCHMARKS[b];
    let mut c = Compared {
        machine: ["epyc-vm", "n1-arm"][machine].into(),
        benchmark: name.into(),
        metric: if b == 3 { "rate" } else { "cpu" }.into(),
        base: VARIANTS[0].into(),
        variant: VARIANTS[v].into(),
        verdict,
        negligible,
        sentence: String::new(),
        effect,
        interval: averaged.interval,
        p_value: averaged.p_value,
        p_corrected: (averaged.p_value * 16.0).min(1.0),
        n: 30,
        as_built: Effect {
            ratio: effect + luck,
            interval: Some([effect + luck - 0.004, effect + luck + 0.004]),
            p_value: 0.001,
        },
        layouts: layouts.then_some(Averaged {
            count: 8,
            matched: true,
            effect: averaged,
            luck: Effect {
                ratio: 1.0 + luck,
                interval: Some([0.996 + luck, 1.004 + luck]),
                p_value: 0.01,
            },
            layout_sd: 0.012,
            layout_sd_interval: Some([0.008, 0.021]),
            within_sd: 0.021,
            drift_sd: 0.006,
            one_relink: 0.034,
            correlation: Some(0.91),
        }),
        base_median: median,
        variant_median: median * (effect + luck),
        spread: [0.021, 0.024],
        smallest_effect: Some(0.0062 + 0.003 * b as f64),
        confirmation: None,
        needed: (verdict == Verdict::Undecided)
            .then_some(Needed { rounds: None, layouts: Some(24) }),
        others: vec![],
        warnings: vec![],
    };
    c.sentence = sentence(&c);
    if b == 0 {
        c.others.push(OtherMetric {
            name: "maxrss".into(),
            effect: Effect { ratio: 1.002, interval: Some([1.001, 1.003]), p_value: 0.01 },
            base_median: 52_428_800.0,
            variant_median: 52_533_657.0,
        });
    }
    if (b, machine) == (1, 1) {
        c.warnings.push(
            "2 of 60 runs lie more than 10 deviations from the median; they coincide with steal"
                .into(),
        );
    }
    c
}

fn sentence(c: &Compared) -> String {
    let change = (c.effect - 1.0).abs() * 100.0;
    let what = if c.layouts.is_some() { "The change" } else { "This binary" };
    match c.verdict {
        Verdict::Faster => {
            format!("{what} {} is faster than {} by {change:.1} %.", c.variant, c.base)
        }
        Verdict::Slower => {
            format!("{what} {} is slower than {} by {change:.1} %.", c.variant, c.base)
        }
        Verdict::Same => format!("{} and {} are the same within ±1 %.", c.variant, c.base),
        Verdict::LayoutLuck => {
            format!(
                "{} differs from {} as built, but only by the luck of the link.",
                c.variant, c.base
            )
        }
        Verdict::Undecided => format!(
            "Undecided: {} was neither shown to differ from {} nor to be the same.",
            c.variant, c.base
        ),
    }
}

/// Runs and layouts of every machine and benchmark; `rounds` of 27 binaries and one second run each
/// as built.
pub fn evidence(rounds: u32) -> Vec<Evidence> {
    let mut all = Vec::new();
    for benchmark in 0..BENCHMARKS.len() {
        for machine in 0..2 {
            all.push(cell(machine, benchmark, rounds));
        }
    }
    all
}

/// What one binary takes, as a factor.
fn factor(benchmark: usize, variant: usize, layout: u32, layouts: &[f64]) -> f64 {
    let (effect, luck) = if variant == 0 { (1.0, 0.0) } else { EFFECTS[benchmark][variant - 1] };
    if layout == 0 {
        effect + luck
    } else {
        effect
            * (1.0
                + layouts[layout as usize]
                + 0.002 * ((variant * 7 + layout as usize * 3) % 5) as f64)
    }
}

fn cell(machine: usize, benchmark: usize, rounds: u32) -> Evidence {
    let mut noise = Noise::new(1 + (machine * 10 + benchmark) as u64);
    let layouts: Vec<f64> = (0..9).map(|_| noise.normal() * 0.012).collect();
    let last = if benchmark < 3 { 8 } else { 0 };
    let mut runs = Vec::new();
    for round in 1..=rounds {
        let drift = 1.0 + 0.006 * (f64::from(round) / 5.0).sin();
        for layout in 0..=last {
            for variant in 0..VARIANTS.len() {
                let steal = if (11..14).contains(&round) { 0.25 * noise.uniform() } else { 0.0 };
                let far = noise.uniform() < 0.002;
                let value = BENCHMARKS[benchmark].2
                    * factor(benchmark, variant, layout, &layouts)
                    * drift
                    * (1.0
                        + 0.012 * noise.normal().abs().powf(1.3)
                        + steal * 0.2
                        + if far { 0.35 } else { 0.0 });
                runs.push(Shown {
                    sequence: runs.len() as u64,
                    round,
                    variant,
                    layout,
                    value,
                    steal,
                    outlier: far.then(|| {
                        format!("{} context switches, {:.0} % steal", 80 + round, steal * 100.0)
                    }),
                });
            }
        }
    }
    let dot = |variant: usize, layout: u32| {
        let ratio = factor(benchmark, variant, layout, &layouts);
        Dot { variant, layout, ratio, interval: [ratio - 0.004, ratio + 0.004] }
    };
    let layouts = (0..VARIANTS.len())
        .flat_map(|v| (0..=last).map(move |l| (v, l)))
        .map(|(v, l)| dot(v, l))
        .collect();
    Evidence { machine, benchmark, runs, layouts }
}

/// The same with only the first benchmark, machine and comparison, as from a simple use.
pub fn single() -> (Measurement, Vec<Evidence>) {
    let mut m = measurement();
    m.machines.truncate(1);
    m.benchmarks.truncate(1);
    m.variants.truncate(2);
    m.indices.clear();
    m.alignment.clear();
    m.raw.truncate(1);
    m.comparisons.truncate(1);
    for v in &mut m.variants {
        v.code_metrics.clear();
    }
    let mut e = evidence(30);
    e.truncate(1);
    e[0].runs.retain(|r| r.variant < 2);
    e[0].layouts.retain(|d| d.variant < 2);
    (m, e)
}
