//! Answers that could be larger than what a client takes: they are paged, or cut short.

use std::collections::BTreeMap;

use prost::Message as _;
use tenure_proto::v1::{self, enqueue_batch_item::Answer};

use crate::{
    node::Node,
    served::{Served, fields, spec},
};

/// What every client of gRPC takes unless it is told otherwise.
const MOST: usize = 4 * 1024 * 1024;

#[tokio::test]
async fn a_batch_of_duplicates_of_a_large_job_is_answered_within_the_limit() {
    let served = Served::start().await;
    let labels: BTreeMap<String, String> = (0..16).map(|n| (format!("label{n}"), "x".repeat(255))).collect();
    let large = v1::JobSpec { dedupe_key: "same".to_owned(), labels, ..spec("plain") };
    let first = served.job(large).await;
    let again = v1::JobSpec { dedupe_key: "same".to_owned(), ..spec("plain") };
    let wrong = v1::JobSpec {
        selector: (0..16).map(|n| (format!("Not A Name {n} {}", "x".repeat(150)), "\0".to_owned())).collect(),
        ..spec("plain")
    };
    let jobs: Vec<_> = (0..1000).map(|n| if n % 2 == 0 { again.clone() } else { wrong.clone() }).collect();
    let request = v1::EnqueueBatchRequest { jobs };
    let answer = served.jobs.clone().enqueue_batch(request).await.unwrap().into_inner();
    assert!(answer.encoded_len() < MOST, "{}", answer.encoded_len());
    assert_eq!(answer.items.len(), 1000);
    let mut cut = 0;
    for (n, item) in answer.items.into_iter().enumerate() {
        match item.answer.unwrap() {
            Answer::Enqueued(enqueued) => {
                let job = enqueued.job.unwrap();
                assert!(enqueued.deduplicated && n % 2 == 0);
                assert_eq!((&job.id, &job.kind, job.state), (&first.id, &first.kind, first.state));
                cut += usize::from(job.labels.is_empty());
            }
            Answer::Refused(status) => assert!(n % 2 == 1 && status.code == 3, "{status:?}"),
        }
    }
    assert!(cut > 0 && cut < 500, "{cut} were cut short");
    served.end().await;
}

#[tokio::test]
async fn nodes_are_listed_in_pages() {
    let served = Served::start().await;
    let kinds: Vec<String> = (0..1000).map(|n| format!("k{n}{}", "x".repeat(58))).collect();
    let kinds: Vec<&str> = kinds.iter().map(String::as_str).collect();
    let mut nodes = Vec::new();
    for n in 10..40 {
        nodes.push(Node::hello(&served.channel, &format!("n{n}"), &[], &kinds).await);
    }
    let list = async |page_size, page_token: &str| {
        let request = v1::ListNodesRequest { page_size, page_token: page_token.to_owned() };
        served.fleet.clone().list_nodes(request).await
    };
    let (mut names, mut token, mut pages) = (Vec::new(), String::new(), 0);
    loop {
        let page = list(0, &token).await.unwrap().into_inner();
        assert!(page.encoded_len() < 1 << 20, "{}", page.encoded_len());
        names.extend(page.nodes.into_iter().map(|node| node.name));
        (token, pages) = (page.next_page_token, pages + 1);
        if token.is_empty() {
            break;
        }
    }
    assert!(pages > 1, "{pages}");
    assert_eq!(names, (10..40).map(|n| format!("n{n}")).collect::<Vec<_>>());
    let two = list(2, "").await.unwrap().into_inner();
    assert_eq!(two.nodes.iter().map(|node| node.name.as_str()).collect::<Vec<_>>(), ["n10", "n11"]);
    assert_eq!(fields(list(-1, "").await), ["page_size"]);
    assert_eq!(fields(list(0, "x").await), ["page_token"]);
    drop(nodes);
    served.end().await;
}

#[tokio::test]
async fn the_largest_fleet_file_is_listed_in_one_answer() {
    let served = Served::start_empty().await;
    let mut fleet = String::from("[slots]\n");
    for n in 0..10_000 {
        fleet += &format!("s{n} = \"node\"\n");
    }
    for n in 0..10_000 {
        let kind = format!("[kinds.k{n}]\nstale_after = \"9d\"\nretry.intervals = [\"1s\",\"2s\"]\n");
        if fleet.len() + kind.len() < 1024 * 1024 {
            fleet += &kind;
        }
    }
    served.apply(&fleet).await.unwrap();
    let in_force = served.fleet.clone().get_fleet(v1::GetFleetRequest {}).await.unwrap().into_inner();
    assert!(in_force.encoded_len() < MOST, "{}", in_force.encoded_len());
    let health = served.health.clone().get_queue_health(v1::GetQueueHealthRequest::default()).await;
    let health = health.unwrap().into_inner();
    assert!(health.encoded_len() < MOST, "{}", health.encoded_len());
    served.end().await;
}
