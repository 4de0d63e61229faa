//! Ten thousand rows: found by prefix, listed in pages, pruned.

use muster_coordinator::store::{Keep, Store};
use muster_domain::Timestamp;

use super::kit::*;

mod each {
    super::super::conformance! { ten_thousand_tasks_are_paged_through }
}

const TASKS: u32 = 10_000;

async fn ten_thousand_tasks_are_paged_through(store: &dyn Store) {
    let ids: Vec<u32> = (0..TASKS).collect();
    for some in ids.chunks(500) {
        // Without client keys: the memory store looks for a taken one among all.
        let mut changeset = changes();
        for n in some {
            let mut task = task(*n);
            task.client_key = String::new();
            changeset.tasks.extend(add_task(task).tasks);
        }
        changeset.events = vec![event(1)];
        put(store, changeset).await;
    }
    let mut next = TASKS;
    let mut token = None;
    loop {
        let page = store
            .tasks(&main(), None, &page(1000, token))
            .await
            .unwrap();
        for task in page.items {
            next -= 1;
            assert_eq!(task.id, task_id(next));
        }
        token = page.next;
        if token.is_none() {
            break;
        }
    }
    assert_eq!(next, 0);
    let found = store
        .tasks_by_prefix(&main(), "00001f", 1000)
        .await
        .unwrap();
    assert_eq!(found.len(), 256);
    let keep = Keep {
        rows: 5,
        since: Timestamp::from_micros(0),
    };
    assert_eq!(store.prune(&main(), keep).await.unwrap(), 15);
}
