//! Results whose bytes stand in object storage: their rows name them.

use std::collections::BTreeSet;

use tenure_scheduler::{Changes, FencingToken, Job, JobChange, JobState, ResultPut, Wall};
use tenure_store::{Beside, Journal as _, ObjectName, ResultBytes, ResultObject, Sha256};

use crate::{
    samples::{id, job, running, token},
    stores::{Led, TestStore},
};

fn name(n: u64, of: u64, byte: u8) -> ObjectName {
    ObjectName { job: id(n), token: token(of), sha256: Sha256([byte; 32]) }
}

fn put(name: ObjectName) -> ResultPut {
    ResultPut {
        job: name.job,
        token: name.token,
        of_wait: false,
        partial: false,
        created_at: Wall(5),
        expires_at: Wall(60),
    }
}

/// Stores results that are in object storage, and changes.
async fn store<S: TestStore>(led: &mut Led<S>, names: &[ObjectName], jobs: Vec<JobChange>) {
    let changes =
        Changes { jobs, results_put: names.iter().copied().map(put).collect(), ..Changes::default() };
    let mut beside = Beside::default();
    for name in names {
        let object = Some(ResultObject { size: 1 << 40, sha256: name.sha256 });
        let result = ResultBytes { object, content_type: "a/b".to_owned(), ..ResultBytes::default() };
        beside.results.insert((name.job, name.token), result);
    }
    led.store.journal().commit(led.epoch, &changes, &beside).await.unwrap();
}

pub(crate) async fn objects_go_with_their_rows<S: TestStore>() {
    let mut led = Led::<S>::new().await;
    led.insert(&[&job(1), &job(2), &job(3)]).await;
    let all = [name(1, 1, 1), name(1, 2, 2), name(2, 3, 0xab)];
    store(&mut led, &all, Vec::new()).await;
    // One that stands in its row.
    led.commit(&Changes { results_put: vec![put(name(3, 4, 4))], ..Changes::default() }).await;

    let reader = led.store.reader();
    let result = reader.result(id(2)).await.unwrap().unwrap();
    assert_eq!((result.size(), result.object_name(), result.data.len()), (1 << 40, Some(all[2]), 0));
    assert_eq!(result.content_type, "a/b");
    let inline = reader.result(id(3)).await.unwrap().unwrap();
    assert_eq!((inline.object, inline.size()), (None, inline.data.len() as u64));

    // In order, page by page.
    let first = reader.objects(None, 2).await.unwrap();
    let last = first.last().map(|name| (name.job, name.token));
    let second = reader.objects(last, 2).await.unwrap();
    assert_eq!([first, second].concat(), all);
    let of = |jobs: Vec<u64>| async move {
        let jobs: Vec<_> = jobs.into_iter().map(id).collect();
        reader.objects_of(&jobs).await.unwrap().into_iter().collect::<BTreeSet<_>>()
    };
    assert_eq!(of(vec![1, 3]).await, BTreeSet::from([all[0], all[1]]));
    assert_eq!(of(vec![]).await, BTreeSet::new());

    let results_deleted = vec![(id(1), token(2))];
    let jobs = vec![JobChange::Delete(id(2))];
    led.commit(&Changes { results_deleted, jobs, ..Changes::default() }).await;
    assert_eq!(led.store.reader().objects(None, 9).await.unwrap(), [all[0]]);
}

pub(crate) async fn what_is_wanted_is_what_a_row_names_or_may_come_to_name<S: TestStore>() {
    let mut led = Led::<S>::new().await;
    let ended =
        |n| Job { state: JobState::Dead { at: Wall(9) }, token: token(n), dedupe_held: false, ..job(n) };
    led.insert(&[&ended(1), &ended(2)]).await;
    led.insert(&[&job(3)]).await;
    let begun = running(&job(3), token(3));
    let begun = JobChange::Update { previous: FencingToken::NONE, job: Box::new(begun) };
    led.commit(&Changes { jobs: vec![begun], ..Changes::default() }).await;
    store(&mut led, &[name(1, 1, 1)], Vec::new()).await;

    let cases = [
        (name(1, 1, 1), true, "its row names it"),
        (name(1, 1, 2), false, "other bytes, of a job that is final"),
        (name(2, 2, 2), false, "its job ended without it"),
        (name(3, 3, 3), true, "its execution may yet end with it"),
        (name(3, 2, 3), false, "its job was granted again"),
        (name(4, 4, 4), false, "there is no such job"),
    ];
    let asked: Vec<ObjectName> = cases.iter().map(|(name, ..)| *name).collect();
    let wanted = led.store.reader().wanted_objects(&asked).await.unwrap();
    for (name, want, why) in cases {
        assert_eq!(wanted.contains(&name), want, "{why}");
    }
    assert_eq!(led.store.reader().wanted_objects(&[]).await.unwrap(), BTreeSet::new());
}
