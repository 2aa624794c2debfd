//! What reaches the cluster's server grows with the number of nodes and not with that of pods.

#[path = "../examples/search-paths/simulation.rs"]
mod simulation;

use simulation::{Load, Node, Scenario, run};

fn of(node: Node, nodes: usize, pods: usize) -> Load {
    run(Scenario { node, nodes, pods, seconds: 20 })
}

#[test]
fn the_cluster_sees_nodes_and_not_pods() {
    let few = of(Node::Names, 2, 10);
    let pods = of(Node::Names, 2, 100);
    let nodes = of(Node::Names, 8, 10);
    assert!(pods.asked > 9 * few.asked, "{pods:?} {few:?}");
    // Ten times the pods look the same names up, each of which is asked for once in half a minute.
    assert!(pods.denied < 8 * few.denied, "{pods:?} {few:?}");
    assert!(pods.questions < 8 * few.questions, "{pods:?} {few:?}");
    let ratio = nodes.questions as f64 / few.questions as f64;
    assert!((3.5..4.5).contains(&ratio), "{nodes:?} {few:?}");
}

#[test]
fn little_of_search_paths_is_left() {
    let [nothing, cache, learning, names] =
        [Node::Nothing, Node::Cache, Node::Learning, Node::Names].map(|node| of(node, 1, 100));
    assert!(nothing.asked == nothing.questions, "{nothing:?}");
    assert!(cache.denied * 4 < nothing.denied * 3, "{cache:?} {nothing:?}");
    assert!(learning.denied * 4 < 3 * cache.denied, "{learning:?} {cache:?}");
    assert!(names.denied * 6 < nothing.denied, "{names:?} {nothing:?}");
    assert!(names.denied * 3 < cache.denied, "{names:?} {cache:?}");
}
