//! One certificate, from the order to the chain (RFC 8555 section 7.4).

use crate::limits::{ORDER_PAUSE, ORDER_TIMEOUT};
use instant_acme::{
    Account, AuthorizationStatus, ChallengeType, Error, Identifier, NewOrder, Order, OrderStatus,
    RetryPolicy,
};
use nodens_core::challenges::{Challenges, Presented};
use nodens_wire::Name;
use std::sync::Arc;

/// A certificate with the chain to its authority, and its key, both in PEM format.
pub(crate) struct Issued {
    pub(crate) chain: String,
    pub(crate) key: String,
}

/// Orders a certificate for `domain`; answers the challenges while it waits.
pub(crate) async fn obtain(
    account: &Account,
    domain: &str,
    challenges: &Arc<Challenges>,
) -> Result<Issued, Error> {
    let identifiers = [Identifier::Dns(domain.to_owned())];
    let mut order = account.new_order(&NewOrder::new(&identifiers)).await?;
    let looks = RetryPolicy::new().initial_delay(ORDER_PAUSE).timeout(ORDER_TIMEOUT);
    let presented = present(&mut order, challenges).await?;
    let status = order.poll_ready(&looks).await?;
    if status != OrderStatus::Ready && status != OrderStatus::Valid {
        return Err(Error::Other(refusal(&mut order).await.into()));
    }
    drop(presented);
    let key = order.finalize().await?;
    let chain = order.poll_certificate(&looks).await?;
    Ok(Issued { chain, key })
}

/// Answers all challenges of `order` and says so to the server.
async fn present(order: &mut Order, challenges: &Arc<Challenges>) -> Result<Vec<Presented>, Error> {
    let mut presented = Vec::new();
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        let mut authorization = authorization?;
        match authorization.status {
            AuthorizationStatus::Pending => {}
            // Shown for an earlier order.
            AuthorizationStatus::Valid => continue,
            status => return Err(Error::Other(format!("authorization is {status:?}").into())),
        }
        let Some(mut challenge) = authorization.challenge(ChallengeType::Dns01) else {
            return Err(Error::Other("the ACME server has no challenge over DNS".into()));
        };
        let Identifier::Dns(domain) = challenge.identifier().identifier else {
            return Err(Error::Other("the ACME server asks for something else than a name".into()));
        };
        let name = Name::parse(&format!("_acme-challenge.{domain}"));
        let name = name.map_err(|error| Error::Other(error.to_string().into()))?;
        presented.push(challenges.present(&name, &challenge.key_authorization().dns_value()));
        challenge.set_ready().await?;
    }
    Ok(presented)
}

/// Why the server does not issue the certificate.
async fn refusal(order: &mut Order) -> String {
    let mut said = Vec::new();
    said.extend(order.state().error.as_ref().map(ToString::to_string));
    let mut authorizations = order.authorizations();
    while let Some(Ok(mut authorization)) = authorizations.next().await {
        // What is known is from before the challenge.
        let Ok(state) = authorization.refresh().await else { break };
        let errors = state.challenges.iter().filter_map(|challenge| challenge.error.as_ref());
        said.extend(errors.map(ToString::to_string));
    }
    if said.is_empty() { "the ACME server refused the order".to_owned() } else { said.join(", ") }
}
