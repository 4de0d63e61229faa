//! How a subscription begins: what is there now, page by page.

use muster_domain::Fault;

use super::{
    super::{
        frame::{Frame, Item, Subscription},
        subscription::{Stage, Workspace},
    },
    Subscriber,
};
use crate::store::Row;

/// Rows of a workspace snapshot that are read at once.
const ROWS: u32 = 100;
/// Messages of a session's snapshot; older ones are listed.
const MESSAGES: u32 = 200;

impl Subscriber {
    /// Goes on with a snapshot. `false`: none is due.
    pub(super) async fn snapshot(&mut self) -> Result<bool, Fault> {
        if let Some(workspace) = &self.workspace {
            let (key, revision) = match &workspace.stage {
                Stage::Wanted => (None, None),
                Stage::Paged(key, revision) => (Some(key.clone()), Some(*revision)),
                Stage::Live(_) => return self.session_snapshot().await,
            };
            let page = self
                .shared
                .store
                .snapshot(&self.shared.workspace, key.as_ref(), ROWS)
                .await?;
            let begins = revision.is_none();
            let revision = revision.unwrap_or(page.revision);
            let of = Subscription::Workspace;
            if begins {
                self.out.push_back(Frame::SnapshotBegin(of, revision));
            }
            for row in page.rows {
                let item = self.item(row).await?;
                self.out.push_back(Frame::Item(of, item));
            }
            let stage = match page.next {
                Some(key) => Stage::Paged(key, revision),
                None => {
                    self.out.push_back(Frame::SnapshotEnd(of, revision));
                    Stage::Live(revision)
                }
            };
            self.workspace = Some(Workspace { stage });
            return Ok(true);
        }
        self.session_snapshot().await
    }

    async fn item(&self, row: Row) -> Result<Item, Fault> {
        Ok(match row {
            Row::Host(host) => Item::Host(Box::new(self.shared.views.host(host))),
            Row::Task(task) => Item::Task(Box::new(task)),
            Row::Session(state) => {
                let state = crate::app::newest(&*self.shared.sessions, *state);
                Item::Session(Box::new(self.shared.views.session(state).await?))
            }
        })
    }

    async fn session_snapshot(&mut self) -> Result<bool, Fault> {
        let wanted = self
            .sessions
            .iter()
            .find(|(_, session)| matches!(session.stage, Stage::Wanted));
        let Some(id) = wanted.map(|(id, _)| *id) else {
            return Ok(false);
        };
        let of = Subscription::Session(id);
        let taken = self.shared.store.session_snapshot(id, MESSAGES).await?;
        let Some(taken) = taken else {
            self.sessions.remove(&id);
            return Ok(true);
        };
        let state = crate::app::newest(&*self.shared.sessions, taken.state);
        let view = self.shared.views.session(state).await?;
        let Some(session) = self.sessions.get_mut(&id) else {
            return Ok(true);
        };
        let revision = taken.revision;
        self.out.push_back(Frame::SnapshotBegin(of, revision));
        self.out
            .push_back(Frame::Item(of, Item::Session(Box::new(view))));
        for message in taken.messages {
            session.growth.has(&message);
            self.out.push_back(Frame::Item(
                of,
                Item::Message(Box::new(message), session.host.clone()),
            ));
        }
        self.out.push_back(Frame::SnapshotEnd(of, revision));
        session.stage = Stage::Live(revision);
        session.unseen = true;
        Ok(true)
    }
}
