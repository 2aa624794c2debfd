use super::*;
use serde_json::Value;
use std::time::Duration;

/// Chain and bundle of a case of the fixtures.
fn bundle(name: &str) -> String {
    let text = include_str!("../../tests/fixtures/certificates/cases.json");
    let cases: Vec<Value> = serde_json::from_str(text).unwrap();
    let case = cases.iter().find(|case| case["name"] == name).unwrap();
    case["bundle"].as_str().unwrap().to_owned()
}

fn given(access: &Access) -> usize {
    match &access.trust {
        Trust::Given(found, _) => found.len(),
        other => panic!("{other:?}"),
    }
}

fn kubeconfig(cluster: &str, user: &str) -> (tempfile::TempDir, Result<Access, ConfigError>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config");
    std::fs::write(folder.path().join("ca.crt"), bundle("bundle-with-junk")).unwrap();
    std::fs::write(folder.path().join("token"), " \tabc\r\n\n").unwrap();
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
         contexts: [{{name: c, context: {{cluster: k, user: u}}}}]\n\
         clusters: [{{name: k, cluster: {{server: 'https://10.96.0.1:6443', {cluster}}}}}]\n\
         users: [{{name: u, user: {{{user}}}}}]\n"
    );
    std::fs::write(&path, text).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let access = runtime.block_on(Access::read(&Api::Kubeconfig { path, context: None }));
    (folder, access)
}

#[test]
fn a_token_file_may_have_space_around_the_token_and_is_read_anew() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    for text in ["abc", "abc\n", "abc\r\n", " abc \n\n", "\tabc"] {
        std::fs::write(&path, text).unwrap();
        assert_eq!(TokenFile::new(path.clone()).unwrap().header(), "Bearer abc", "{text:?}");
    }
    let token = TokenFile::new(path.clone()).unwrap();
    std::fs::write(&path, "def\n").unwrap();
    let later = Instant::now() + TOKEN_FRESH + Duration::from_secs(1);
    assert_eq!(token.header(), "Bearer abc");
    assert_eq!(token.header_at(later), "Bearer def");
    // What the kubelet is about to replace is not there, or empty, for a moment.
    std::fs::write(&path, "\n").unwrap();
    assert_eq!(token.header_at(later + TOKEN_FRESH), "Bearer def");
    std::fs::remove_file(&path).unwrap();
    assert_eq!(token.header_at(later + 2 * TOKEN_FRESH), "Bearer def");
    std::fs::write(&path, "ghi").unwrap();
    assert_eq!(token.header_at(later + 3 * TOKEN_FRESH), "Bearer ghi");
}

#[test]
fn a_token_file_without_a_token_is_an_error_that_names_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    let error = || TokenFile::new(path.clone()).unwrap_err().to_string();
    assert!(error().contains("No such file"), "{}", error());
    for (text, words) in [("\n", "found nothing"), ("a\nb", "without control characters")] {
        std::fs::write(&path, text).unwrap();
        assert!(error().contains(words) && error().contains("/token"), "{}", error());
    }
}

#[test]
fn an_account_of_a_pod_needs_a_token_and_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let in_cluster = |host: &str| Access::in_cluster(host, "443", folder.path());
    assert!(in_cluster("10.96.0.1").is_err());
    std::fs::write(folder.path().join("token"), "abc\n").unwrap();
    let access = in_cluster("fd00::1").unwrap();
    assert_eq!(access.config.cluster_url.host(), Some("[fd00::1]"));
    assert!(matches!(access.trust, Trust::System));
    std::fs::write(folder.path().join("ca.crt"), bundle("bundle-with-junk")).unwrap();
    let access = in_cluster("10.96.0.1").unwrap();
    assert_eq!(
        (given(&access), access.token.unwrap().header()),
        (1, "Bearer abc".parse().unwrap())
    );
}

#[test]
fn a_kubeconfig_says_what_it_says_to_client_go() {
    let (_folder, access) = kubeconfig("certificate-authority: ca.crt", "tokenFile: token");
    let access = access.unwrap();
    assert_eq!(
        (given(&access), access.token.unwrap().header()),
        (1, "Bearer abc".parse().unwrap())
    );

    let data = STANDARD.encode(bundle("bundle-with-junk"));
    let cluster = format!("certificate-authority-data: {data}, tls-server-name: kubernetes");
    let (_folder, access) = kubeconfig(&cluster, "token: inline, tokenFile: nowhere");
    let access = access.unwrap();
    assert_eq!(given(&access), 1);
    assert_eq!(access.config.tls_server_name.as_deref(), Some("kubernetes"));
    // The file is not there, so that `kube` sends what is written.
    assert!(access.token.is_none() && access.config.auth_info.token.is_some());

    let (_folder, access) = kubeconfig("insecure-skip-tls-verify: true", "");
    assert!(matches!(access.unwrap().trust, Trust::Skipped));
    let (_folder, access) = kubeconfig("certificate-authority-data: ''", "");
    assert!(matches!(access.unwrap().trust, Trust::System));
    let junk = STANDARD.encode(bundle("bundle-of-junk"));
    let (_folder, access) = kubeconfig(&format!("certificate-authority-data: {junk}"), "");
    assert!(access.is_err());
}
