//! Transactions under a lease that is held throughout, beside the driver's own with the same inserts.

use std::sync::Arc;
use std::time::Instant;

use mongo_lease::Lease;
use mongo_lease::mongodb::bson::{Document, doc};
use mongo_lease::mongodb::options::{
    Acknowledgment, ReadConcern, ReadPreference, SelectionCriteria, TransactionOptions,
    WriteConcern,
};
use mongo_lease::mongodb::{ClientSession, Collection};
use mongo_lease_measure::{Extent, Outcome, Spread};

use crate::figure::Figure;
use crate::goal::Goal;
use crate::pairs::{OTHERS, mean};
use crate::per_side::PerSide;
use crate::report::Report;
use crate::setup::Setup;
use crate::side::{Contender, Held, Side, random_name};
use crate::unit::Unit;

/// Transactions of a round, of each size.
const TRANSACTIONS: usize = 100;
/// The inserts of a long transaction.
const MANY: usize = 10;

const SIDES: [Side; 2] = [Side::Ours, Side::Bare];

/// The milliseconds of a transaction's steps.
struct Steps {
    begin: f64,
    inserts: f64,
    commit: f64,
}

/// The transactions of a round.
struct Sizes {
    one: Steps,
    many: Steps,
}

pub(crate) async fn measure(extent: Extent, report: &mut Report) -> Outcome<()> {
    let setup = Setup::new().await?;
    let contender = Contender::fresh(&setup.databases, Side::Ours, OTHERS).await?;
    let Held::Lease(lease) = contender.acquire(&random_name()).await? else {
        return Err("was granted no lease".into());
    };
    let lease = Arc::new(lease);
    let mut collections = 0;
    let rounds = PerSide::measured(extent.of(20, 6), &SIDES, async |side: Side| {
        collections += 1;
        // Both sides through one client, and each in a collection that nothing was written to.
        let database = setup.databases.by_default().await?;
        let name = format!("payments_{collections}");
        database.create_collection(&name).await?;
        let payments = database.collection(&name);
        let lease = (side == Side::Ours).then(|| Arc::clone(&lease));
        let (one, many) = tokio::spawn(async move {
            let one = timed(lease.as_deref(), &payments, 1).await?;
            Outcome::Ok((one, timed(lease.as_deref(), &payments, MANY).await?))
        })
        .await??;
        Ok(Sizes { one, many })
    });
    let rounds = rounds.await?;
    report.section("Transactions under a lease");
    for figure in figures(&rounds) {
        report.add(figure);
    }
    drop(lease);
    contender.close().await;
    setup.leases.shutdown().await;
    Ok(())
}

fn figures(rounds: &PerSide<Sizes>) -> Vec<Figure> {
    let beside = |what: &str, beside: &str, figure: fn(&Sizes) -> f64| {
        Figure::ratio(what, beside, &rounds.beside(Side::Bare, figure), Unit::Millis)
    };
    let begin = rounds.median(Side::Ours, |it| it.one.begin);
    vec![
        beside("a transaction with one insert", "the driver's", |it| it.one.all())
            .goal(Goal::AtMost(1.5))
            .drawn(),
        beside(&format!("a transaction with {MANY} inserts"), "the driver's", |it| it.many.all())
            .drawn(),
        Figure::quotient(
            &format!("what the lease adds to {MANY} inserts"),
            "what it adds to one",
            added(rounds, |it| it.many.all()),
            added(rounds, |it| it.one.all()),
            Unit::Millis,
        )
        .goal(Goal::AtMost(1.0)),
        Figure::counted("with one insert: the beginning (sends nothing)", begin, Unit::Millis),
        // In both the insert begins the transaction on the server.
        beside("with one insert: the insert", "the driver's", |it| it.one.inserts),
        beside("with one insert: guard and commit", "the driver's commit", |it| it.one.commit),
    ]
}

/// The median of what the lease adds. A round's may be negative, so its ratio to another one tells nothing.
fn added(rounds: &PerSide<Sizes>, figure: fn(&Sizes) -> f64) -> f64 {
    let rounds = rounds.beside(Side::Bare, figure);
    Spread::of(rounds.0.iter().map(|round| round.ours - round.floor).collect()).median
}

/// The mean steps of the transactions of one size, one after the other.
async fn timed(
    lease: Option<&Lease>,
    payments: &Collection<Document>,
    inserts: usize,
) -> Outcome<Steps> {
    let mut all = Vec::with_capacity(TRANSACTIONS);
    for _ in 0..TRANSACTIONS {
        all.push(match lease {
            Some(lease) => under(lease, payments, inserts).await?,
            None => bare(payments, inserts).await?,
        });
    }
    let mean = |step: fn(&Steps) -> f64| mean(&all.iter().map(step).collect::<Vec<_>>());
    Ok(Steps {
        begin: mean(|it| it.begin),
        inserts: mean(|it| it.inserts),
        commit: mean(|it| it.commit),
    })
}

async fn under(lease: &Lease, payments: &Collection<Document>, inserts: usize) -> Outcome<Steps> {
    let started = Instant::now();
    let mut transaction = lease.transaction().await?;
    let begun = Instant::now();
    insert(payments, inserts, transaction.session()).await?;
    let inserted = Instant::now();
    transaction.commit().await?;
    Ok(Steps::ended(started, begun, inserted))
}

async fn bare(payments: &Collection<Document>, inserts: usize) -> Outcome<Steps> {
    let started = Instant::now();
    let mut session = payments.client().start_session().await?;
    session.start_transaction().with_options(options()).await?;
    let begun = Instant::now();
    insert(payments, inserts, &mut session).await?;
    let inserted = Instant::now();
    session.commit_transaction().await?;
    // As a commit under a lease does.
    drop(session);
    Ok(Steps::ended(started, begun, inserted))
}

/// Inserts documents one by one.
async fn insert(
    payments: &Collection<Document>,
    count: usize,
    session: &mut ClientSession,
) -> Outcome<()> {
    for _ in 0..count {
        let payment = doc! { "invoice": random_name(), "amount": 100 };
        payments.insert_one(payment).session(&mut *session).await?;
    }
    Ok(())
}

/// The concerns of a transaction under a lease.
fn options() -> TransactionOptions {
    let majority = WriteConcern::builder().w(Acknowledgment::Majority).journal(true).build();
    TransactionOptions::builder()
        .read_concern(ReadConcern::local())
        .write_concern(majority)
        .selection_criteria(SelectionCriteria::ReadPreference(ReadPreference::Primary))
        .build()
}

impl Steps {
    /// Of a transaction that has ended now.
    fn ended(started: Instant, begun: Instant, inserted: Instant) -> Steps {
        Steps {
            begin: (begun - started).as_secs_f64() * 1e3,
            inserts: (inserted - begun).as_secs_f64() * 1e3,
            commit: inserted.elapsed().as_secs_f64() * 1e3,
        }
    }

    fn all(&self) -> f64 {
        self.begin + self.inserts + self.commit
    }
}
