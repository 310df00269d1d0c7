//! The header fields of a message: one byte buffer, one vector of slots.
//!
//! Order and case are the sender's. A slot says where a line lies in the buffer; changing a header
//! appends a new line to the buffer and moves the slot, deleting marks the slot. Nothing is
//! allocated per header, and `clear` keeps both allocations for the next message.
//!
//! Leaves out: lists inside values and cookies (`lists`).

use crate::chars::trim;
use crate::lists::{ListItems, list_items};

/// One header line: where its name and value lie in the buffer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Line {
    pub name: u32,
    pub name_len: u32,
    pub value: u32,
    pub value_len: u32,
    /// Length, first and last letter of the name, case folded: differs for nearly all names that
    /// differ, so a lookup compares text once. 0 for a deleted line.
    pub tag: u32,
    /// The buffer holds `name: value CRLF` exactly, so neighbours can be written in one copy.
    pub canonical: bool,
}

/// Names one header line of a `Headers`, until the next `clear`.
///
/// Stays valid when other lines are added, changed or removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot(u32);

/// The header fields of one message.
#[derive(Debug, Clone, Default)]
pub struct Headers {
    pub(crate) buf: Vec<u8>,
    pub(crate) lines: Vec<Line>,
    /// The [`name_bit`]s of all lines there were: most names that are looked for are not there, and then no line is
    /// looked at.
    pub(crate) names: u64,
}

/// A header line whose name and value are known beforehand: it is added by one copy.
#[derive(Debug, Clone)]
pub struct HeaderLine {
    /// As it stands on the wire, CRLF included.
    text: Box<[u8]>,
    /// Where its parts lie in `text`.
    line: Line,
}

impl HeaderLine {
    /// `None` for a header that [`Headers::add`] would not add.
    pub fn new(name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Option<HeaderLine> {
        let mut alone = Headers::new();
        let line = alone.append(name.as_ref(), value.as_ref())?;
        Some(HeaderLine {
            text: alone.buf.into(),
            line,
        })
    }

    /// Bytes of its name and value.
    pub fn text_len(&self) -> usize {
        self.line.name_len as usize + self.line.value_len as usize
    }
}

#[inline]
pub(crate) const fn tag_of(name: &[u8]) -> u32 {
    let (Some(&first), Some(&last)) = (name.first(), name.last()) else {
        // An empty name cannot be parsed nor added; bit 31 keeps it apart from a deleted line.
        return 1 << 31;
    };
    let len = if name.len() < 0x7fff {
        name.len() as u32
    } else {
        0x7fff
    };
    len << 16 | ((first | 0x20) as u32) << 8 | (last | 0x20) as u32
}

/// One bit of 64 for a name, by its tag.
#[inline]
pub(crate) const fn name_bit(tag: u32) -> u64 {
    1 << (tag.wrapping_mul(0x9e37_79b1) >> 26)
}

/// The headers of one name, see [`Headers::named`].
#[derive(Debug, Clone, Copy)]
pub struct Named<'a> {
    headers: &'a Headers,
    lines: &'a [Line],
    name: &'a [u8],
    tag: u32,
}

impl<'a> Named<'a> {
    /// The first of them from line number `from` on: its number and its value. Numbers count all lines, removed ones
    /// too.
    #[inline]
    pub fn find_from(&self, from: usize) -> Option<(usize, &'a [u8])> {
        let is_it = |l: &Line| match self.name {
            [] => l.tag != 0,
            name => l.tag == self.tag && self.headers.name_of(l).eq_ignore_ascii_case(name),
        };
        let rest = self.lines.get(from..)?;
        let at = rest.iter().position(is_it)?;
        Some((from + at, self.headers.value_of(rest.get(at)?)))
    }
}

impl Headers {
    pub fn new() -> Headers {
        Headers::default()
    }

    /// Forgets all headers, keeps the memory.
    #[inline]
    pub fn clear(&mut self) {
        self.buf.clear();
        self.lines.clear();
        self.names = 0;
    }

    /// Number of header lines.
    pub fn len(&self) -> usize {
        self.lines.iter().filter(|l| l.tag != 0).count()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes the headers take on the wire, CRLFs included, the empty line not.
    pub fn wire_len(&self) -> usize {
        self.live()
            .map(|l| l.name_len as usize + l.value_len as usize + 4)
            .sum()
    }

    /// Whether one more header with `text` bytes of name and value keeps them within `most` bytes on the wire.
    pub fn fits(&self, text: usize, most: usize) -> bool {
        // what was removed still counts in the quick look
        self.buf.len() + text + 4 * (self.lines.len() + 1) <= most
            || self.wire_len() + text + 4 <= most
    }

    /// All headers in order, as `(name, value)`; the value is without surrounding blanks.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&[u8], &[u8])> + Clone {
        self.lines
            .iter()
            .filter(|l| l.tag != 0)
            .map(|l| (self.name_of(l), self.value_of(l)))
    }

    /// All headers in order with the slot that names each.
    pub fn iter_slots(&self) -> impl DoubleEndedIterator<Item = (Slot, &[u8], &[u8])> {
        let lines = self.lines.iter().enumerate().filter(|(_, l)| l.tag != 0);
        lines.map(|(i, l)| (Slot(i as u32), self.name_of(l), self.value_of(l)))
    }

    /// The lines in which one with this tag may be: none, mostly, when there is none.
    #[inline]
    fn lines_with(&self, tag: u32) -> &[Line] {
        match self.names & name_bit(tag) {
            0 => &[],
            _ => &self.lines,
        }
    }

    /// Value of the first header called `name`, in any case.
    #[inline]
    pub fn get(&self, name: impl AsRef<[u8]>) -> Option<&[u8]> {
        let name = name.as_ref();
        let tag = tag_of(name);
        let found = self
            .lines_with(tag)
            .iter()
            .find(|l| l.tag == tag && self.name_of(l).eq_ignore_ascii_case(name));
        found.map(|l| self.value_of(l))
    }

    /// Value of the last header called `name`.
    pub fn last(&self, name: impl AsRef<[u8]>) -> Option<&[u8]> {
        let name = name.as_ref();
        let tag = tag_of(name);
        let found = self
            .lines_with(tag)
            .iter()
            .rev()
            .find(|l| l.tag == tag && self.name_of(l).eq_ignore_ascii_case(name));
        found.map(|l| self.value_of(l))
    }

    /// Values of all headers called `name`, whole lines, in order (`req.fhdr`).
    pub fn all<'a>(&'a self, name: &'a [u8]) -> impl DoubleEndedIterator<Item = &'a [u8]> + Clone {
        let tag = tag_of(name);
        let same = self
            .lines_with(tag)
            .iter()
            .filter(move |l| l.tag == tag && self.name_of(l).eq_ignore_ascii_case(name));
        same.map(|l| self.value_of(l))
    }

    /// The headers called `name` (all, when that is empty), to be gone through from any of them.
    #[inline]
    pub fn named<'a>(&'a self, name: &'a [u8]) -> Named<'a> {
        let tag = tag_of(name);
        Named {
            headers: self,
            lines: match name {
                [] => &self.lines,
                _ => self.lines_with(tag),
            },
            name,
            tag,
        }
    }

    /// Slots of all headers called `name`, in order.
    pub fn slots<'a>(&'a self, name: &'a [u8]) -> impl DoubleEndedIterator<Item = Slot> + 'a {
        let tag = tag_of(name);
        let lines = self.lines_with(tag).iter().enumerate();
        let same =
            lines.filter(move |(_, l)| l.tag == tag && self.name_of(l).eq_ignore_ascii_case(name));
        same.map(|(i, _)| Slot(i as u32))
    }

    /// Slot of the first header called `name`.
    pub fn first_slot(&self, name: impl AsRef<[u8]>) -> Option<Slot> {
        self.slots(name.as_ref()).next()
    }

    /// The comma-separated items of all headers called `name`, in order (`req.hdr`): commas inside
    /// quotes do not separate, blanks around an item are dropped, a line without a comma is one item.
    pub fn values<'a>(&'a self, name: &'a [u8]) -> impl Iterator<Item = &'a [u8]> + Clone {
        self.all(name)
            .flat_map(list_items as fn(&'a [u8]) -> ListItems<'a>)
    }

    /// The `occurrence`th item as `values` lists them: 1 is the first, -1 the last, 0 the last too
    /// (HAProxy's default for `hdr(name)` outside of ACLs).
    pub fn nth_value<'a>(&'a self, name: &'a [u8], occurrence: i32) -> Option<&'a [u8]> {
        nth(self.values(name), occurrence)
    }

    /// The `occurrence`th whole line of the headers called `name`, counted as in `nth_value`.
    pub fn nth_line<'a>(&'a self, name: &'a [u8], occurrence: i32) -> Option<&'a [u8]> {
        nth(self.all(name), occurrence)
    }

    /// Number of lines called `name`.
    pub fn count(&self, name: impl AsRef<[u8]>) -> usize {
        self.all(name.as_ref()).count()
    }

    pub fn contains(&self, name: impl AsRef<[u8]>) -> bool {
        self.get(name).is_some()
    }

    /// Appends a header. An empty name is ignored, for no message could carry it.
    pub fn add(&mut self, name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        if let Some(line) = self.append(name.as_ref(), value.as_ref()) {
            self.lines.push(line);
        }
    }

    /// Appends a header that was made ready.
    #[inline]
    pub fn add_line(&mut self, ready: &HeaderLine) {
        let start = self.buf.len();
        if start + ready.text.len() >= u32::MAX as usize {
            return;
        }
        self.buf.extend_from_slice(&ready.text);
        self.names |= name_bit(ready.line.tag);
        self.lines.push(Line {
            name: start as u32 + ready.line.name,
            value: start as u32 + ready.line.value,
            ..ready.line
        });
    }

    /// Puts a header before all others.
    pub fn push_front(&mut self, name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        if let Some(line) = self.append(name.as_ref(), value.as_ref()) {
            self.lines.insert(0, line);
        }
    }

    /// Removes all headers called `name`, then appends one (`http-request set-header`).
    pub fn set(&mut self, name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        self.remove(name.as_ref());
        self.add(name, value);
    }

    /// Removes all headers called `name` and says how many there were.
    pub fn remove(&mut self, name: impl AsRef<[u8]>) -> usize {
        let name = name.as_ref();
        let tag = tag_of(name);
        if self.names & name_bit(tag) == 0 {
            return 0;
        }
        let Headers { buf, lines, .. } = self;
        let mut removed = 0;
        for line in lines.iter_mut().filter(|l| l.tag == tag) {
            if slice(buf, line.name, line.name_len).eq_ignore_ascii_case(name) {
                line.tag = 0;
                removed += 1;
            }
        }
        removed
    }

    /// Removes all headers whose name satisfies `matches` and says how many there were.
    pub fn remove_matching(&mut self, mut matches: impl FnMut(&[u8]) -> bool) -> usize {
        let Headers { buf, lines, .. } = self;
        let mut removed = 0;
        for line in lines.iter_mut().filter(|l| l.tag != 0) {
            if matches(slice(buf, line.name, line.name_len)) {
                line.tag = 0;
                removed += 1;
            }
        }
        removed
    }

    /// The name and value in `slot`, unless it was removed.
    pub fn at(&self, slot: Slot) -> Option<(&[u8], &[u8])> {
        let line = self.lines.get(slot.0 as usize).filter(|l| l.tag != 0)?;
        Some((self.name_of(line), self.value_of(line)))
    }

    /// Gives the header in `slot` another value; false when it was removed.
    pub fn replace_value(&mut self, slot: Slot, new: impl AsRef<[u8]>) -> bool {
        let index = slot.0 as usize;
        let Some(old) = self.lines.get(index).filter(|l| l.tag != 0).copied() else {
            return false;
        };
        let start = self.buf.len();
        let name = old.name as usize..(old.name + old.name_len) as usize;
        if name.end > start {
            return false;
        }
        self.buf.extend_from_within(name);
        if let (Some(line), Some(place)) =
            (self.finish(start, new.as_ref()), self.lines.get_mut(index))
        {
            *place = line;
        }
        true
    }

    /// Removes the header in `slot`; false when it was removed already.
    pub fn remove_slot(&mut self, slot: Slot) -> bool {
        match self.lines.get_mut(slot.0 as usize) {
            Some(line) if line.tag != 0 => {
                line.tag = 0;
                true
            }
            _ => false,
        }
    }

    /// Writes the names in lower case, as HTTP/2 and HTTP/3 demand.
    pub fn lowercase_names(&mut self) {
        let Headers { buf, lines, .. } = self;
        for line in lines.iter().filter(|l| l.tag != 0) {
            let name = line.name as usize..(line.name + line.name_len) as usize;
            buf.get_mut(name).unwrap_or_default().make_ascii_lowercase();
        }
    }

    /// Writes names as `to` says, which is given each in lower case and gives the same name in another case.
    pub fn adjust_names<'a>(&mut self, to: impl Fn(&[u8]) -> Option<&'a [u8]>) {
        let Headers { buf, lines, .. } = self;
        let mut lower = Vec::new();
        for line in lines.iter().filter(|l| l.tag != 0) {
            let name = line.name as usize..(line.name + line.name_len) as usize;
            let Some(name) = buf.get_mut(name) else {
                continue;
            };
            lower.clear();
            lower.extend(name.iter().map(u8::to_ascii_lowercase));
            if let Some(new) = to(&lower).filter(|new| new.eq_ignore_ascii_case(name)) {
                name.copy_from_slice(new);
            }
        }
    }

    /// Appends all headers to `out` in HTTP/1 form, without the empty line.
    ///
    /// Lines that lie side by side in the buffer are written by one copy: a head forwarded as it
    /// came costs one `memcpy`, and every rule that changed it one or two more.
    pub fn write_to(&self, out: &mut Vec<u8>) {
        let mut run = 0..0usize;
        for line in self.live() {
            let start = line.name as usize;
            if !line.canonical {
                out.extend_from_slice(self.buf.get(run).unwrap_or_default());
                run = 0..0;
                out.extend_from_slice(self.name_of(line));
                out.extend_from_slice(b": ");
                out.extend_from_slice(self.value_of(line));
                out.extend_from_slice(b"\r\n");
                continue;
            }
            let end = line.value as usize + line.value_len as usize + 2;
            if run.end == start {
                run.end = end;
            } else {
                out.extend_from_slice(self.buf.get(run).unwrap_or_default());
                run = start..end;
            }
        }
        out.extend_from_slice(self.buf.get(run).unwrap_or_default());
    }

    fn live(&self) -> impl Iterator<Item = &Line> {
        self.lines.iter().filter(|l| l.tag != 0)
    }

    #[inline]
    fn name_of(&self, line: &Line) -> &[u8] {
        slice(&self.buf, line.name, line.name_len)
    }

    #[inline]
    fn value_of(&self, line: &Line) -> &[u8] {
        slice(&self.buf, line.value, line.value_len)
    }

    fn append(&mut self, name: &[u8], value: &[u8]) -> Option<Line> {
        let start = self.buf.len();
        self.buf.extend_from_slice(name);
        self.finish(start, value)
    }

    /// Completes the line whose name was just put at `start`. Line breaks and NUL in the value
    /// become spaces: a rule must not be able to split a message (RFC 9110 section 5.5).
    fn finish(&mut self, start: usize, value: &[u8]) -> Option<Line> {
        let name_len = self.buf.len() - start;
        let tag = tag_of(self.buf.get(start..).unwrap_or_default());
        let value = trim(value);
        let value_start = start + name_len + 2;
        let fits = value_start
            .checked_add(value.len())
            .is_some_and(|end| end < u32::MAX as usize - 2);
        if name_len == 0 || !fits {
            self.buf.truncate(start);
            return None;
        }
        self.buf.reserve(value.len() + 4);
        self.buf.extend_from_slice(b": ");
        self.buf.extend_from_slice(value);
        // seldom is there anything to do, which is found out for many bytes at once
        if value.iter().fold(false, |any, b| any | (*b <= b'\r')) {
            defuse(self.buf.get_mut(value_start..).unwrap_or_default());
        }
        self.buf.extend_from_slice(b"\r\n");
        self.names |= name_bit(tag);
        Some(Line {
            name: start as u32,
            name_len: name_len as u32,
            value: value_start as u32,
            value_len: value.len() as u32,
            tag,
            canonical: true,
        })
    }
}

/// Turns the bytes that end a line, and NUL, into spaces.
pub(crate) fn defuse(value: &mut [u8]) {
    for byte in value
        .iter_mut()
        .filter(|b| matches!(**b, b'\r' | b'\n' | 0))
    {
        *byte = b' ';
    }
}

fn slice(buf: &[u8], start: u32, len: u32) -> &[u8] {
    let start = start as usize;
    buf.get(start..start + len as usize).unwrap_or_default()
}

fn nth<'a>(mut items: impl Iterator<Item = &'a [u8]> + Clone, occurrence: i32) -> Option<&'a [u8]> {
    match occurrence {
        0 => items.last(),
        1.. => items.nth(occurrence as usize - 1),
        _ => {
            let from_end = occurrence.unsigned_abs() as usize;
            let total = items.clone().count();
            items.nth(total.checked_sub(from_end)?)
        }
    }
}
