//! Lists in pages, for servers that do not stream them.

use crate::connection::broken;
use crate::events::Page;
use crate::fault::Fault;
use crate::items::Items;
use crate::limits::LIST_PAUSE;
use crate::watch::Loop;
use http_body_util::BodyExt;
use kube::client::Body;

impl Loop {
    /// Takes a whole list, page by page; gives its version.
    pub(crate) async fn list_in_pages(&mut self) -> Result<String, Fault> {
        self.known.begin_list(self.resource.kind);
        let mut token: Option<String> = None;
        loop {
            let request = self.resource.page(self.source(), token.as_deref(), self.has_listed());
            let body = self.get(&request, true).await?;
            let page = self.page(body).await?;
            if page.next.is_none() {
                return Ok(page.version);
            }
            token = page.next;
        }
    }

    /// Applies a page, object by object as they arrive.
    async fn page(&mut self, mut body: Body) -> Result<Page, Fault> {
        let kind = self.resource.kind;
        let mut items = Items::default();
        loop {
            let frame = tokio::time::timeout(LIST_PAUSE, body.frame()).await;
            let frame = frame.map_err(|_| Fault::Unreachable("a list that pauses".to_owned()))?;
            let Some(frame) = frame else { break };
            let frame = frame.map_err(|error| broken(&error))?;
            let Some(data) = frame.data_ref() else { continue };
            let mut unreadable = Vec::new();
            let fed = items.feed(data, |item| unreadable.extend(self.known.item(kind, item).err()));
            fed.map_err(|_| Fault::Strange("a list that is mostly something else".to_owned()))?;
            unreadable.iter().for_each(|text| self.unreadable(text));
            // Many frames may be there at once; others want to work too.
            tokio::task::consume_budget().await;
        }
        let (around, too_large) = items.finish();
        for _ in 0..too_large {
            self.unreadable("an object that is too large");
        }
        Page::read(&around).map_err(|error| Fault::Strange(format!("no list: {error}")))
    }
}
