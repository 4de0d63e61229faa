//! How process reports of a host reach the session that they are about: a bounded queue per
//! session. Reports are facts, not events: what does not fit is dropped and the reader is
//! told to ask anew, so nothing is lost but time.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use muster_domain::{DeliveryId, delivery::Answer, session::RunReport};
use tokio::sync::{Notify, mpsc};

/// Reports that wait for one session.
const CAPACITY: usize = 32;

/// One report about a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Report {
    /// A run is now so.
    Run(Box<RunReport>),
    /// A delivery ended.
    Delivery {
        /// Run that it went to.
        run: u32,
        /// Which delivery.
        delivery: DeliveryId,
        /// How it ended.
        answer: Answer,
    },
    /// What was reported may be incomplete: ask `list_runs`, and for deliveries in flight.
    Relist,
}

/// The reader's end. Dropping it ends the subscription.
#[derive(Debug)]
pub struct Reports {
    queue: mpsc::Receiver<Report>,
    flag: Arc<Flag>,
}

/// The writer's end.
#[derive(Debug, Clone)]
pub struct ReportSink {
    queue: mpsc::Sender<Report>,
    flag: Arc<Flag>,
}

#[derive(Debug)]
struct Flag {
    relist: AtomicBool,
    raised: Notify,
}

/// A connected pair. The reader begins with [`Report::Relist`].
pub fn channel() -> (ReportSink, Reports) {
    let (sender, receiver) = mpsc::channel(CAPACITY);
    let flag = Arc::new(Flag {
        relist: AtomicBool::new(true),
        raised: Notify::new(),
    });
    let sink = ReportSink {
        queue: sender,
        flag: flag.clone(),
    };
    let reports = Reports {
        queue: receiver,
        flag,
    };
    (sink, reports)
}

impl ReportSink {
    /// Passes a report on; never waits. `false`: nobody reads any more.
    pub fn send(&self, report: Report) -> bool {
        if report == Report::Relist {
            self.relist();
            return !self.queue.is_closed();
        }
        match self.queue.try_send(report) {
            Ok(()) => true,
            Err(mpsc::error::TrySendError::Full(_)) => {
                self.relist();
                true
            }
            Err(mpsc::error::TrySendError::Closed(_)) => false,
        }
    }

    /// Nobody reads any more.
    pub fn is_closed(&self) -> bool {
        self.queue.is_closed()
    }

    fn relist(&self) {
        self.flag.relist.store(true, Ordering::Release);
        self.flag.raised.notify_one();
    }
}

impl Reports {
    /// The next report; `None` when the host was removed. Cancel safe.
    pub async fn recv(&mut self) -> Option<Report> {
        loop {
            if self.flag.relist.swap(false, Ordering::AcqRel) {
                // Whatever waits is older than the answer to the question to come.
                while self.queue.try_recv().is_ok() {}
                return Some(Report::Relist);
            }
            tokio::select! {
                () = self.flag.raised.notified() => {}
                report = self.queue.recv() => return report,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delivered(run: u32) -> Report {
        Report::Delivery {
            run,
            delivery: DeliveryId::new(uuid::Uuid::from_u128(1)),
            answer: Answer::Retry,
        }
    }

    #[tokio::test]
    async fn r7_what_does_not_fit_becomes_a_question() {
        let (sink, mut reports) = channel();
        assert_eq!(reports.recv().await, Some(Report::Relist));
        assert!(sink.send(delivered(1)));
        assert_eq!(reports.recv().await, Some(delivered(1)));
        for run in 0..100 {
            assert!(sink.send(delivered(run)));
        }
        assert_eq!(reports.recv().await, Some(Report::Relist));
        assert!(sink.send(delivered(7)));
        assert_eq!(reports.recv().await, Some(delivered(7)));
        drop(reports);
        assert!(!sink.send(delivered(1)));
    }
}
