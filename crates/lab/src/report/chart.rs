//! Line charts: axes, ticks, legend and lines. What they are drawn on is in [`super::canvas`].

use super::canvas::{Align, Canvas, Colour, Ink, Picture, TEXT_PX, WIDTH};

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

const HEIGHT: f64 = 400.0;
const MARGIN_SIDE: f64 = 74.0;
const MARGIN_TOP: f64 = 54.0;
const MARGIN_BOTTOM: f64 = 52.0;

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
pub(super) fn linear_ticks(max: f64) -> Vec<f64> {
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

    fn legend(&self, canvas: &mut dyn Canvas) {
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
}

impl Picture for Chart {
    fn title(&self) -> &str {
        &self.title
    }

    fn height(&self) -> f64 {
        HEIGHT
    }

    fn draw(&self, canvas: &mut dyn Canvas) {
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
}

#[cfg(test)]
mod tests {
    use super::super::canvas;
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
        let svg = canvas::svg(&chart());
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
        canvas::png(&chart(), &file).unwrap();
        let bytes = std::fs::read(&file).unwrap();
        assert!(bytes.starts_with(b"\x89PNG\r\n") && bytes.len() > 5000);
    }

    #[test]
    fn an_empty_chart_is_drawn_all_the_same() {
        let svg = canvas::svg(&Chart {
            series: Vec::new(),
            ..chart()
        });
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
