//! What charts are drawn on: one set of strokes that becomes SVG (for pages, following their colours) or PNG (for
//! everywhere else).
//!
//! Owns colours, inks and the two files' making; where a stroke goes is the charts' matter.

use super::font;
use anyhow::{Context, Result};
use plotters::backend::{BitMapBackend, DrawingBackend};
use plotters::style::{Color as _, RGBColor};
use std::fmt::Write as _;
use std::path::Path;

/// Width of every picture.
pub const WIDTH: f64 = 760.0;
/// Height of a capital letter.
pub const TEXT_PX: f64 = 8.0;
/// PNG pixels per unit: sharp on dense screens.
const PNG_SCALE: f64 = 2.0;

/// Colours of the published series, and enough more for five proxies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colour {
    /// Hits per second.
    Green,
    /// Data rate.
    Red,
    /// Sluice.
    Blue,
    /// nginx.
    Teal,
    /// HAProxy.
    Orange,
    /// The floor.
    Grey,
    /// One more.
    Purple,
}

impl Colour {
    /// Red, green, blue.
    fn rgb(self) -> (u8, u8, u8) {
        match self {
            Self::Green => (0x1a, 0x9a, 0x3c),
            Self::Red => (0xd6, 0x2f, 0x2f),
            Self::Blue => (0x2f, 0x6f, 0xde),
            Self::Teal => (0x0f, 0x9b, 0x8e),
            Self::Orange => (0xe0, 0x80, 0x1a),
            Self::Grey => (0x88, 0x88, 0x88),
            Self::Purple => (0x8a, 0x4f, 0xc9),
        }
    }
}

/// Where a text stands at its point.
#[derive(Clone, Copy)]
pub enum Align {
    /// Right of it.
    Start,
    /// Around it.
    Middle,
    /// Left of it.
    End,
}

/// What a colour means on either canvas.
#[derive(Clone, Copy)]
pub enum Ink {
    /// That of letters.
    Text,
    /// That of lines which only help the eye.
    Grid,
    /// A series' own.
    Line(Colour),
    /// The same, weaker: for the lesser part of something.
    Pale(Colour),
}

/// What knows lines, dots, boxes and text. `title` is what a pointer over it shows, where that is possible.
pub trait Canvas {
    /// A line through points.
    fn line(&mut self, points: &[(f64, f64)], ink: Ink, width: f64);
    /// A point.
    fn dot(&mut self, at: (f64, f64), ink: Ink, title: &str);
    /// A filled box, from its upper left to its lower right corner.
    fn bar(&mut self, from: (f64, f64), to: (f64, f64), ink: Ink, title: &str);
    /// A line of text, its baseline at the point.
    fn text(&mut self, at: (f64, f64), align: Align, ink: Ink, text: &str);
}

/// A picture that can be drawn on any canvas.
pub trait Picture {
    /// Its title, for those who cannot see it.
    fn title(&self) -> &str;
    /// Its height, in the unit of [`WIDTH`].
    fn height(&self) -> f64;
    /// Draws it.
    fn draw(&self, canvas: &mut dyn Canvas);
}

/// The picture as an SVG element. Its text and grid follow the page's colours (`currentColor`).
#[must_use]
pub fn svg(picture: &dyn Picture) -> String {
    let mut svg = Svg(String::new());
    picture.draw(&mut svg);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {}\" role=\"img\" aria-label=\"{}\" \
         font-family=\"system-ui, sans-serif\" font-size=\"12\" color=\"#444\">\n{}</svg>\n",
        picture.height(),
        super::html::escape(picture.title()),
        svg.0
    )
}

/// Writes the picture as a PNG file.
///
/// # Errors
/// When the file cannot be written, with its name.
pub fn png(picture: &dyn Picture, file: &Path) -> Result<()> {
    let (width, height) = (
        (WIDTH * PNG_SCALE) as u32,
        (picture.height() * PNG_SCALE) as u32,
    );
    let mut pixels = vec![255u8; (width * height * 3) as usize];
    {
        let backend = BitMapBackend::with_buffer(&mut pixels, (width, height));
        let mut png = Png {
            backend,
            failed: None,
        };
        picture.draw(&mut png);
        if let Some(error) = png.failed {
            anyhow::bail!("cannot draw {}: {error}", file.display());
        }
    }
    let mut backend = BitMapBackend::new(file, (width, height));
    backend
        .blit_bitmap((0, 0), (width, height), &pixels)
        .ok()
        .context("cannot copy the picture")?;
    backend
        .present()
        .with_context(|| format!("cannot write {}", file.display()))
}

struct Svg(String);

impl Svg {
    fn ink(ink: Ink) -> String {
        match ink {
            Ink::Text => "currentColor".to_owned(),
            Ink::Grid => "#8884".to_owned(),
            Ink::Line(colour) => {
                let (r, g, b) = colour.rgb();
                format!("#{r:02x}{g:02x}{b:02x}")
            }
            Ink::Pale(colour) => format!("{}99", Self::ink(Ink::Line(colour))),
        }
    }
}

// Writing to a String cannot fail: the results of `write!` are dropped.
impl Canvas for Svg {
    fn line(&mut self, points: &[(f64, f64)], ink: Ink, width: f64) {
        let points: Vec<_> = points
            .iter()
            .map(|(x, y)| format!("{x:.1},{y:.1}"))
            .collect();
        let _ = writeln!(
            self.0,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{width}\"/>",
            points.join(" "),
            Self::ink(ink)
        );
    }

    fn dot(&mut self, (x, y): (f64, f64), ink: Ink, title: &str) {
        let title = super::html::escape(title);
        let _ = writeln!(
            self.0,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{}\"><title>{title}</title></circle>",
            Self::ink(ink)
        );
    }

    fn bar(&mut self, from: (f64, f64), to: (f64, f64), ink: Ink, title: &str) {
        let title = super::html::escape(title);
        let _ = writeln!(
            self.0,
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{}\"><title>{title}</title></rect>",
            from.0,
            from.1,
            (to.0 - from.0).max(0.0),
            (to.1 - from.1).max(0.0),
            Self::ink(ink)
        );
    }

    fn text(&mut self, (x, y): (f64, f64), align: Align, ink: Ink, text: &str) {
        let anchor = match align {
            Align::Start => "start",
            Align::Middle => "middle",
            Align::End => "end",
        };
        let _ = writeln!(
            self.0,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" fill=\"{}\">{}</text>",
            Self::ink(ink),
            super::html::escape(text)
        );
    }
}

struct Png<'a> {
    backend: BitMapBackend<'a>,
    failed: Option<String>,
}

impl Png<'_> {
    fn ink(ink: Ink) -> RGBColor {
        match ink {
            Ink::Text => RGBColor(0x33, 0x33, 0x33),
            Ink::Grid => RGBColor(0xdd, 0xdd, 0xdd),
            Ink::Line(colour) => {
                let (r, g, b) = colour.rgb();
                RGBColor(r, g, b)
            }
            Ink::Pale(colour) => {
                // As the SVG's 60 % on white.
                let mix = |c: u8| 255 - ((255 - u16::from(c)) * 3 / 5) as u8;
                let (r, g, b) = colour.rgb();
                RGBColor(mix(r), mix(g), mix(b))
            }
        }
    }

    fn note<E: std::fmt::Display>(&mut self, result: Result<(), E>) {
        if let Err(error) = result {
            self.failed.get_or_insert(error.to_string());
        }
    }
}

fn pixel((x, y): (f64, f64)) -> (i32, i32) {
    (
        (x * PNG_SCALE).round() as i32,
        (y * PNG_SCALE).round() as i32,
    )
}

impl Canvas for Png<'_> {
    fn line(&mut self, points: &[(f64, f64)], ink: Ink, width: f64) {
        let style = Self::ink(ink).stroke_width((width * PNG_SCALE / 2.0).round().max(1.0) as u32);
        for pair in points.windows(2) {
            let result = self
                .backend
                .draw_path([pixel(pair[0]), pixel(pair[1])], &style);
            self.note(result.map_err(|e| e.to_string()));
        }
    }

    fn dot(&mut self, at: (f64, f64), ink: Ink, _title: &str) {
        let result =
            self.backend
                .draw_circle(pixel(at), (3.0 * PNG_SCALE) as u32, &Self::ink(ink), true);
        self.note(result.map_err(|e| e.to_string()));
    }

    fn bar(&mut self, from: (f64, f64), to: (f64, f64), ink: Ink, _title: &str) {
        let result = self
            .backend
            .draw_rect(pixel(from), pixel(to), &Self::ink(ink), true);
        self.note(result.map_err(|e| e.to_string()));
    }

    fn text(&mut self, (x, y): (f64, f64), align: Align, ink: Ink, text: &str) {
        let unit = TEXT_PX / font::CAP_HEIGHT;
        let width = text.chars().count() as f64 * font::ADVANCE * unit;
        let mut at = match align {
            Align::Start => x,
            Align::Middle => x - width / 2.0,
            Align::End => x - width,
        };
        for c in text.chars() {
            for stroke in font::strokes(c) {
                let points: Vec<_> = stroke
                    .map(|(gx, gy)| (at + gx * unit, y - gy * unit))
                    .collect();
                self.line(&points, ink, 2.0);
            }
            at += font::ADVANCE * unit;
        }
    }
}
