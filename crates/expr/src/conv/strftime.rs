//! Dates written by a format of strftime(3), as the GNU library does it in the C locale: all its conversions, the flags
//! `_ - 0 ^ #`, widths, the modifiers `E` and `O`. The format is compiled when the configuration loads.
//!
//! `%N` (the fraction of a second) is there for the millisecond and microsecond converters only.

/// A moment, taken apart.
#[derive(Debug, Clone, Copy)]
pub struct Date {
    /// Seconds since the epoch, for `%s`.
    pub epoch: i64,
    pub year: i64,
    /// 1 to 12.
    pub month: i64,
    pub day: i64,
    pub hour: i64,
    pub minute: i64,
    pub second: i64,
    /// 0 is Sunday.
    pub weekday: i64,
    /// 0 is the 1st of January.
    pub yearday: i64,
    /// Seconds east of UTC.
    pub offset: i64,
    /// Nanoseconds within the second.
    pub nanos: u32,
}

const SECONDS_A_DAY: i64 = 86_400;

impl Date {
    /// The date `offset` seconds east of UTC.
    pub fn at(epoch: i64, offset: i64) -> Date {
        let local = epoch.saturating_add(offset);
        let (days, seconds) = (
            local.div_euclid(SECONDS_A_DAY),
            local.rem_euclid(SECONDS_A_DAY),
        );
        // Years are counted from March, so that the leap day is the last, in eras of 400 years.
        let from_march = days + 719_468;
        let era = from_march.div_euclid(146_097);
        let day_of_era = from_march.rem_euclid(146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let month = (month_from_march + 2) % 12 + 1;
        let year = year_of_era + era * 400 + i64::from(month <= 2);
        let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let yearday = if month <= 2 {
            day_of_year - 306
        } else {
            day_of_year + 59 + i64::from(leap)
        };
        Date {
            epoch,
            year,
            month,
            day: day_of_year - (153 * month_from_march + 2) / 5 + 1,
            hour: seconds / 3_600,
            minute: seconds / 60 % 60,
            second: seconds % 60,
            weekday: (days + 4).rem_euclid(7),
            yearday,
            offset,
            nanos: 0,
        }
    }

    pub fn weekday_name(&self) -> &'static str {
        name(&WEEKDAYS, self.weekday)
    }

    pub fn month_name(&self) -> &'static str {
        name(&MONTHS, self.month - 1)
    }

    /// The hour of a 12 hour clock.
    fn hour12(&self) -> i64 {
        (self.hour + 11) % 12 + 1
    }

    /// The week of the year, when weeks begin `first` days after Sunday.
    fn week(&self, first: i64) -> i64 {
        (self.yearday + 7 - (self.weekday + 7 - first) % 7) / 7
    }

    /// ISO 8601's year and week.
    fn iso_week(&self) -> (i64, i64) {
        let days_in =
            |year: i64| 365 + i64::from(year % 4 == 0 && (year % 100 != 0 || year % 400 == 0));
        let weekday = (self.weekday + 6) % 7;
        // The week belongs to the year of its Thursday.
        let thursday = self.yearday - weekday + 3;
        if thursday < 0 {
            (self.year - 1, (thursday + days_in(self.year - 1)) / 7 + 1)
        } else if thursday >= days_in(self.year) {
            (self.year + 1, 1)
        } else {
            (self.year, thursday / 7 + 1)
        }
    }
}

const WEEKDAYS: [&str; 7] = [
    "Sunday",
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

fn name(names: &[&'static str], index: i64) -> &'static str {
    usize::try_from(index)
        .ok()
        .and_then(|i| names.get(i))
        .copied()
        .unwrap_or("?")
}

/// A compiled format.
#[derive(Debug, Clone)]
pub struct Format(Vec<Item>);

#[derive(Debug, Clone)]
enum Item {
    Literal(Vec<u8>),
    Field(Field),
}

/// One conversion with its flags.
#[derive(Debug, Clone, Copy, Default)]
struct Field {
    letter: u8,
    /// `_`, `-` or `0`: how to pad.
    pad: Option<u8>,
    upper: bool,
    swap: bool,
    width: usize,
}

/// Widths beyond this are cut, so that a format cannot ask for megabytes.
const WIDTH_MAX: usize = 1_024;

impl Format {
    /// Compiles a format; `%N` is a conversion if `fraction` is set. What is no conversion stands for itself.
    pub fn compile(text: &[u8], fraction: bool) -> Format {
        let mut items = Vec::new();
        let mut literal = Vec::new();
        let mut rest = text;
        while let Some((c, tail)) = rest.split_first() {
            if *c != b'%' {
                literal.push(*c);
                rest = tail;
                continue;
            }
            let (field, used) = Field::parse(tail);
            let spec = &rest[..1 + used];
            rest = &rest[1 + used..];
            match field {
                Ok(field) if field.letter != b'N' || fraction => {
                    if !literal.is_empty() {
                        items.push(Item::Literal(std::mem::take(&mut literal)));
                    }
                    match field.parts().filter(|_| field.width == 0 && !field.upper) {
                        Some(parts) => items.extend(Format::compile(parts, false).0),
                        None => items.push(Item::Field(field)),
                    }
                }
                Ok(field) | Err(field) => {
                    literal.extend(std::iter::repeat_n(
                        b' ',
                        field.width.saturating_sub(spec.len()),
                    ));
                    literal.extend_from_slice(spec);
                }
            }
        }
        if !literal.is_empty() {
            items.push(Item::Literal(literal));
        }
        Format(items)
    }

    /// Writes a date; `zone` is the abbreviation of its time zone.
    pub fn write(&self, date: &Date, zone: &str, out: &mut Vec<u8>) {
        for item in &self.0 {
            match item {
                Item::Literal(text) => out.extend_from_slice(text),
                Item::Field(field) => field.write(date, zone, out),
            }
        }
    }
}

const CONVERSIONS: &[u8] = b"%aAbBcCdDeFgGhHIjklmMnNpPrRsStTuUVwWxXyYzZ";
/// Conversions that do not go with each modifier. Where one does, it changes nothing in the C locale.
const NOT_AFTER_E: &[u8] = b"aAbBdDeFgGhHIjklmMNSUVwW";
const NOT_AFTER_O: &[u8] = b"aAcDFNxXY";

impl Field {
    /// Reads what follows a percent sign: the conversion (an error when it is none), and how long it is.
    fn parse(text: &[u8]) -> (Result<Field, Field>, usize) {
        let mut field = Field::default();
        let mut at = 0;
        while let Some(c @ (b'_' | b'-' | b'0' | b'^' | b'#')) = text.get(at) {
            match c {
                b'^' => field.upper = true,
                b'#' => field.swap = true,
                pad => field.pad = Some(*pad),
            }
            at += 1;
        }
        while let Some(digit @ b'0'..=b'9') = text.get(at) {
            field.width = (field.width * 10 + usize::from(digit - b'0')).min(WIDTH_MAX);
            at += 1;
        }
        let refused = match text.get(at) {
            Some(b'E') => Some(NOT_AFTER_E),
            Some(b'O') => Some(NOT_AFTER_O),
            _ => None,
        };
        at += usize::from(refused.is_some());
        match text.get(at) {
            Some(letter)
                if CONVERSIONS.contains(letter)
                    && !refused.unwrap_or_default().contains(letter) =>
            {
                field.letter = *letter;
                (Ok(field), at + 1)
            }
            Some(_) => (Err(field), at + 1),
            None => (Err(field), at),
        }
    }

    /// What a conversion that stands for several is made of.
    fn parts(&self) -> Option<&'static [u8]> {
        Some(match self.letter {
            b'c' => b"%a %b %e %H:%M:%S %Y",
            b'D' | b'x' => b"%m/%d/%y",
            b'F' => b"%Y-%m-%d",
            b'r' => b"%I:%M:%S %p",
            b'R' => b"%H:%M",
            b'T' | b'X' => b"%H:%M:%S",
            _ => return None,
        })
    }

    fn write(&self, date: &Date, zone: &str, out: &mut Vec<u8>) {
        match self.letter {
            b'a' => self.text(&date.weekday_name()[..3], true, out),
            b'A' => self.text(date.weekday_name(), true, out),
            b'b' | b'h' => self.text(date.month_name().get(..3).unwrap_or("?"), true, out),
            b'B' => self.text(date.month_name(), true, out),
            b'p' | b'P' => {
                let text = if date.hour < 12 { "AM" } else { "PM" };
                if self.letter == b'P' || self.swap {
                    self.cased(&text.to_ascii_lowercase(), out);
                } else {
                    self.text(text, false, out);
                }
            }
            b'Z' if self.swap => self.cased(&zone.to_ascii_lowercase(), out),
            b'Z' => self.text(zone, false, out),
            b'%' => self.cased("%", out),
            b'n' => self.cased("\n", out),
            b't' => self.cased("\t", out),
            b'c' | b'D' | b'x' | b'F' | b'r' | b'R' | b'T' | b'X' => {
                let mut text = Vec::with_capacity(32);
                Format::compile(self.parts().unwrap_or_default(), false)
                    .write(date, zone, &mut text);
                if self.upper {
                    text.make_ascii_uppercase();
                }
                self.padded(&text, out);
            }
            b'z' => {
                let minutes = date.offset.abs() / 60;
                let sign = if date.offset < 0 { '-' } else { '+' };
                let fill = if self.pad == Some(b'0') { b'0' } else { b' ' };
                out.extend(std::iter::repeat_n(fill, self.width.saturating_sub(1)));
                out.push(sign as u8);
                self.number(minutes / 60 * 100 + minutes % 60, 4, b'0', out);
            }
            b'N' => {
                let digits = format!("{:09}", date.nanos);
                let wanted = if self.width == 0 {
                    9
                } else {
                    self.width.min(9)
                };
                out.extend_from_slice(&digits.as_bytes()[..wanted]);
            }
            letter => {
                let (value, digits, fill) = match letter {
                    b'C' => (date.year.div_euclid(100), 2, b'0'),
                    b'd' => (date.day, 2, b'0'),
                    b'e' => (date.day, 2, b' '),
                    b'g' => (date.iso_week().0.rem_euclid(100), 2, b'0'),
                    b'G' => (date.iso_week().0, 1, b'0'),
                    b'H' => (date.hour, 2, b'0'),
                    b'I' => (date.hour12(), 2, b'0'),
                    b'j' => (date.yearday + 1, 3, b'0'),
                    b'k' => (date.hour, 2, b' '),
                    b'l' => (date.hour12(), 2, b' '),
                    b'm' => (date.month, 2, b'0'),
                    b'M' => (date.minute, 2, b'0'),
                    b's' => (date.epoch, 1, b'0'),
                    b'S' => (date.second, 2, b'0'),
                    b'u' => ((date.weekday + 6) % 7 + 1, 1, b'0'),
                    b'U' => (date.week(0), 2, b'0'),
                    b'V' => (date.iso_week().1, 2, b'0'),
                    b'w' => (date.weekday, 1, b'0'),
                    b'W' => (date.week(1), 2, b'0'),
                    b'y' => (date.year.rem_euclid(100), 2, b'0'),
                    _ => (date.year, 1, b'0'),
                };
                self.number(value, digits, fill, out);
            }
        }
    }

    /// A name: `^` makes it upper case, and so does `#` when it is written in mixed case.
    fn text(&self, text: &str, mixed: bool, out: &mut Vec<u8>) {
        if self.upper || self.swap && mixed {
            self.padded(text.to_ascii_uppercase().as_bytes(), out);
        } else {
            self.padded(text.as_bytes(), out);
        }
    }

    /// Text whose case is decided already.
    fn cased(&self, text: &str, out: &mut Vec<u8>) {
        self.padded(text.as_bytes(), out);
    }

    fn padded(&self, text: &[u8], out: &mut Vec<u8>) {
        let fill = if self.pad == Some(b'0') { b'0' } else { b' ' };
        out.extend(std::iter::repeat_n(
            fill,
            self.width.saturating_sub(text.len()),
        ));
        out.extend_from_slice(text);
    }

    fn number(&self, value: i64, digits: usize, fill: u8, out: &mut Vec<u8>) {
        let fill = match self.pad {
            Some(b'0') => b'0',
            Some(_) => b' ',
            None => fill,
        };
        let digits = if self.pad == Some(b'-') { 0 } else { digits };
        let text = value.to_string();
        let missing = digits.max(self.width).saturating_sub(text.len());
        out.extend(std::iter::repeat_n(fill, missing));
        out.extend_from_slice(text.as_bytes());
    }
}
