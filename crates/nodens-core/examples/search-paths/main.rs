//! Prints what reaches the cluster's server from clusters of several sizes, with nothing on the
//! nodes, with a cache, and with `search` in front of it.
//!
//! ```text
//! cargo run --release -p nodens-core --example search-paths
//! ```

#![allow(clippy::print_stdout)]

mod simulation;

use simulation::{Load, Node, Scenario, run};

const SECONDS: u64 = 300;
/// Nodes and pods on each.
const SIZES: [(usize, usize); 5] = [(1, 50), (5, 10), (5, 50), (5, 100), (20, 10)];

fn main() {
    println!(
        "Questions a second at the cluster's servers, and of them for names that do not exist"
    );
    println!(
        "\n| nodes | pods on each | pods | no cache | cache | `search`, learning | `search`, names |"
    );
    println!("|---|---|---|---|---|---|---|");
    for (nodes, pods) in SIZES {
        let loads = [Node::Nothing, Node::Cache, Node::Learning, Node::Names].map(|node| {
            let Load { questions, denied, .. } =
                run(Scenario { node, nodes, pods, seconds: SECONDS });
            let rate = |count: u64| count as f64 / SECONDS as f64;
            format!("{:.1} ({:.2})", rate(questions), rate(denied))
        });
        println!("| {nodes} | {pods} | {} | {} |", nodes * pods, loads.join(" | "));
    }
}
