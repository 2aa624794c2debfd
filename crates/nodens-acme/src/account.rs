//! The account at the ACME server.

use crate::client::Requests;
use instant_acme::{Account, AccountCredentials, Error, NewAccount};
use nodens_core::log::{Level, Sink};
use nodens_tls::Managed;

/// The ACME server does not know an account that was kept (RFC 8555 section 6.7).
const UNKNOWN: &str = "urn:ietf:params:acme:error:accountDoesNotExist";

/// The account that the storage has, or a new one, which it has from then on. `anew` makes a new one in any case.
pub(crate) async fn account(managed: &Managed, sink: &Sink, anew: bool) -> Result<Account, Error> {
    let (options, storage) = (managed.options(), managed.storage());
    let at = storage.account_file().display();
    let broken = |error: &dyn std::fmt::Display| {
        let text = format!("ACME account {at} failed to load, a new one is made: {error}");
        sink.line(Level::Warning, "tls", text);
    };
    let kept = storage.account().unwrap_or_else(|error| {
        broken(&error);
        None
    });
    if let Some(octets) = kept.filter(|_| !anew) {
        match serde_json::from_slice::<AccountCredentials>(&octets) {
            Ok(kept) => {
                let builder = Account::builder_with_http(Box::new(Requests::new(options)?));
                match builder.from_credentials(kept).await {
                    Err(error @ (Error::KeyRejected | Error::Crypto)) => broken(&error),
                    account => return account,
                }
            }
            Err(error) => broken(&error),
        }
    }
    let contact = options.email.as_ref().map(|email| format!("mailto:{email}"));
    let contact: Vec<_> = contact.iter().map(String::as_str).collect();
    let new = NewAccount {
        contact: &contact,
        terms_of_service_agreed: true,
        only_return_existing: false,
    };
    let builder = Account::builder_with_http(Box::new(Requests::new(options)?));
    let (account, made) = builder.create(&new, options.ca.clone(), None).await?;
    let octets = serde_json::to_vec(&made)?;
    if let Err(error) = storage.save_account(&octets) {
        let text = format!("ACME account {at} failed to be kept: {error}");
        sink.line(Level::Error, "tls", text);
    }
    Ok(account)
}

/// Whether the account is one that the ACME server has forgotten.
pub(crate) fn is_unknown(error: &Error) -> bool {
    matches!(error, Error::Api(problem) if problem.r#type.as_deref() == Some(UNKNOWN))
}
