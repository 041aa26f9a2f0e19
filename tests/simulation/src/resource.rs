//! The fenced resource: it remembers the newest tokens of each name, and refuses older ones.

use std::collections::BTreeMap;
use std::sync::Mutex;

use mongo_lease_checker::history::What;
use mongo_lease_checker::permits::Permits;

use crate::control::Control;
use crate::world::{World, locked};

/// The newest tokens of one name.
#[derive(Clone, Copy, Debug, Default)]
struct Tokens {
    all: u64,
    exclusive: u64,
}

/// The resource. A write of an exclusive holder needs the newest token of all; one of a share needs that of the
/// exclusive ones, because shares that are held together have tokens in no order.
pub(crate) struct Resource {
    tokens: Mutex<BTreeMap<String, Tokens>>,
    /// The control's mistake: every write is accepted.
    is_open: bool,
}

impl Resource {
    /// A resource that nobody has written to.
    pub(crate) fn new(control: Option<&'static Control>) -> Resource {
        Resource {
            tokens: Mutex::default(),
            is_open: control.is_some_and(|it| it.name == "open-resource"),
        }
    }

    /// Decides about a write, and notes the decision.
    pub(crate) fn write(
        &self,
        world: &World,
        call: &str,
        name: &str,
        token: u64,
        permits: Permits,
    ) -> bool {
        let mut tokens = locked(&self.tokens);
        let newest = tokens.entry(name.to_owned()).or_default();
        let needed = if permits.is_exclusive() { newest.all } else { newest.exclusive };
        let accepted = self.is_open || token >= needed;
        newest.all = newest.all.max(token);
        if permits.is_exclusive() {
            newest.exclusive = newest.exclusive.max(token);
        }
        let (call, name) = (call.to_owned(), name.to_owned());
        world.note("resource", What::Judged { call, name, token, accepted });
        accepted
    }
}
