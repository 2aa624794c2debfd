//! What the lab reads: query files, templates of names, captures of packets and of dnstap.

use lab_workload::{Style, Template, TypeMix, Workload, binary, capture, names, update};
use nodens_wire::{Admission, Type, admit};

/// A query file in any of the formats is read, with every fault in its place. Questions of text files
/// are admissible.
pub fn queries(data: &[u8]) {
    let mut workload = Workload::new(1);
    let types = TypeMix::only(Type::A);
    let faults = names::read(data, &Style::default(), &types, 1, &mut workload);
    let lines = data.split(|octet| *octet == b'\n').count();
    assert!(workload.len() + faults.len() <= lines);
    assert!(faults.iter().all(|fault| (1..=lines).contains(&fault.line) && fault.column > 0));
    for n in 0..workload.len() as u64 {
        let mut message = Vec::new();
        workload.append(n, 7, &mut message);
        assert!(matches!(admit(&message), Admission::Accept(_)));
        assert!(workload.is_question_of(n, &message));
    }

    let mut workload = Workload::new(1);
    let faults = update::read(data, &Style::default(), &mut workload);
    assert!(faults.iter().all(|fault| (1..=lines).contains(&fault.line) && fault.column > 0));
    sends_what_it_was_given(&workload);

    let mut workload = Workload::new(1);
    let cut = binary::read(data, &mut workload).err();
    let read: usize = (0..workload.len() as u64).map(|n| 2 + len(&workload, n)).sum();
    assert_eq!(read, cut.map_or(data.len(), |cut| cut.offset));
    sends_what_it_was_given(&workload);
}

fn len(workload: &Workload, n: u64) -> usize {
    let mut message = Vec::new();
    workload.append(n, 7, &mut message);
    message.len()
}

/// No message is longer than announced, with a unique label or without.
fn sends_what_it_was_given(workload: &Workload) {
    let mut misses = workload.clone();
    misses.set_hit_rate(0.0);
    for n in 0..workload.len() as u64 {
        assert!(len(workload, n) <= workload.message_len_max());
        assert!(len(&misses, n) <= misses.message_len_max());
    }
}

/// A template is refused, or makes a name other than the root for every item.
pub fn names_template(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    // A law over millions of ranks takes memory and time, and nothing can be found in that.
    if text.as_bytes().windows(6).any(|window| window.iter().all(u8::is_ascii_digit)) {
        return;
    }
    let load = |_: &str| Ok(b"www\nmail.example A\n\\003.x\n".to_vec());
    let Ok(template) = Template::parse(text, load) else { return };
    for n in [0, 1, 12_345, u64::MAX] {
        assert!(!template.name(1, n).view().is_root(), "{text}");
    }
}

/// A capture is refused, or read as far as it can be with every fault by packet or frame.
pub fn capture(data: &[u8]) {
    let Ok(read) = capture::read(data, 53) else { return };
    assert!(read.faults.iter().all(|fault| (1..=read.packets).contains(&fault.packet)));
    assert!(read.broken_frames.iter().all(|fault| (1..=read.packets).contains(&fault.frame)));
    let workload = read.workload(1, Some(1.0));
    assert!(workload.times().is_sorted() && workload.times().len() == read.questions.len());
    sends_what_it_was_given(&workload);
}
