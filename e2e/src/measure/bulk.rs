//! Requests to the API server, and very many writes, as fast as they are taken or at a rate.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use kube::Client;
use serde_json::Value;
use tokio::task::JoinSet;

/// Writes at once.
const AT_ONCE: usize = 64;

/// What is to be done to an object.
#[derive(Debug, Clone)]
pub(crate) struct Write {
    pub(crate) method: http::Method,
    pub(crate) path: String,
    pub(crate) body: Value,
}

impl Write {
    pub(crate) fn create(path: impl Into<String>, body: Value) -> Self {
        Write { method: http::Method::POST, path: path.into(), body }
    }

    pub(crate) fn replace(path: impl Into<String>, body: Value) -> Self {
        Write { method: http::Method::PUT, path: path.into(), body }
    }

    pub(crate) fn delete(path: impl Into<String>) -> Self {
        Write { method: http::Method::DELETE, path: path.into(), body: serde_json::json!({}) }
    }

    /// Does it and gives the object that the API server answered with.
    pub(crate) async fn send(&self, client: &Client) -> Result<Value> {
        let request = http::Request::builder()
            .method(self.method.clone())
            .uri(&self.path)
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(serde_json::to_vec(&self.body)?)?;
        client.request(request).await.with_context(|| format!("{} {}", self.method, self.path))
    }
}

/// Does all of `writes`; the first that fails ends it.
pub(crate) async fn all<F>(writes: impl IntoIterator<Item = F>) -> Result<()>
where
    F: Future<Output = Result<()>> + Send + 'static,
{
    let mut writes = writes.into_iter();
    let mut running = JoinSet::new();
    loop {
        while running.len() < AT_ONCE {
            let Some(write) = writes.next() else { break };
            running.spawn(write);
        }
        match running.join_next().await {
            Some(done) => done??,
            None => return Ok(()),
        }
    }
}

/// Writes at a rate in the background until it is ended.
#[derive(Debug)]
pub(crate) struct Churn {
    over: Arc<AtomicBool>,
    done: Arc<AtomicU64>,
    start: Instant,
    task: tokio::task::JoinHandle<Result<()>>,
}

impl Churn {
    /// Does what `next` gives `rate` times a second, whether or not earlier ones are done, as long
    /// as at most [`AT_ONCE`] are under way.
    pub(crate) fn start<F>(rate: f64, mut next: impl FnMut(u64) -> F + Send + 'static) -> Self
    where
        F: Future<Output = Result<()>> + Send + 'static,
    {
        let (over, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let start = Instant::now();
        let task = tokio::spawn({
            let (over, done) = (over.clone(), done.clone());
            async move {
                let mut running = JoinSet::new();
                let mut number = 0;
                while !over.load(Ordering::Relaxed) {
                    let due = (start.elapsed().as_secs_f64() * rate) as u64;
                    while number < due && running.len() < AT_ONCE {
                        running.spawn(next(number));
                        number += 1;
                    }
                    while let Some(write) = running.try_join_next() {
                        write??;
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                while let Some(write) = running.join_next().await {
                    write??;
                    done.fetch_add(1, Ordering::Relaxed);
                }
                Ok(())
            }
        });
        Churn { over, done, start, task }
    }

    /// Ends it; how many writes a second were done.
    pub(crate) async fn finish(self) -> Result<f64> {
        self.over.store(true, Ordering::Relaxed);
        let seconds = self.start.elapsed().as_secs_f64();
        self.task.await??;
        Ok(self.done.load(Ordering::Relaxed) as f64 / seconds)
    }
}
