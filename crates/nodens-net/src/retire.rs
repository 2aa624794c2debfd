//! The end of a configuration.

use nodens_core::Config;
use std::sync::Arc;
use std::time::Duration;

/// How often, and after which time each, it is seen whether questions still use an old configuration;
/// in all it is longer than a question may take.
const RETIRE_ROUNDS: u32 = 100;
const RETIRE_ROUND: Duration = Duration::from_millis(100);

/// Frees a configuration here rather than in the worker that happens to use it last, where
/// questions would wait for it.
pub(crate) fn retire(config: Arc<Config>) {
    let wait = move || {
        for _ in 0..RETIRE_ROUNDS {
            if Arc::strong_count(&config) == 1 {
                break;
            }
            std::thread::sleep(RETIRE_ROUND);
        }
    };
    // Without another thread it is freed right away, by whoever uses it last.
    _ = std::thread::Builder::new().name("retire".to_owned()).spawn(wait);
}
