//! Lists in pages, for servers that do not stream them.

use crate::connection::{Answer, broken};
use crate::events::Page;
use crate::fault::Fault;
use crate::form::Form;
use crate::items::Items;
use crate::limits::LIST_PAUSE;
use crate::messages::Messages;
use crate::watch::Loop;
use http_body_util::BodyExt;
use nodens_core::log::Level;

impl Loop {
    /// Takes a whole list, page by page; gives its version.
    pub(crate) async fn list_in_pages(&mut self) -> Result<String, Fault> {
        self.known.begin_list(self.resource.kind);
        let mut token: Option<String> = None;
        loop {
            let request = self.resource.page(self.source(), token.as_deref(), self.has_listed());
            let page = match self.next_page(&request).await {
                // The version of the first page is gone already, and may be so each time.
                Err(Fault::Gone(_)) if token.is_some() => return self.list_at_once().await,
                page => page?,
            };
            if page.next.is_none() {
                return Ok(page.version);
            }
            token = page.next;
        }
    }

    /// Takes a whole list in one response, as client-go does where pages do not work; gives its version.
    async fn list_at_once(&mut self) -> Result<String, Fault> {
        self.known.begin_list(self.resource.kind);
        let request = self.resource.whole(self.source());
        match self.next_page(&request).await {
            Ok(page) if page.next.is_none() => Ok(page.version),
            Ok(_) => Err(Fault::Strange("pages that expire, and no list without pages".to_owned())),
            // Not one of those that nobody is told of.
            Err(Fault::Gone(text)) => Err(Fault::Strange(text)),
            Err(fault) => Err(fault),
        }
    }

    async fn next_page(&mut self, request: &str) -> Result<Page, Fault> {
        let answer = self.get(request, true).await?;
        self.page(answer, true).await
    }

    /// Whether the server has come to the version that we have. One that was restored from a backup may not: it would
    /// say nothing of what it has, as all of that is older for it than what was asked for.
    pub(crate) async fn has_gone_back(&mut self, version: &str) -> Result<bool, Fault> {
        let request = self.resource.newest(self.source());
        let answer = self.get(&request, true).await?;
        let newest = self.page(answer, false).await?.version;
        let is_older = is_older(&newest, version);
        if is_older {
            let (host, title) = (self.connection.host(), self.resource.title);
            let text = format!(
                "Kubernetes API at {host}: {title} have gone back from version {version} to {newest}, listing them anew"
            );
            self.sink.line(Level::Warning, "kubernetes", text);
        }
        Ok(is_older)
    }

    /// Applies a page, if it is to be applied, object by object as they arrive.
    async fn page(
        &mut self,
        Answer { form, mut body }: Answer,
        applies: bool,
    ) -> Result<Page, Fault> {
        let kind = self.resource.kind;
        let mut items = Pieces::of(form);
        loop {
            let frame = tokio::time::timeout(LIST_PAUSE, body.frame()).await;
            let frame = frame.map_err(|_| Fault::Unreachable("a list that pauses".to_owned()))?;
            let Some(frame) = frame else { break };
            let frame = frame.map_err(|error| broken(&error))?;
            let Some(data) = frame.data_ref() else { continue };
            let mut unreadable = Vec::new();
            let take = |item: &[u8]| {
                let applied = applies.then(|| self.known.item(kind, form, item));
                unreadable.extend(applied.and_then(Result::err));
            };
            items.feed(data, take)?;
            unreadable.iter().for_each(|text| self.unreadable(text));
            // Many frames may be there at once; others want to work too.
            tokio::task::consume_budget().await;
        }
        let (page, too_large) = items.finish();
        for _ in 0..too_large {
            self.unreadable("an object that is too large");
        }
        page
    }
}

/// Whether a version is older than another one of the same kind. They are numbers in all API servers; of anything else
/// nobody knows.
fn is_older(one: &str, other: &str) -> bool {
    let number = |version: &str| version.parse::<u64>().ok();
    number(one).zip(number(other)).is_some_and(|(one, other)| one < other)
}

/// Cuts a list into objects, in the way of its form.
pub(crate) enum Pieces {
    Json(Items),
    Protobuf(Messages),
}

impl Pieces {
    pub(crate) fn of(form: Form) -> Self {
        match form {
            Form::Json => Self::Json(Items::default()),
            Form::Protobuf => Self::Protobuf(Messages::default()),
        }
    }

    /// Calls `with` for each object that ends in `piece`.
    ///
    /// # Errors
    /// If it is no list.
    pub(crate) fn feed(&mut self, piece: &[u8], with: impl FnMut(&[u8])) -> Result<(), Fault> {
        match self {
            Self::Json(items) => items
                .feed(piece, with)
                .map_err(|_| Fault::Strange("a list that is mostly something else".to_owned())),
            Self::Protobuf(messages) => messages.feed(piece, with).map_err(no_list),
        }
    }

    /// What the list says of itself, and how many objects were too large.
    pub(crate) fn finish(self) -> (Result<Page, Fault>, u64) {
        match self {
            Self::Json(items) => {
                let (around, too_large) = items.finish();
                (Page::read(&around).map_err(no_list), too_large)
            }
            Self::Protobuf(messages) => {
                let too_large = messages.too_large();
                (messages.finish().map_err(no_list), too_large)
            }
        }
    }
}

fn no_list(error: impl std::fmt::Display) -> Fault {
    Fault::Strange(format!("no list: {error}"))
}
