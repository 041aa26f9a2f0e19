//! The ids of managers, calls and grants: each begins with the one before.
//!
//! | identity | text |
//! | --- | --- |
//! | process | random text |
//! | manager | its process, and random text: `m` |
//! | call | its manager, and random text: `m-c` |
//! | grant | its call, and the number of the attempt: `m-c.1`; sent again in pieces: `m-c.1.1` |
//! | grant of a resume | `m-c.0` |

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// A manager's id.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ManagerId(Arc<str>);

/// The id of one acquire call, or of one resume.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(Arc<str>);

/// The id of one grant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GrantId(Box<str>);

/// The end of a grant id that a resume has written. Attempts are numbered from 1.
const RESUMED: &str = ".0";

impl ManagerId {
    /// How many characters of a manager's id are those of its process: these alone say who made a grant.
    pub const OF_PROCESS: usize = 12;

    /// `randomness` must not be used by any other manager. It begins with the randomness of its process.
    pub fn new(randomness: String) -> ManagerId {
        ManagerId(randomness.into())
    }

    /// A call of this manager. `randomness` must not be used by any other call.
    pub fn call(&self, randomness: &str) -> CallId {
        CallId(format!("{}-{randomness}", self.0).into())
    }

    /// The range of texts that begin with the id of one of its calls.
    pub fn calls(&self) -> Range<String> {
        // In ASCII, the full stop follows the hyphen.
        format!("{}-", self.0)..format!("{}.", self.0)
    }

    /// Whether this manager generated the value, or the id of a grant.
    pub fn has_made(&self, value: &str) -> bool {
        value.starts_with(&*self.0)
    }

    /// Whether a manager of the same process generated the value, or the id of a grant.
    pub fn has_process_made(&self, made: &str) -> bool {
        made.starts_with(self.0.get(..ManagerId::OF_PROCESS).unwrap_or(&self.0))
    }
}

impl CallId {
    /// The id as it is in the value and in the ids of grants.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The id of the grant that this attempt may get.
    pub fn grant(&self, attempt: u32) -> GrantId {
        GrantId(format!("{}.{attempt}", self.0).into())
    }

    /// The same after `resends` resends.
    pub fn resent_grant(&self, attempt: u32, resends: u32) -> GrantId {
        let first = self.grant(attempt);
        if resends == 0 { first } else { GrantId(format!("{}.{resends}", first.0).into()) }
    }

    /// The id of the grant that this resume makes.
    pub fn resumed_grant(&self) -> GrantId {
        GrantId(format!("{}{RESUMED}", self.0).into())
    }

    /// Whether this grant belongs to this call.
    pub fn has(&self, grant: &GrantId) -> bool {
        grant.is_of(&self.0)
    }

    /// The range of the ids of its grants.
    pub fn grants(&self) -> Range<String> {
        // In ASCII, the slash follows the full stop.
        format!("{}.", self.0)..format!("{}/", self.0)
    }
}

impl GrantId {
    /// The id as it is in the document.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The call whose attempt was granted. A text of another form is returned as a call id.
    pub fn call(&self) -> CallId {
        CallId(self.0.rsplit_once('.').map_or(&*self.0, |(call, _)| call).into())
    }

    /// Whether a holder with this value may have had this grant. Any may have, where its caller chose the value.
    pub fn may_be_of(&self, value: &str) -> bool {
        let is_random =
            |text: &str| text.len() >= 16 && text.bytes().all(|it| it.is_ascii_hexdigit());
        let is_generated = value
            .split_once('-')
            .is_some_and(|(manager, call)| is_random(manager) && is_random(call));
        !is_generated || self.is_resumed() || self.is_of(value)
    }

    fn is_of(&self, call: &str) -> bool {
        self.0.strip_prefix(call).is_some_and(|attempt| attempt.starts_with('.'))
    }

    /// Whether a resume has written it.
    pub fn is_resumed(&self) -> bool {
        self.0.ends_with(RESUMED)
    }
}

impl From<&str> for CallId {
    fn from(text: &str) -> CallId {
        CallId(text.into())
    }
}

impl From<&str> for GrantId {
    fn from(text: &str) -> GrantId {
        GrantId(text.into())
    }
}

impl fmt::Display for CallId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}
