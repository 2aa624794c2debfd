//! `nodelocaldns.yaml`, the manifest of Kubernetes' own node cache, from the Go module of Kubernetes.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// The module, at the version of the control plane.
const MODULE: &str = "k8s.io/kubernetes@v1.36.3";
const FILE: &str = "cluster/addons/dns/nodelocaldns/nodelocaldns.yaml";

/// The address that node caches have besides that of the cluster's DNS.
pub(crate) const LOCAL_DNS: &str = "169.254.20.10";

/// The manifest after what its instructions say for kube-proxy in iptables mode, which nftables mode shares: three
/// substitutions, and nothing else.
pub(crate) fn manifest(cluster_dns: &str) -> Result<String> {
    let text = std::fs::read_to_string(path()?)?;
    Ok(text
        .replace("__PILLAR__LOCAL__DNS__", LOCAL_DNS)
        .replace("__PILLAR__DNS__DOMAIN__", "cluster.local")
        .replace("__PILLAR__DNS__SERVER__", cluster_dns))
}

/// The Corefile of the manifest's ConfigMap, with what only the program in the pod substitutes.
pub(crate) fn corefile(manifest: &str) -> Result<String> {
    let (_, rest) = manifest.split_once("\n  Corefile: |\n").context("no Corefile")?;
    let lines = rest.lines().take_while(|line| line.is_empty() || line.starts_with("    "));
    Ok(lines.flat_map(|line| [line.get(4..).unwrap_or_default(), "\n"]).collect())
}

fn path() -> Result<PathBuf> {
    let cache = go(&["env", "GOMODCACHE"])?;
    let path = Path::new(cache.trim()).join(MODULE).join(FILE);
    if !path.is_file() {
        go(&["mod", "download", MODULE])?;
    }
    Ok(path)
}

fn go(arguments: &[&str]) -> Result<String> {
    let output = Command::new("go").args(arguments).output().context("needs Go")?;
    if !output.status.success() {
        bail!("go {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_corefile_ends_with_its_indentation() {
        let text = "data:\n  Corefile: |\n    .:53 {\n        errors\n    }\n---\nkind: B\n";
        assert_eq!(super::corefile(text).unwrap(), ".:53 {\n    errors\n}\n");
        assert!(super::corefile("data: {}\n").is_err());
    }
}
