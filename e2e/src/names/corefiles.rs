//! The Corefiles that both servers are started with.

/// A Corefile and what its queries are about.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    /// The options of `kubernetes`, a line each.
    kubernetes: &'static str,
    /// The zones of `kubernetes`.
    zones: &'static [&'static str],
    /// Other directives.
    others: &'static str,
    /// Zones to ask about, besides reverse ones.
    pub(crate) asked: &'static [&'static str],
    /// No answer depends on slices.
    pub(crate) no_endpoints: bool,
    /// The zone is compared as a whole, too.
    pub(crate) transferred: bool,
    /// Answers may be as old as `cache` lets them be.
    pub(crate) cached: bool,
}

const REVERSE: &[&str] = &["cluster.local", "in-addr.arpa", "ip6.arpa"];

const PLAIN: Case = Case {
    name: "plain",
    kubernetes: "",
    zones: REVERSE,
    others: "",
    asked: &["cluster.local"],
    no_endpoints: false,
    transferred: false,
    cached: false,
};

const TRANSFER: &str = "transfer {\n    to *\n}";

/// Every case.
pub(crate) const CASES: &[Case] = &[
    Case { others: TRANSFER, transferred: true, ..PLAIN },
    Case {
        name: "kubeadm",
        kubernetes: "pods insecure\nfallthrough in-addr.arpa ip6.arpa\nttl 30",
        others: "loadbalance",
        ..PLAIN
    },
    Case {
        name: "verified",
        kubernetes: "pods verified\nendpoint_pod_names",
        others: TRANSFER,
        transferred: true,
        ..PLAIN
    },
    Case { name: "zonal", kubernetes: "zonal\nttl 0", ..PLAIN },
    Case {
        name: "multicluster",
        zones: &["cluster.local", "clusterset.local", "in-addr.arpa", "ip6.arpa"],
        kubernetes: "multicluster clusterset.local\nendpoint_pod_names",
        asked: &["clusterset.local", "clusterset.local", "cluster.local"],
        ..PLAIN
    },
    Case {
        name: "multicluster-ignore-empty",
        zones: &["clusterset.local", "cluster.local"],
        kubernetes: "multicluster clusterset.local\nignore empty_service",
        asked: &["clusterset.local"],
        ..PLAIN
    },
    Case {
        name: "ignore-empty",
        kubernetes: "ignore empty_service\nfallthrough",
        others: "metadata",
        ..PLAIN
    },
    Case {
        name: "noendpoints",
        kubernetes: "noendpoints",
        others: TRANSFER,
        no_endpoints: true,
        transferred: true,
        ..PLAIN
    },
    Case {
        name: "namespaces",
        kubernetes: "namespaces settle NAMESPACES\npods verified",
        others: TRANSFER,
        transferred: true,
        ..PLAIN
    },
    Case {
        name: "namespace-labels",
        kubernetes: "namespace_labels team in (red, blue)\npods insecure",
        ..PLAIN
    },
    Case { name: "labels", kubernetes: "labels tier notin (back)\npods verified", ..PLAIN },
    Case {
        name: "external",
        others: "k8s_external example.com in-addr.arpa {\nheadless\n}",
        asked: &["example.com", "example.com", "cluster.local"],
        ..PLAIN
    },
    Case {
        name: "external-apex",
        zones: &["cluster.local"],
        others: "k8s_external example.com {\napex sub\nttl 60\nfallthrough\n}",
        asked: &["example.com", "example.com", "cluster.local"],
        ..PLAIN
    },
    Case {
        name: "cache",
        kubernetes: "pods insecure\nfallthrough in-addr.arpa ip6.arpa",
        others: "cache 30",
        cached: true,
        ..PLAIN
    },
    Case {
        name: "zones",
        zones: &["cluster.local", "Other.Example", "10.in-addr.arpa"],
        kubernetes: "fallthrough other.example\nstartup_timeout 60s",
        asked: &["cluster.local", "other.example"],
        ..PLAIN
    },
];

impl Case {
    /// Names of pods are answered from the known pods.
    pub(crate) fn is_verified(&self) -> bool {
        self.kubernetes.contains("pods verified")
    }

    /// The namespace `default` and what is in it can be seen.
    pub(crate) fn shows_default(&self) -> bool {
        !self.kubernetes.contains("namespace")
            && !self.kubernetes.contains("empty_service")
            && self.asked.contains(&"cluster.local")
    }

    /// The text, the same for both servers; `namespaces` are those that `namespaces` lists.
    pub(crate) fn text(&self, namespaces: &[String]) -> String {
        let indented = |lines: &str, by: usize| -> String {
            lines.lines().map(|line| format!("{}{line}\n", " ".repeat(by))).collect()
        };
        let options = self.kubernetes.replace("NAMESPACES", &namespaces.join(" "));
        format!(
            ".:{{$PORT}} {{\n    errors\n    ready 127.0.0.1:{{$READY}}\n    kubernetes {} {{\n        \
             kubeconfig {{$KUBECONFIG}}\n{}    }}\n{}    forward . {{$UPSTREAM}}\n}}\n",
            self.zones.join(" "),
            indented(&options, 8),
            indented(self.others, 4),
        )
    }
}

/// The upstream: NXDOMAIN for names that begin with `no`, SERVFAIL for those that begin with `fail`, else addresses.
pub(crate) const UPSTREAM: &str = "\
.:{$PORT} {
    template ANY ANY {
        match ^no
        rcode NXDOMAIN
        authority \". 60 IN SOA ns.upstream. hostmaster.upstream. 1 7200 1800 86400 60\"
        fallthrough
    }
    template ANY ANY {
        match ^fail
        rcode SERVFAIL
        fallthrough
    }
    template IN A {
        answer \"{{ .Name }} 60 IN A 192.0.2.53\"
    }
    template IN AAAA {
        answer \"{{ .Name }} 60 IN AAAA 2001:db8::53\"
    }
    template ANY ANY {
        rcode NOERROR
        authority \". 60 IN SOA ns.upstream. hostmaster.upstream. 1 7200 1800 86400 60\"
    }
}
";
