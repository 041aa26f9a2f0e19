//! The examples of `docs/format.md`: each document is read, and each command turns the one before it into the next one.

use std::collections::BTreeSet;

use crate::bson::Document;
use crate::rules::ids::GrantId;
use crate::rules::permits::Permits;
use crate::spec::{self, AcquireAttempt, AsBuilt, EndScope, GrantMatch, OwnGrant, QueueOptions};

use super::reading;
use crate::texts::{LeaseDocument, Texts};

/// The documents and the commands, in their order. A command has the field `command`, and no document has.
fn examples() -> Vec<Option<Document>> {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/format.md");
    let page = std::fs::read_to_string(page).unwrap();
    let blocks = page.split("```json\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let read = |text| serde_json::from_str(text).unwrap_or_else(|it| panic!("{it}: {text}"));
    blocks.map(read).collect()
}

fn is_command(example: &Option<Document>) -> bool {
    example.as_ref().is_some_and(|it| it.contains_key("command"))
}

fn read(example: &Option<Document>) -> Option<LeaseDocument> {
    example.as_ref().map(reading::document)
}

/// The parts of a command in the page.
struct Given<'a>(&'a Document);

impl Given<'_> {
    fn text(&self, field: &str) -> String {
        self.0.get_str(field).unwrap_or_else(|_| panic!("{field}: {}", self.0)).to_owned()
    }

    fn number(&self, field: &str) -> i64 {
        self.0.get_i64(field).unwrap_or_else(|_| panic!("{field}: {}", self.0))
    }

    fn id(&self) -> GrantId {
        self.text("id").as_str().into()
    }

    fn permits(&self) -> Permits {
        let number = |field| u32::try_from(self.number(field)).expect("a small number");
        Permits::new(number("permits"), number("limit")).expect("valid permits")
    }

    fn request(&self) -> AcquireAttempt<Texts> {
        let waiter_ttl = self.0.get_i64("waiterTtlMs").ok();
        AcquireAttempt {
            value: self.text("value"),
            id: self.id(),
            permits: self.permits(),
            ttl: self.number("ttlMs"),
            max_clock_skew: self.number("maxClockSkewMs"),
            sent: self.number("sentMicros"),
            joins: waiter_ttl.map(|waiter_ttl| QueueOptions { waiter_ttl, max_waiting: 1_024 }),
            predecessor: None,
            details: reading::details(self.0),
        }
    }

    fn carry_out(&self, found: Option<LeaseDocument>) -> Option<LeaseDocument> {
        let now = self.0.get_datetime("now").expect("the server's clock").timestamp_millis();
        let grant = GrantMatch::Grant(self.id());
        let lasts = || self.number("ttlMs") + self.number("maxClockSkewMs");
        let value = self.text("value");
        match self.text("command").as_str() {
            "acquire" => spec::acquire(found, &self.request(), now, &AsBuilt).0,
            "renew" => {
                let (key, sent) = (OwnGrant { value, id: self.id() }, self.number("sentMicros"));
                spec::renew(found, &key, lasts(), now, sent, &AsBuilt).0
            }
            "heartbeat" => {
                let (sent, waiter_ttl) = (self.number("sentMicros"), self.number("waiterTtlMs"));
                spec::heartbeat(found, &value, now, sent, waiter_ttl, &AsBuilt).0
            }
            "delete" => spec::delete(found, &value, &grant, &AsBuilt).0,
            "end" => {
                let scope = EndScope::BesideOthers;
                spec::end(found, &value, &grant, scope, now, &AsBuilt).0
            }
            other => panic!("{other}: which command is that?"),
        }
    }
}

#[test]
fn each_example_is_what_its_command_makes_of_the_one_before() {
    let examples = examples();
    let mut commands = BTreeSet::new();
    for step in examples.windows(3).filter(|step| is_command(&step[1])) {
        let command = step[1].as_ref().unwrap();
        let after = Given(command).carry_out(read(&step[0]));
        assert_eq!(after, read(&step[2]), "{command}");
        commands.insert(Given(command).text("command"));
    }
    let wanted = ["acquire", "delete", "end", "heartbeat", "renew"];
    assert_eq!(commands, wanted.map(str::to_owned).into());
    let count = examples.iter().filter(|it| is_command(it)).count();
    // So each document is what commands make of nothing. A field that is read wrongly would differ.
    assert_eq!((count, examples.len()), (10, 2 + 2 * count), "two leases, and one result each");
}
