//! Watch: leases as they come and go.

mod live;
mod source;

use std::time::Duration;

use mongodb::bson::Document;
use mongodb::change_stream::event::ChangeStreamEvent;
use tokio::time::sleep;

use crate::arguments::{Options, Watch};
use crate::board::{Board, Change, Kind, PATIENCE_MS};
use crate::clock::Difference;
use crate::connect;
use crate::console::Console;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::text;
use live::Live;
use source::{Source, Stream};

/// How often the time that is left is shown anew, and how often a server without change streams is asked.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Shows leases until it is interrupted, or its reader has gone.
pub(crate) async fn watch(
    task: &Watch,
    options: &Options,
    console: &mut Console,
) -> Result<Exit, Failure> {
    let database = connect::connect(options).await?.database;
    let failed = |error: mongodb::error::Error| Failure::of_driver(&error, options);
    let clock = Difference::to(&database).await.map_err(failed)?;
    let title = format!("{}.{}", database.name(), options.connection.collection);
    let source = Source::new(&database, &options.connection.collection, task.pattern.as_deref());
    let shown = match console.size() {
        Some(_) if !task.json => Shown::Live(Live::new(title)),
        Some(_) | None if task.json => Shown::Json,
        Some(_) | None => Shown::Lines,
    };
    let mut watching = Watching { source, clock, board: Board::default(), shown, console };
    tokio::select! {
        ended = watching.go_on(options) => ended,
        // The end that everybody uses is no failure.
        _interrupted = tokio::signal::ctrl_c() => Ok(Exit::Done),
    }
}

struct Watching<'a> {
    source: Source,
    clock: Difference,
    board: Board,
    shown: Shown,
    console: &'a mut Console,
}

enum Shown {
    Live(Live),
    Lines,
    Json,
}

impl Watching<'_> {
    async fn go_on(&mut self, options: &Options) -> Result<Exit, Failure> {
        let failed = |error: mongodb::error::Error| Failure::of_driver(&error, options);
        let mut stream = self.source.open().await.map_err(failed)?;
        self.tell_how(&stream);
        let mut held = self.fill().await.map_err(failed)?;
        // What was there before is no news.
        held.iter_mut().for_each(|change| change.kind = Kind::Held);
        let mut goes_on = self.show(&held);
        while goes_on {
            let changes = tokio::select! {
                biased;
                event = stream.next() => match event {
                    Some(Ok(event)) => self.on(&event),
                    // The driver has tried to take it up again. What was missed, a new look tells.
                    Some(Err(_)) | None => {
                        stream = self.source.open().await.map_err(failed)?;
                        self.fill().await.map_err(failed)?
                    }
                },
                () = sleep(self.until_next_look()) => match stream {
                    Stream::None(_) => self.fill().await.map_err(failed)?,
                    Stream::Open(_) => self.board.expire(self.clock.there()),
                },
            };
            goes_on = self.show(&changes);
        }
        Ok(Exit::Done)
    }

    fn tell_how(&mut self, stream: &Stream) {
        if let Stream::None(why) = stream {
            let every = text::span(LOOK_EVERY);
            self.console.say(&format!("no change stream ({why}): looking every {every}"));
        }
    }

    async fn fill(&mut self) -> mongodb::error::Result<Vec<Change>> {
        let documents = self.source.all().await?;
        let now = self.clock.there();
        let mut changes = self.board.fill(documents, now);
        changes.extend(self.board.expire(now));
        Ok(changes)
    }

    fn on(&mut self, event: &ChangeStreamEvent<Document>) -> Vec<Change> {
        let now = self.clock.there();
        let Some(id) = event.document_key.as_ref().and_then(|key| key.get("_id")) else {
            return Vec::new();
        };
        let change = match source::meaning(event) {
            source::Meaning::Stands(row) => self.board.set(id, row, now),
            source::Meaning::Gone => self.board.gone(id, now),
            source::Meaning::Nothing => None,
        };
        change.into_iter().collect()
    }

    fn until_next_look(&self) -> Duration {
        let Some(expiry) = self.board.next_expiry() else { return LOOK_EVERY };
        // A moment more, so that a look that comes early is not followed by a hundred others.
        let wait = text::between(self.clock.there(), expiry.saturating_add(PATIENCE_MS + 1));
        wait.clamp(Duration::from_millis(10), LOOK_EVERY)
    }

    /// False when the reader has gone.
    fn show(&mut self, changes: &[Change]) -> bool {
        let now = self.clock.there();
        match &mut self.shown {
            Shown::Live(live) => live.draw(&self.board, changes, now, self.console),
            Shown::Lines => changes.iter().all(|change| self.console.put(&line(change))),
            Shown::Json => {
                changes.iter().all(|change| self.console.put(&change.report().to_string()))
            }
        }
    }
}

/// A change on one line.
fn line(change: &Change) -> String {
    let (at, kind, row) = (text::moment(change.at), change.kind.as_str(), &change.row);
    let left = match change.kind {
        Kind::Held | Kind::Granted => format!("  {}", row.left(change.at)),
        Kind::Released | Kind::Expired => String::new(),
    };
    format!("{at:<24}  {kind:<8}  {}  {}{left}", text::printable(&row.name), row.holder())
}
