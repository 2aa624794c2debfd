//! Keys and certificates of the control plane, made afresh in each run.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, anyhow};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use serde_json::{Value, json};

/// The issuer and audience of tokens of ServiceAccounts.
pub(crate) const ISSUER: &str = "https://kubernetes.default.svc";

/// An authority, what it signed, and the key that signs tokens. All files are PEM.
pub(crate) struct Pki {
    folder: PathBuf,
    issuer: Issuer<'static, KeyPair>,
    /// Signs tokens of ServiceAccounts.
    token_key: KeyPair,
}

impl std::fmt::Debug for Pki {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pki").field("folder", &self.folder).finish_non_exhaustive()
    }
}

impl Pki {
    /// Makes all of it in `folder`; `names` are the names and addresses of the API server.
    pub(crate) fn make(folder: PathBuf, names: &[&str]) -> Result<Self> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(Vec::new())?;
        params.distinguished_name.push(DnType::CommonName, "nodens-e2e");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let authority = params.self_signed(&key)?;
        let token_key = KeyPair::generate()?;
        write(&folder.join("ca.crt"), &authority.pem())?;
        write(&folder.join("sa.key"), &token_key.serialize_pem())?;
        write(&folder.join("sa.pub"), &token_key.public_key_pem())?;
        let pki = Pki { folder, issuer: Issuer::new(params, key), token_key };
        let mut server =
            CertificateParams::new(names.iter().map(ToString::to_string).collect::<Vec<_>>())?;
        server.distinguished_name.push(DnType::CommonName, "kube-apiserver");
        server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        pki.sign("apiserver", server)?;
        Ok(pki)
    }

    /// The path of a file of this name.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Makes a certificate that shows the API server a user, as `USER.crt` and `USER.key`.
    pub(crate) fn client(&self, user: &str, groups: &[&str]) -> Result<()> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.distinguished_name.push(DnType::CommonName, user);
        for group in groups {
            params.distinguished_name.push(DnType::OrganizationName, *group);
        }
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(user, params)
    }

    fn sign(&self, name: &str, mut params: CertificateParams) -> Result<()> {
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        write(&self.folder.join(format!("{name}.crt")), &certificate.pem())?;
        write(&self.folder.join(format!("{name}.key")), &key.serialize_pem())
    }

    /// A token of a ServiceAccount with this UID that ends `seconds` from now; negative for one that has ended.
    pub(crate) fn token(
        &self,
        namespace: &str,
        name: &str,
        uid: &str,
        seconds: i64,
    ) -> Result<String> {
        let now = i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs())?;
        let claims = json!({
            "aud": [ISSUER], "iss": ISSUER, "sub": format!("system:serviceaccount:{namespace}:{name}"),
            "iat": now.min(now + seconds) - 60, "nbf": now.min(now + seconds) - 60, "exp": now + seconds,
            "kubernetes.io": {"namespace": namespace, "serviceaccount": {"name": name, "uid": uid}},
        });
        let encode = |part: &Value| BASE64_URL_SAFE_NO_PAD.encode(part.to_string());
        let text =
            format!("{}.{}", encode(&json!({"alg": "ES256", "typ": "JWT"})), encode(&claims));
        let random = SystemRandom::new();
        let key = self.token_key.serialize_der();
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &key, &random)
            .map_err(|error| anyhow!("key of tokens: {error}"))?;
        let signature = key.sign(&random, text.as_bytes()).map_err(|_| anyhow!("cannot sign"))?;
        Ok(format!("{text}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature)))
    }
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| path.display().to_string())
}
