//! A store whose majority is late by a fixed time.

use mongo_lease_core::bson::Timestamp;

use crate::late::Late;
use crate::leases::Leases;

impl Leases {
    /// From now on a majority has each write so many milliseconds later. Reads and change streams show what it has.
    pub fn set_majority_delay(&mut self, delay_ms: i64, now_ms: i64) {
        self.catch_up(now_ms);
        let new = || Late::new(self.collections.clone(), self.last_write, delay_ms);
        self.late.get_or_insert_with(new).set_delay(delay_ms);
    }

    /// Lets a late majority have the writes that are due by this date.
    pub fn catch_up(&mut self, now_ms: i64) {
        self.late.iter_mut().for_each(|late| late.catch_up(now_ms));
    }

    /// The date at which a late majority has all writes up to this time; `None` if it has them.
    pub fn majority_has_at(&self, at: Timestamp) -> Option<i64> {
        self.late.as_ref()?.due_ms(at)
    }

    /// The date at which a late majority has the next write that it lacks.
    pub fn next_majority_at(&self) -> Option<i64> {
        self.late.as_ref()?.next_due_ms()
    }

    /// Undoes the writes that a late majority lacks: another primary never had them.
    pub fn undo_late(&mut self, now_ms: i64) {
        self.catch_up(now_ms);
        let events_end = self.told_end();
        let Some(late) = &mut self.late else { return };
        self.collections = late.forget_writes();
        while self.next_event() > events_end && self.events.pop_back().is_some() {}
    }
}
