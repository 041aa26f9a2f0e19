//! Permits and readers as `get`, `list` and refusals show them, on both backends.

use std::time::Duration;

use futures_util::TryStreamExt;
use mongo_lease::mongodb::bson::{Document, doc};
use mongo_lease::{Attempt, Error, LeaseInfo};

use super::names_of;
use crate::both::{Backend, check};
use crate::common;

#[tokio::test]
async fn get_shows_the_holders_of_permits_and_who_they_are() {
    check(async |backend| {
        let (leases, others) = (backend.manager().await, backend.manager().await);
        let two = leases.semaphore("tenant:7", 5).acquire().permits(2);
        let two = two.metadata(doc! { "job": 7 }).owner("billing").await.unwrap();
        let one = others.semaphore("tenant:7", 3).acquire().ttl(Duration::from_secs(60));
        let one = one.await.unwrap();
        let info = leases.get("tenant:7").await.unwrap().expect("held");
        // The strictest of the holders decides.
        assert_eq!((info.shared, info.in_use, info.limit), (true, Some(3), Some(3)));
        assert_eq!((&info.value, &info.owner, info.held_here), (&None, &None, true));
        let [first, second] = &info.holders[..] else { panic!("{info:?}") };
        assert_eq!((first.value.as_str(), second.value.as_str()), (two.value(), one.value()));
        assert_eq!((first.permits, first.limit, second.permits, second.limit), (2, 5, 1, 3));
        assert_eq!((&first.metadata, &second.metadata), (&doc! { "job": 7 }, &doc! {}));
        assert_eq!(first.metadata::<Document>().unwrap(), first.metadata);
        assert!(first.owner.as_deref().is_some_and(|owner| owner.starts_with("billing@")));
        assert!(first.held_here && second.held_here, "both managers are of this process");
        // The ttl and the maximum clock skew.
        let lasts = second.expires_at.unwrap() - second.acquired_at.unwrap();
        let (lasts, whole) = (lasts.to_std().unwrap(), Duration::from_secs(61));
        // An attempt that was repeated has prolonged it.
        assert!(lasts >= whole && lasts <= whole + backend.late(), "{lasts:?}");
        assert_eq!(info.expires_at, second.expires_at);
        assert!(first.remaining <= Duration::from_secs(31), "{info:?}");
        let listed: Vec<_> = leases.list().stream().unwrap().try_collect().await.unwrap();
        let shown = |info: &LeaseInfo| -> Vec<(String, u32)> {
            info.holders.iter().map(|it| (it.value.clone(), it.permits)).collect()
        };
        assert_eq!((listed.len(), shown(&listed[0])), (1, shown(&info)));
        for owner in info.holders.iter().filter_map(|it| it.owner.as_ref()) {
            assert_eq!(names_of(leases.list().held_by(owner)).await, ["tenant:7"]);
        }

        one.release().await.unwrap();
        let left = others.get("tenant:7").await.unwrap().expect("held");
        assert_eq!((left.in_use, left.limit, left.holders.len()), (Some(2), Some(5), 1));
        two.release().await.unwrap();
        assert_eq!(leases.get("tenant:7").await.unwrap(), None);
    })
    .await;
}

#[tokio::test]
async fn a_refusal_says_how_many_permits_are_in_use() {
    check(async |backend| {
        let leases = backend.manager().await;
        let api = leases.semaphore("tenant:7", 5);
        let _long = api.acquire().permits(3).ttl(Duration::from_secs(300)).await.unwrap();
        let _first_to_expire = api.acquire().permits(2).await.unwrap();
        let Attempt::Busy(info) = api.try_acquire().await.unwrap() else { panic!("too many") };
        assert_eq!((info.shared, info.in_use, info.limit), (true, Some(5), Some(5)));
        assert_eq!((&info.value, info.holders.len()), (&None, 0));
        let refused = api.acquire().wait(Duration::ZERO).await.unwrap_err();
        assert!(matches!(refused, Error::Busy(_)));
        let begin = "lease \"tenant:7\" has 5 of 5 permits in use; the first expires in ";
        for text in [info.to_string(), refused.to_string()] {
            let rest = text.strip_prefix(begin);
            let seconds = rest.and_then(|rest| rest.split_once(" s")?.0.parse::<f64>().ok());
            // The ttl and the maximum clock skew.
            assert!(seconds.is_some_and(|it| it > 0.0 && it <= 31.0), "{text}");
        }
        // A server may be late with its answer.
        if let Backend::Memory(_) = backend {
            let wait = Duration::from_secs(10);
            let late = api.acquire().wait(wait).await.unwrap_err().to_string();
            let end = "; 5 of 5 permits were in use when the database last answered";
            assert!(late.contains(end), "{late}");
        }
        // A writer is told less: its command is that of every exclusive lease.
        let info = common::refused(&leases, "tenant:7").await;
        assert_eq!((info.shared, &info.value, info.in_use, info.limit), (true, &None, None, None));
        let begin = "lease \"tenant:7\" is held by several for ";
        assert!(info.to_string().starts_with(begin), "{info}");
    })
    .await;
}

#[tokio::test]
async fn an_operator_ends_the_permits_of_one_holder() {
    check(async |backend| {
        let (leases, operator) = (backend.manager().await, backend.manager().await);
        let api = leases.semaphore("tenant:7", 5);
        let (stuck, other) = (api.acquire().await.unwrap(), api.acquire().await.unwrap());
        let holders = operator.get("tenant:7").await.unwrap().unwrap().holders;
        let found = holders.iter().find(|holder| holder.value == stuck.value()).expect("listed");
        operator.release("tenant:7", &found.value).await.unwrap();
        assert!(stuck.renew().await.is_err(), "its holder is told");
        other.renew().await.unwrap();
        let left = operator.get("tenant:7").await.unwrap().unwrap();
        assert_eq!((left.in_use, left.holders[0].value.as_str()), (Some(1), other.value()));
    })
    .await;
}
