//! A command of any kind: its document, its reply, and its effect on a store in memory.

use mongo_lease_core::bson::Document;
use mongo_lease_core::commands::{
    Command as Built, CreateIndex, DecodeError, DryRun, FindOtherFormat, GetLease, Hello,
    ListIndexes, Page, Ping,
};
use mongo_lease_core::rules::{
    Instant, Lane as Class, MAYBE_APPLIED, NamePattern, PAGE, PATTERN_BYTES_MAX,
};
use mongo_lease_core::schema::SPECS;
use mongo_lease_memory::{Collection, InMemory};
use wasm_bindgen::prelude::wasm_bindgen;

use crate::convert::{bytes, date_ms, document, instant};
use crate::error::Error;
use crate::failed::{Failure, Fault, unconfirmed};
use crate::failure::{Cause, Failure as Failed, decode_failure};
use crate::options::check_name;
use crate::reply::{Decoded, Reply};
use crate::shape::Shaped;
use crate::slots::Lane;
use crate::store::Store;

/// A command of any kind.
pub(crate) trait AnyCommand {
    fn lane(&self) -> Class;
    fn build(&self, collection: &str, sent: Instant) -> Document;
    fn decode(&self, reply: &Document, sent: Instant) -> Result<Decoded, DecodeError>;
    fn carry_out(&self, leases: &mut Collection<'_>, sent: Instant) -> Decoded;
}

impl<C: InMemory> AnyCommand for C
where
    C::Reply: Into<Decoded>,
{
    fn lane(&self) -> Class {
        C::LANE
    }

    fn build(&self, collection: &str, sent: Instant) -> Document {
        Built::build(self, collection, sent)
    }

    fn decode(&self, reply: &Document, sent: Instant) -> Result<Decoded, DecodeError> {
        Built::decode(self, reply, sent).map(Into::into)
    }

    fn carry_out(&self, leases: &mut Collection<'_>, sent: Instant) -> Decoded {
        InMemory::carry_out(self, leases, sent).into()
    }
}

/// A command of any kind.
#[wasm_bindgen]
pub struct Command(Kind);

enum Kind {
    Plain(Box<dyn AnyCommand>),
    Shaped(Box<dyn Shaped>),
}

impl Command {
    pub(crate) fn of(command: impl AnyCommand + 'static) -> Command {
        Command(Kind::Plain(Box::new(command)))
    }

    /// One whose document JavaScript may make of another's.
    pub(crate) fn shaped_of(command: impl Shaped + 'static) -> Command {
        Command(Kind::Shaped(Box::new(command)))
    }

    fn any(&self) -> &dyn AnyCommand {
        match &self.0 {
            Kind::Plain(command) => &**command,
            Kind::Shaped(command) => &**command,
        }
    }

    pub(crate) fn shaped(&self) -> Option<&dyn Shaped> {
        match &self.0 {
            Kind::Plain(_) => None,
            Kind::Shaped(command) => Some(&**command),
        }
    }
}

#[wasm_bindgen]
impl Command {
    /// The lane in which it is sent. `is_blocked` for a command about one document that is known to be blocked.
    pub fn lane(&self, is_blocked: bool) -> Lane {
        let lane = self.any().lane();
        if is_blocked { lane.blocked().into() } else { lane.into() }
    }

    /// The document that is sent, without `maxTimeMS`.
    pub fn build(&self, collection: &str, sent: f64) -> Vec<u8> {
        bytes(&self.any().build(collection, instant(sent)))
    }

    /// The reply of the server.
    pub fn decode(&self, reply: &[u8], sent: f64) -> Result<Reply, Failure> {
        let read = document(reply).map_err(|error| {
            Failure(Failed { outcome: MAYBE_APPLIED, cause: Cause::Reply(error) })
        })?;
        if let Some(failure) = unconfirmed(&read) {
            return Err(Failure(failure));
        }
        let decoded = self.any().decode(&read, instant(sent));
        decoded.map(Reply).map_err(|error| Failure(decode_failure(error)))
    }

    /// Carries the command out on a store in memory, at this date of its clock.
    #[wasm_bindgen(js_name = carryOut)]
    pub fn carry_out(&self, store: &mut Store, collection: &str, sent: f64, now_ms: f64) -> Reply {
        let mut leases = store.0.collection(collection, date_ms(now_ms));
        Reply(self.any().carry_out(&mut leases, instant(sent)))
    }

    /// Asks what kind of server this is.
    pub fn hello() -> Command {
        Command::of(Hello)
    }

    /// Checks that the server answers.
    pub fn ping() -> Command {
        Command::of(Ping)
    }

    /// Checks that the server knows every feature that the commands use.
    #[wasm_bindgen(js_name = dryRun)]
    pub fn dry_run() -> Command {
        Command::of(DryRun)
    }

    /// Lists the indexes of the collection.
    #[wasm_bindgen(js_name = listIndexes)]
    pub fn list_indexes(tells_builds: bool) -> Command {
        Command::of(ListIndexes { tells_builds })
    }

    /// Creates one of the two indexes where it is missing, and the collection with it.
    #[wasm_bindgen(js_name = createIndex)]
    pub fn create_index(number: usize) -> Command {
        let spec = SPECS[number % SPECS.len()];
        Command::of(CreateIndex { name: spec.name.to_owned(), spec })
    }

    /// Looks for a document of another format.
    #[wasm_bindgen(js_name = findOtherFormat)]
    pub fn find_other_format() -> Command {
        Command::of(FindOtherFormat)
    }

    /// Reads one lease.
    pub fn get(name: String) -> Result<Command, Fault> {
        check_name(&name)?;
        Ok(Command::of(GetLease { name }))
    }

    /// Reads one page of a listing.
    pub fn page(
        prefix: Option<String>,
        glob: Option<String>,
        owner: Option<String>,
        after: Option<String>,
    ) -> Result<Command, Fault> {
        let (option, pattern) = match (prefix, glob) {
            (_, Some(glob)) => ("glob", NamePattern::Glob(glob)),
            (Some(prefix), None) => ("prefix", NamePattern::Prefix(prefix)),
            (None, None) => ("", NamePattern::All),
        };
        if let Some(text) = pattern.text()
            && (text.len() > PATTERN_BYTES_MAX || text.contains('\0'))
        {
            let reason =
                format!("must have at most {PATTERN_BYTES_MAX} bytes and no NUL character");
            return Err(Error::invalid_option(option, reason).into());
        }
        Ok(Command::of(Page { pattern, owner, after, limit: PAGE }))
    }
}
