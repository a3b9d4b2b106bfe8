//! What a server counts of itself: one look at `/metrics`, over a plain socket of the loopback interface.

use std::collections::BTreeMap;

use anyhow::{Context as _, ensure};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// The samples of one look, by name with labels as they stand in the text.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scrape(BTreeMap<String, f64>);

impl Scrape {
    /// Looks at a server.
    ///
    /// # Errors
    /// If it does not answer with figures.
    pub(crate) async fn of(address: &str) -> anyhow::Result<Self> {
        let mut stream = TcpStream::connect(address).await.with_context(|| format!("no {address}"))?;
        // 1.0: the end of the answer is the end of the stream.
        let request = format!("GET /metrics HTTP/1.0\r\nHost: {address}\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        let (head, body) = answer.split_once("\r\n\r\n").context("an answer without an end of its head")?;
        ensure!(head.split(' ').nth(1) == Some("200"), "{head}");
        Ok(Self::read(body))
    }

    fn read(text: &str) -> Self {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let samples = lines.filter_map(|line| {
            let (name, value) = line.rsplit_once(' ')?;
            Some((name.to_owned(), value.parse().ok()?))
        });
        Self(samples.collect())
    }

    /// A sample by its name, labels included. Zero if it is not there: a counter that never counted is not served.
    pub(crate) fn value(&self, name: &str) -> f64 {
        self.0.get(name).copied().unwrap_or_default()
    }

    /// How many observations of a histogram were longer than one of its bounds, as that stands in the text.
    pub(crate) fn above(&self, histogram: &str, bound: &str) -> f64 {
        let below = self.value(&format!("{histogram}_bucket{{le=\"{bound}\"}}"));
        self.value(&format!("{histogram}_count")) - below
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_found_by_name_and_labels() {
        let scrape = Scrape::read(
            "# TYPE a counter\na 3\nb{kind=\"x y\"} 0.5\nh_bucket{le=\"0.001\"} 7\nh_bucket{le=\"+Inf\"} 9\nh_count 9\n",
        );
        for (name, expected) in [("a", 3.0), ("b{kind=\"x y\"}", 0.5), ("c", 0.0)] {
            assert!((scrape.value(name) - expected).abs() < f64::EPSILON, "{name}");
        }
        assert!((scrape.above("h", "0.001") - 2.0).abs() < f64::EPSILON);
    }
}
