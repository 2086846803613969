//! Where do the mean or the spread of a series change for good? PELT (Killick, Fearnhead and Eckley
//! 2012, arXiv 1101.1438).

/// Shortest segment, in runs: of two, one may be a slip.
const LEAST: usize = 3;

/// Indices at which a new segment begins (none for a steady series). Cost of a segment: −2 × the
/// largest normal log likelihood with its own mean and variance; penalty 15 ln n per change.
pub(crate) fn changes(values: &[f64]) -> Vec<usize> {
    let n = values.len();
    if n < 2 * LEAST {
        return Vec::new();
    }
    let sums = Sums::of(values);
    let penalty = 15.0 * (n as f64).ln();
    let mut best = vec![f64::INFINITY; n + 1];
    let mut last = vec![0usize; n + 1];
    best[0] = -penalty;
    let mut candidates = vec![0usize];
    for end in LEAST..=n {
        let cost: Vec<f64> =
            candidates.iter().map(|&from| best[from] + sums.cost(from, end)).collect();
        for (&from, &c) in candidates.iter().zip(&cost) {
            if c + penalty < best[end] {
                best[end] = c + penalty;
                last[end] = from;
            }
        }
        // Splitting never makes a segment costlier, so what is already beyond the best can never
        // come back.
        let limit = best[end];
        let mut keep = cost.iter().map(|&c| c <= limit);
        candidates.retain(|_| keep.next().unwrap_or(true));
        let next = end + 1 - LEAST;
        if next >= LEAST {
            candidates.push(next);
        }
    }
    let mut found = Vec::new();
    let mut at = n;
    while at > 0 {
        at = last[at];
        if at > 0 {
            found.push(at);
        }
    }
    found.reverse();
    found
}

/// Running sums, for the variance of any segment.
struct Sums {
    first: Vec<f64>,
    second: Vec<f64>,
    floor: f64,
}

impl Sums {
    fn of(values: &[f64]) -> Sums {
        let centre = crate::robust::mean(values);
        let (mut first, mut second) = (vec![0.0], vec![0.0]);
        let (mut s, mut q) = (0.0, 0.0);
        for value in values {
            s += value - centre;
            q += (value - centre).powi(2);
            first.push(s);
            second.push(q);
        }
        // A few equal values by chance must not look like a segment without any noise.
        let floor = (crate::robust::spread(values) * 0.05).powi(2).max(1e-12);
        Sums { first, second, floor }
    }

    fn cost(&self, from: usize, end: usize) -> f64 {
        let n = (end - from) as f64;
        let mean = (self.first[end] - self.first[from]) / n;
        let variance = ((self.second[end] - self.second[from]) / n - mean * mean).max(self.floor);
        n * (variance.ln() + 1.0)
    }
}
