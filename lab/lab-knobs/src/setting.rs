//! One setting of the kernel: found, read, written.

use crate::knob::cpus;
use crate::link::{Root, same_word, write_qdisc, write_route};
use crate::place::Place;
use crate::protocol::Target;
use crate::tools;
use serde::{Deserialize, Serialize};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// One file, queueing discipline or route.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Setting {
    place: Place,
    item: Item,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Item {
    File { path: PathBuf, form: Form },
    Qdisc { device: String },
    Route { device: String, attribute: String },
}

/// How a file says which CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Form {
    /// It says no such thing.
    Text,
    /// `00000000,00000003`
    Mask,
    /// `0-1`
    List,
}

impl Setting {
    /// The settings that `target` stands for, none of them empty; or why there are none.
    pub(crate) fn find(
        place: &Place,
        device: Option<&str>,
        target: &Target,
    ) -> Result<Vec<Self>, String> {
        let of = |item| Self { place: place.clone(), item };
        let file = |path, form| of(Item::File { path, form });
        let device = device.unwrap_or("");
        let interface = Path::new("/sys/class/net").join(device);
        let found = match target {
            Target::Sysctl { path } => vec![file(sysctl_file(path), Form::Text)],
            Target::Device { file: name } => vec![file(interface.join(name), Form::Text)],
            Target::Queues { queue, file: name } => {
                let folder = interface.join("queues");
                let queues = place.list(&folder)?;
                let queues = queues.iter().filter(|name| name.starts_with(queue.as_str()));
                queues.map(|queue| file(folder.join(queue).join(name), Form::Mask)).collect()
            }
            Target::Qdisc => vec![of(Item::Qdisc { device: device.to_owned() })],
            Target::Route { attribute } => {
                let (device, attribute) = (device.to_owned(), attribute.clone());
                vec![of(Item::Route { device, attribute })]
            }
            Target::Irq => interrupts(device)
                .into_iter()
                .map(|irq| file(format!("/proc/irq/{irq}/smp_affinity_list").into(), Form::List))
                .collect(),
            Target::Governor => {
                governors().into_iter().map(|path| file(path, Form::Text)).collect()
            }
        };
        if found.is_empty() {
            return Err(match target {
                Target::Governor => "this machine has no frequency governors (cpufreq)".to_owned(),
                Target::Irq => format!("the interrupts of {device} are not known"),
                _ => format!("{device} has no such queue"),
            });
        }
        found.iter().try_for_each(Self::check)?;
        Ok(found)
    }

    /// Whether it is there and can be written.
    fn check(&self) -> Result<(), String> {
        let Item::File { path, .. } = &self.item else { return Ok(()) };
        let writable =
            |path: &Path| fs::metadata(path).map(|data| data.permissions().mode() & 0o200 != 0);
        let here = if path.starts_with("/sys") {
            // What `/sys` shows is decided by its mount, so another program has to look.
            self.place.read(path).map(|_| true)
        } else {
            self.place.enter(|| writable(path)).map_err(|error| error.to_string())
        };
        match (here, &self.place) {
            (Ok(true), _) => Ok(()),
            (Ok(false), Place::Namespace(_)) => {
                Err("read-only in a network namespace: the machine's own value counts".to_owned())
            }
            (Ok(false), Place::Host) => Err("read-only".to_owned()),
            (Err(_), Place::Namespace(_)) if path.exists() && path.starts_with("/proc") => {
                Err("exists in the initial network namespace only: it can be changed with --host"
                    .to_owned())
            }
            (Err(error), _) => Err(format!("this kernel lacks {} ({error})", path.display())),
        }
    }

    /// Whether it is in no namespace that has a name here.
    pub(crate) fn is_of_host(&self) -> bool {
        self.place == Place::Host
    }

    /// Whether it is restored by letting the kernel choose again: a queueing discipline follows
    /// `net.core.default_qdisc`, which has to be restored before.
    pub(crate) fn is_chosen_by_kernel(&self) -> bool {
        matches!(self.item, Item::Qdisc { .. })
    }

    /// The present value.
    pub(crate) fn read(&self) -> Result<String, String> {
        match &self.item {
            Item::File { path, .. } => self.place.read(path).map(|text| normal(&text)),
            Item::Qdisc { device } => {
                let root = Root::read(&self.place, device)?;
                if root.by_hand {
                    let text = root.words.join(" ");
                    return Err(format!(
                        "{device} has a queueing discipline that was configured ({text}): it could not be restored exactly"
                    ));
                }
                if self.is_of_host() {
                    chosen_again(&self.place, device, &root)?;
                }
                Ok(root.kind().to_owned())
            }
            Item::Route { device, attribute } => {
                let route = crate::link::route(&self.place, device)?;
                let mut after = route.iter().skip_while(|word| *word != attribute).skip(1);
                Ok(after.next().map_or("none", String::as_str).to_owned())
            }
        }
    }

    /// Sets what a user wrote; `saved` is what was there at first.
    pub(crate) fn write(&self, value: &str, saved: &str) -> Result<(), String> {
        match &self.item {
            Item::File { form, .. } => self.write_text(&form.text(value), saved),
            _ => self.write_text(value, saved),
        }
    }

    /// Sets what [`Self::read`] returned, or could return.
    fn write_text(&self, text: &str, saved: &str) -> Result<(), String> {
        match &self.item {
            Item::File { path, .. } => self.place.write(path, text),
            Item::Qdisc { device } => write_qdisc(&self.place, device, text, saved),
            Item::Route { device, attribute } => write_route(&self.place, device, attribute, text),
        }
    }

    /// True if the present value is `value`; otherwise what it is.
    pub(crate) fn holds(&self, value: &str) -> Result<Result<(), String>, String> {
        if let Item::Qdisc { device } = &self.item {
            let root = Root::read(&self.place, device)?;
            let has = |word: &str| root.words.iter().any(|shown| same_word(shown, word));
            let mut words = value.split(' ');
            let same = words.next() == Some(root.kind()) && words.all(has);
            return Ok(if same { Ok(()) } else { Err(root.words.join(" ")) });
        }
        let present = self.read()?;
        let same = match &self.item {
            Item::File { form, .. } => form.same(&present, value),
            _ => present == value,
        };
        Ok(if same { Ok(()) } else { Err(present) })
    }

    /// Gives it the saved value, if it has another one, and reads it back.
    pub(crate) fn restore(&self, saved: &str) -> Result<(), String> {
        if let Place::Namespace(name) = &self.place
            && !tools::namespace_file(name).exists()
        {
            return Ok(());
        }
        let Err(present) = self.untouched(saved)? else { return Ok(()) };
        self.write_text(saved, saved)
            .map_err(|error| format!("{self} is `{present}` and was `{saved}`: {error}"))?;
        match self.untouched(saved)? {
            Ok(()) => Ok(()),
            Err(present) => Err(format!("{self} stays `{present}` and was `{saved}`")),
        }
    }

    fn untouched(&self, saved: &str) -> Result<Result<(), String>, String> {
        if let Item::Qdisc { device } = &self.item {
            let root = Root::read(&self.place, device)?;
            // Whether it may be changed was decided when it was saved.
            return Ok(match root.by_hand {
                true => Err(root.words.join(" ")),
                false if root.kind() == normal(saved) => Ok(()),
                false => Err(root.kind().to_owned()),
            });
        }
        let present = self.read()?;
        Ok(if present == normal(saved) { Ok(()) } else { Err(present) })
    }
}

impl std::fmt::Display for Setting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.item {
            Item::File { path, .. } => write!(f, "{}", path.display())?,
            Item::Qdisc { device } => write!(f, "the queueing discipline of {device}")?,
            Item::Route { device, attribute } => write!(f, "{attribute} of the route to {device}")?,
        }
        match &self.place {
            Place::Host => Ok(()),
            Place::Namespace(name) => write!(f, " in {name}"),
        }
    }
}

impl Form {
    /// `value` as the file takes it.
    fn text(self, value: &str) -> String {
        match (self, cpus(value)) {
            (Self::Mask, Some(cpus)) => mask(&cpus),
            (Self::List, Some(cpus)) if value == "all" => {
                cpus.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
            }
            _ => value.to_owned(),
        }
    }

    /// Whether the file's text means what the user wrote.
    fn same(self, present: &str, value: &str) -> bool {
        match self {
            Self::Text => normal(present) == normal(value),
            Self::Mask => unmask(present) == cpus(value),
            Self::List => cpus(present) == cpus(value),
        }
    }
}

/// Whether the kernel would choose the same queueing disciplines again, which is how they are restored.
fn chosen_again(place: &Place, device: &str, root: &Root) -> Result<(), String> {
    // Network namespaces other than the first one do not show the default, and mostly have no queues.
    if root.unlike("noqueue").is_none() {
        return Ok(());
    }
    let default = place.read(&sysctl_file("net.core.default_qdisc")).map(|text| normal(&text))?;
    match root.unlike(&default) {
        None => Ok(()),
        Some(kind) => Err(format!(
            "{device} has {kind}, and net.core.default_qdisc is {default} since it came up: it could not be restored exactly"
        )),
    }
}

/// The file of a sysctl, whose name has dots. A dot within a part is written `/`.
fn sysctl_file(path: &str) -> PathBuf {
    Path::new("/proc/sys").join(swap(path))
}

/// Dots for slashes and slashes for dots.
pub(crate) fn swap(path: &str) -> String {
    path.chars()
        .map(|letter| match letter {
            '.' => '/',
            '/' => '.',
            other => other,
        })
        .collect()
}

/// The numbers of an interface's interrupts: by its driver's folder, or by its name in their list.
fn interrupts(device: &str) -> Vec<u32> {
    if device.is_empty() {
        return Vec::new();
    }
    let folder = Path::new("/sys/class/net").join(device).join("device");
    let own = fs::read_dir(folder.join("msi_irqs")).into_iter().flatten().flatten();
    let mut all: Vec<u32> =
        own.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    if all.is_empty() {
        let parent = fs::canonicalize(&folder).unwrap_or_default();
        let bus = parent.file_name().map(|name| name.to_string_lossy().into_owned());
        let list = fs::read_to_string("/proc/interrupts").unwrap_or_default();
        let of_device = |name: &str| {
            let begins = |with: &str| {
                let rest = name.strip_prefix(with);
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '.', ':']))
            };
            begins(device) || bus.as_deref().is_some_and(begins)
        };
        all = list
            .lines()
            .filter(|line| line.split_ascii_whitespace().last().is_some_and(of_device))
            .filter_map(|line| line.split(':').next()?.trim().parse().ok())
            .collect();
    }
    all.sort_unstable();
    all
}

fn governors() -> Vec<PathBuf> {
    let entries = fs::read_dir("/sys/devices/system/cpu").into_iter().flatten().flatten();
    let files = entries.map(|entry| entry.path().join("cpufreq/scaling_governor"));
    let mut files: Vec<PathBuf> = files.filter(|path| path.exists()).collect();
    files.sort_unstable();
    files
}

fn normal(text: &str) -> String {
    text.split_ascii_whitespace().collect::<Vec<_>>().join(" ")
}

/// CPUs as words of 32 bits in hexadecimal digits, the highest first.
fn mask(cpus: &[usize]) -> String {
    let words = cpus.iter().max().map_or(1, |most| most / 32 + 1);
    let word = |index: usize| {
        let inside = cpus.iter().filter(|cpu| **cpu / 32 == index);
        inside.fold(0_u32, |bits, cpu| bits | 1 << (cpu % 32))
    };
    let words: Vec<String> = (0..words).rev().map(|index| format!("{:08x}", word(index))).collect();
    words.join(",")
}

fn unmask(text: &str) -> Option<Vec<usize>> {
    let mut cpus = Vec::new();
    for (index, word) in text.rsplit(',').enumerate() {
        let bits = u32::from_str_radix(word, 16).ok()?;
        cpus.extend((0..32).filter(|bit| bits >> bit & 1 == 1).map(|bit| index * 32 + bit));
    }
    Some(cpus)
}

#[cfg(test)]
mod tests;
