//! Flows of a twin, and for it.

use super::*;

impl Work {
    /// Knows the twin's connections before it may become master; a twin that is not there is not waited for long.
    pub(super) async fn first_pull(&mut self, asks: &mut mpsc::UnboundedReceiver<sync::Ask>) {
        let mut taken = 0;
        let whole = tokio::time::timeout(sync::FIRST_PULL, async {
            while let Some(ask) = asks.recv().await {
                let last = matches!(ask, sync::Ask::Pulled);
                taken += self.synchronize(ask);
                if last {
                    return;
                }
            }
        });
        match whole.await {
            Ok(()) => println!("{taken} flows pulled from the twin"),
            Err(_) => println!(
                "the twin gave no flows within {:?}: starting without",
                sync::FIRST_PULL
            ),
        }
    }

    /// Gives how many flows were taken over.
    pub(super) fn synchronize(&mut self, ask: sync::Ask) -> usize {
        let now_ns = now_us() * 1000;
        match (ask, &mut self.director) {
            (sync::Ask::Changed(since, reply), director) => {
                let records = director
                    .as_ref()
                    .map(|d| sync::changed(d, since, now_ns))
                    .unwrap_or_default();
                let _ = reply.send(records);
                0
            }
            (sync::Ask::Apply(records), Some(director)) => sync::apply(director, &records, now_ns),
            _ => 0,
        }
    }
}
