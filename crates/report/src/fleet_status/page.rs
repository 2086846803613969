//! What is the state of a service's recordings, as one HTML file that loads nothing?

use super::{FleetStatus, Share};
use crate::compare::html::STYLE;
use crate::compare::markup::Markup;
use crate::page::{Frame, whole};

/// Rows of a table at most.
const MOST_ROWS: usize = 200;

/// The page.
pub(super) fn html(status: &FleetStatus) -> String {
    let mut out = Markup::default();
    let name = crate::visible(&status.name);
    out.raw("<header><p class=\"brand\">planish fleet status</p>");
    out.leaf("h1", &[], &format!("{name}: {}", status.verdict()));
    out.leaf(
        "p",
        &[],
        &format!(
            "{} recordings of {} named hosts, {} shards of {} merged",
            status.merged.recordings,
            status.merged.hosts,
            status.merged.merged,
            status.merged.files
        ),
    );
    out.raw("</header><section><h2>Is it enough?</h2><dl>");
    for (head, told) in figures(status) {
        out.leaf("dt", &[], head);
        out.leaf("dd", &[], &told);
    }
    out.raw("</dl></section>");
    table(&mut out, "Builds", &status.builds);
    table(&mut out, "Classes of hosts", &status.classes);
    table(&mut out, "Sources of samples", &status.sources);
    out.raw("<section><h2>Shards</h2><ul>");
    for line in status.merged.lines(false) {
        out.leaf("li", &[], &line);
    }
    out.raw("</ul></section>");
    let title = format!("planish fleet status: {name}");
    whole(Frame { title: &title, style: STYLE, script: "" }, out, None)
}

fn figures(status: &FleetStatus) -> Vec<(&'static str, String)> {
    let mut told = Vec::new();
    if let Some(evidence) = &status.evidence {
        told.push(("Samples of the newest build", evidence.line.clone()));
        if let Some(loss) = evidence.expected_loss {
            let allowed = status.most_loss_percent;
            told.push((
                "Expected loss",
                format!("under {:.2} % of the taken branches ({allowed} % allowed)", 100.0 * loss),
            ));
        }
    }
    if let Some(density) = status.density {
        told.push((
            "Density",
            format!(
                "{density:.1} executed bytes, sampled, for each byte of the code that holds 99 % of \
                 them (perf2bolt asks for {})",
                status.least_density
            ),
        ));
    }
    if let Some(density) = status.profile_density {
        let least = status.least_profile_density;
        let what = "samples at each place of the functions that hold 99 % of them";
        told.push((
            "Density of the profile",
            format!("{density:.1} {what} (llvm-profgen asks for {least})"),
        ));
    }
    if let Some(branches) = status.branches_per_byte {
        let least = status.least_branches_per_byte;
        told.push((
            "Branches for each byte of code",
            format!("{branches:.2} (Perforator asks for {least})"),
        ));
    }
    if let Some(stable) = status.stability {
        let [low, high] = stable.interval_percent;
        told.push((
            "Stability",
            format!(
                "halves of the recordings agree by {:.1} % ({low:.1} to {high:.1}; {} % wanted)",
                stable.overlap_percent, status.least_overlap_percent
            ),
        ));
    }
    told
}

fn table(out: &mut Markup, head: &str, rows: &[Share]) {
    out.raw("<section>");
    out.leaf("h2", &[], head);
    out.raw(
        "<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"Table\"><table><thead><tr><th \
         scope=\"col\">name</th><th scope=\"col\" class=\"n\">recordings</th><th scope=\"col\" \
         class=\"n\">share</th><th scope=\"col\" class=\"n\">agrees with all</th><th \
         scope=\"col\">remark</th></tr></thead><tbody>",
    );
    for row in rows.iter().take(MOST_ROWS) {
        out.raw("<tr>");
        let name = if row.name.is_empty() { "unknown" } else { &row.name };
        out.leaf("th", &[("scope", &"row")], &crate::visible(name));
        let number = row.recordings.map_or_else(String::new, |number| number.to_string());
        out.leaf("td", &[("class", &"n")], &number);
        out.leaf("td", &[("class", &"n")], &format!("{:.1} %", row.percent));
        let overlap =
            row.overlap_percent.map_or_else(String::new, |overlap| format!("{overlap:.1} %"));
        out.leaf("td", &[("class", &"n")], &overlap);
        out.leaf("td", &[], &row.note);
        out.raw("</tr>");
    }
    out.raw("</tbody></table></div>");
    if rows.len() > MOST_ROWS {
        out.leaf("p", &[], &format!("and {} more", rows.len() - MOST_ROWS));
    }
    out.raw("</section>");
}
