//! Line charts: one description, drawn as SVG (for pages, following their colours) and as PNG (for everywhere else).
//!
//! Owns axes, ticks and layout; the two canvases only know lines, boxes and text.

use super::font;
use anyhow::{Context, Result};
use plotters::backend::{BitMapBackend, DrawingBackend};
use plotters::style::{Color as _, RGBColor};
use std::fmt::Write as _;
use std::path::Path;

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

/// Which vertical axis a series belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The left one.
    Left,
    /// The right one.
    Right,
}

/// A line through points.
#[derive(Debug, Clone)]
pub struct Series {
    /// Name in the legend.
    pub name: String,
    /// Its colour.
    pub colour: Colour,
    /// Its axis.
    pub side: Side,
    /// Points from left to right; those that are not finite are left out.
    pub points: Vec<(f64, f64)>,
}

/// A chart.
#[derive(Debug, Clone)]
pub struct Chart {
    /// Title above it.
    pub title: String,
    /// Below the horizontal axis.
    pub x_label: String,
    /// Logarithmic horizontal axis (values must be positive).
    pub x_log: bool,
    /// How a horizontal value is written.
    pub x_show: fn(f64) -> String,
    /// Beside the left axis.
    pub left_label: String,
    /// Beside the right axis; without it no right axis is drawn.
    pub right_label: Option<String>,
    /// How a vertical value is written.
    pub y_show: fn(f64) -> String,
    /// The lines.
    pub series: Vec<Series>,
}

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 400.0;
const MARGIN_SIDE: f64 = 74.0;
const MARGIN_TOP: f64 = 54.0;
const MARGIN_BOTTOM: f64 = 52.0;
/// Height of a capital letter.
const TEXT_PX: f64 = 8.0;
/// PNG pixels per unit: sharp on dense screens.
const PNG_SCALE: f64 = 2.0;

#[derive(Clone, Copy)]
enum Align {
    Start,
    Middle,
    End,
}

/// What a colour means on either canvas.
#[derive(Clone, Copy)]
enum Ink {
    Text,
    Grid,
    Line(Colour),
}

trait Canvas {
    fn line(&mut self, points: &[(f64, f64)], ink: Ink, width: f64);
    fn dot(&mut self, at: (f64, f64), ink: Ink, title: &str);
    fn text(&mut self, at: (f64, f64), align: Align, ink: Ink, text: &str);
}

/// Linear or logarithmic map of values onto pixels.
struct Scale {
    low: f64,
    high: f64,
    log: bool,
    from: f64,
    to: f64,
}

impl Scale {
    fn place(&self, value: f64) -> f64 {
        let map = |v: f64| {
            if self.log {
                v.max(f64::MIN_POSITIVE).log10()
            } else {
                v
            }
        };
        let span = map(self.high) - map(self.low);
        let share = if span == 0.0 {
            0.5
        } else {
            (map(value) - map(self.low)) / span
        };
        self.from + share * (self.to - self.from)
    }
}

/// Round values that cut `0..=max` into four to ten steps.
fn linear_ticks(max: f64) -> Vec<f64> {
    if !(max > 0.0 && max.is_finite()) {
        return vec![0.0, 1.0];
    }
    let rough = max / 5.0;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0]
        .into_iter()
        .map(|m| m * power)
        .find(|&s| s >= rough)
        .unwrap_or(10.0 * power);
    let count = (max / step).ceil() as usize;
    (0..=count).map(|n| n as f64 * step).collect()
}

impl Chart {
    fn values(&self, side: Side) -> impl Iterator<Item = f64> + '_ {
        self.series
            .iter()
            .filter(move |s| s.side == side)
            .flat_map(|s| s.points.iter().map(|p| p.1))
            .filter(|v| v.is_finite())
    }

    fn x_scale(&self) -> Scale {
        let xs: Vec<f64> = self
            .series
            .iter()
            .flat_map(|s| s.points.iter().map(|p| p.0))
            .filter(|v| v.is_finite())
            .collect();
        let low = xs.iter().copied().fold(f64::INFINITY, f64::min);
        let high = xs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let (low, high) = if low.is_finite() {
            (low, high)
        } else {
            (1.0, 10.0)
        };
        Scale {
            low,
            high,
            log: self.x_log,
            from: MARGIN_SIDE,
            to: WIDTH - MARGIN_SIDE,
        }
    }

    fn y_scale(&self, side: Side) -> (Scale, Vec<f64>) {
        let ticks = linear_ticks(self.values(side).fold(0.0, f64::max));
        let high = ticks.last().copied().unwrap_or(1.0);
        (
            Scale {
                low: 0.0,
                high,
                log: false,
                from: HEIGHT - MARGIN_BOTTOM,
                to: MARGIN_TOP,
            },
            ticks,
        )
    }

    /// Values under the horizontal axis: the points themselves, as many as fit.
    fn x_ticks(&self, scale: &Scale) -> Vec<f64> {
        let mut xs: Vec<f64> = self
            .series
            .iter()
            .flat_map(|s| s.points.iter().map(|p| p.0))
            .filter(|v| v.is_finite())
            .collect();
        xs.sort_by(f64::total_cmp);
        xs.dedup();
        let mut free_from = f64::NEG_INFINITY;
        xs.retain(|&x| {
            let half = (self.x_show)(x).len() as f64 * TEXT_PX * 0.45 + 4.0;
            let fits = scale.place(x) - half >= free_from;
            if fits {
                free_from = scale.place(x) + half;
            }
            fits
        });
        xs
    }

    fn draw(&self, canvas: &mut impl Canvas) {
        let x = self.x_scale();
        let (bottom, right) = (HEIGHT - MARGIN_BOTTOM, WIDTH - MARGIN_SIDE);
        canvas.text((WIDTH / 2.0, 18.0), Align::Middle, Ink::Text, &self.title);
        let (left_scale, left_ticks) = self.y_scale(Side::Left);
        for &tick in &left_ticks {
            let y = left_scale.place(tick);
            canvas.line(&[(MARGIN_SIDE, y), (right, y)], Ink::Grid, 1.0);
            canvas.text(
                (MARGIN_SIDE - 6.0, y + TEXT_PX / 2.0),
                Align::End,
                Ink::Text,
                &(self.y_show)(tick),
            );
        }
        for tick in self.x_ticks(&x) {
            let at = x.place(tick);
            canvas.line(&[(at, MARGIN_TOP), (at, bottom)], Ink::Grid, 1.0);
            canvas.text(
                (at, bottom + 16.0),
                Align::Middle,
                Ink::Text,
                &(self.x_show)(tick),
            );
        }
        canvas.text(
            (WIDTH / 2.0, HEIGHT - 12.0),
            Align::Middle,
            Ink::Text,
            &self.x_label,
        );
        canvas.text(
            (8.0, MARGIN_TOP - 12.0),
            Align::Start,
            Ink::Text,
            &self.left_label,
        );
        let (right_scale, right_ticks) = self.y_scale(Side::Right);
        if let Some(label) = &self.right_label {
            for tick in right_ticks {
                let y = right_scale.place(tick);
                canvas.text(
                    (right + 6.0, y + TEXT_PX / 2.0),
                    Align::Start,
                    Ink::Text,
                    &(self.y_show)(tick),
                );
            }
            canvas.text(
                (WIDTH - 8.0, MARGIN_TOP - 12.0),
                Align::End,
                Ink::Text,
                label,
            );
        }
        self.legend(canvas);
        for series in &self.series {
            let scale = if series.side == Side::Left {
                &left_scale
            } else {
                &right_scale
            };
            let finite = series
                .points
                .iter()
                .filter(|(px, py)| px.is_finite() && py.is_finite());
            let placed: Vec<_> = finite
                .clone()
                .map(|&(px, py)| (x.place(px), scale.place(py)))
                .collect();
            canvas.line(&placed, Ink::Line(series.colour), 2.0);
            for (&at, &(px, py)) in placed.iter().zip(finite) {
                let title = format!(
                    "{}: {} at {}",
                    series.name,
                    (self.y_show)(py),
                    (self.x_show)(px)
                );
                canvas.dot(at, Ink::Line(series.colour), &title);
            }
        }
    }

    fn legend(&self, canvas: &mut impl Canvas) {
        let width = |series: &Series| 24.0 + series.name.len() as f64 * TEXT_PX + 18.0;
        let mut at = (WIDTH - self.series.iter().map(width).sum::<f64>()) / 2.0;
        for series in &self.series {
            canvas.line(
                &[(at, 33.0), (at + 18.0, 33.0)],
                Ink::Line(series.colour),
                3.0,
            );
            canvas.text((at + 24.0, 37.0), Align::Start, Ink::Text, &series.name);
            at += width(series);
        }
    }

    /// The chart as an SVG element. Its text and grid follow the page's colours (`currentColor`).
    #[must_use]
    pub fn svg(&self) -> String {
        let mut svg = Svg(String::new());
        self.draw(&mut svg);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\" \
             font-family=\"system-ui, sans-serif\" font-size=\"12\" color=\"#444\">\n{}</svg>\n",
            super::html::escape(&self.title),
            svg.0
        )
    }

    /// Writes the chart as a PNG file.
    ///
    /// # Errors
    /// When the file cannot be written, with its name.
    pub fn png(&self, file: &Path) -> Result<()> {
        let (width, height) = ((WIDTH * PNG_SCALE) as u32, (HEIGHT * PNG_SCALE) as u32);
        let mut pixels = vec![255u8; (width * height * 3) as usize];
        {
            let backend = BitMapBackend::with_buffer(&mut pixels, (width, height));
            let mut png = Png {
                backend,
                failed: None,
            };
            self.draw(&mut png);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn chart() -> Chart {
        let series = |name: &str, colour, side, points: &[(f64, f64)]| Series {
            name: name.to_owned(),
            colour,
            side,
            points: points.to_vec(),
        };
        Chart {
            title: "hits <and> bits".to_owned(),
            x_label: "object size".to_owned(),
            x_log: true,
            x_show: |v| crate::units::show_size(v as u64),
            left_label: "hits/s".to_owned(),
            right_label: Some("Gbit/s".to_owned()),
            y_show: crate::units::show_count,
            series: vec![
                series(
                    "hits",
                    Colour::Green,
                    Side::Left,
                    &[(64.0, 50_000.0), (1e4, 30_000.0), (1e6, 900.0)],
                ),
                series(
                    "rate",
                    Colour::Red,
                    Side::Right,
                    &[(64.0, 0.1), (1e4, f64::NAN), (1e6, 8.0)],
                ),
            ],
        }
    }

    #[test]
    fn svg_has_the_points_and_no_raw_markup() {
        let svg = chart().svg();
        assert_eq!(
            svg.matches("<circle").count(),
            5,
            "the point that is not a number is left out"
        );
        assert!(svg.contains("hits &lt;and&gt; bits") && !svg.contains("NaN"));
    }

    #[test]
    fn png_is_written() {
        let dir = crate::process::WorkDir::new().unwrap();
        let file = dir.path().join("chart.png");
        chart().png(&file).unwrap();
        let bytes = std::fs::read(&file).unwrap();
        assert!(bytes.starts_with(b"\x89PNG\r\n") && bytes.len() > 5000);
    }

    #[test]
    fn an_empty_chart_is_drawn_all_the_same() {
        let svg = Chart {
            series: Vec::new(),
            ..chart()
        }
        .svg();
        assert!(svg.contains("</svg>") && !svg.contains("NaN") && !svg.contains("inf"));
    }

    #[test]
    fn ticks_are_round_and_cover() {
        let check = |max: f64, expect: &[f64]| assert_eq!(linear_ticks(max), expect, "{max}");
        check(10.0, &[0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        check(47.0, &[0.0, 10.0, 20.0, 30.0, 40.0, 50.0]);
        check(0.0, &[0.0, 1.0]);
    }
}
