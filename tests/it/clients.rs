//! Clients with every kind of options: the library's behaviour must not depend on them.

use std::mem::ManuallyDrop;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use mongo_lease::mongodb::bson::{Document, doc};
use mongo_lease::mongodb::options::{
    Acknowledgment, ClientOptions, DatabaseOptions, ReadConcern, ReadPreference, SelectionCriteria,
    ServerApi, ServerApiVersion, WriteConcern,
};
use mongo_lease::mongodb::{Client, Database};
use mongo_lease::{Election, Event, Fenced, LeaseManager, Released, Run, ScheduledJob, Tuning};
use mongo_lease_testbed::{FailCommand, Server, TestDatabase};
use tokio::task::JoinSet;

use crate::common::{
    assert_done, assert_not_done, builder, lenient_tuning, migrated, refused, short_or_long,
};
use crate::inspect::names_of;
use crate::lent::{lent_database, lent_set};
use crate::patience::{locks, soon, until};
use crate::spy::Spy;

#[tokio::test]
async fn reads_use_the_primary_even_if_the_client_prefers_secondaries() {
    let set = lent_set().await;
    let secondary = |options: &mut ClientOptions| {
        let preference = ReadPreference::Secondary { options: None };
        options.selection_criteria = Some(SelectionCriteria::ReadPreference(preference));
    };
    let database = TestDatabase::of(&set.client_with(secondary).await);
    let leases = builder(&database).ensure_indexes(true).build().await.unwrap();
    everything_works(&leases).await;
    // A secondary has a grant a moment later, and this reads at once.
    for round in 0..short_or_long(10, 50) {
        let name = format!("round:{round}");
        let lease = leases.acquire(&name).await.unwrap();
        let info = leases.get(&name).await.unwrap().expect("seen at once");
        assert_eq!(info.value.as_deref(), Some(lease.value()));
        assert_eq!(names_of(leases.list().prefix(&name)).await, [name.as_str()]);
        lease.release().await.unwrap();
        assert_eq!(leases.get(&name).await.unwrap(), None, "gone at once");
    }
}

/// The options of the database ask for `w: 1` as well, and for reads of what no majority has.
#[tokio::test]
async fn writes_use_majority_even_if_the_client_is_set_to_w_1() {
    let spy = Spy::default();
    let one = WriteConcern::builder().w(Acknowledgment::Nodes(1)).journal(false).build();
    let change = |options: &mut ClientOptions| {
        options.write_concern = Some(one.clone());
        spy.listen(options);
    };
    let database = migrated(Server::shared()).await;
    let preference = ReadPreference::SecondaryPreferred { options: None };
    let options = DatabaseOptions::builder()
        .write_concern(one.clone())
        .read_concern(ReadConcern::available())
        .selection_criteria(SelectionCriteria::ReadPreference(preference))
        .build();
    let client = Server::shared().client_with(change).await;
    let careless = client.database_with_options(database.name(), options);
    let leases = LeaseManager::builder(&careless).tuning(lenient_tuning());
    everything_works(&leases.build().await.unwrap()).await;
    let mut writes = 0;
    for (name, command) in spy.commands() {
        if ["findAndModify", "update", "delete"].contains(&name.as_str()) {
            let mut asked = command.get_document("writeConcern").cloned().unwrap_or_default();
            // The time for the majority is shorter than the one for all else.
            let within = asked.remove("wtimeout").and_then(|it| it.as_i64()).unwrap_or(i64::MAX);
            let max_time = command.get_i64("maxTimeMS").unwrap();
            assert!(within > 0 && within <= max_time, "{name}: {within} of {max_time} ms");
            assert_eq!(asked, doc! { "w": "majority", "j": true }, "{name}");
            writes += 1;
        }
    }
    assert!(writes >= 6, "{writes}");
    assert_eq!(locks(&database).count_documents(doc! {}).await.unwrap(), 0);
}

type Change = fn(&mut ClientOptions);

#[tokio::test]
async fn clients_without_retries_api_or_connections_will_do() {
    fn strict_api(options: &mut ClientOptions) {
        let api = ServerApi::builder().version(ServerApiVersion::V1).strict(true);
        options.server_api = Some(api.deprecation_errors(true).build());
    }
    fn no_retries(options: &mut ClientOptions) {
        options.retry_writes = Some(false);
        options.retry_reads = Some(false);
    }
    let plain = lenient_tuning;
    let clients: [(&str, Tuning, Change); 6] = [
        ("no retries", plain(), no_retries),
        ("the strict Stable API alone", plain(), strict_api),
        ("one connection", plain(), |options| options.max_pool_size = Some(1)),
        ("two connections", plain(), |options| options.max_pool_size = Some(2)),
        ("ten connections", plain(), |options| options.max_pool_size = Some(10)),
        ("one command at a time", plain().max_in_flight(1), |_| {}),
    ];
    let use_all = clients.map(async |(what, tuning, change)| {
        let database = TestDatabase::of(&Server::shared().client_with(change).await);
        let builder = LeaseManager::builder(&database).ensure_indexes(true).tuning(tuning);
        let leases = builder.build().await.unwrap();
        everything_works(&leases).await;
        many_at_once(&leases).await;
        // Shown where the test fails.
        eprintln!("everything works for a client with {what}");
    });
    in_turn(use_all).await;
}

/// Options of a connection string. No member has the tag: a read that went by it would find none. The library gives
/// each operation its own options, so one of a kind suffices. Retries and pools are those of
/// [`clients_without_retries_api_or_connections_will_do`].
const IN_THE_URI: [&str; 8] = [
    "readPreference=secondary&readPreferenceTags=dc:nowhere",
    "readPreference=nearest&readPreferenceTags=dc:nowhere&maxStalenessSeconds=90",
    "w=0",
    "w=1&journal=false&wtimeoutMS=20000",
    "readConcernLevel=available",
    "readConcernLevel=linearizable",
    "readConcernLevel=snapshot",
    "directConnection=true",
];

#[tokio::test]
async fn no_option_of_a_connection_string_changes_what_a_call_means() {
    let server = Server::shared();
    let address = &server.mongod().address();
    let hello = server.admin(doc! { "hello": 1 }).await;
    let set = hello.get_str("setName").unwrap();
    let clients = IN_THE_URI.map(|options| async move {
        let discovers = if options.contains("directConnection") { "" } else { "&replicaSet=" };
        let name = if discovers.is_empty() { "" } else { set };
        let uri = format!("mongodb://{address}/?{options}{discovers}{name}");
        eprintln!("a client of {uri}");
        let client = Client::with_uri_str(&uri).await.unwrap();
        // The names and the documents of one client are its own.
        let database = migrated(server).await;
        works_with(&client.database(database.name()), options).await;
    });
    in_turn(clients).await;
}

/// Runs these. Each waits for renewals for the most part, and all at once would be a load that slows them down.
async fn in_turn(clients: impl IntoIterator<Item = impl Future<Output = ()>>) {
    stream::iter(clients).buffer_unordered(4).collect::<()>().await;
}

#[tokio::test]
async fn no_default_of_the_cluster_changes_what_a_call_means() {
    let (server, database) = lent_database().await;
    let defaults = |write: Document, read: &str| {
        doc! {
            "setDefaultRWConcern": 1,
            "defaultWriteConcern": write,
            "defaultReadConcern": { "level": read },
            "writeConcern": { "w": "majority" },
        }
    };
    server.admin(defaults(doc! { "w": 1 }, "available")).await;
    works_with(&database, "the cluster's defaults").await;
    // Those of a server that nobody has told anything.
    server.admin(defaults(doc! { "w": "majority" }, "local")).await;
}

/// Twelve slow commands of the application, in a pool of ten: the driver sends no renewal, and the database is well.
#[tokio::test]
async fn a_loss_names_the_pool_that_the_application_has_filled() {
    let (server, database) = lent_database().await;
    let client = server.client_with(|options| options.max_pool_size = Some(10)).await;
    let shared = client.database(database.name());
    let leases = LeaseManager::builder(&shared).build().await.unwrap();
    let lease = leases.acquire("a").ttl(Duration::from_secs(3)).await.unwrap();
    let slow = FailCommand::on(&["count"]).block_for(Duration::from_secs(120));
    // It is left on: switching it off would wait for the commands that hang.
    let _slow = ManuallyDrop::new(slow.enable(server.uri()).await);
    for _ in 0..12 {
        let shared = shared.clone();
        tokio::spawn(async move { shared.run_command(doc! { "count": "orders" }).await });
    }
    let reason = soon("the loss", lease.lost()).await.to_string();
    assert!(
        reason.contains("no connection of the client's pool (maxPoolSize) was free"),
        "{reason}"
    );
    // A client with a free connection is answered.
    let other = LeaseManager::builder(&database).build().await.unwrap();
    other.ping().await.unwrap();
}

/// Every call that reads or writes, on this client.
async fn works_with(database: &Database, what: &str) {
    let builder = LeaseManager::builder(database).ensure_indexes(true).tuning(lenient_tuning());
    let leases = builder.build().await.unwrap_or_else(|error| panic!("{what}: {error}"));
    everything_works(&leases).await;
    everything_else_works(&leases, database).await;
    let report = leases.shutdown().await;
    assert_eq!((report.left_to_expire, report.tasks_left), (Vec::new(), 0), "{what}");
}

/// Uses the methods that [`everything_works`] leaves out.
async fn everything_else_works(leases: &LeaseManager, database: &Database) {
    let permit = leases.semaphore("permits", 2).acquire().await.unwrap();
    until("a permit is renewed", async || permit.renew().await.ok()).await;
    let info = leases.get("permits").await.unwrap().unwrap();
    assert_eq!((info.in_use, info.limit, info.holders.len()), (Some(1), Some(2), 1));
    assert_done(permit.release().await.unwrap(), "a permit");
    let reader = leases.acquire("shared").shared().await.unwrap();
    assert!(!leases.try_acquire("shared").await.unwrap().is_granted());
    assert_done(reader.release().await.unwrap(), "a reader");

    let set = leases.acquire_all(["x", "y"]).await.unwrap();
    assert_done(set.release().await.unwrap(), "both");
    let key = leases.acquire("key").await.unwrap().detach().await.unwrap();
    leases.renew_detached(&key, None).await.unwrap();
    assert_done(leases.release_detached(&key).await.unwrap(), "by key");
    assert_eq!(leases.with_lease("with", async |_lease| 7).await.unwrap(), 7);

    let kept = leases.acquire("kept").hold_at_least(Duration::from_millis(10)).await.unwrap();
    assert_done(kept.release().await.unwrap(), "kept for a while");
    let election = Election::new(leases, "leader");
    let leader = election.run(async |_| election.leader().await.unwrap()).await.unwrap();
    assert!(leader.is_some_and(|leader| leader.held_here));
    let job = ScheduledJob::new(leases, "job").at_most(Duration::from_secs(60));
    assert!(matches!(job.run(async |_lease| 8).await.unwrap(), Run::Done(8)));

    let fenced = leases.acquire("fenced").await.unwrap();
    let documents = database.collection::<Document>("documents");
    let write = || {
        let update = doc! { "$set": { "by": "us" } };
        fenced.token().unwrap().fenced_write("fence", doc! { "_id": 1 }, update).unwrap()
    };
    assert_eq!(write().send(&documents).await.unwrap(), Fenced::NoSuchDocument);
    assert_eq!(write().send(&documents).upsert(true).await.unwrap(), Fenced::Applied);
    assert_done(fenced.release().await.unwrap(), "fenced");
}

/// Uses every method once.
pub(crate) async fn everything_works(leases: &LeaseManager) {
    let lease = leases.acquire("a").metadata(doc! { "x": 1 }).await.unwrap();
    let token = lease.token().unwrap();
    let held = refused(leases, "a").await;
    assert_eq!(held.value.as_deref(), Some(lease.value()));
    until("it is renewed", async || lease.renew().await.ok()).await;
    assert!(leases.get("a").await.unwrap().is_some());
    assert_eq!(names_of(leases.list()).await, ["a"]);

    let waiting = tokio::spawn(leases.acquire("a").into_future());
    let key = lease.detach().await.unwrap();
    let lease = leases.resume(key).await.unwrap();
    assert_done(lease.release().await.unwrap(), "resumed");
    let next = waiting.await.unwrap().unwrap();
    assert!(next.token().unwrap() > token);
    assert_done(leases.release("a", next.value()).await.unwrap(), "by name and value");
    // It is known to be lost then.
    next.renew().await.unwrap_err();
    // Its drop would share a command with releases of other leases, and make their results unknown. Such a release has
    // a second: on a busy machine that may be over before anything is sent.
    match next.release().await {
        Ok(released) => assert_not_done(released),
        Err(error) => assert!(error.is_transient(), "{error}"),
    }

    let renewals = leases.events().filter(|event| {
        std::future::ready(matches!(event, Event::Renewed { name, .. } if name == "b"))
    });
    let work = async |_lease: &_| renewals.take(1).count().await;
    let ttl = Duration::from_millis(4_500);
    assert_eq!(leases.acquire("b").ttl(ttl).run(work).await.unwrap(), 1);
    leases.ping().await.unwrap();
}

/// More calls at once than there are connections, on names of their own and on one in common.
async fn many_at_once(leases: &LeaseManager) {
    let mut tasks = JoinSet::new();
    for task in 0..20 {
        let leases = leases.clone();
        tasks.spawn(async move {
            let own = leases.acquire(format!("own:{task}")).await.unwrap();
            let shared = leases.acquire("shared").await.unwrap();
            assert_eq!(shared.release().await.unwrap(), Released::Released);
            assert_eq!(own.release().await.unwrap(), Released::Released);
        });
    }
    tasks.join_all().await;
    assert_eq!(names_of(leases.list()).await, Vec::<String>::new());
}
