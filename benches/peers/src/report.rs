//! The tables, on the terminal and in the documentation.

use std::fmt::Write as _;
use std::path::Path;

use mongo_lease_measure::{Extent, Outcome, rewrite};

use crate::chart::Chart;
use crate::setup::Setup;

/// The begin of a table's heading. The heading identifies an older table.
const HEADING: &str = "### ";
const LOCK_FILE: &str = include_str!("../Cargo.lock");

/// One table under a heading.
pub(crate) struct Table {
    title: String,
    lines: Vec<String>,
    columns: usize,
    chart: Option<Chart>,
}

impl Table {
    pub(crate) fn new(title: &str, head: &[&str]) -> Table {
        let rule = vec!["---"; head.len()];
        let lines = [head, &rule].map(line).to_vec();
        Table { title: title.to_owned(), lines, columns: head.len(), chart: None }
    }

    pub(crate) fn row(&mut self, cells: impl AsRef<[String]>) {
        let cells = cells.as_ref();
        assert_eq!(cells.len(), self.columns, "a row of another table: {cells:?}");
        self.lines.push(line(cells));
    }

    /// Adds a picture below it.
    pub(crate) fn drawn(self, chart: Chart) -> Table {
        Table { chart: Some(chart), ..self }
    }

    fn text(&self) -> String {
        let mut text = format!("{HEADING}{}\n\n{}\n", self.title, self.lines.join("\n"));
        if let Some(chart) = &self.chart {
            let _ = write!(text, "\n![{}]({})\n", chart.caption, chart.file);
        }
        text
    }
}

fn line(cells: &[impl AsRef<str>]) -> String {
    let cells: Vec<&str> = cells.iter().map(AsRef::as_ref).collect();
    format!("| {} |", cells.join(" | "))
}

/// All measured figures.
pub(crate) struct Report {
    /// The text above the tables: the contenders.
    head: String,
    tables: Vec<Table>,
}

impl Report {
    pub(crate) async fn new(extent: Extent, setup: &Setup) -> Outcome<Report> {
        let mut head = format!(
            "{}, which the servers share: {}.\n",
            extent.on_this_machine(),
            versions().join(", ")
        );
        let mut table = Table::new("Servers", &["on", "which", "an acknowledged write is"]);
        for host in &setup.hosts {
            let (kind, version) = (host.kind(), host.server.version().await?);
            table.row([kind.label().to_owned(), version, kind.durability().to_owned()]);
        }
        for line in &setup.left_out {
            let _ = write!(head, "\n{line}\n");
        }
        println!("{head}\n{}", table.text());
        Ok(Report { head, tables: vec![table] })
    }

    pub(crate) fn table(&mut self, table: Table) {
        println!("{}", table.text());
        self.tables.push(table);
    }

    /// Writes the tables between the page's markers, and the charts beside the page.
    pub(crate) fn write(&self, page: &Path) -> Outcome<()> {
        rewrite(page, |older| self.text(older))?;
        let folder = page.parent().unwrap_or(Path::new("."));
        self.tables
            .iter()
            .filter_map(|table| table.chart.as_ref())
            .try_for_each(|it| it.draw(folder))
    }

    /// All tables; those of an older text that were not measured now stay.
    fn text(&self, older: &str) -> String {
        let is_measured = |older: &&str| {
            let title = older.lines().next().unwrap_or_default();
            self.tables.iter().any(|table| table.title == title)
        };
        let mut text = self.head.clone();
        for older in older.split(HEADING).skip(1).filter(|older| !is_measured(older)) {
            let _ = write!(text, "\n{HEADING}{}\n", older.trim_end());
        }
        for table in &self.tables {
            let _ = write!(text, "\n{}", table.text());
        }
        text
    }
}

/// The versions of the libraries, from the lock file.
fn versions() -> Vec<String> {
    const LIBRARIES: [&str; 8] = [
        "mongo-lease",
        "mongodb",
        "mongo-lock-async",
        "distributed-lock-mongo",
        "rslock",
        "redis",
        "etcd-client",
        "zookeeper-client",
    ];
    let version = |library: &&str| {
        let (_, rest) = LOCK_FILE.split_once(&format!("name = \"{library}\"\nversion = \""))?;
        Some(format!("{library} {}", rest.split_once('"')?.0))
    };
    LIBRARIES.iter().filter_map(version).collect()
}

#[cfg(test)]
mod tests {
    use super::{Report, Table};

    #[test]
    fn a_report_keeps_unmeasured_tables_and_replaces_others() {
        let mut table = Table::new("Many", &["who", "figure"]);
        table.row(["a".to_owned(), "2".to_owned()]);
        let report = Report { head: "now\n".to_owned(), tables: vec![table] };
        let older = "then\n\n### Alone\n\n| kept |\n\n### Many\n\n| replaced |\n";
        let expected = "now\n\n### Alone\n\n| kept |\n\n\
                        ### Many\n\n| who | figure |\n| --- | --- |\n| a | 2 |\n";
        assert_eq!(report.text(older), expected);
    }
}
