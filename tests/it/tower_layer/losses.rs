//! A lease that is lost while its request is handled.

use mongo_lease::LostReason;
use mongo_lease_tower::http::StatusCode;
use mongo_lease_tower::{OnLoss, RefusalKind};

use super::{Refused, by_path, guarded, on_both, read};
use crate::patience::soon;

#[tokio::test]
async fn a_handler_that_loses_its_lease_ends_as_is_asked_for() {
    on_both(async |leases, _| {
        for on_loss in [OnLoss::Tell, OnLoss::Answer503, OnLoss::Stop] {
            let layer = by_path(&leases).on_loss(on_loss);
            let mut service = guarded(&layer);
            // The control: an answer that comes before a loss is passed on.
            service.at_work("/a").await.end().await;

            let working = service.at_work("/a").await;
            let token = working.lease.cancellation_token();
            // An operator frees the lease, and its holder learns that by a renewal.
            leases.release("test:/a", working.lease.value()).await.unwrap();
            working.lease.renew().await.unwrap_err();
            assert_eq!(soon("the loss", working.lease.lost()).await, LostReason::Removed);
            assert!(token.is_cancelled());
            let answer = if on_loss == OnLoss::Stop {
                let answer = soon("the answer", working.response).await.unwrap();
                assert!(working.answer.is_closed(), "the handler goes on");
                answer
            } else {
                assert!(!working.answer.is_closed(), "{on_loss:?}: the handler was dropped");
                working.answer("a secret").await
            };
            if on_loss == OnLoss::Tell {
                assert_eq!(read(answer).await, (StatusCode::OK, "a secret".to_owned()));
                continue;
            }
            let lost = Refused::of(answer).await;
            assert_eq!(lost.refusal.kind, RefusalKind::Lost);
            assert_eq!(lost.refusal.name.as_deref(), Some("test:/a"));
            assert_eq!(lost.in_short(), (503, "lease_lost".to_owned(), None), "{on_loss:?}");
            assert!(!lost.body.contains("secret"), "{}", lost.body);
        }
    })
    .await;
}
