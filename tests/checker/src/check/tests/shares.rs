//! Permits and shares: histories made by hand.

use super::*;
use crate::check::gaps;

pub(super) const ONE_OF_TWO: Permits = Permits { count: 1, limit: 2 };
pub(super) const TWO_OF_TWO: Permits = Permits { count: 2, limit: 2 };
pub(super) const ONE_OF_THREE: Permits = Permits { count: 1, limit: 3 };
pub(super) const READER: Permits = Permits::READER;
pub(super) const WRITER: Permits = Permits::EXCLUSIVE;

/// A document that several hold, which expires with its last holder.
pub(super) fn shared(grants: Vec<Grant>) -> State {
    let expires_at = grants.iter().map(|grant| grant.expires_at).max().unwrap_or(0);
    State { expires_at, grants, ..State::default() }
}

/// The document with those who hold from these moments on, each for a ttl.
pub(super) fn shared_by(holders: &[(&str, u64, Permits)]) -> State {
    let grant = |(call, millis, permits): &(&str, u64, Permits)| {
        granted(call, [*millis, millis + TTL_MS], *permits)
    };
    shared(holders.iter().map(grant).collect())
}

impl Story {
    /// A call that is granted by its own attempt: its holder hears of it 10 ms after the write of this document.
    pub(super) fn joins(
        &mut self,
        millis: u64,
        call: &str,
        permits: Permits,
        after: State,
    ) -> &mut Story {
        let until = millis + TTL_MS - 20;
        self.invoke_for(millis - 10, call, permits).write(millis, Some(after));
        self.told(millis + 10, call, millis, until)
    }

    /// A release that leaves this document.
    pub(super) fn leaves(&mut self, millis: u64, call: &str, after: Option<State>) -> &mut Story {
        let releasing = What::Releasing { call: call.to_owned(), how: Letting::Drop };
        self.note(millis - 10, worker(call), releasing).write(millis, after)
    }
}

#[test]
fn nothing_is_found_where_shares_fit() {
    let mut story = Story::new();
    let (a, b) = (("a/1", 110, ONE_OF_TWO), ("b/1", 210, ONE_OF_TWO));
    story.joins(110, "a/1", ONE_OF_TWO, shared_by(&[a])).judge(150, "a/1", 110, true);
    story.joins(210, "b/1", ONE_OF_TWO, shared_by(&[a, b])).judge(230, "b/1", 210, true);
    // They hold together: the older token is accepted.
    story.judge(240, "a/1", 110, true).invoke_for(250, "c/1", TWO_OF_TWO);
    let waiting = State { queue: vec![waits_for("c/1", 1_900, TWO_OF_TWO)], ..shared_by(&[a, b]) };
    story.write(260, Some(waiting));
    let waiting = State { queue: vec![waits_for("c/1", 1_900, TWO_OF_TWO)], ..shared_by(&[b]) };
    story.leaves(310, "a/1", Some(waiting));
    let admitted = "c/1.1@1@2".to_owned();
    let c = State { admitted, ..shared_by(&[("c/1", 410, TWO_OF_TWO)]) };
    story.leaves(410, "b/1", Some(c)).told(420, "c/1", 410, 1_800).leaves(500, "c/1", None);
    assert_eq!(story.found(), []);
    assert_eq!(gaps(&story.0, &Facts::of(&story.0)).len(), 0);
}

#[test]
fn more_permits_than_the_smallest_limit_are_found() {
    let third = |permits: [Permits; 3]| {
        let [a, b, c] =
            [("a/1", 110, permits[0]), ("b/1", 210, permits[1]), ("c/1", 310, permits[2])];
        let mut story = Story::new();
        story.joins(110, "a/1", permits[0], shared_by(&[a]));
        story.joins(210, "b/1", permits[1], shared_by(&[a, b]));
        story.joins(310, "c/1", permits[2], shared_by(&[a, b, c]));
        story.found()
    };
    assert_eq!(third([ONE_OF_THREE; 3]), []);
    assert_eq!(third([ONE_OF_TWO; 3]), [Invariant::Limit, Invariant::Records]);
    let differ = [ONE_OF_TWO, ONE_OF_THREE, ONE_OF_THREE];
    assert_eq!(third(differ), [Invariant::Limit, Invariant::Records], "the smallest limit binds");
    assert_eq!(third([READER; 3]), []);
}

#[test]
fn permits_that_are_only_relied_on_too_long_are_found() {
    // The documents are right: the first has expired when the third is granted.
    let second = |valid_until| {
        let mut story = Story::new();
        let a = ("a/1", 110, TWO_OF_TWO);
        story.invoke_for(100, "a/1", TWO_OF_TWO).write(110, Some(shared_by(&[a])));
        story.told(120, "a/1", 110, valid_until);
        let b = shared_by(&[("b/1", 2_120, ONE_OF_TWO)]);
        story.joins(2_120, "b/1", ONE_OF_TWO, b).found()
    };
    assert_eq!(second(2_100), []);
    let found = second(2_500);
    assert!(found.contains(&Invariant::Limit) && found.contains(&Invariant::Belief), "{found:?}");
    assert!(!found.contains(&Invariant::Records), "{found:?}");
}

#[test]
fn a_reader_beside_a_writer_is_found() {
    let beside = |first, second, document: State| {
        let mut story = Story::new();
        story.joins(110, "a/1", first, held("a/1", 110));
        story.joins(310, "b/1", second, document).found()
    };
    let reader = shared_by(&[("b/1", 310, READER)]);
    let found = beside(WRITER, READER, reader);
    assert!(found.contains(&Invariant::Sharing), "{found:?}");
    assert!(!found.contains(&Invariant::Exclusion) && !found.contains(&Invariant::Limit));
    assert!(found.contains(&Invariant::TakeOver), "the writer had not expired: {found:?}");
    let found = beside(WRITER, WRITER, held("b/1", 310));
    assert!(found.contains(&Invariant::Exclusion) && !found.contains(&Invariant::Sharing));
    // Behind the writer's end it may read.
    let mut story = Story::new();
    story.joins(110, "a/1", WRITER, held("a/1", 110));
    let reader = State { admitted: "b/1.1@1@2".to_owned(), ..shared_by(&[("b/1", 310, READER)]) };
    story.invoke_for(150, "b/1", READER).leaves(310, "a/1", Some(reader));
    assert_eq!(story.told(320, "b/1", 310, 2_200).found(), []);
}

#[test]
fn tokens_must_rise_only_between_those_who_exclude_each_other() {
    // The first found its own grant by a retry: its token is later than that of the one who came second.
    let story = |permits: Permits| {
        let mut story = Story::new();
        story.0.terms.calls_travel_together = true;
        let (a, b) = (("a/1", 110, permits), ("b/1", 150, permits));
        story.invoke_for(100, "a/1", permits).write(110, Some(shared_by(&[a])));
        story.invoke_for(140, "b/1", permits).write(150, Some(shared_by(&[a, b])));
        story.told(170, "a/1", 160, 2_000).told(180, "b/1", 150, 2_000);
        story.found()
    };
    assert_eq!(story(ONE_OF_TWO), []);
    assert!(story(TWO_OF_TWO).contains(&Invariant::Tokens));
    // Between two writers, readers do not hide that the second one's token is older.
    let mut hidden = Story::new();
    hidden.0.terms.calls_travel_together = true;
    hidden.joins(110, "a/1", WRITER, held("a/1", 110)).leaves(200, "a/1", None);
    let reader = shared_by(&[("b/1", 310, READER)]);
    hidden.joins(310, "b/1", READER, reader).leaves(400, "b/1", None);
    hidden.invoke(490, "c/1").write(500, Some(held("c/1", 500))).told(510, "c/1", 100, 2_300);
    assert_eq!(hidden.found(), [Invariant::Tokens, Invariant::TokenTimes]);
}

#[test]
fn stale_writes_of_readers_and_writers_are_found() {
    let story = |first, second, last: &[(&str, u64)]| {
        let mut story = Story::new();
        let document = |call, at, permits: Permits| match permits.is_exclusive() {
            true => held(call, at),
            false => shared_by(&[(call, at, permits)]),
        };
        story.joins(110, "a/1", first, document("a/1", 110, first)).leaves(200, "a/1", None);
        story.joins(310, "b/1", second, document("b/1", 310, second));
        for (place, (call, token)) in (0..).zip(last) {
            story.judge(400 + place, call, *token, true);
        }
        story.found()
    };
    let stale = [("b/1", 310), ("a/1", 110)];
    assert_eq!(story(READER, WRITER, &stale), [Invariant::Fence], "a reader behind a writer");
    assert_eq!(story(WRITER, READER, &stale), [Invariant::Fence], "a writer behind a reader");
    assert_eq!(story(READER, READER, &stale), []);
    assert_eq!(story(READER, WRITER, &[("a/1", 110), ("b/1", 310)]), []);
    assert_eq!(story(READER, WRITER, &[("b/1", 310), ("a/1", 400)]), [Invariant::Fence]);
}

#[test]
fn a_share_removed_or_ended_early_is_found() {
    let (a, b) = (("a/1", 110, ONE_OF_TWO), ("b/1", 210, ONE_OF_TWO));
    let both = || {
        let mut story = Story::new();
        story.joins(110, "a/1", ONE_OF_TWO, shared_by(&[a]));
        story.joins(210, "b/1", ONE_OF_TWO, shared_by(&[a, b]));
        story
    };
    assert_eq!(both().found(), []);
    assert_eq!(both().write(500, Some(shared_by(&[b]))).found(), [Invariant::Removal]);
    let mut shorter = shared_by(&[a, b]);
    shorter.grants[0].expires_at -= 1;
    assert_eq!(both().write(500, Some(shorter)).found(), [Invariant::Expiry]);
    let mut long = both();
    long.note(300, "a", What::Renewed { call: "a/1".to_owned(), valid_until: 2_500 * MILLI });
    assert_eq!(
        long.found(),
        [Invariant::Belief],
        "another's record lasts longer, its own does not"
    );
}

#[test]
fn a_document_that_expires_before_its_last_holder_is_found() {
    let after = |change: &dyn Fn(&mut State)| {
        let mut story = Story::new();
        let a = granted("a/1", [110, 2_110], ONE_OF_TWO);
        let b = granted("b/1", [110, 3_110], ONE_OF_TWO);
        let mut document = shared(vec![a, b]);
        change(&mut document);
        story.write(110, Some(document)).write(3_200, None).found()
    };
    assert_eq!(after(&|_| {}), []);
    assert_eq!(after(&|it| it.expires_at = wall(2_110)), [Invariant::Records]);
    assert_eq!(after(&|it| it.expires_at = wall(3_120)), [Invariant::Records], "it is blocked");
    assert_eq!(after(&|it| it.grants[0].value = value("b/1")), [Invariant::Records], "twice");
}

#[test]
fn a_share_that_a_dead_process_keeps_is_found() {
    let lasts = |until| {
        let mut story = Story::new();
        let (a, b) = (granted("a/1", [110, until], ONE_OF_TWO), ("b/1", 210, ONE_OF_TWO));
        story.joins(110, "a/1", ONE_OF_TWO, shared(vec![a.clone()]));
        let b = granted(b.0, [210, 20_000], b.2);
        story.joins(210, "b/1", ONE_OF_TWO, shared(vec![a, b.clone()]));
        // The other one renews, and stays for long. An expired share may lie in the document as long.
        story.note(300, "a", What::Crashing).leaves(15_000, "b/1", None);
        story.found()
    };
    assert_eq!(lasts(2_110), []);
    assert_eq!(lasts(14_000), [Invariant::Abandoned]);
}
