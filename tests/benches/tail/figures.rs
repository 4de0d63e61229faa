//! Figures: collected, reduced, printed as a table and written as JSON.

use std::io::Write as _;
use std::time::Duration;

/// Times of one kind, over all rounds.
#[derive(Debug, Default)]
pub(crate) struct Times(Vec<u64>);

impl Times {
    pub(crate) fn add_ns(&mut self, nanoseconds: u64) {
        self.0.push(nanoseconds);
    }

    pub(crate) fn append(&mut self, other: &mut Self) {
        self.0.append(&mut other.0);
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The value below which this share of all lies, in nanoseconds.
    pub(crate) fn quantile(&mut self, share: f64) -> u64 {
        if self.0.is_empty() {
            return 0;
        }
        self.0.sort_unstable();
        let last = self.0.len() - 1;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "an index of a small list"
        )]
        let at = (last as f64 * share).round() as usize;
        self.0[at.min(last)]
    }
}

/// One line of the table.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) value: String,
    pub(crate) peer: String,
    pub(crate) json: serde_json::Value,
}

/// A row of two distributions of time, and their ratio.
pub(crate) fn latency(
    name: &'static str,
    times: &mut Times,
    peer: Option<(&'static str, &mut Times)>,
) -> Row {
    let show = |times: &mut Times| {
        let [p50, p99] = [0.5, 0.99].map(|share| times.quantile(share));
        let text = format!(
            "{:.2?} / {:.2?}",
            Duration::from_nanos(p50),
            Duration::from_nanos(p99)
        );
        (p50, p99, text)
    };
    let (p50, p99, value) = show(times);
    let mut json = serde_json::json!({"p50_ns": p50, "p99_ns": p99, "samples": times.len()});
    let peer = peer.map_or_else(String::new, |(name, peer)| {
        let (peer_p50, peer_p99, text) = show(peer);
        json["peer"] = serde_json::json!({"name": name, "p50_ns": peer_p50, "p99_ns": peer_p99});
        format!(
            "{name} {text}; ratio {} / {}",
            ratio(p50, peer_p50),
            ratio(p99, peer_p99)
        )
    });
    Row {
        name,
        value,
        peer,
        json,
    }
}

fn ratio(value: u64, peer: u64) -> String {
    let hundredths = value.saturating_mul(100) / peer.max(1);
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}

/// A row of two rates in bytes a second.
pub(crate) fn rate(
    name: &'static str,
    bytes_per_s: u64,
    peer_name: &'static str,
    peer: u64,
) -> Row {
    Row {
        name,
        value: format!("{} MB/s", bytes_per_s / 1_000_000),
        peer: format!(
            "{peer_name} {} MB/s; ratio {}",
            peer / 1_000_000,
            ratio(bytes_per_s, peer)
        ),
        json: serde_json::json!({"bytes_per_s": bytes_per_s, "peer": {"name": peer_name, "bytes_per_s": peer}}),
    }
}

/// A row of processor time in nanoseconds: what other work on the machine changes least.
pub(crate) fn spent(name: &'static str, nanoseconds: u64) -> Row {
    Row {
        name,
        value: format!("{:.1?}", Duration::from_nanos(nanoseconds)),
        peer: String::new(),
        json: serde_json::json!({"processor_ns": nanoseconds}),
    }
}

/// A row of resident memory.
pub(crate) fn memory(name: &'static str, now: u64, peak: u64) -> Row {
    Row {
        name,
        value: format!("{:.1} MiB, peak {:.1}", mebibytes(now), mebibytes(peak)),
        peer: String::new(),
        json: serde_json::json!({"resident_bytes": now, "peak_bytes": peak}),
    }
}

#[expect(clippy::cast_precision_loss, reason = "shown with one digit")]
fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// Prints the table, and writes the JSON beside the build's other temporary files.
pub(crate) fn report(rows: &[Row]) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "| what | Muster (p50 / p99) | peer, in the same run |\n|---|---|---|"
    )?;
    let mut json = serde_json::Map::new();
    for row in rows {
        writeln!(out, "| {} | {} | {} |", row.name, row.value, row.peer)?;
        json.insert(row.name.to_owned(), row.json.clone());
    }
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("bench-tail.json");
    std::fs::write(&path, serde_json::to_vec_pretty(&json)?)?;
    writeln!(out, "\nwritten to {}", path.display())?;
    Ok(())
}
