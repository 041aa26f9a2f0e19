//! The live table on a terminal, redrawn after each change.

use std::collections::VecDeque;

use crate::board::{Board, Change, Kind};
use crate::console::{Console, Shade};
use crate::{list, text};

/// How many recent changes stay visible.
const NEWS: usize = 5;
/// The rows without leases: the title, two blank rows, and the table's header.
const FRAME: usize = 4;

/// All drawn elements except the board.
pub(super) struct Live {
    title: String,
    news: VecDeque<Change>,
}

impl Live {
    pub(super) fn new(title: String) -> Live {
        Live { title, news: VecDeque::new() }
    }

    /// Draws the screen. Returns false if the output pipe is closed.
    pub(super) fn draw(
        &mut self,
        board: &Board,
        changes: &[Change],
        now: i64,
        console: &mut Console,
    ) -> bool {
        let news = changes.iter().filter(|change| change.kind != Kind::Held);
        self.news.extend(news.cloned());
        while self.news.len() > NEWS {
            self.news.pop_front();
        }
        let (columns, rows) = console.size().unwrap_or((80, 24));
        let lines = self.lines(board, now, columns, rows.into(), console);
        // Moves the cursor home, clears the rest of each line, and then the rest of the screen. Without a blank screen
        // in between, it does not flicker.
        let body: String = lines.iter().map(|line| format!("{line}\x1b[K\r\n")).collect();
        console.put_raw(&format!("\x1b[H{body}\x1b[J"))
    }

    fn lines(
        &self,
        board: &Board,
        now: i64,
        columns: u16,
        rows: usize,
        console: &Console,
    ) -> Vec<String> {
        let held = board.rows().len();
        let room = rows.saturating_sub(FRAME + NEWS + 1).max(1);
        let leases = if held == 1 { "lease" } else { "leases" };
        let clock = text::moment(now - now.rem_euclid(1_000));
        let title = format!("{}   {held} {leases} held   {clock}", text::printable(&self.title));
        let mut lines = vec![console.paint(Shade::Quiet, &fit(&title, columns)), String::new()];
        let cells = |row: &crate::board::Row| {
            [text::printable(&row.name), row.holder(), row.held_for(now), row.left(now)]
        };
        let table = board.rows().take(room).map(cells).collect();
        let mut table =
            list::table(["NAME", "OWNER", "HELD FOR", "LEFT"], table, Some(columns)).into_iter();
        lines.extend(table.next().map(|head| console.paint(Shade::Quiet, &head)));
        // A long name takes more than one line.
        let all: Vec<String> = table.collect();
        let fits = all.len() <= room && held <= room;
        let shown = if fits { all.len() } else { room.saturating_sub(1).min(all.len()) };
        lines.extend(all.into_iter().take(shown));
        if !fits {
            lines.push(console.paint(Shade::Quiet, "… and more: give a pattern, or use `ls`"));
        }
        lines.push(String::new());
        for change in &self.news {
            let at = text::moment(change.at - change.at.rem_euclid(1_000));
            let row = &change.row;
            let kind = format!("{:<8}", change.kind.as_str());
            let rest = format!("  {}  {}", text::printable(&row.name), row.holder());
            let used = at.chars().count() + 2 + kind.len();
            let left = columns.saturating_sub(u16::try_from(used).unwrap_or(u16::MAX));
            let kind = console.paint(shade(change.kind), &kind);
            lines.push(format!("{at}  {kind}{}", fit(&rest, left)));
        }
        lines
    }
}

/// The part of a line that fits into this many columns.
fn fit(line: &str, columns: u16) -> String {
    let columns = usize::from(columns);
    if line.chars().count() <= columns {
        return line.to_owned();
    }
    let mut cut: String = line.chars().take(columns.saturating_sub(1)).collect();
    cut.push('…');
    cut
}

/// The colour of a change.
const fn shade(kind: Kind) -> Shade {
    match kind {
        Kind::Held => Shade::Quiet,
        Kind::Granted => Shade::Good,
        Kind::Released => Shade::Notable,
        Kind::Expired => Shade::Bad,
    }
}
