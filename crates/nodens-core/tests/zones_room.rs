//! Zones of files and the memory that they may take. One test: that memory is the process's.

use nodens_core::config::{BuildOptions, build};
use nodens_core::log::Sink;
use nodens_core::{Config, Shared};
use nodens_corefile::{SystemSources, parse};
use nodens_zone::data::room;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

const ZONES: usize = 8;

/// Zones for `file`, and as many for `auto`; each has a name that tells the version.
fn write(folder: &Path, serial: u32) {
    for number in 0..ZONES {
        let mut text = format!(
            "$TTL 60\n@ SOA ns hostmaster {serial} 2 3 4 5\n@ NS ns\nv{serial} A 192.0.2.1\n"
        );
        (0..2000)
            .for_each(|host| _ = writeln!(text, "host-{host:05} TXT \"some text for {host}\""));
        std::fs::write(folder.join(format!("zone.{number}")), &text).unwrap();
        std::fs::write(folder.join(format!("db.auto-{number}.example")), &text).unwrap();
    }
}

fn compile(folder: &Path, shared: &Arc<Shared>) -> Result<Config, String> {
    compile_text(&corefile(folder), shared)
}

fn compile_text(text: &str, shared: &Arc<Shared>) -> Result<Config, String> {
    let tree = parse("Corefile", text, &SystemSources).unwrap();
    build(&tree, &BuildOptions::default(), shared).map_err(|error| error.to_string())
}

fn corefile(folder: &Path) -> String {
    let path = folder.display();
    let mut text = format!("example {{\n auto {{\n directory {path}\n reload 10s\n }}\n");
    (0..ZONES)
        .for_each(|number| _ = writeln!(text, " file {path}/zone.{number} file-{number}.example"));
    text + "}\n"
}

/// How many zones a configuration serves, with the least and the largest serial.
fn zones(config: &Config) -> (usize, Option<u32>, Option<u32>) {
    let tables = config.services.zones.iter().map(|table| table.load());
    let mut serials = Vec::new();
    for table in tables {
        serials.extend(table.iter().filter_map(|(_, zone)| Some(zone.soa()?.serial().0)));
    }
    (serials.len(), serials.iter().copied().min(), serials.iter().copied().max())
}

fn look(config: &mut Config) {
    config.services.tasks.iter_mut().for_each(|task| (task.run)());
}

#[test]
fn a_reload_takes_little_more_memory_and_loses_no_zone_where_there_is_no_room() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), 1);
    let (sender, log) = std::sync::mpsc::sync_channel(9999);
    let shared = Arc::new(Shared::new(1, Sink::new(sender)));
    let first = compile(folder.path(), &shared).unwrap();
    let all = room::held();
    assert_eq!(zones(&first), (2 * ZONES, Some(1), Some(1)));

    // What has not changed takes nothing.
    room::set_most(all + all / 100);
    let second = compile(folder.path(), &shared).unwrap();
    assert_eq!(zones(&second), (2 * ZONES, Some(1), Some(1)));
    assert_eq!(room::held(), all);
    // Whichever of both goes first.
    drop(first);
    assert_eq!(room::held(), all);
    let third = compile(folder.path(), &shared).unwrap();
    drop(third);
    assert_eq!(room::held(), all);

    // Files that have changed a little.
    write(folder.path(), 2);
    room::set_most(all * 16 / 10);
    let third = compile(folder.path(), &shared).unwrap();
    assert_eq!(zones(&third), (2 * ZONES, Some(2), Some(2)));
    assert!(room::held() < all * 15 / 10, "{} of {all}", room::held());
    drop(second);
    assert!(room::held().abs_diff(all) < 2000, "{} of {all}", room::held());
    while log.try_recv().is_ok() {}

    // Where there is no room at all, what was served stays, and is tried again.
    write(folder.path(), 3);
    room::set_most(0);
    let mut fourth = compile(folder.path(), &shared).unwrap();
    drop(third);
    assert_eq!(zones(&fourth), (2 * ZONES, Some(2), Some(2)));
    let said = |wanted: &str| {
        let lines = log.try_iter().map(|record| format!("{record:?}"));
        lines.filter(|line| line.contains(wanted)).count()
    };
    assert_eq!(said("no room"), 2 * ZONES);
    look(&mut fourth);
    assert_eq!(zones(&fourth), (2 * ZONES, Some(2), Some(2)));
    room::set_most(u64::MAX);
    look(&mut fourth);
    assert_eq!(zones(&fourth), (2 * ZONES, Some(3), Some(3)));
    drop(fourth);
    assert_eq!(room::held(), 0);

    // Of a zone that was never read nothing can stay: `file` is refused, and `auto` reads it once there is room.
    room::set_most(0);
    assert!(compile(folder.path(), &shared).unwrap_err().contains("no room"));
    (0..ZONES).for_each(|number| {
        std::fs::remove_file(folder.path().join(format!("zone.{number}"))).unwrap()
    });
    let text = format!("example {{\n auto {{\n directory {}\n }}\n}}", folder.path().display());
    let mut config = compile_text(&text, &shared).unwrap();
    look(&mut config);
    assert_eq!(zones(&config).0, 0);
    room::set_most(u64::MAX);
    look(&mut config);
    assert_eq!(zones(&config), (ZONES, Some(3), Some(3)));
    drop(config);
    is_read_once_wherever_it_is(&shared);
}

/// A file that comes after the start, and one that is moved, are not read again by the next configuration.
fn is_read_once_wherever_it_is(shared: &Arc<Shared>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let shown = path.display();
    let file = format!("example {{\n file {shown}/late/db.late.example late.example\n}}");
    let auto = format!("example {{\n auto {{\n directory {shown}\n }}\n}}");
    for text in [file, auto] {
        std::fs::create_dir(path.join("late")).unwrap();
        let mut first = compile_text(&text, shared).unwrap();
        assert_eq!(room::held(), 0);
        let mut zone = "$TTL 60\n@ SOA ns hostmaster 1 2 3 4 5\n@ NS ns\n".to_owned();
        (0..2000).for_each(|host| _ = writeln!(zone, "host-{host:05} TXT \"some text\""));
        std::fs::write(path.join("late/db.late.example"), &zone).unwrap();
        look(&mut first);
        if text.contains("auto") {
            std::fs::rename(path.join("late"), path.join("later")).unwrap();
            look(&mut first);
        }
        let all = room::held();
        assert!(all > 0);
        room::set_most(all + all / 100);
        let second = compile_text(&text, shared).unwrap();
        assert_eq!((zones(&second).0, room::held()), (1, all), "{text}");
        room::set_most(u64::MAX);
        drop((first, second));
        std::fs::remove_dir_all(path.join("later"))
            .or_else(|_| std::fs::remove_dir_all(path.join("late")))
            .unwrap();
    }
}
