use crate::log::Record;
use crate::testing::Bench;

fn lines(bench: &Bench) -> Vec<String> {
    let records = bench.log.try_iter();
    records
        .filter_map(|record| match record {
            Record::Query(query) => Some(query.line()),
            _ => None,
        })
        .collect()
}

#[test]
fn without_the_directive_there_are_no_values() {
    let text = ". {\n log . \"{/view/name}\"\n view inner {\n expr true\n }\n whoami\n}";
    let mut bench = Bench::new(text);
    bench.ask("a.example.org. A");
    assert_eq!(lines(&bench), ["-"]);
}

#[test]
fn malformed_uses_are_refused() {
    let cases = [
        ("metadata\n metadata", "3:2: this plugin can only be used once per Server Block"),
        ("metadata {\n all\n }", "3:2: unknown property 'all'"),
        ("metadata a..b", "2:11: "),
    ];
    for (line, wanted) in cases {
        let error = Bench::try_new(&format!(". {{\n {line}\n}}")).unwrap_err().to_string();
        assert!(error.contains(wanted), "{line}: {error}");
    }
}

#[test]
fn labels_have_values_only_in_the_zones_named() {
    let text = ". {\n metadata example.org\n log . \"{name} {/view/name}\"\n \
                view inner {\n expr true\n }\n whoami\n}";
    let mut bench = Bench::new(text);
    bench.ask("a.example.org. A");
    bench.ask("a.example.net. A");
    assert_eq!(lines(&bench), ["a.example.org. inner", "a.example.net. -"]);
}

#[test]
fn the_upstream_that_answered_is_known() {
    let text = ". {\n metadata\n log . \"{/forward/upstream}\"\n forward . 192.0.2.8:5353\n}";
    let mut bench = Bench::new(text);
    bench.upstream(|_, question| {
        let mut reply = Vec::new();
        let flags = question.flags.reply();
        let asked = &question.questions[0];
        nodens_wire::Builder::new(&mut reply, 0, flags).question(
            asked.qname.view(),
            asked.qtype,
            asked.qclass,
        );
        crate::testing::Reaction::Reply(reply)
    });
    bench.ask("a.example.org. A");
    assert_eq!(lines(&bench), ["192.0.2.8:5353"]);
}

const CLUSTER: &str = "
namespace shop
service shop/web 10.0.0.1 http:tcp:80
headless shop/db :tcp:3306
pod shop/web-1 192.0.2.53 app=web example.org/tier=front
pod shop/node-a 192.0.2.54 app=node
pod shop/node-b 192.0.2.54 app=node
";

/// The values of labels in the log, for one question of each name.
fn logged(labels: &[&str], options: &str, names: &[&str]) -> Vec<String> {
    let format: Vec<_> = labels.iter().map(|label| format!("{{/kubernetes/{label}}}")).collect();
    let format = format.join(" ");
    let corefile = format!(
        ". {{
            metadata
            log . \"{format}\"
            kubernetes cluster.local clusterset.local in-addr.arpa {{
                {options}
            }}
            whoami
        }}"
    );
    let mut bench = Bench::new(&corefile);
    bench.publish(CLUSTER, 1);
    for name in names {
        bench.ask(&format!("{name} A"));
    }
    lines(&bench)
}

#[test]
fn the_parts_of_a_name_in_the_cluster_are_known() {
    let labels = ["kind", "namespace", "service", "endpoint", "port-name", "protocol"];
    let names = [
        "Web.Shop.svc.cluster.local.",
        "_http._tcp.web.shop.svc.cluster.local.",
        "a\\.b\\010.db.shop.svc.cluster.local.",
        "1-2-3-4.shop.pod.cluster.local.",
        "shop.svc.cluster.local.",
        "svc.cluster.local.",
        "www.example.org.",
        "web.shop.nothing.cluster.local.",
    ];
    let wanted = [
        "svc shop web   ",
        "svc shop web  http tcp",
        "svc shop db a\\.b\\010  ",
        "pod shop 1-2-3-4   ",
        "svc shop    ",
        "     ",
        "- - - - - -",
        "- - - - - -",
    ];
    assert_eq!(logged(&labels, "", &names), wanted);
    let names = ["web.shop.nothing.cluster.local.", "web.shop.svc.cluster.local."];
    assert_eq!(logged(&["parse-error"], "", &names), ["invalid query name", "-"]);
}

#[test]
fn clusters_and_zones_are_known_where_names_have_them() {
    let labels = ["cluster", "endpoint", "zone"];
    let names =
        ["a.east.web.shop.svc.clusterset.local.", "a.pin._zone.web.shop.svc.cluster.local."];
    let options = "multicluster clusterset.local\n zonal";
    assert_eq!(logged(&labels, options, &names), ["east a ", "-  a"]);
    let names = ["web.shop.svc.cluster.local."];
    assert_eq!(logged(&labels, "", &names), ["-  -"]);
}

#[test]
fn the_pod_that_asks_is_known_if_there_is_one() {
    let text = ". {
        metadata
        log . \"{/kubernetes/client-namespace} {/kubernetes/client-pod-name} \
                {/kubernetes/client-label/app} {/kubernetes/client-label/example.org/tier}\"
        kubernetes cluster.local {
            pods verified
        }
        whoami
    }";
    let mut bench = Bench::new(text);
    bench.publish(CLUSTER, 1);
    for client in [[192, 0, 2, 53], [192, 0, 2, 54], [192, 0, 2, 55]] {
        bench.client.peer.set_ip(client.into());
        bench.ask("www.example.org. A");
    }
    // What two pods at one address do not have in common is not known.
    assert_eq!(lines(&bench), ["shop web-1 web front", "shop - node -", "- - - -"]);
}

#[test]
fn a_view_can_be_for_the_pods_of_a_namespace() {
    let text = "cluster.local {
        metadata
        view shop {
            expr metadata('kubernetes/client-namespace') == 'shop'
        }
        acl {
            block
        }
        kubernetes {
            pods verified
        }
    }
    cluster.local {
        metadata
        kubernetes
    }";
    let mut bench = Bench::new(text);
    bench.publish(CLUSTER, 1);
    let name = "web.shop.svc.cluster.local. A";
    assert_eq!(bench.ask(name).flags.rcode().to_string(), "REFUSED");
    bench.client.peer.set_ip([192, 0, 2, 1].into());
    assert_eq!(bench.ask(name).flags.rcode().to_string(), "NOERROR");
}
