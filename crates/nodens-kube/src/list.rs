//! Lists in pages, for servers that do not stream them.

use crate::connection::broken;
use crate::fault::Fault;
use crate::limits::{LINE_MAX, LIST_PAUSE};
use crate::watch::Loop;
use bytes::Bytes;
use http_body_util::BodyExt;
use kube::client::Body;

impl Loop {
    /// Takes a whole list, page by page; gives its version.
    pub(crate) async fn list_in_pages(&mut self) -> Result<String, Fault> {
        let kind = self.resource.kind;
        self.known.begin_list(kind);
        let mut token: Option<String> = None;
        loop {
            let request = self.resource.page(self.source(), token.as_deref());
            let body = self.connection.get(&request).await?;
            let text = read(body).await?;
            let page = self.known.page(kind, &text);
            let page = page.map_err(|error| Fault::Strange(format!("no list: {error}")))?;
            for text in &page.unreadable {
                self.unreadable(text);
            }
            if page.next.is_none() {
                return Ok(page.version);
            }
            token = page.next;
        }
    }
}

/// The whole body of a page.
async fn read(mut body: Body) -> Result<Bytes, Fault> {
    let mut text = Vec::new();
    loop {
        let frame = tokio::time::timeout(LIST_PAUSE, body.frame()).await;
        let frame = frame.map_err(|_| Fault::Unreachable("a list that pauses".to_owned()))?;
        let Some(frame) = frame else { return Ok(text.into()) };
        let frame = frame.map_err(|error| broken(&error))?;
        text.extend_from_slice(frame.data_ref().map_or(&[], |data| &data[..]));
        if text.len() > LINE_MAX {
            return Err(Fault::Strange(format!("a page of more than {LINE_MAX} octets")));
        }
    }
}
